"""From results and variables in a graph to one factor per variable: inline, and try one strategy after the other."""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tfjac.graph import (
    Dependence,
    ExamplesMix,
    axes,
    compiled_by_xla,
    examples_mix_at,
    inline_calls,
    moves_rows,
    source_in,
)
from tfjac.jacobians.factors.strategies import (
    APART,
    AS_IF_APART,
    ORDERS,
    UNLESS_MIXED,
    Problem,
    Strategy,
    by_checked_segments,
    first_of,
)
from tfjac.jacobians.passes.connectedness import used_places
from tfjac.jacobians.passes.nests import check_real, like
from tfjac.jacobians.passes.random_cotangents import verify_factors
from tfjac.linear.factors.forms import Factor, OuterFactor
from tfjac.linear.shapes import product, reshaped
from tfjac.types import Tensor

ADVICE = (
    ". Take the model apart there, use layers that treat examples independently (batch normalisation with "
    "training=False), or pass examples_mix='full' to pay n·m backward passes; where an example is a group of rows, "
    "such as a graph, use per_segment_jacobian"
)


UNCHECKED = (
    ". Without jit_compile=True rows may move within an example, which is checked when the graph runs: XLA drops checks"
)


def factorize(
    ys: list[Tensor],
    variables: list,
    examples_mix: str = "error",
    chunk_size: int | Tensor | None = None,
    verify: bool | None = None,
    unconnected_gradients: str = "error",
    passes_at_once: Callable[[ExamplesMix, int | None], int | None] | None = None,
) -> list[Factor]:
    """Factor the per-example Jacobian of `ys` with respect to `variables`.

    Args:
        ys: list of tensors `[n, ...]` of one graph with the same n; their outputs follow one another along m.
        variables: list of `tf.Variable`, `keras.Variable`, or tensors that all examples share.
        examples_mix: what to do where examples depend on one another, or this cannot be decided. "error" raises; but
            for an op that moves rows it reads the examples as segments, and checks when the graph runs that no row is
            part of two. "full" reads the examples as segments, groups of rows such as the graphs of a batch, where no
            two turn out to depend on one another when the graph runs; or it takes a backward pass for each element of
            the values that all examples share, such as the mean of a batch, where these are fewer than rows; and else
            it takes a forward product for every element of the variables, where these are few beside n·m, or the
            gradient of every output of every example by itself (n·m backward passes), with a warning that names the op
            where segments are out of the question. The factors of segments, of columns and of rows are dense.
        chunk_size: how many backward passes, one per output m, are live at once, an integer or a scalar tensor; the
            factors are then dense. All of them where None.
        verify: True to verify the factors when the graph runs, see `verification`; None for what TFJAC_VERIFY says.
        unconnected_gradients: "error", or "zero" for factors of zeros of the variables that no y depends on.
        passes_at_once: function from the `ExamplesMix` and how many backward passes are wanted, None where that is
            open, to how many are live at once, None for all of them; called before every row or column costs a pass,
            which it may refuse by raising.

    Returns:
        A list of `Factor`, one per variable, in the dtype of the variable, but in no less than single precision.

    Raises:
        ExamplesMix: see `examples_mix`.
        ValueError: for ys without a leading axis, or a variable that no y depends on.
        TypeError: for a complex variable.
    """
    if examples_mix not in ORDERS:
        choices = tuple(choice for choice in ORDERS if choice not in (UNLESS_MIXED, AS_IF_APART))
        raise ValueError(f"examples_mix must be one of {choices}. Received: {examples_mix!r}")
    for y in ys:
        if y.shape.rank in (0, None):
            raise ValueError(
                "ys must have the examples along axis 0, so its rank must be known and at least 1. Keep the examples "
                f"apart: no mean or sum over the batch. Received: {y.name} of shape {y.shape}"
            )
    try:
        options = {"examples_mix": examples_mix, "chunk_size": chunk_size, "passes_at_once": passes_at_once}
        return _factorized(ys, variables, verify, unconnected_gradients, ORDERS[examples_mix], **options)
    except ExamplesMix as mix:
        unchecked = moves_rows(mix.op) and compiled_by_xla(ys[0].graph)
        raise examples_mix_at(mix.op, mix.reason + UNCHECKED * unchecked + ADVICE) from None


