"""The full Jacobian of anything with respect to anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph import SHARED, Dependence, ExampleAnalysis, ExampleAxis, ExamplesMix, analyse_examples, axes, in_graph
from tfjac.graph.examples.example_rules import Axis
from tfjac.jacobians.batch import example_blocks
from tfjac.jacobians.factors.factorize import factors_by_rules, rows_like
from tfjac.jacobians.passes.chunks import Limits, bytes_of_pass, passes_at_once
from tfjac.jacobians.passes.connectedness import differentiated
from tfjac.jacobians.passes.linearise import NoForwardMode, forward_is_less_work, over_basis, pull_back, push_forward
from tfjac.jacobians.passes.nests import packed, shaped_like, sources_of, unconnected_choice
from tfjac.jacobians.passes.random_cotangents import verify_blocks
from tfjac.linear.shapes import product
from tfjac.types import JacobianMode, NestLike, Sources, Tensor, Tensors, Unconnected

MODES = ("auto", "reverse", "forward")


def jacobian(
    ys: Tensors,
    xs: Sources,
    mode: JacobianMode = "auto",
    unconnected_gradients: Unconnected = "none",
    chunk_size: int | None = None,
    memory_budget: int | None = None,
    verify: bool | None = None,
) -> NestLike:
    """Return the full Jacobian ∂y/∂x, with the axes of y first.

        J[i..., j...] = ∂y[i...] / ∂x[j...]

    Args:
        ys: tensor of any rank of the `tf.function` being traced, or a nest of such tensors; or a callable without
            arguments that returns it, anywhere.
        xs: tensor that ys are computed from, `tf.Variable`, `keras.Variable`, or a nest of them. With a callable, an
            eager tensor that it uses. Or selectors of nodes, see `tfjac.nodes`.
        mode: "reverse": one backward pass for each element of y; "forward": one forward product for each element of
            x; "auto": where examples are proved to be independent along axis 0 of y, one backward pass for each output
            of an example (the factors of weights, the diagonal blocks of inputs), else reverse or forward, whichever is
            less work by static shapes.
        unconnected_gradients: "none" gives None where y does not depend on x, "zero" gives zeros.
        chunk_size: how many passes are live at once; all where None. Smaller is slower; the result is the same.
        memory_budget: in place of `chunk_size`: bytes that the passes may take at once, by the sizes of the tensors
            between x and y. The result itself comes on top.
        verify: as in `per_example_jacobian`.

    Returns:
        For one tensor y, a nest like `xs` of tensors `[*y.shape, *x.shape]` in the dtype of x; for a nest of ys, that
        nest with each y replaced by such a nest.

    Raises:
        ValueError: for an unknown mode or `unconnected_gradients`, a wrong chunk size, tensors that are eager or of
            another graph.
        TypeError: for ys or xs that are not floating-point, or no tensors at all.
        LookupError: with mode="forward", where an op's gradient has no gradient itself.

    The passes are vectorised (`tf.vectorized_map`), grouped convolutions by one convolution per group: `tape.jacobian`
    is wrong for their kernels. "forward" is the pull-back of the pull-back, so every op on the way must have second
    derivatives.

    Cost: reverse: Π y.shape backward passes; forward: Π x.shape products at about two forward passes each. Through
    loops these run one after the other, those of "auto" at once.

    Example:
        >>> x = tf.Variable([1.0, 2.0])
        >>> tfjac.jacobian(lambda: x * tf.reduce_sum(x), x).numpy().tolist()
        [[4.0, 1.0], [2.0, 5.0]]
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES}. Received: {mode!r}")
    unconnected = unconnected_choice(unconnected_gradients)
    passes_at_once(chunk_size, memory_budget, lambda: 1)

    def compute(ys: NestLike, xs: NestLike) -> NestLike:
        sources = sources_of(xs)
        flat, dependence = differentiated(tf.nest.flatten(ys), sources)
        results = [_of_one(y, xs, dependence, mode, unconnected, (chunk_size, memory_budget)) for y in flat]
        for given, y, blocks in zip(tf.nest.flatten(ys), flat, results):
            verify_blocks(verify, given, y, sources, tf.nest.flatten(blocks), tf.nest.flatten(xs), by_example=False)
        return tf.nest.map_structure(lambda y: results.pop(0), ys)

    return in_graph(compute, ys, xs=xs)


def _of_one(
    y: Tensor,
    xs: NestLike,
    dependence: Dependence,
    mode: JacobianMode,
    unconnected: tf.UnconnectedGradients,
    limits: Limits,
) -> NestLike:
    """The Jacobians of one y, in a nest like `xs`."""
    sources = dependence.sources
    flat = shaped_like(xs, sources)
    for name, tensor in [("ys", y), *(("xs", x) for x in flat)]:
        if tensor.shape.rank is None:
            raise ValueError(
                f"{name} must be of a known rank to have a Jacobian: give it one by tf.ensure_shape or tf.reshape. vjp "
                f"and jvp take any rank. Received: {getattr(tensor, 'name', name)} of shape {tensor.shape}"
            )
    chosen = _ways(y, flat, dependence, mode)
    results = [None] * len(sources)
    forward = _forward if mode == "forward" else _forward_where_possible
    for name, way in (("factors", _by_factors), ("blocks", _by_blocks), ("reverse", _reverse), ("forward", forward)):
        group = [k for k, choice in enumerate(chosen) if choice == name]
        if group:
            parts = way(y, [sources[k] for k in group], [flat[k] for k in group], limits)
            for k, part in zip(group, parts):
                results[k] = part
    return packed(xs, results, [_zeros_of(y, x) for x in flat], unconnected)


