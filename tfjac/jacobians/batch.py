"""The Jacobian of each example's results with respect to its own inputs."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph import (
    SHARED,
    ExampleAnalysis,
    ExampleAxis,
    ExamplesMix,
    analyse_examples,
    axes,
    examples_mix_at,
    in_graph,
)
from tfjac.graph.paths.dependence import Dependence
from tfjac.jacobians.factors.control_flow import Sweep, has_control_flow
from tfjac.jacobians.factors.cotangents import asking_for
from tfjac.jacobians.passes.chunks import Limits, bytes_of_pass, in_chunks, passes_at_once, unless_empty
from tfjac.jacobians.passes.connectedness import differentiated
from tfjac.jacobians.passes.linearise import LinearMap, NoForwardMode, over_basis, pull_back, push_forward
from tfjac.jacobians.passes.nests import packed, sources_of, unconnected_choice
from tfjac.jacobians.passes.random_cotangents import verify_blocks
from tfjac.jacobians.separate_outputs import separate_outputs
from tfjac.jacobians.shapes import after, check_when_run
from tfjac.linear.shapes import product
from tfjac.types import NestLike, Sources, Tensor, Tensors, Unconnected


def batch_jacobian(
    ys: Tensors,
    x: Sources,
    unconnected_gradients: Unconnected = "none",
    chunk_size: int | None = None,
    memory_budget: int | None = None,
    verify: bool | None = None,
) -> NestLike:
    """Return the Jacobian of each example's results with respect to its own inputs.

        J[n, i..., j...] = ∂y[n, i...] / ∂x[n, j...]

    `tape.batch_jacobian` believes that examples are independent, and is silently wrong where they are not: here it is
    proved from the graph, or refused.

    Args:
        ys: tensor `[n, *outputs]` of the `tf.function` being traced, or a nest of such tensors; or a callable without
            arguments that returns it, anywhere.
        x: tensor `[n, *inputs]` that ys are computed from, or a nest of such tensors. With a callable, an eager tensor
            that it uses.
        unconnected_gradients: "none" gives None where y does not depend on x, "zero" gives zeros.
        chunk_size, memory_budget: bound what is live, as in `jacobian`.
        verify: as in `per_example_jacobian`.

    Returns:
        For one tensor y, a nest like `x` of tensors `[n, *outputs, *inputs]` in the dtype of x; for a nest of ys, that
        nest with each y replaced by such a nest.

    Raises:
        ExamplesMix: (a `ValueError`) where examples depend on one another, or this cannot be decided, naming the op:
            batch normalisation in training mode, a softmax over the batch. Use `jacobian`.
        ValueError: where y or x has no axis of examples in front; for tensors that are eager or of another graph.
        TypeError: for ys or x that are not floating-point.

    Example:
        >>> x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> tfjac.batch_jacobian(lambda: tf.reduce_prod(x, axis=1, keepdims=True), x).numpy().tolist()
        [[[2.0, 1.0]], [[4.0, 3.0]]]

    Cost: one backward pass for each of the m outputs of an example, vectorised; where it has fewer inputs than outputs,
    about two forward passes for each input. Outside of a `tf.function` a callable is traced in every call, as in
    `per_example_jacobian`.
    """
    unconnected = unconnected_choice(unconnected_gradients)
    passes_at_once(chunk_size, memory_budget, lambda: 1)

    def compute(ys: NestLike, x: NestLike) -> NestLike:
        sources = sources_of(x)
        flat, dependence = differentiated(tf.nest.flatten(ys), sources)
        results = [_of_one(y, x, dependence, unconnected, (chunk_size, memory_budget)) for y in flat]
        for given, y, blocks in zip(tf.nest.flatten(ys), flat, results):
            verify_blocks(verify, given, y, sources, tf.nest.flatten(blocks), tf.nest.flatten(x), by_example=True)
        return tf.nest.map_structure(lambda y: results.pop(0), ys)

    return in_graph(compute, ys, xs=x)


def _of_one(
    y: Tensor, x: NestLike, dependence: Dependence, unconnected: tf.UnconnectedGradients, limits: Limits
) -> NestLike:
    sources = dependence.sources
    tensors = [given if source is None else source for given, source in zip(tf.nest.flatten(x), sources)]
    for name, tensor in [("ys", y), *(("x", tensor) for tensor in tensors)]:
        _check_rank(name, tensor)
    connected = dependence.sources_of(y)
    blocks = example_blocks(y, [sources[k] for k in connected], limits) if connected else []
    found = dict(zip(connected, blocks))
    for tensor in tensors:
        _check_rows(y, tensor)
    results = [found.get(k) for k in range(len(sources))]
    return packed(x, results, [_zeros_of(y, tensor) for tensor in tensors], unconnected)


def example_blocks(y: Tensor, sources: Sequence[Tensor], limits: Limits) -> list[Tensor]:
    """Compute ∂y[n]/∂s[n] for each source s, `[n, *outputs, *inputs]`.

    Args:
        y: tensor `[n, ...]`.
        sources: list of tensors `[n, ...]` that y depends on.
        limits: pair of `chunk_size` and `memory_budget`, as in `jacobian`.

    Raises:
        ExamplesMix, ValueError: as `batch_jacobian`.
    """
    chunk_size, memory_budget = limits
    at_once = passes_at_once(chunk_size, memory_budget, lambda: bytes_of_pass(sources, y))
    alone = all(tensor.shape[0] == 1 for tensor in [y, *sources])  # one example has none to mix with
    try:
        analysis = analyse_examples(sources, [y])
    except ExamplesMix as mix:
        if not alone:
            raise examples_mix_at(
                mix.op,
                mix.reason + ". Use layers that treat examples independently (batch normalisation with "
                "training=False), or tfjac.jacobian, which has all examples with all",
            ) from None
        analysis = None
    if alone and (analysis is None or any(analysis.axis(source) is SHARED for source in sources)):
        return _examples_first(over_basis(pull_back([y], sources), y, sources, y, at_once), y, sources)
    assert analysis is not None  # only one that is alone has none
    checks = []
    if not alone:
        for source in sources:
            _check_axis(source, analysis)
        checks = check_when_run(analysis.assumed, axes(y)[0])
    blocks = separate_outputs(y, sources[0], analysis) if len(sources) == 1 and not alone else None
    if blocks is not None:
        return after(checks, [blocks])
    forward = _forward_map(y, sources, analysis)
    if forward is not None:
        return after(checks, _pushed_forward(forward, y, sources, at_once))
    return _examples_first(after(checks, _pulled_back(y, sources, analysis, at_once)), y, sources)


def _forward_map(y: Tensor, sources: Sequence[Tensor], analysis: ExampleAnalysis) -> LinearMap | None:
    """The map from tangents to those of y where an example has fewer inputs than outputs; else None."""
    inputs, outputs = sum(product(axes(source)[1:]) for source in sources), product(axes(y)[1:])
    known = isinstance(inputs, int) and isinstance(outputs, int)
    if not known or inputs >= outputs or has_control_flow(analysis):
        return None
    try:
        return push_forward([y], sources)
    except NoForwardMode:
        return None


def _pushed_forward(
    forward: LinearMap, y: Tensor, sources: Sequence[Tensor], at_once: int | Tensor | None
) -> list[Tensor]:
    """The blocks `[n, *outputs, *inputs]` by tangents of each input of all examples at once."""
    n, *outputs = axes(y)
    sizes = [product(axes(source)[1:]) for source in sources]

    def columns(indices: Tensor) -> list[Tensor]:
        basis = tf.split(tf.one_hot(indices, sum(sizes), dtype=y.dtype), sizes, axis=1)
        return forward.on_stacks(*(_for_all_examples(*pair) for pair in zip(basis, sources)))

    def compute() -> list[Tensor]:
        spec = tf.TensorSpec([None, *y.shape], y.dtype)
        (stack,) = in_chunks(columns, sum(sizes), [spec], at_once if forward.vectorises() else 1)
        parts = tf.split(tf.transpose(stack, [*range(1, y.shape.rank + 1), 0]), sizes, axis=-1)
        shaped = [[n, *outputs, *inputs] for n, *inputs in map(axes, sources)]  # with rows that y lacks, this fails
        return [tf.cast(tf.reshape(*part), source.dtype) for *part, source in zip(parts, shaped, sources)]

    shapes = [[n, *outputs, *axes(source)[1:]] for source in sources]
    return unless_empty(y, compute, shapes, [source.dtype for source in sources])


def _for_all_examples(basis: Tensor, source: Tensor) -> Tensor:
    """`[c, inputs]` to `[c, n, *inputs]`, the same for each of the n examples."""
    n, *inputs = axes(source)
    (count,) = axes(basis)[:1]
    return tf.broadcast_to(tf.reshape(tf.cast(basis, source.dtype), [count, 1, *inputs]), [count, n, *inputs])


def _pulled_back(
    y: Tensor, sources: Sequence[Tensor], analysis: ExampleAnalysis, at_once: int | Tensor | None
) -> list[Tensor]:
    """The cotangents `[m, *s.shape]` of each output of all examples at once."""
    m = product(axes(y)[1:])
    passes = _swept_passes if has_control_flow(analysis) else _mapped_passes
    chunk = passes(y, sources, analysis)
    specs = [tf.TensorSpec([None, *source.shape], source.dtype) for source in sources]
    shapes, dtypes = [[m, *axes(source)] for source in sources], [source.dtype for source in sources]
    return unless_empty(y, lambda: in_chunks(chunk, m, specs, at_once), shapes, dtypes)


def _mapped_passes(y: Tensor, sources: Sequence[Tensor], analysis: ExampleAnalysis) -> Callable[[Tensor], list[Tensor]]:
    """From the indices `[c]` of outputs to the cotangents `[c, *s.shape]` of the sources, by a vectorised map."""
    backward = pull_back([y], sources).with_zeros(sources)
    return lambda outputs: backward.on_stacks(asking_for(y, outputs))


def _swept_passes(y: Tensor, sources: Sequence[Tensor], analysis: ExampleAnalysis) -> Callable[[Tensor], list[Tensor]]:
    """The same through loops and conditionals, which are walked backwards for all outputs at once."""

    def cotangents(outputs: Tensor) -> list[Tensor]:
        sweep = Sweep(analysis, axes(y)[0])  # no weight is looked at, so there are no uses
        sweep.add(y, asking_for(y, outputs))
        sweep.run(carried=sources)
        return [sweep.cotangent(source) for source in sources]

    return cotangents


def _examples_first(stacks: Sequence[Tensor], y: Tensor, sources: Sequence[Tensor]) -> list[Tensor]:
    """From [m, n, *inputs] to [n, *outputs, *inputs], n that of y: where a source has more rows, this fails."""
    return [_example_first(*pair, y) for pair in zip(stacks, sources)]


def _example_first(stack: Tensor, source: Tensor, y: Tensor) -> Tensor:
    (n, *outputs), (_, *inputs) = axes(y), axes(source)
    order = [1, 0, *range(2, source.shape.rank + 1)]
    return tf.reshape(tf.transpose(stack, order), [n, *outputs, *inputs])


def _zeros_of(y: Tensor, tensor: tf.Variable | Tensor) -> Callable[[], Tensor]:
    def zeros() -> Tensor:
        known = isinstance(axes(y)[0], int) and isinstance(axes(tensor)[0], int)
        checks = [] if known else check_when_run([(tensor, ExampleAxis(0))], axes(y)[0])
        return after(checks, [tf.zeros([*axes(y), *axes(tensor)[1:]], tensor.dtype)])[0]

    return zeros


def _check_rank(name: str, tensor: tf.Variable | Tensor) -> None:
    if not isinstance(tensor, tf.Tensor) or tensor.shape.rank in (0, None):
        raise ValueError(
            f"{name} must be a tensor with the examples along axis 0, of a known rank of at least 1. For variables use "
            f"per_example_jacobian; for anything, jacobian. Received: {tensor!r}"
        )


def _check_rows(y: Tensor, x: tf.Variable | Tensor) -> None:
    if not y.shape[:1].is_compatible_with(x.shape[:1]):
        raise ValueError(
            "ys and x must have the same examples along axis 0; for anything else use jacobian. "
            f"Received: ys of shape {y.shape}, x of shape {x.shape}"
        )


def _check_axis(source: Tensor, analysis: ExampleAnalysis) -> None:
    axis = analysis.axis(source)
    if axis is SHARED:
        op = next((op for op in analysis.path if any(tensor is source for tensor in op.inputs)), source.op)
        raise examples_mix_at(
            op,
            "x is used by all examples at once, like a weight, so y[n] does not depend on x[n] alone: use jacobian. "
            f"Received: {source.name} of shape {source.shape}",
        )
    if axis not in (ExampleAxis(0), ExampleAxis(0, inner=None)):  # how many rows an example has may show when it runs
        raise ValueError(
            "x must have the examples of y along axis 0, one row for each. The graph has them along axis "
            f"{axis.axis}, {axis.outer} · n · {axis.inner} rows; rearrange it before. "
            f"Received: {source.name} of shape {source.shape}"
        )
