"""The examples of `tfjac.fit`: those to train on, those to validate with, and how many fit into memory at once."""

import inspect
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.graph import handle_in, read_graph
from tfjac.jacobians.passes.chunks import bytes_of_pass
from tfjac.keras.batch_sources import batches_of, is_source
from tfjac.keras.full_batch import examples
from tfjac.memory_budget import AUTO, bytes_of, checked_memory_budget

VALIDATION_BATCH = 4096

MOST_BY_DEFAULT = 2**30
"""Bytes of the Jacobian of one batch, by default."""


class FittingData(NamedTuple):
    """Examples.

    Attributes:
        parts: tuple of nests of tensors, as `full_batch.examples` returns; or a `tf.data.Dataset` of such tuples.
        validation: tuple of the same kind, of those that were split off; or None.
    """

    parts: Any
    validation: Any

    @classmethod
    def of(cls, x: Any, y: Any, sample_weight: Any, validation_split: float) -> "FittingData":
        """Return the examples that arguments of `tfjac.fit` stand for, checked."""
        if not 0 <= validation_split < 1:
            raise ValueError(
                "validation_split must be a fraction, from 0 to below 1. "
                f"Received: validation_split={validation_split!r}"
            )
        if is_source(x):
            if y is not None or sample_weight is not None or validation_split:
                raise ValueError(
                    "A tf.data.Dataset or PyDataset holds targets and weights itself, and is not split: leave y, "
                    f"sample_weight and validation_split out. Received: one of them beside a {type(x).__name__}"
                )
            return cls(batches_of(x), None)
        if inspect.isgenerator(x):
            raise TypeError(
                "tfjac.fit goes through all data in every step, and a generator can be gone through once: use arrays, "
                "a keras.utils.PyDataset, or tf.data.Dataset.from_generator(function, ...). Received: x, a generator"
            )
        refuse_negative("sample_weight", sample_weight)
        parts = examples(x, y, sample_weight)
        number = _number_of(parts)
        if not number:
            raise ValueError("There must be examples to train on. Received: x and y of 0 examples")
        if not validation_split:
            return cls(parts, None)
        first = int(number * (1 - validation_split))
        if not 0 < first < number:
            raise ValueError(
                "validation_split must leave examples on both sides. "
                f"Received: validation_split={validation_split!r} of {number} examples"
            )
        return cls(_sliced(parts, slice(0, first)), _sliced(parts, slice(first, None)))

    @property
    def has_targets(self) -> bool:
        """Whether there are targets: a model without is trained by what its layers add to the loss."""
        parts = self.parts.element_spec if self._is_dataset else self.parts
        return len(parts) > 1 and any(part is not None for part in tf.nest.flatten(parts[1]))

    @property
    def _is_dataset(self) -> bool:
        return isinstance(self.parts, tf.data.Dataset)

    def build(self, model: Any) -> None:
        """Build a model that is not, by calling it with an example."""
        if not model.built:
            model(self.inputs(1))

    def inputs(self, number: int | None = None) -> Any:
        """Return the inputs of the first so many examples, of all if None; of a data set: of its first batch."""
        parts = next(iter(self.parts)) if self._is_dataset else self.parts
        return tf.nest.map_structure(lambda part: part[:number], parts[0])

    def whole(self) -> tf.data.Dataset:
        """Return a data set of one batch, all examples."""
        return self.parts if self._is_dataset else tf.data.Dataset.from_tensors(self.parts)

    def batches(self, model: Any, batch_size: Any, memory_budget: Any) -> tf.data.Dataset | None:
        """Return the examples as a data set of several batches; None where they are taken as one.

        Args:
            model: a Keras model, built.
            batch_size: how many examples a batch has, or None for as many as fit.
            memory_budget: bytes that the Jacobian of one batch may take; "auto", or None for no limit.
        """
        if self._is_dataset:
            return None if int(self.parts.cardinality()) == 1 else self.parts
        number = _number_of(self.parts)
        if number < 2:
            return None
        if batch_size is None:
            budget = bytes_of(checked_memory_budget(memory_budget))
            budget = min(budget, MOST_BY_DEFAULT) if memory_budget == AUTO else budget
            batch_size = max(1, int(min(budget // max(1, self._bytes_of_example(model)), number)))
        if positive_integer("batch_size", batch_size) >= number:
            return None
        return tf.data.Dataset.from_tensor_slices(self.parts).batch(batch_size).prefetch(1)

    def in_words(self, batches: Any, batch_size: Any) -> str:
        """Return one sentence: how steps take the examples, and why.

        Args:
            batches: what `batches` returned.
            batch_size: as given to it.
        """
        if batches is None:
            if self._is_dataset:
                return "Each step sees the one batch of the data set."
            return f"Each step sees all {_number_of(self.parts):,} examples at once: they fit in the memory budget."
        why = "all examples at once would not fit in the memory budget"
        if self._is_dataset:
            why = "the data come as batches"
        elif batch_size is not None:
            why = f"batch_size={batch_size} was given"
        number = int(batches.cardinality())
        return f"Each step sees all examples, as the sum over {number:,} batches (memory='epoch'): {why}."

    def _bytes_of_example(self, model: Any) -> int:
        """Return about how many bytes one more example takes: a forward pass, a backward pass for each of its outputs.

        The weights, of which one more example takes no more, cancel in the difference.
        """

        def size(y: Any) -> Any:
            handles = [handle_in(y.graph, variable) for variable in model.trainable_variables]
            return (1 + (y.shape[1:].num_elements() or 1)) * bytes_of_pass(handles, y)

        def taken(number: int | None) -> Any:
            inputs = self.inputs(number)
            return read_graph(lambda ys: sum(map(size, tf.nest.flatten(ys))), lambda: model(inputs))

        return int(taken(2) - taken(1))


def validation_dataset(data: Any) -> Any:
    """Return the `tf.data.Dataset` that validation data stand for: a tuple of nests of arrays, or batches.

    Raises:
        TypeError: for anything else.
    """
    if is_source(data):
        return batches_of(data)
    if not isinstance(data, (tuple, list)) or not 1 <= len(data) <= 3:
        raise TypeError(
            "validation_data must be (x, y), (x, y, sample_weight), a tf.data.Dataset of batches, or a PyDataset; (x,) "
            "for a model that is trained without targets. "
            f"Received: a {type(data).__name__}"
        )
    return tf.data.Dataset.from_tensor_slices(examples(*data)).batch(VALIDATION_BATCH).cache()


def refuse_negative(name: str, weights: Any) -> None:
    """Raise ValueError for weights of examples below zero: the loss is then no sum of squares."""
    for each in tf.nest.flatten(weights):
        lowest = None if each is None else np.min(np.asarray(each), initial=0)
        if lowest is not None and lowest < 0:
            raise ValueError(
                f"{name} must not be negative: a square with a weight below zero is no residual. "
                f"Received: {name} with {lowest:.6g} in it"
            )


def _number_of(parts: Any) -> int:
    return len(next(part for part in tf.nest.flatten(parts) if part is not None))


def _sliced(parts: Any, rows: slice) -> Any:
    return tf.nest.map_structure(lambda part: None if part is None else part[rows], parts)
