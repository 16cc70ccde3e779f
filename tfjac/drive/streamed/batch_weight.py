"""What the loss of a batch counts for, next to those of the other batches.

Keras' losses are means over a batch, S/d + R: a sum S over examples, what it is divided by, and regularisers. The loss
of all batches at once would be ΣS/Σd + R, which is the mean of the batches' losses weighed by d, R and all. So it is
enough to find d: a number of elements, or a sum of weights; nothing at all where examples are summed up (d = 1).

Some of d may stand inside of S, as a factor of all values that is one number of the whole batch: Keras multiplies what
a mask leaves by all over valid elements.

That is exact as long as S and d are sums over examples of what depends on one example each, which is checked, by value,
weights and labels included, and if batches decide alike: hinge losses ask whether all labels are 0 and 1. What is
remembered of earlier batches needs no more than the weight, and takes d as it is.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

import numpy as np
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
from tfjac.objective.residuals import inlined
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
    """A part of the loss: the sum of `values`, divided by `divisor` (None for a sum).

    Attributes:
        factors: list of the numbers of the whole batch that the values are multiplied by.
        divisors: list of those that the values are divided by.
    """

    values: tf.Tensor
    divisor: tf.Tensor | None
    factors: list
    divisors: list

    def weight(self) -> tf.Tensor:
        """Return d, a float64 scalar; zero where nothing counts."""
        weight = tf.cast(self.divisor, tf.float64)
        for number in self.divisors:
            weight *= tf.cast(number, tf.float64)
        for number in self.factors:
            weight = tf.math.divide_no_nan(weight, tf.cast(number, tf.float64))
        return weight


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
    return _Reading(loss, variables, is_exact=False).weight()


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
        is_exact: whether what does not add up is refused, and not left out.
    """

    def __init__(self, loss: Tensor, variables: Sequence[Variable], is_exact: bool = True) -> None:
        self._is_exact = is_exact
        handles = [handle_in(loss.graph, variable) for variable in variables]
        captured = [inner for outer, inner in captures_of(loss.graph) if hasattr(outer, "numpy")]
        constant = {inner.ref() for inner in captured if inner.dtype not in _HANDLES}
        self._loss, self._trained = loss, Dependence(handles, by_value=True)
        self._data_free = Inherited(lambda op, inputs: _made_without_data(op, inputs, constant))
        data = [x for op in ancestors([loss]) for x in op.outputs if op.type in _SOURCES and x.ref() not in constant]
        self._data = [x for x in data if x.dtype not in _HANDLES]
        self._decided = [x for op in ancestors([loss]) for x in op.outputs if self._is_decided(x)]
        self._by_value = Dependence([*self._data, *handles], by_value=True, stops=self._decided)
        self._regularised = None

    def _is_decided(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is what a batch decides by its data alone."""
        return tensor.dtype == tf.bool and tensor.shape.rank == 0 and not self._trained.reaches(tensor)

    def share(self) -> "BatchWeight":
        parts = self._parts(self._loss)
        for part in parts:
            self._check_apart(part.values, part.factors)
            self._check_factors(part)
        sums = [part for part in parts if part.divisor is None]
        if not sums:
            return BatchWeight(self._weight(parts), averages=True)
        if len(sums) < len(parts):
            refuse(self._loss.op, "some outputs are summed over the batch, and others averaged")
        if self._regularised is not None:
            refuse(self._regularised.op, "examples are summed, so that a regulariser would count again for each batch")
        return BatchWeight(tf.ones([], tf.float64), averages=False)

    def weight(self) -> Tensor:
        """Return d of all means that the loss is seen to hold, a float64 scalar: their sum, or one without any."""
        means = {part.divisor.ref(): part for part in self._parts(self._loss) if part.divisor is not None}
        return tf.add_n([part.weight() for part in means.values()]) if means else tf.ones([], tf.float64)

    def _parts(self, tensor: Tensor, divisors: tuple = (), factors: tuple = ()) -> "list[_Part]":
        """Return the list of `_Part` that `tensor`, a scalar, times `factors` over `divisors`, is the sum of.

        Regularisers are none; nor is, unless all has to be exact, what is no such sum.
        """
        op, kind, is_new = tensor.op, tensor.op.type, not self._is_exact or all(map(self._data_free, divisors))
        if self._data_free(tensor):
            if self._trained.reaches(tensor):
                self._regularised = tensor
                if not is_new:  # as it always is where nothing has to be exact
                    refuse(op, "a regulariser is divided by the number of examples, which is not that of all")
            return []
        if not self._trained.reaches(tensor):
            return []
        if kind == "Sum" and op.inputs[0].op.type == "Pack":
            return [part for each in op.inputs[0].op.inputs for part in self._parts(each, divisors, factors)]
        spread = self._scalar_and_weights(op) if kind == "Sum" and not self._is_exact else None
        if spread is not None:
            return self._parts(spread[0], divisors, (*factors, tf.reduce_sum(spread[1])))
        if tensor.shape.rank == 0 and kind in ("Sum", "L2Loss") and op.inputs[0].shape.rank:
            return [self._part(op.inputs[0], self._divisors(op.inputs[0], divisors), factors)]
        if tensor.shape.rank == 0 and kind == "Mean" and op.inputs[0].shape.rank and is_new:
            count = tf.size(op.inputs[0], out_type=tf.int64)
            return [self._part(op.inputs[0], [count, *self._divisors(op.inputs[0], divisors)], factors)]
        if kind in _SUMS:
            return [part for each in op.inputs for part in self._parts(each, divisors, factors)]
        if kind in _PASSING or (kind == "Sum" and op.inputs[0].shape.rank == 0):
            return self._parts(op.inputs[0], divisors, factors)
        if kind == "Mul":
            free = [self._data_free(each) for each in op.inputs]
            if any(free):
                return self._parts(op.inputs[free.index(False)], divisors, factors)
            trained = [self._trained.reaches(each) for each in op.inputs]
            if not all(trained) and not self._is_exact:
                number = op.inputs[trained.index(False)]
                return self._parts(op.inputs[trained.index(True)], divisors, (*factors, number))
        if kind in _QUOTIENTS and is_new:
            return self._parts(op.inputs[0], (*divisors, op.inputs[1]), factors)
        if self._is_exact:
            refuse(op, "something else stands between the sum over examples and the loss")
        return []

    def _scalar_and_weights(self, op: tf.Operation) -> list[Tensor] | None:
        """Return a loss that is one number already, and the weights of examples that it is multiplied by, of a sum."""
        values = op.inputs[0].op
        pair = sorted(values.inputs, key=self._trained.reaches, reverse=True) if values.type == "Mul" else []
        return pair if pair and pair[0].shape.rank == 0 and not self._trained.reaches(pair[1]) else None

    def _part(self, values: Tensor, divisors: list, factors: tuple) -> "_Part":
        """Return the `_Part` of a sum of values, with the numbers that stand inside of it."""
        numbers = list(self._numbers(values))
        inside = [[each for each, is_divisor in numbers if is_divisor is wanted] for wanted in (False, True)]
        return _Part(values, next(iter(divisors), None), [*factors, *inside[0]], [*divisors[1:], *inside[1]])

    def _numbers(self, values: Tensor, is_divisor: bool = False) -> Iterator[tuple]:
        """Yield the numbers of the whole batch that are in all values as a factor, and whether as a divisor."""
        op, kind = values.op, values.op.type
        if self._data_free(values):
            return
        if values.shape.rank == 0 and not self._trained.reaches(values):
            yield values, is_divisor
        elif kind == "Mul":
            for each in op.inputs:
                yield from self._numbers(each, is_divisor)
        elif kind in _QUOTIENTS:
            yield from self._numbers(op.inputs[0], is_divisor)
            yield from self._numbers(op.inputs[1], not is_divisor)
        elif kind in _SELECTIONS:
            branches = [each for each in op.inputs[1:] if not _is_zero(each)]
            yield from self._numbers(branches[0], is_divisor) if len(branches) == 1 else ()
        elif kind == "Mean" and 0 in np.ravel(static_value(op.inputs[1])):  # over examples, for each output
            yield tf.size(op.inputs[0]) // tf.size(values), not is_divisor
        elif kind in _PASSING or kind in _SPREADING:
            yield from self._numbers(op.inputs[0], is_divisor)

    def _divisors(self, values: Tensor, divisors: tuple) -> list[Tensor]:
        """Return what a sum of values is divided by: a constant is a number of examples where there are as many."""
        if not self._is_exact:
            return [each for each in divisors if not self._trained.reaches(each)]
        given = [each for each in divisors if not self._data_free(each)]
        numbers = [(each, static_value(each)) for each in divisors if self._data_free(each)]
        counts = [each for each, number in numbers if number is not None and float(number) in _counts_of(values.shape)]
        return [*given, *([] if given else counts[:1])]

    def _weight(self, parts: list) -> Tensor:
        """Return d, a float64 scalar, of means: one that is the same for all of them, but for a constant factor."""
        if not parts:
            return tf.ones([], tf.float64)
        if len({tuple(number.ref() for number in (part.divisor, *part.factors)) for part in parts}) == 1:
            self._check_divisor(parts[0].divisor)
            return parts[0].weight()
        for part in parts:
            if part.factors or not self._counts(part.divisor) or not part.values.shape[1:].is_fully_defined():
                refuse(part.divisor.op, "several means are added up, and not all of them are divided by the batch size")
        return tf.cast(tf.shape(parts[0].values)[0], tf.float64)

    def _check_divisor(self, divisor: Tensor) -> None:
        """Refuse a divisor that is neither a number of elements nor a sum of weights."""
        weights = _summed(divisor)
        if weights is not None and weights.shape.rank:
            self._check_apart(weights)
        elif not self._counts(divisor):
            refuse(divisor.op, "the loss is divided by what is neither a number of elements nor a sum of weights")

    def _check_factors(self, part: "_Part") -> None:
        """Refuse numbers inside of a sum that are not those of a mask: d elements of n, as n/d, of values over n."""
        for number in part.factors:
            quotient = _passed(number).op
            is_share = quotient.type in _QUOTIENTS and self._counts(quotient.inputs[0])
            if not is_share or part.divisor is None or not self._counts(part.divisor) or len(part.factors) > 1:
                refuse(number.op, "all examples are multiplied by a number that depends on all of them")
            self._check_divisor(quotient.inputs[1])
        if part.divisors:
            refuse(part.divisors[0].op, "all examples are divided by a number that depends on all of them")

    def _counts(self, divisor: Tensor) -> bool:
        """Return whether a divisor is a product of sizes."""
        return not self._by_value.reaches(divisor) and _is_product_of_sizes(divisor)

    def _check_apart(self, values: Tensor, numbers: Sequence[Tensor] = ()) -> None:
        """Refuse what holds no number for each example that depends on that example, and on `numbers`, alone."""
        dependence = self._by_value
        if numbers:
            dependence = Dependence(dependence.sources, by_value=True, stops=[*numbers, *self._decided])
        if not dependence.reaches(values):
            return
        try:
            analysis = analyse_examples(dependence, [values])
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
_SELECTIONS = {"Select", "SelectV2"}
_SPREADING = {"ExpandDims", "BroadcastTo", "Tile"}
_SIZES = {"Cast", "Identity", "Prod", "Pack", "StridedSlice", "Mul", "ConcatV2", "GatherV2", "Reshape", "Squeeze"}


def _counts_of(shape: tf.TensorShape) -> list:
    """Return a list of numbers that a mean over examples may divide by: of examples, their rows, ..., all elements."""
    return [shape[:axes].num_elements() for axes in range(1, len(shape) + 1)] if shape.rank else []


def _summed(tensor: Tensor) -> Tensor | None:
    """Return what `tensor` is the sum of, but for casts; None where it is none."""
    tensor = _passed(tensor)
    return tensor.op.inputs[0] if tensor.op.type == "Sum" else None


def _passed(tensor: Tensor) -> Tensor:
    """Return what `tensor` is, but for casts."""
    while tensor.op.type in _PASSING - {"Neg"}:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_zero(tensor: Tensor) -> bool:
    number = static_value(tensor)
    return number is not None and not number.any()


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
