"""Products with second derivatives that are never formed: the Hessian's, the generalised Gauss-Newton matrix's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import between, call_converted, first_not_linear, in_graph, inline_calls
from tfjac.jacobians.passes.connectedness import differentiated
from tfjac.jacobians.passes.linearise import dense
from tfjac.jacobians.passes.nests import matching, packed, shaped_like, sources_of, unconnected_choice
from tfjac.jacobians.vector_products import pulled, pushed
from tfjac.types import Function, Nest, NestLike, Sources, Tensor, TensorLike, Tensors, Unconnected


def hvp(
    losses: Tensors, xs: Sources, vectors: Nest[TensorLike], unconnected_gradients: Unconnected = "none"
) -> NestLike:
    """Return the Hessian-vector product H·v of the sum of `losses` with respect to xs.

        (H v)_x = Σ_x′ ∂²L/∂x∂x′ · v_x′        L = Σ losses

    Args:
        losses: tensor of any rank of the `tf.function` being traced, or a nest of such tensors; or a callable without
            arguments that returns it, anywhere. They are summed up.
        xs: tensor that the losses are computed from, `tf.Variable`, `keras.Variable`, or a nest of them. With a
            callable, an eager tensor that it uses. Or selectors of nodes, see `tfjac.nodes`.
        vectors: nest like `xs`, each entry with the shape of its x.
        unconnected_gradients: "none" gives None for an x on which the gradient does not depend, as where the losses
            are linear, "zero" gives zeros.

    Returns:
        A nest like `xs`, each entry a dense tensor with the shape and dtype of its x.

    Raises:
        ValueError: where `vectors` is no nest like `xs` or a shape differs; for tensors that are eager or of another
            graph.
        TypeError: for a vector that cannot be converted to the dtype of its x, losses or xs that are not
            floating-point.
        LookupError: for a custom gradient on the way, as of an edit, that is not linear in what flows back.

    Cost: about two gradients of the losses (Pearlmutter 1994, "Fast exact multiplication by the Hessian"; backward over
    backward).

    Example:
        >>> x = tf.Variable([1.0, 2.0])
        >>> tfjac.hvp(lambda: x[0] ** 2 * x[1], x, tf.constant([1.0, 0.0])).numpy().tolist()
        [4.0, 2.0]
    """
    unconnected = unconnected_choice(unconnected_gradients)

    def compute(losses: NestLike, xs: NestLike) -> NestLike:
        flat_vectors = matching("vectors", vectors, xs, tf.nest.flatten(xs), "xs")
        sources = sources_of(xs)
        present = [source for source in sources if source is not None]
        flat, _ = differentiated(tf.nest.flatten(losses), sources)
        gradient = dense(tf.gradients(flat, present)) if present else []
        pairs = [(g, v) for g, v in zip(gradient, _of_present(sources, flat_vectors)) if g is not None]
        results = pulled([g for g, _ in pairs], sources, [v for _, v in pairs]) if pairs else [None] * len(sources)
        _check_is_a_hessian(present, flat)
        return packed(xs, results, shaped_like(xs, sources), unconnected)

    return in_graph(compute, losses, xs=xs)


def _check_is_a_hessian(sources: Sequence[Tensor], losses: Sequence[Tensor]) -> None:
    """Refuse custom gradients that are not linear in what flows back: what they give is the gradient of nothing."""
    wrong = first_not_linear(between(sources, losses))
    if wrong is not None:
        raise LookupError(
            "There is no Hessian here: a custom gradient is not linear in what flows back, as one that clips. Take "
            f"tfjac.vjp of the gradient for its derivative as it is. Received: op {wrong.name!r} of type {wrong.type}"
        )


def ggnvp(
    outputs: Tensors,
    losses: Function | Nest[Tensor],
    xs: Sources,
    vectors: Nest[TensorLike],
    unconnected_gradients: Unconnected = "none",
) -> NestLike:
    """Return the product of the generalised Gauss-Newton matrix with v.

        G v = Jᵀ (H_L (J v))        J = ∂z/∂x, H_L = ∂²(Σ losses)/∂z²

    For losses that are convex in the outputs z, G is positive semidefinite where the Hessian need not be. It is the
    Fisher information of the model where the losses are negative log-likelihoods of an exponential family and z its
    natural parameters.

    Args:
        outputs: the outputs z: tensor of the `tf.function` being traced, or a nest of such tensors; or a callable
            without arguments that returns it, anywhere.
        losses: function of the outputs (a nest like theirs) that returns the losses, of any rank; or, where `outputs`
            are tensors, losses that were computed from them. They are summed up.
        xs: tensor that the outputs are computed from, `tf.Variable`, `keras.Variable`, or a nest of them. With a
            callable, an eager tensor that it uses. Or selectors of nodes, see `tfjac.nodes`.
        vectors: nest like `xs`, each entry with the shape of its x.
        unconnected_gradients: "none" gives None for an x on which the outputs do not depend, "zero" gives zeros.

    Returns:
        A nest like `xs`, each entry a dense tensor with the shape and dtype of its x.

    Raises:
        ValueError: where the losses do not depend on the outputs; where `vectors` is no nest like `xs` or a shape
            differs; for tensors that are eager or of another graph.
        TypeError: for a vector that cannot be converted to the dtype of its x, outputs or xs that are not
            floating-point.
        LookupError: for a custom gradient on the way, as of an edit, that is not linear in what flows back.

    Cost: about two forward passes and one backward pass; the Hessian of the losses costs no pass through the model.
    Reference: Schraudolph (2002), "Fast curvature matrix-vector products for second-order gradient descent".
    """
    unconnected = unconnected_choice(unconnected_gradients)

    def compute(tensors: NestLike, xs: NestLike) -> NestLike:
        flat_vectors = matching("vectors", vectors, xs, tf.nest.flatten(xs), "xs")
        sources = sources_of(xs)
        given = call_converted(losses, tensors) if callable(losses) else losses
        z = tf.nest.flatten(tensors if callable(losses) else outputs)
        inlined, _ = differentiated(tf.nest.flatten(tensors), sources)
        results = _through_outputs(inlined, z, tf.nest.flatten(given), sources, flat_vectors)
        return packed(xs, results, shaped_like(xs, sources), unconnected)

    return in_graph(compute, outputs, xs=xs)


def _through_outputs(
    inlined: Sequence[Tensor],
    outputs: Sequence[Tensor],
    losses: Sequence[Tensor],
    sources: Sequence[Tensor | Any],
    vectors: Sequence[Tensor],
) -> list[Tensor | None]:
    """Jᵀ H_L J v, with J through the `inlined` outputs and H_L through `outputs` as the losses use them."""
    velocities = pushed(inlined, sources, vectors)
    curvature = _loss_hessian(losses, outputs, velocities)
    pairs = [(z, u) for z, u in zip(inlined, curvature) if u is not None]
    return pulled([z for z, _ in pairs], sources, [u for _, u in pairs]) if pairs else [None] * len(sources)


def _loss_hessian(
    losses: Sequence[Tensor], outputs: Sequence[Tensor], velocities: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """H_L times `velocities`, one per output; None where it is zero. No output is differentiated through another."""
    losses, _ = differentiated(losses, outputs)
    _check_is_a_hessian(outputs, losses)
    gradients = dense(tf.gradients(losses, outputs, stop_gradients=outputs))
    if all(gradient is None for gradient in gradients):
        raise ValueError(
            "losses must depend on the outputs: pass losses computed from these very tensors, or a function of the "
            f"outputs. Received: {losses} for outputs {outputs}"
        )
    pairs = [(g, v) for g, v in zip(gradients, velocities) if g is not None and v is not None]
    if not pairs:
        return [None] * len(outputs)
    directions = [v for _, v in pairs]
    slopes = inline_calls([g for g, _ in pairs], depends_on=outputs)
    return dense(tf.gradients(slopes, outputs, grad_ys=directions, stop_gradients=outputs))


def _of_present(sources: Sequence[Tensor | Any], vectors: Iterable[Tensor]) -> list[Tensor]:
    return [vector for source, vector in zip(sources, vectors) if source is not None]
