"""What the loss of a batch counts for, next to those of the other batches.

Keras' losses are means over a batch, S/d + R: a sum S over examples, what it is divided by, and regularisers. The loss
of all batches at once would be ΣS/Σd + R, which is the mean of the batches' losses weighed by d, R and all. So it is
enough to find d: a number of elements, or a sum of weights; nothing at all where examples are summed up (d = 1).

That is exact as long as S and d are sums over examples of what depends on one example each, which is checked, by value,
weights and labels included.
"""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import tensorflow as tf

from tfjac.graph import (
    Dependence,
    ExampleAxis,
    ExamplesMix,
    Inherited,
    analyse_examples,
    ancestors,
    captures_of,
    handle_in,
    static_value,
)
from tfjac.optimizers.objective.residuals import inlined
from tfjac.types import Tensor, Variable


class BatchWeight(NamedTuple):
    """What one batch counts for.

    Attributes:
        weight: scalar, float64: d.
        averages: whether the loss of all is the mean of the batches' losses, weighed so; else it is their sum.
    """

    weight: tf.Tensor
    averages: bool


class _Part(NamedTuple):
    """A part of the loss: the sum of `values`, divided by `divisor` (None for a sum)."""

    values: tf.Tensor
    divisor: tf.Tensor | None


def weight_of_batch(loss: Tensor, variables: Sequence[Variable]) -> "BatchWeight":
    """Return the `BatchWeight` of a batch.

    Args:
        loss: scalar tensor, with calls inlined.
        variables: list of the variables that are trained.

    Raises:
        ValueError: for a loss of which the sum over batches is not that of all examples, naming the op.
    """
    return _Reading(loss, variables).share()


def weight_among_batches(loss: Tensor, variables: Sequence[Variable]) -> Tensor:
    """Return d, a float64 scalar: what the loss of a batch counts for beside others; one if that cannot be known.

    Args:
        loss: scalar tensor.
        variables: list of the variables that are trained.
    """
    loss, _ = inlined(loss, variables)
    try:
        share = weight_of_batch(loss, variables)
    except ValueError:  # where examples mix, say: then batches of any size count alike
        return tf.ones([], tf.float64)
    return share.weight if share.averages else tf.ones([], tf.float64)


def refuse(op: tf.Operation, reason: str) -> NoReturn:
    """Raise the ValueError of a loss that batches do not add up to."""
    raise ValueError(
        "Sums over batches add up what batches give, which equals the loss of all examples for means and sums over "
        f"examples, each by itself, and regularisers. Here {reason}. Use a loss that is such a mean or sum, or train "
        "on full batches, with memory=None, which tfjac.fit does if memory_budget is large enough. Received: op "
        f"{op.name!r} of type {op.type}"
    )


