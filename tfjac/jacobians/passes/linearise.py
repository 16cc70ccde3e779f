"""Linear maps of a graph: from cotangents of a result to those of its sources, and from tangents forward.

Each is traced once, for a seed of zeros, and applied to other seeds by replay: in a vectorised map, in a loop, or as
it is. That keeps traces short, and the gradient of no op is asked for inside a loop.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import (
    as_computed,
    axes,
    between,
    calls_functions,
    check_loops,
    custom_ops,
    depend_by_value,
    first_not_linear,
    gradient_stops_at,
    handle_shape,
    handle_spec,
    is_affine,
    mend_gradients,
    replay,
    shape_only,
    vectorises,
)
from tfjac.graph.facts import instead_of
from tfjac.jacobians.passes.chunks import in_chunks, mapped, unless_empty
from tfjac.linear.shapes import product
from tfjac.types import Tensor, Variable


class LinearMap:
    """A linear function of the graph, `results = map(seeds)`.

    Args:
        seeds: list of tensors that stand for the argument.
        results: list of tensors linear in them; None for one that is zero because there is no path.
        ys: list of the tensors that are differentiated, see `differentiated` of `tfjac.graph.replay`.
        zeros: the places in `results` of zeros, which do not depend on the seeds.
    """

    def __init__(
        self,
        seeds: Sequence[Tensor],
        results: Sequence[Tensor | None],
        ys: Sequence[Tensor],
        zeros: Collection[int] = (),
    ) -> None:
        self.seeds, self.results, self._ys, self._zeros = seeds, results, ys, zeros

    @property
    def _present(self) -> list[Tensor]:
        return [result for result in self.results if result is not None]

    def __call__(self, *seeds: Tensor) -> list[Tensor | Any]:
        """Apply the map to other seeds, in the current graph; None stays None."""
        pairs = list(zip(self.seeds, seeds))
        applied = iter(replay(self._present, pairs, constant=shape_only, differentiated=self._ys))
        return [None if result is None else next(applied) for result in self.results]

    def on_stacks(self, *stacks: Tensor) -> list[Tensor | Any]:
        """Apply the map to each slice of `stacks`, one tensor `[c, *seed.shape]` per seed.

        Returns:
            A list of tensors `[c, *result.shape]`; None stays None.

        Cost: c applications, vectorised where that can be trusted.
        """
        present = {k: result for k, result in enumerate(self.results) if result is not None}
        moved = {k: result for k, result in present.items() if k not in self._zeros}
        function = LinearMap(self.seeds, list(moved.values()), self._ys)
        specs = [tf.TensorSpec(result.shape, result.dtype) for result in moved.values()]
        applied = dict(zip(moved, mapped(function, stacks, specs, function.vectorises()) if specs else ()))
        c = tf.shape(stacks[0])[0] if stacks[0].shape.rank is None else axes(stacks[0])[0]
        applied.update((k, tf.zeros([c, *axes(present[k])], present[k].dtype)) for k in self._zeros)
        return [applied.get(k) for k in range(len(self.results))]

    def with_zeros(self, likes: Sequence[Variable | Tensor]) -> "LinearMap":
        """Return the map with zeros in place of None, like tensors, variables or handles `likes`, one per result."""
        zeros = {*self._zeros, *(k for k, result in enumerate(self.results) if result is None)}
        return LinearMap(self.seeds, [_or_zeros_like(*pair) for pair in zip(self.results, likes)], self._ys, zeros)

    def vectorises(self) -> bool:
        """Return whether to vectorise the map, see `tfjac.graph.vectorises`."""
        return vectorises(between(self.seeds, self._present))


def pull_back(ys: Sequence[Tensor], sources: Sequence[Tensor], stop: Sequence[Tensor] = ()) -> LinearMap:
    """Return u ↦ (Σ_y u_y · ∂y/∂s)_s, a `LinearMap` with one seed per y and one result per source s.

    Args:
        ys: list of tensors of the graph being traced.
        sources: list of tensors or handles of variables.
        stop: tensors through which no gradient passes.

    Cost: one backward pass for each time that it is applied.
    """
    check_loops(ys, [*sources, *stop])
    seeds = [tf.zeros_like(y) for y in ys]
    gradients = tf.gradients(ys, sources, grad_ys=seeds, stop_gradients=list(stop) or None)
    return LinearMap(seeds, _shaped(gradients, sources), ys)


class NoForwardMode(LookupError):
    """The backward pass cannot be differentiated in its turn."""

    __init__ = Exception.__init__  # without one of its own, autograph passes the error on as what it is

    @classmethod
    def because(cls, reason: object) -> "NoForwardMode":
        """Return the error that gives `reason`."""
        return cls(
            "There is no forward mode here: it differentiates the backward pass, which is not possible. Take reverse "
            f"mode. Received: {reason}"
        )


def push_forward(ys: Sequence[Tensor], sources: Sequence[Tensor]) -> LinearMap:
    """Return v ↦ (Σ_s ∂y/∂s · v_s)_y, the transpose of `pull_back`, as the pull-back of the pull-back.

    Args:
        ys: list of tensors of the graph being traced.
        sources: list of tensors or handles of variables, each of which some y depends on.

    Returns:
        A `LinearMap` with one seed per source and one result per y.

    Raises:
        NoForwardMode: for an op on the way whose gradient has none itself, or a custom one that is not linear.

    Cost: about two forward passes for each time that it is applied.
    """
    path, backward = _pulled_back(ys, sources)
    tangents = [tf.zeros_like(result) for result in backward.with_zeros(sources).results]
    return LinearMap(tangents, _transposed(backward.results, tangents, backward.seeds, path), ys)


def forward_is_less_work(rows: int | None, columns: int | None) -> bool:
    """Return whether a Jacobian of so many rows and columns, None if open, is less work by columns than by rows.

    A column is a product by `push_forward`, at about two of the backward passes that a row costs.
    """
    return rows is not None and columns is not None and 2 * columns < rows


_NOT_LINEAR = "a custom gradient is not linear in what flows back"


def _pulled_back(ys: Sequence[Tensor], sources: Sequence[Tensor]) -> tuple[list[tf.Operation], LinearMap]:
    """Return the ops from the sources to ys, and the `pull_back`, whose backward can be differentiated."""
    path = between(sources, ys)
    if any(is_affine(op) for op in custom_ops(path)):
        raise NoForwardMode.because("a custom gradient adds something of its own to what flows back")
    return path, pull_back(ys, sources)


def _computed(results: Sequence[Tensor | None], seeds: Sequence[Tensor]) -> list[Tensor | None]:
    """Return results of a backward pass, differentiable in its seeds as they are computed from these; None stays."""
    try:
        present = iter(as_computed([result for result in results if result is not None], seeds))
    except (LookupError, ValueError) as refusal:
        raise NoForwardMode.because(refusal) from refusal
    return [None if result is None else next(present) for result in results]


def _transposed(
    results: Sequence[Tensor | None], tangents: Sequence[Tensor], seeds: Sequence[Tensor], path: Sequence[tf.Operation]
) -> list[Tensor | None]:
    """Return the transpose of the linear map from `seeds` to `results` at `tangents`, one tensor per seed, or None."""
    pairs = [pair for pair in zip(_computed(results, seeds), tangents) if pair[0] is not None]
    present, given = [result for result, _ in pairs], [tangent for _, tangent in pairs]
    mend_gradients(between(seeds, present))
    stop = gradient_stops_at(seeds, present)
    if stop is not None:
        raise NoForwardMode.because(f"op {stop.name!r} of type {stop.type} passes no gradient on")
    try:
        forward = tf.gradients(present, seeds, grad_ys=given) if present else [None] * len(seeds)
    except (LookupError, NotImplementedError) as refusal:  # the latter of `tf.recompute_grad`
        instead = {instead_of(op.type) for op in between(seeds, present)}
        raise NoForwardMode.because(f"{refusal}{max(instead, default='')}") from refusal
    forward = _shaped(forward, seeds)
    if depend_by_value([result for result in forward if result is not None], seeds) and not _proved(path):
        raise NoForwardMode.because(_NOT_LINEAR)
    return forward


def _proved(path: Sequence[tf.Operation]) -> bool:
    """Whether the backward of each op of a path is linear, one by one: values of two branches are told apart so."""
    return any(map(calls_functions, path)) and first_not_linear(path) is None


def _or_zeros_like(result: Tensor | None, source: Variable | Tensor) -> Tensor:
    """The gradient of a source; where there is none, zeros like the source, which may be a variable or its handle."""
    if result is not None:
        return result
    if isinstance(source, tf.Variable):
        return tf.zeros(source.shape, source.dtype)
    if source.dtype != tf.resource:
        return tf.zeros_like(source)
    spec = handle_spec(source)
    return tf.zeros(spec.shape, spec.dtype)


def dense(gradients: Iterable[Any]) -> list[Tensor | None]:
    """Turn `tf.IndexedSlices` among `gradients` into tensors; None stays None."""
    return [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]


def _shaped(gradients: Iterable[Any], sources: Iterable[Tensor]) -> list[Tensor | None]:
    """Dense gradients with the static shapes of the sources, which gradients of loops forget."""
    results = dense(gradients)
    for result, source in zip(results, sources):
        if result is not None:
            result.set_shape(handle_shape(source) if source.dtype == tf.resource else source.shape)
    return results


def over_basis(
    linear: LinearMap,
    argument: Variable | Tensor,
    results: Sequence[Variable | Tensor],
    y: Tensor,
    chunk_size: int | Tensor | None = None,
) -> list[Tensor]:
    """Apply a linear map to each tensor of the basis of its argument.

    Args:
        linear: a `LinearMap` of one seed. Where it has no result, there are zeros: TensorFlow gives None, too, where a
            graph is connected and the derivative zero, as that of a batch normalisation's gradient by its offset.
        argument: tensor or variable that the seed is like.
        results: list of tensors or variables that its results are like.
        y: the tensor that is differentiated.
        chunk_size: how many are live at once; all where None.

    Returns:
        A list of tensors `[argument's size, *result.shape]`.
    """
    count, linear = product(axes(argument)), linear.with_zeros(results)
    specs = [tf.TensorSpec([None, *result.shape], result.dtype) for result in results]
    shapes = [[count, *axes(result)] for result in results]

    def rows(indices: Tensor) -> list[Tensor]:
        basis = tf.one_hot(indices, count, dtype=argument.dtype)
        return linear.on_stacks(tf.reshape(basis, [*axes(indices), *axes(argument)]))

    def compute() -> list[Tensor]:
        return in_chunks(rows, count, specs, chunk_size if linear.vectorises() else 1)

    return unless_empty(y, compute, shapes, [result.dtype for result in results])


def gradients_or_zeros(
    y: Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    seed: Tensor | Sequence[Tensor],
    stop: Sequence[Tensor] = (),
) -> list[Tensor]:
    """`tf.gradients` with dense results, zeros where there is no path."""
    results = tf.gradients(y, tensors, grad_ys=seed, stop_gradients=list(stop) or None, unconnected_gradients="zero")
    return [tf.convert_to_tensor(result) for result in results]