def _zeros_of(y: Tensor, x: tf.Variable | Tensor) -> Callable[[], Tensor]:
    return lambda: tf.zeros([*axes(y), *axes(x)], x.dtype)


def _ways(
    y: Tensor, xs: Sequence[tf.Variable | Tensor], dependence: Dependence, mode: JacobianMode
) -> list[str | None]:
    """Choose the way for each x; None where y does not depend on it."""
    connected = dependence.sources_of(y)
    ways = dict.fromkeys(connected, mode) if mode != "auto" else _by_examples(y, connected, dependence)
    return [_less_work(y, x) if ways.get(k) == "mixed" else ways.get(k) for k, x in enumerate(xs)]


def _less_work(y: Tensor, x: tf.Variable | Tensor) -> str:
    return "forward" if forward_is_less_work(y.shape.num_elements(), x.shape.num_elements()) else "reverse"


def _by_examples(y: Tensor, connected: Sequence[int], dependence: Dependence) -> dict[int, str]:
    """What examples along axis 0 of y make of each connected source, as far as can be proved while tracing.

    Returns:
        A dict from the index of the source to "factors" where all examples share it, "blocks" where each example has a
        row of its own of it, else "mixed".
    """
    if not connected or y.shape.rank in (0, None):
        return dict.fromkeys(connected, "mixed")
    sources = [dependence.sources[k] for k in connected]
    try:
        analysis = analyse_examples(sources, [y])
    except ExamplesMix as mix:
        through = dependence.sources_of_any(mix.within.outputs)  # these mix there whatever the others do
        mixing = through.intersection(connected) or connected
        rest = [k for k in connected if k not in mixing]
        return dict.fromkeys(mixing, "mixed") | _by_examples(y, rest, dependence)
    ways = {k: _way(analysis.axis(source)) for k, source in zip(connected, sources)}
    return ways | dict.fromkeys(_assuming(analysis, dependence).intersection(connected), "mixed")


def _way(axis: Axis) -> str:
    if axis is SHARED:
        return "factors"
    return "blocks" if axis == ExampleAxis(0) else "mixed"


def _assuming(analysis: ExampleAnalysis, dependence: Dependence) -> set[int]:
    """The indices of the sources between which and y a size is left open, and only assumed to fit the examples."""
    on_path = {op.name for op in analysis.path}
    users = [op for tensor, _ in analysis.assumed for op in tensor.consumers() if op.name in on_path]
    return dependence.sources_of_any(output for op in users for output in op.outputs)


def _by_factors(y: Tensor, sources: Sequence[Tensor], xs: list[tf.Variable | Tensor], limits: Limits) -> list[Tensor]:
    try:
        factors = factors_by_rules([y], xs, Dependence(sources), _passes(y, sources, limits))
    except ExamplesMix:  # which shows in some loops only when they are walked backwards
        return _reverse(y, sources, xs, limits)
    return [rows_like(y, x, factor) for x, factor in zip(xs, factors)]


def _by_blocks(y: Tensor, sources: Sequence[Tensor], xs: list[tf.Variable | Tensor], limits: Limits) -> list[Tensor]:
    return [_spread(block, y.shape.rank) for block in example_blocks(y, sources, limits)]


def _spread(block: Tensor, rank: int) -> Tensor:
    """Put ∂y[n]/∂x[n] `[n, *outputs, *inputs]` on the diagonal of zeros `[n, *outputs, n, *inputs]`."""
    n, *sizes = axes(block)
    outputs, inputs = sizes[: rank - 1], sizes[rank - 1 :]
    merged = tf.reshape(block, [n, product(outputs), 1, product(inputs)])  # TensorFlow broadcasts no more than 8 axes
    rows = tf.where(tf.eye(n, dtype=tf.bool)[:, None, :, None], merged, tf.zeros([], block.dtype))
    return tf.reshape(rows, [n, *outputs, n, *inputs])


def _reverse(y: Tensor, sources: Sequence[Tensor], xs: list[tf.Variable | Tensor], limits: Limits) -> list[Tensor]:
    rows = over_basis(pull_back([y], sources), y, xs, y, _passes(y, sources, limits))
    return [tf.reshape(part, [*axes(y), *axes(x)]) for part, x in zip(rows, xs)]


def _forward(y: Tensor, sources: Sequence[Tensor], xs: list[tf.Variable | Tensor], limits: Limits) -> list[Tensor]:
    results = []
    for x, source in zip(xs, sources):
        forward = push_forward([y], [source]).with_zeros([y])
        (columns,) = over_basis(forward, x, [y], y, _passes(y, [source], limits))
        sizes = [*axes(x), *axes(y)]
        order = [*range(x.shape.rank, len(sizes)), *range(x.shape.rank)]
        results.append(tf.cast(tf.transpose(tf.reshape(columns, sizes), order), x.dtype))
    return results


def _forward_where_possible(
    y: Tensor, sources: Sequence[Tensor], xs: list[tf.Variable | Tensor], limits: Limits
) -> list[Tensor]:
    try:
        return _forward(y, sources, xs, limits)
    except NoForwardMode:
        return _reverse(y, sources, xs, limits)


def _passes(y: Tensor, sources: Sequence[Tensor], limits: Limits) -> int | Tensor | None:
    chunk_size, memory_budget = limits
    return passes_at_once(chunk_size, memory_budget, lambda: bytes_of_pass(sources, y))