class _Reading:
    """One reading of a loss.

    Args:
        loss, variables: as for `weight_of_batch`.
    """

    def __init__(self, loss: Tensor, variables: Sequence[Variable]) -> None:
        handles = [handle_in(loss.graph, variable) for variable in variables]
        captured = [inner for outer, inner in captures_of(loss.graph) if hasattr(outer, "numpy")]
        constant = {inner.ref() for inner in captured if inner.dtype not in _HANDLES}
        self._loss, self._trained = loss, Dependence(handles, by_value=True)
        self._data_free = Inherited(lambda op, inputs: _made_without_data(op, inputs, constant))
        data = [x for op in ancestors([loss]) for x in op.outputs if op.type in _SOURCES and x.ref() not in constant]
        self._data = [x for x in data if x.dtype not in _HANDLES]
        self._by_value = Dependence([*self._data, *handles], by_value=True)
        self._regularised = None

    def share(self) -> "BatchWeight":
        """Return the `BatchWeight`."""
        parts = self._parts(self._loss)
        for part in parts:
            self._check_apart(part.values)
        sums = [part for part in parts if part.divisor is None]
        if not sums:
            return BatchWeight(self._weight(parts), averages=True)
        if len(sums) < len(parts):
            refuse(self._loss.op, "some outputs are summed over the batch, and others averaged")
        if self._regularised is not None:
            refuse(self._regularised.op, "examples are summed, so that a regulariser would count again for each batch")
        return BatchWeight(tf.ones([], tf.float64), averages=False)

    def _parts(self, tensor: Tensor, divisors: tuple = ()) -> "list[_Part]":
        """Return the list of `_Part` that `tensor`, a scalar, over `divisors`, is the sum of, but for regularisers."""
        op, kind, is_new = tensor.op, tensor.op.type, all(map(self._data_free, divisors))
        if self._data_free(tensor):
            if self._trained.reaches(tensor):
                self._regularised = tensor
                if not is_new:
                    refuse(op, "a regulariser is divided by the number of examples, which is not that of all")
            return []
        if not self._trained.reaches(tensor):
            return []
        if kind == "Sum" and op.inputs[0].op.type == "Pack":
            return [part for each in op.inputs[0].op.inputs for part in self._parts(each, divisors)]
        if tensor.shape.rank == 0 and kind in ("Sum", "L2Loss") and op.inputs[0].shape.rank:
            return [_Part(op.inputs[0], self._divisor(op.inputs[0], divisors))]
        if tensor.shape.rank == 0 and kind == "Mean" and op.inputs[0].shape.rank and is_new:
            return [_Part(op.inputs[0], tf.size(op.inputs[0], out_type=tf.int64))]
        if kind in _SUMS:
            return [part for each in op.inputs for part in self._parts(each, divisors)]
        if kind in _PASSING or (kind == "Sum" and op.inputs[0].shape.rank == 0):
            return self._parts(op.inputs[0], divisors)
        if kind == "Mul":
            free = [self._data_free(each) for each in op.inputs]
            if any(free):
                return self._parts(op.inputs[free.index(False)], divisors)
        if kind in _QUOTIENTS and is_new:
            return self._parts(op.inputs[0], (*divisors, op.inputs[1]))
        refuse(op, "something else stands between the sum over examples and the loss")

    def _divisor(self, values: Tensor, divisors: tuple) -> Tensor | None:
        """Return what a sum of values is divided by: a constant is a number of examples where there are as many."""
        given = [each for each in divisors if not self._data_free(each)]
        numbers = [(each, static_value(each)) for each in divisors if self._data_free(each)]
        counts = [each for each, number in numbers if number is not None and float(number) in _counts_of(values.shape)]
        return next(iter((*given, *counts)), None)

    def _weight(self, parts: list) -> Tensor:
        """Return d, a float64 scalar, of means: one that is the same for all of them, but for a constant factor."""
        if not parts:
            return tf.ones([], tf.float64)
        if len({part.divisor.ref() for part in parts}) == 1:
            self._check_divisor(parts[0].divisor)
            return tf.cast(parts[0].divisor, tf.float64)
        for part in parts:
            if not self._counts(part.divisor) or not part.values.shape[1:].is_fully_defined():
                refuse(part.divisor.op, "several means are added up, and not all of them are divided by the batch size")
        return tf.cast(tf.shape(parts[0].values)[0], tf.float64)

    def _check_divisor(self, divisor: Tensor) -> None:
        """Refuse a divisor that is neither a number of elements nor a sum of weights."""
        weights = _summed(divisor)
        if weights is not None and weights.shape.rank:
            self._check_apart(weights)
        elif not self._counts(divisor):
            refuse(divisor.op, "the loss is divided by what is neither a number of elements nor a sum of weights")

    def _counts(self, divisor: Tensor) -> bool:
        """Return whether a divisor is a product of sizes."""
        return not self._by_value.reaches(divisor) and _is_product_of_sizes(divisor)

    def _check_apart(self, values: Tensor) -> None:
        """Refuse what holds no number for each example that depends on that example alone."""
        if not self._by_value.reaches(values):
            return
        try:
            analysis = analyse_examples(self._by_value, [values])
        except ExamplesMix as mixing:
            refuse(mixing.op, f"examples of a batch depend on one another ({mixing.reason})")
        for tensor in self._data:
            axis = analysis.axis(tensor)
            if axis is not None and not isinstance(axis, ExampleAxis):
                refuse(tensor.op, "every example depends on all of an input")


_HANDLES = (tf.resource, tf.variant)
_SOURCES = {"Placeholder", "IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue"}
_SUMS = {"Add", "AddV2", "AddN", "Sub"}
_PASSING = {"Identity", "Cast", "Reshape", "Squeeze", "EnsureShape", "Neg", "CheckNumerics"}
_QUOTIENTS = {"RealDiv", "Div", "DivNoNan"}
_SIZES = {"Cast", "Identity", "Prod", "Pack", "StridedSlice", "Mul", "ConcatV2", "GatherV2", "Reshape", "Squeeze"}


def _counts_of(shape: tf.TensorShape) -> list:
    """Return a list of numbers that a mean over examples may divide by: of examples, their rows, ..., all elements."""
    return [shape[:axes].num_elements() for axes in range(1, len(shape) + 1)] if shape.rank else []


def _summed(tensor: Tensor) -> Tensor | None:
    """Return what `tensor` is the sum of, but for casts; None where it is none."""
    while tensor.op.type in _PASSING - {"Neg"}:
        tensor = tensor.op.inputs[0]
    return tensor.op.inputs[0] if tensor.op.type == "Sum" else None


def _is_product_of_sizes(tensor: Tensor) -> bool:
    """Return whether a tensor is made of shapes and constants by products and indexing alone."""
    kind = tensor.op.type
    if kind in ("Shape", "Size", "Const"):
        return True
    return kind in _SIZES and all(_is_product_of_sizes(each) for each in tensor.op.inputs)


def _made_without_data(op: tf.Operation, inputs_are: Sequence[bool], constant: Tensor) -> list[bool]:
    """Return whether the outputs of `op` are made of variables and constants alone, given whether its inputs are."""
    if op.type == "ReadVariableOp":
        return [True]
    if not op.inputs:
        return [op.type == "Const" or output.ref() in constant for output in op.outputs]
    return [all(inputs_are)] * len(op.outputs)
