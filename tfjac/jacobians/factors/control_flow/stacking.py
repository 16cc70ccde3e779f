"""Factors of one step after another, put together into the factor of the whole loop."""

from typing import Any

import tensorflow as tf

from tfjac.graph import axes, handle_shape
from tfjac.jacobians.factors.control_flow.states import stacked, step_array
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.linear.shapes import Size, product
from tfjac.types import Tensor


class Stack:
    """Collects a factor over the steps of a loop: what has positions is put side by side along t, the rest added up.

    Args:
        factor: the factor of one step, in the graph of the step.
        bound: number of steps, an upper bound of it, or None.
        n, m: numbers of examples and outputs, integers or scalar tensors.
    """

    def __init__(self, factor: Factor, bound: Size | None, n: Size, m: Size) -> None:
        self.factor, self.bound, self.n, self.m = factor, bound, n, m
        self.added_up = not any("t" in names for names in factor.axes_of_tensors())

    def begin(self) -> list:
        """Return the loop variables that hold what is collected."""
        if self.added_up:
            return zeros_like(self.factor, self.n, self.m).tensors()
        return [step_array(tensor.dtype, tensor.shape, self.bound) for tensor in self.factor.tensors()]

    def add(self, step: Any, held: Any, factor: Factor) -> list:
        """Return the loop variables with the factor of one step added."""
        if self.added_up:
            return [total + tensor for total, tensor in zip(held, factor.tensors())]
        return [array.write(step, tensor) for array, tensor in zip(held, factor.tensors())]

    def end(self, held: Any) -> Factor:
        if self.added_up:
            return self.factor.with_tensors(held)
        sizes = _sizes(self.factor, {"n": self.n, "m": self.m})
        names = self.factor.axes_of_tensors()
        tensors = [_side_by_side(stacked(*pair), axes) for *pair, axes in zip(held, sizes, names)]
        for whole, each, own in zip(tensors, self.factor.tensors(), names):
            at = own.find("t")
            if isinstance(self.bound, int) and at >= 0 and each.shape[at] is not None:
                whole.set_shape([*each.shape[:at], self.bound * each.shape[at], *each.shape[at + 1 :]])
        return self.factor.with_tensors(tensors)


def of_static_columns(factor: Factor, weight: Tensor) -> Factor:
    """Return the factor with the sizes that its columns are made of known while tracing, as zeros like it need them.

    One that the graph has lost follows from the number of elements of the weight; of several, only the product does.

    Args:
        factor: `Factor` of the columns of `weight`.
        weight: tensor, or handle of a variable.
    """
    columns = (handle_shape(weight) if weight.dtype == tf.resource else weight.shape).num_elements()
    named = factor.sizes_of_tensors()
    sizes = {name: size for each in named for name, size in each.items() if name in ("g", "i", "o", "q")}
    lost = [name for name, size in sizes.items() if size is None]
    if not lost or columns is None:
        return factor
    known = product([getattr(factor, "rows", 1), *(size for size in sizes.values() if size is not None)])
    if len(lost) > 1 or not isinstance(known, int):
        return DenseFactor(tf.ensure_shape(factor.dense(), [None, None, columns]))
    shapes = [[columns // known if name in lost else size for name, size in each.items()] for each in named]
    return factor.with_tensors([tf.ensure_shape(x, shape) for x, shape in zip(factor.tensors(), shapes)])


def zeros_like(factor: Factor, n: Size, m: Size) -> Factor:
    """Return a factor like `factor`, of zeros, in the current graph, for n and m; an open number t becomes 1."""
    shapes = [[1 if size is None else size for size in sizes] for sizes in _sizes(factor, {"n": n, "m": m})]
    zeros = [tf.zeros(shape, tensor.dtype) for shape, tensor in zip(shapes, factor.tensors())]
    return factor.with_tensors(zeros)


def _sizes(factor: Factor, known: dict[str, Size]) -> list[list[Size | None]]:
    """Return the sizes of the tensors of a factor, of which some are known by the names of their axes."""
    return [[known.get(name, size) for name, size in sizes.items()] for sizes in factor.sizes_of_tensors()]


def shaped_like(factor: Factor, given: Factor) -> Factor:
    """Return a factor `given` that a function returned, with the static shapes that `factor` had inside."""
    pairs = zip(given.tensors(), factor.tensors())
    return given.with_tensors([tf.ensure_shape(tensor, inside.shape) for tensor, inside in pairs])


def _side_by_side(steps: Tensor, names: str) -> Tensor:
    """Merge the steps `[step, ...]` into axis t, the step outermost; one step stands for all where there is none."""
    if "t" not in names:
        return tf.reduce_sum(steps[:1], 0)
    position = names.index("t")
    order = [*range(1, position + 1), 0, *range(position + 1, steps.shape.rank)]
    moved = tf.transpose(steps, order)
    sizes = axes(moved)
    return tf.reshape(moved, [*sizes[:position], sizes[position] * sizes[position + 1], *sizes[position + 2 :]])
