"""Norms of per-example gradients, and sums of them with a factor for each, without forming any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from tfjac.arguments import not_negative
from tfjac.graph import (
    Dependence,
    analyse_examples,
    ancestors,
    between,
    data_of,
    first_not_linear,
    in_graph,
    inline_calls,
    moves_rows,
)
from tfjac.jacobians.factors.factorize import factorize
from tfjac.jacobians.passes.connectedness import used_places
from tfjac.jacobians.passes.nests import check_variables, converted, like, packed, shaped_like, sources_of
from tfjac.jacobians.per_example import of_rank_one
from tfjac.jacobians.shapes import after, check_when_run
from tfjac.jacobians.vector_products import pulled
from tfjac.linear.factors.forms import Factor, squared_row_norms
from tfjac.linear.shapes import wide_dtype
from tfjac.types import NestLike, Sources, Tensor, TensorLike, Tensors, UnusedVariables, Variable


def per_example_gradient_norms(
    losses: Tensors, variables: Sources, verify: bool | None = None, unconnected_gradients: UnusedVariables = "error"
) -> Tensor:
    """Return the norm of each example's gradient with respect to all variables together.

        norms[n] = sqrt(Σ_v ‖∂L[n]/∂v‖²)

    Args:
        losses: tensor `[n]` of the `tf.function` being traced, one loss per example (a Keras loss with
            `reduction="none"`); or a callable without arguments that returns it, anywhere.
        variables: as in `per_example_jacobian`.
        verify, unconnected_gradients: as in `per_example_jacobian`.

    Returns:
        `[n]`, in the dtype of the losses.

    Raises:
        ExamplesMix: (a `ValueError`) where examples mix, naming the op.
        ValueError: where `losses` is not of rank 1; for tensors that are eager or of another graph; for a variable that
            the losses do not depend on.
        TypeError: for losses that are not floating-point.

    Cost: one backward pass to the places where weights are used, without the gradients of the weights, and one reading
    of what arrives there; for weights used at t > 1 positions the cheaper of t² pairs of positions and the gradient
    itself, see `tfjac.ops.jacobian_row_norms`. An embedding costs its positions, whatever the size of its table.
    The derivative of a norm is not finite where the norm is zero.

    Example:
        >>> w, x = tf.Variable([[1.0], [2.0]]), tf.constant([[3.0, 4.0], [0.0, 1.0]])
        >>> tfjac.per_example_gradient_norms(lambda: (x @ w)[:, 0], w).numpy().tolist()
        [5.0, 1.0]
    """
    check_variables(variables)

    def compute(y: Tensor, variables: NestLike) -> Tensor:
        factors = _factors(y, tf.nest.flatten(variables), verify, unconnected_gradients)
        return tf.cast(_norms(factors, y.dtype), y.dtype)

    return in_graph(compute, losses, xs=variables, is_one=True)


def clipped_gradients(
    losses: Tensors,
    variables: Sources,
    clip_norm: TensorLike,
    return_norms: bool = False,
    verify: bool | None = None,
    unconnected_gradients: UnusedVariables = "error",
) -> NestLike:
    """Return the sum of the per-example gradients, each scaled down to a norm of at most `clip_norm`.

        Σ_n min(1, C / ‖∂L[n]/∂v‖) · ∂L[n]/∂v          the norm over all variables together

    This is the step of differentially private training, before the noise, and of robust training.

    Args:
        losses, variables: as in `per_example_gradient_norms`.
        clip_norm: C, not negative: a number, or a tensor of shape `[]` or `[n]`.
        return_norms: whether to return the norms too, as they were before clipping.
        verify, unconnected_gradients: as in `per_example_jacobian`.

    Returns:
        A nest like `variables`, each entry a dense tensor with the shape and dtype of its variable; with
        `return_norms` a pair of that and the norms `[n]`.

    Raises:
        ExamplesMix, ValueError, TypeError: as `per_example_gradient_norms`; ExamplesMix also where examples mix by the
            values of data alone, as in a batch normalisation before the first weight; ValueError for a negative
            `clip_norm`, or one of another shape.

    The factor of each example is a constant to the gradient; an example whose gradient is zero or not finite adds
    zero or what it is.

    Cost: one backward pass, of which what the norms were computed from is used again for the weighted sum
    ("book-keeping", Bu, Wang, Zha & Karypis 2023, "Differentially private optimization on large model at small cost").

    Example:
        >>> w, x = tf.Variable([[1.0], [2.0]]), tf.constant([[3.0, 4.0], [0.0, 1.0]])
        >>> clipped = tfjac.clipped_gradients(lambda: (x @ w)[:, 0], w, clip_norm=1.0)  # [3, 4] / 5 + [0, 1]
        >>> print(clipped.numpy()[:, 0])
        [0.6 1.8]
    """

    not_negative("clip_norm", clip_norm)

    def factors(norms: Tensor, losses: Tensor) -> Tensor:
        bound = tf.cast(_one_for_each("clip_norm", clip_norm, losses, scalar_too=True), norms.dtype)
        return clipping_factors(norms, bound)

    gradients, norms = scaled_gradients(
        losses, variables, factors, verify, unconnected_gradients=unconnected_gradients, data_apart=True
    )
    return (gradients, norms) if return_norms else gradients


def clipping_factors(norms: Tensor, bound: Tensor) -> Tensor:
    """Return min(1, bound / norm) for norms `[n]` and a bound `[]` or `[n]` of the same dtype; 1 for a norm of zero."""
    return tf.where(norms > bound, bound / norms, tf.ones_like(norms))


def scaled_gradients(
    losses: Tensors,
    variables: Sources,
    factors: Callable[[Tensor, Tensor], Tensor],
    verify: bool | None = None,
    only_finite: bool = False,
    unconnected_gradients: UnusedVariables = "error",
    groups: Sequence[int] | None = None,
    data_apart: bool = False,
) -> tuple[NestLike, Tensor]:
    """Return the sum of the per-example gradients, each scaled by a factor that its norm decides, and the norms.

        Σ_n f(‖∂L[n]/∂v‖) · ∂L[n]/∂v                   the norm over all variables together

    Args:
        losses, variables, verify, unconnected_gradients: as in `clipped_gradients`.
        factors: function from the norms `[n]`, in no less than single precision, and the losses `[n]` to f `[n]`.
        only_finite: whether an example adds nothing if the norm of its gradient is not finite.
        groups: the number of a group for each variable, 0, 1, …: norms and factors are those of the groups, `[n, g]`.
        data_apart: whether examples must be apart by the values of data, too: a mean over the batch before the first
            weight has no part in a gradient, but in how much one example changes that of others.

    Returns:
        A nest like `variables`, and the norms `[n]`, as `clipped_gradients` returns them; `[n, g]` of groups.

    Raises:
        ExamplesMix, ValueError, TypeError: as `per_example_gradient_norms`.

    Cost: as `clipped_gradients`.
    """
    check_variables(variables)

    def compute(y: Tensor, variables: NestLike) -> tuple[NestLike, Tensor]:
        flat = tf.nest.flatten(variables)
        owners = [0] * len(flat) if groups is None else list(groups)
        y = _with_data_apart(of_rank_one(y)) if data_apart else y
        rows = _factors(y, flat, verify, unconnected_gradients)
        norms = _norms_of_groups(rows, owners, y.dtype)
        weights = factors(norms[:, 0], y)[:, None] if groups is None else factors(norms, y)
        if only_finite:
            finite = tf.reduce_all(tf.math.is_finite(norms), axis=1)
            weights = tf.where(finite[:, None], weights, tf.zeros_like(weights))
            rows = _of_examples(rows, finite)
        gradients = [_weighted_sum(row, v, weights[:, owner]) for row, v, owner in zip(rows, flat, owners)]
        norms = norms[:, 0] if groups is None else norms
        return tf.nest.pack_sequence_as(variables, gradients), tf.cast(norms, y.dtype)

    return in_graph(compute, losses, xs=variables, is_one=True)


def weighted_gradients(
    losses: Tensors, variables: Sources, weights: TensorLike, unconnected_gradients: UnusedVariables = "error"
) -> NestLike:
    """Return the sum of the per-example gradients, each with a factor of its own.

        Σ_n w[n] · ∂L[n]/∂v

    Args:
        losses, variables: as in `per_example_gradient_norms`; here examples may depend on one another.
        weights: tensor `[n]`, of any sign.
        unconnected_gradients: as in `per_example_jacobian`.

    Returns:
        A nest like `variables`, each entry a dense tensor with the shape and dtype of its variable.

    Raises:
        ValueError: where `losses` is not of rank 1, or `weights` of another shape; for tensors that are eager or of
            another graph; for a variable that the losses do not depend on.
        TypeError: for losses that are not floating-point.

    The weights are constants to the gradient.

    Cost: one backward pass, like the gradient of the sum. Where a custom gradient is not linear in what flows back, as
    one that clips, the gradients of the examples do not add up to that of the sum: then as `per_example_gradients`.
    """
    check_variables(variables)

    def compute(y: Tensor, variables: NestLike) -> NestLike:
        factor = _one_for_each("weights", weights, of_rank_one(y), scalar_too=False)
        sources = sources_of(variables)
        present = [source for source in sources if source is not None]
        ys = inline_calls([y], depends_on=present)
        flat, choice = tf.nest.flatten(variables), unconnected_gradients
        used_places(ys, flat, Dependence(sources), choice, "losses do not depend on this variable")
        if first_not_linear(between(present, ys)) is None:
            sums = pulled(ys, sources, [factor])
            return packed(variables, sums, shaped_like(variables, sources), tf.UnconnectedGradients.ZERO)
        rows = factorize(ys, flat, examples_mix="full", unconnected_gradients=choice)
        return tf.nest.pack_sequence_as(variables, [_weighted_sum(*pair, factor) for pair in zip(rows, flat)])

    return in_graph(compute, losses, xs=variables, is_one=True)


def _with_data_apart(losses: Tensor) -> Tensor:
    """Return the losses `[n]`, each of which is computed from its own row of the data, and from data that all use.

    Rows that are picked, or put elsewhere, are looked at from there on.
    """
    inlined = inline_calls([losses], draw_again=True)
    moved = [output for op in ancestors(inlined) if moves_rows(op) for output in op.outputs]
    data = Dependence(data_of(inlined[0], captured=True), by_value=True, stops=moved)
    assumed = analyse_examples(data, inlined).assumed
    return after(check_when_run(assumed, tf.shape(losses)[0]), [losses])[0]


def _factors(
    losses: Tensor, variables: list, verify: bool | None, unconnected_gradients: UnusedVariables
) -> list[Factor]:
    return factorize([of_rank_one(losses)], variables, verify=verify, unconnected_gradients=unconnected_gradients)


def _norms(factors: Iterable[Factor], dtype: tf.DType) -> Tensor:
    """The norms `[n]` in `dtype`, but in no less than single precision: squares overflow before norms do."""
    dtype = wide_dtype(dtype)
    by_dtype: dict[tf.DType, list] = {}
    for factor in factors:
        by_dtype.setdefault(factor.dtype, []).append(factor)
    return tf.sqrt(tf.add_n([tf.cast(squared_row_norms(each)[:, 0], dtype) for each in by_dtype.values()]))


def _norms_of_groups(rows: list[Factor], owners: list[int], dtype: tf.DType) -> Tensor:
    """The norms `[n, g]`, each over the variables of one group."""
    members = [[row for row, owner in zip(rows, owners) if owner == group] for group in sorted(set(owners))]
    return tf.stack([_norms(each, dtype) for each in members], axis=1)


def _of_examples(rows: list[Factor], kept: Tensor) -> list[Factor]:
    """The factors without the examples of which `kept[n]` is false, copied only where there are any."""
    return tf.cond(tf.reduce_all(kept), lambda: rows, lambda: [row.of_examples(kept) for row in rows])


def _weighted_sum(factor: Factor, variable: Variable | Tensor, weights: Tensor) -> Tensor:
    """Σ_n w[n] J[n,0,q], in the shape of the variable."""
    variable = like(variable)
    weights = tf.cast(weights, factor.dtype)
    return tf.cast(tf.reshape(factor.adjoint_matmul(weights[:, None, None]), variable.shape), variable.dtype)


def _one_for_each(name: str, value: TensorLike, losses: Tensor, scalar_too: bool) -> Tensor:
    """Convert `value` to a tensor that fits the losses `[n]`."""
    tensor = converted(name, value, losses.dtype, "losses")
    allowed = [losses.shape] + [tf.TensorShape([])] * scalar_too
    if not any(shape.is_compatible_with(tensor.shape) for shape in allowed):
        raise ValueError(
            f"{name} must have one entry per example, shape {losses.shape}{', or be a scalar' * scalar_too}. "
            f"Received: shape {tensor.shape}"
        )
    return tensor
