"""Products with a Jacobian that is never formed: J·v forward, Jᵀ·u backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, check_loops, in_graph, inline_calls
from tfjac.jacobians.passes.connectedness import differentiated
from tfjac.jacobians.passes.linearise import dense, push_forward
from tfjac.jacobians.passes.nests import matching, packed, shaped_like, sources_of, unconnected_choice
from tfjac.types import Nest, NestLike, Sources, Tensor, TensorLike, Tensors, Unconnected


def jvp(ys: Tensors, xs: Sources, tangents: Nest[TensorLike], unconnected_gradients: Unconnected = "none") -> NestLike:
    """Return the Jacobian-vector product Σ_x ∂y/∂x · v_x: how y moves as all xs move along their tangents at once.

    Args:
        ys: tensor of any rank of the `tf.function` being traced, or a nest of such tensors; or a callable without
            arguments that returns it, anywhere.
        xs: tensor that ys are computed from, `tf.Variable`, `keras.Variable`, or a nest of them. With a callable, an
            eager tensor that it uses. Or selectors of nodes, see `tfjac.nodes`.
        tangents: nest like `xs`, each entry with the shape of its x.
        unconnected_gradients: "none" gives None for a y that depends on no x, "zero" gives zeros.

    Returns:
        A nest like ys, each entry with the shape and dtype of its y.

    Raises:
        ValueError: where `tangents` is no nest like `xs` or a shape differs; for tensors that are eager or of another
            graph.
        TypeError: for a tangent that cannot be converted to the dtype of its x, ys or xs that are neither
            floating-point nor complex.
        LookupError: for an op whose gradient has no gradient itself, as that of `tf.image.resize`.

    Where xs or ys are complex, J is that of their real and imaginary parts.

    It is the pull-back of the pull-back, so it works for every op that has second derivatives, loops included, in
    graphs and under XLA, where `tf.autodiff.ForwardAccumulator` does not; the tangents themselves are not
    differentiated again.

    Cost: about two forward passes.

    Example:
        >>> x = tf.Variable([1.0, 2.0])
        >>> tfjac.jvp(lambda: x**2, x, tf.constant([1.0, 10.0])).numpy().tolist()
        [2.0, 40.0]
    """
    unconnected = unconnected_choice(unconnected_gradients)

    def compute(ys: NestLike, xs: NestLike) -> NestLike:
        vectors = matching("tangents", tangents, xs, tf.nest.flatten(xs), "xs")
        sources = sources_of(xs, may_be_complex=True)
        flat, _ = differentiated(tf.nest.flatten(ys), sources)
        return packed(ys, pushed(flat, sources, vectors), flat, unconnected)

    return in_graph(compute, ys, may_be_complex=True, xs=xs)


def pushed(ys: Sequence[Tensor], sources: Sequence[Tensor | Any], vectors: Sequence[Tensor]) -> list[Tensor | None]:
    """Push `vectors`, one per source, forward to `ys`; None for a y that depends on none. A source may be None."""
    results: list[Any] = []
    dependence = Dependence(sources)
    for y in ys:  # one map for each: a y without a path must not look as if it had one
        connected = dependence.sources_of(y)
        push = push_forward([y], [sources[k] for k in connected]) if connected else None
        results += push(*(vectors[k] for k in connected)) if push else [None]
    return results


def vjp(
    ys: Tensors, xs: Sources, cotangents: Nest[TensorLike] | None = None, unconnected_gradients: Unconnected = "none"
) -> NestLike:
    """Return the vector-Jacobian product Σ_y u_y · ∂y/∂x: cotangents at several nodes, pulled back at once.

    With cotangents at several nodes of a network this is backpropagation by parts, from known gradients: what flows
    back from above and what is given at a node are added up.

    Args:
        ys: tensor of any rank of the `tf.function` being traced, or a nest of such tensors, one of which may be
            computed from another; or a callable without arguments that returns it, anywhere.
        xs: tensor that ys are computed from, `tf.Variable`, `keras.Variable`, or a nest of them. With a callable, an
            eager tensor that it uses. Or selectors of nodes, see `tfjac.nodes`.
        cotangents: nest like `ys`, each entry with the shape of its y; ones where left out, as in `tf.gradients`.
        unconnected_gradients: "none" gives None for an x on which no y depends, "zero" gives zeros.

    Returns:
        A nest like `xs`, each entry a dense tensor with the shape and dtype of its x.

    Raises:
        ValueError: where `cotangents` is no nest like `ys` or a shape differs; for tensors that are eager or of another
            graph.
        TypeError: for a cotangent that cannot be converted to the dtype of its y, ys or xs that are neither
            floating-point nor complex; for complex ys without cotangents.

    Complex numbers are taken as TensorFlow takes them: the result for x is the gradient of Σ Re(ū·y), which for a
    complex x is ∂/∂Re x + i·∂/∂Im x.

    Cost: one backward pass, however many ys there are.

    Example:
        >>> x = tf.Variable([1.0, 2.0])
        >>> tfjac.vjp(lambda: x**2, x, tf.constant([1.0, 10.0])).numpy().tolist()
        [2.0, 40.0]
    """
    unconnected = unconnected_choice(unconnected_gradients)

    def compute(ys: NestLike, xs: NestLike) -> NestLike:
        sources = sources_of(xs, may_be_complex=True)
        flat, dependence = differentiated(tf.nest.flatten(ys), sources)
        vectors = _ones(flat) if cotangents is None else matching("cotangents", cotangents, ys, flat, "ys")
        results, likes = pulled(flat, sources, vectors), shaped_like(xs, sources)
        connected = dependence.sources_of_any(flat)
        results = [_if_connected(k in connected, *pair) for k, pair in enumerate(zip(results, likes))]
        return packed(xs, results, likes, unconnected)

    return in_graph(compute, ys, may_be_complex=True, xs=xs)


def _if_connected(connected: bool, result: Tensor | None, like: tf.Variable | Tensor) -> Tensor | None:
    """Return what is None where there is no path, and only there, as of `jacobian`: TensorFlow knows zeros of both."""
    if not connected:
        return None
    return tf.zeros_like(like) if result is None else result


def _ones(ys: Sequence[Tensor]) -> list[Tensor]:
    """The cotangents of a plain gradient."""
    for y in ys:
        if y.dtype.is_complex:
            raise TypeError(
                "cotangents must be given for complex ys: there is no one direction in which they grow. "
                f"Received: none, for {y.name} of dtype {y.dtype.name}"
            )
    return [tf.ones_like(y) for y in ys]


def pulled(ys: Sequence[Tensor], sources: Sequence[Tensor | Any], vectors: Sequence[Tensor]) -> list[Tensor | None]:
    """Pull `vectors`, one per y, back to the sources; None where there is no path. A source may be None."""
    present = [source for source in sources if source is not None]
    if not present:
        return [None] * len(sources)
    ys = inline_calls(ys, depends_on=present)
    check_loops(ys, present)
    results = iter(dense(tf.gradients(ys, present, grad_ys=vectors)))
    return [None if source is None else next(results) for source in sources]
