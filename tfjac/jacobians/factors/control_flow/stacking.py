"""Factors of one step after another, put together into the factor of the whole loop."""

import tensorflow as tf

from tfjac.jacobians.factors.control_flow.states import step_array
from tfjac.jacobians.factors.forms import DenseFactor, GatherFactor, OuterFactor
from tfjac.jacobians.shapes import axes

# Where each tensor of a factor has its positions t; None for a tensor that is the same in every step.
_POSITIONS = {OuterFactor: (1, 2), GatherFactor: (1, 2, None)}


class Stack:
    """Collects a factor over the steps of a loop: what has positions is put side by side along t, the rest added up.

    Args:
        factor: the factor of one step, in the graph of the step.
        bound: number of steps, an upper bound of it, or None.
        n, m: numbers of examples and outputs, integers or scalar tensors.
    """

    def __init__(self, factor, bound, n, m):
        self.factor, self.bound, self.n, self.m = factor, bound, n, m
        self.added_up = isinstance(factor, DenseFactor)

    def begin(self):
        """Return the loop variables that hold what is collected."""
        tensors = self.factor.tensors()
        if self.added_up:
            return [tf.zeros([self.n, self.m, self.factor.j.shape[2]], self.factor.j.dtype)]
        return [step_array(tensor.dtype, tensor.shape, self.bound) for tensor in tensors]

    def add(self, step, held, tensors):
        """Return the loop variables with the factor of one step added."""
        if self.added_up:
            return [held[0] + tensors[0]]
        return [array.write(step, tensor) for array, tensor in zip(held, tensors)]

    def end(self, held):
        """Return the factor of all steps."""
        if self.added_up:
            return self.factor.with_tensors(*held)
        positions = _POSITIONS[type(self.factor)]
        return self.factor.with_tensors(*(_side_by_side(array, k) for array, k in zip(held, positions)))


def zero_tensors(factor, n, m):
    """Return tensors like those of `factor`, of zeros, in the current graph: n and m lead, an open size becomes 1."""
    leads = [[n, m]] if isinstance(factor, DenseFactor) else [[n], [n, m], []]
    return [
        tf.zeros([*lead, *(1 if size is None else size for size in tensor.shape[len(lead) :])], tensor.dtype)
        for lead, tensor in zip(leads, factor.tensors())
    ]


def _side_by_side(array, position):
    """Merge the steps `[step, ...]` into axis `position` of each, the step outermost; the last one where it is None."""
    if position is None:
        return array.read(0)
    stacked = array.stack()
    order = [*range(1, position + 1), 0, *range(position + 1, stacked.shape.rank)]
    moved = tf.transpose(stacked, order)
    sizes = axes(moved)
    return tf.reshape(moved, [*sizes[:position], sizes[position] * sizes[position + 1], *sizes[position + 2 :]])