def factorize_segments(
    ys: list[Tensor],
    variables: list,
    max_rows: int | None = None,
    verify: bool | None = None,
    unconnected_gradients: str = "error",
) -> list[Factor]:
    """Factor the Jacobian of `ys`, one row group per segment, with respect to `variables`.

    Args:
        ys: list of tensors `[segments, ...]` of one graph; their outputs follow one another along m.
        variables: list of `tf.Variable`, `keras.Variable`, or tensors that all segments share.
        max_rows, verify, unconnected_gradients: see `per_segment_jacobian`.

    Returns:
        A list of `Factor`, one per variable, in the dtype of the variable, with the segments as examples.

    Raises:
        ExamplesMix, ValueError: as `per_segment_jacobian`.
    """
    if not variables:
        raise ValueError("variables must hold at least one variable; build the model first. Received: an empty nest")
    strategies = (by_checked_segments,)
    return _factorized(ys, variables, verify, unconnected_gradients, strategies, max_rows=max_rows)


def _factorized(
    ys: list[Tensor],
    variables: list,
    verify: bool | None,
    unconnected_gradients: str,
    strategies: Iterable[Strategy],
    **options: Any,
) -> list[Factor]:
    """The verified factors by the first of the strategies that has any, for ys with calls inlined.

    Strategies see the variables that some y depends on.
    """
    sources = [real_source_in(ys[0].graph, variable) for variable in variables]
    given, ys = ys, inline_calls(ys, depends_on=[source for source in sources if source is not None])
    dependence = Dependence(sources)
    used = used_places(ys, variables, dependence, unconnected_gradients)
    found = {}
    if used:
        if len(used) < len(variables):
            dependence = Dependence([sources[k] for k in used])
        some = [variables[k] for k in used]
        factors = first_of(strategies, Problem(ys, some, dependence, **options))
        verify_factors(verify, given, ys, dependence.sources, factors, some)
        found = dict(zip(used, factors))
    return [found[k] if k in found else _no_uses(ys, variable) for k, variable in enumerate(variables)]


def _no_uses(ys: list[Tensor], variable: Any) -> Factor:
    """The factor of a variable that ys are not computed from: zeros, held as no position of use at all."""
    x, n, m = like(variable), axes(ys[0])[0], sum(product(axes(y)[1:]) for y in ys)
    a, d = [n, 0, 1, 1], [n, m, 0, 1, product(axes(x))]
    return OuterFactor(tf.zeros(a, x.dtype), tf.zeros(d, x.dtype))


def factors_by_rules(
    ys: list[Tensor], variables: list, dependence: Dependence, chunk_size: int | Tensor | None = None
) -> list[Factor]:
    """`factorize` for ys without function calls on the way, each variable connected; without a way out.

    Args:
        dependence: the `Dependence` on what stands for the variables in the graph.

    Raises:
        ExamplesMix: where examples depend on one another, or this cannot be decided.
    """
    return first_of(APART, Problem(ys, variables, dependence, chunk_size=chunk_size))


def real_source_in(graph: tf.Graph, variable: Any) -> Tensor | None:
    """Return what stands for `variable` in `graph`: a handle, or the tensor itself; None where it is not used.

    Raises:
        TypeError: for a complex one, and for what is no variable.
    """
    source = source_in(graph, variable)
    check_real("variables", variable)
    return source


def rows_like(y: Tensor, variable: Any, factor: Factor) -> Tensor:
    """Return the dense rows of a factor as `[*y.shape, *variable.shape]` in the dtype of the variable."""
    x = like(variable)
    return tf.cast(reshaped(factor.dense(), [*axes(y), *axes(x)]), x.dtype)
