"""Batches that come from elsewhere: a `tf.data.Dataset`, also of unknown length, or a `keras.utils.PyDataset`."""

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfjac.keras.full_batch import examples


def is_source(data: Any) -> bool:
    """Return whether data are batches, and no arrays."""
    return isinstance(data, (tf.data.Dataset, keras.utils.PyDataset))


def batches_of(source: Any) -> tf.data.Dataset:
    """Return a `tf.data.Dataset` of tuples (x,), (x, y) or (x, y, sample_weight), of known length.

    A data set that does not know its length is run through once, to count its batches.

    Raises:
        TypeError: for elements of another kind.
        ValueError: for elements that are no batches, for none, or for a data set that never ends.
    """
    data = _of_py_dataset(source) if isinstance(source, keras.utils.PyDataset) else source
    if not isinstance(data.element_spec, tuple):
        data = data.map(lambda inputs: (inputs,))
    _check_elements(data.element_spec)
    number = int(data.cardinality())
    if number == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "Every step sees all batches of the tf.data.Dataset, so it must end: leave repeat() out, or call "
            "take(number of batches). Received: an infinite Dataset"
        )
    if number == tf.data.UNKNOWN_CARDINALITY:
        number = sum(1 for _ in data)
        data = data.apply(tf.data.experimental.assert_cardinality(number))
    if not number:
        raise ValueError("There must be examples to train on. Received: a data set of 0 batches")
    return data


def _check_elements(spec: Any) -> None:
    if not 1 <= len(spec) <= 3:
        raise TypeError(f"A tf.data.Dataset must hold batches (x, y) or (x, y, sample_weight). Received: {spec}")
    shapes = [part.shape for part in tf.nest.flatten(spec) if isinstance(part, tf.TensorSpec)]
    sizes = {shape[0] if shape.rank else 0 for shape in shapes if shape.rank is not None} - {None}
    if sizes == {0} or len(sizes) > 1:
        raise ValueError(
            "A tf.data.Dataset must hold batches, whose first axis counts examples: call its method batch(size). "
            f"Received: elements of shapes {', '.join(map(str, shapes))}"
        )


def _of_py_dataset(source: Any) -> tf.data.Dataset:
    """Return the batches of a `keras.utils.PyDataset` as a `tf.data.Dataset`; they may differ in all sizes."""
    if source.num_batches is None:
        raise ValueError(
            "Every step sees all batches of the PyDataset, so it must end: give it a number of batches, by its method "
            f"__len__. Received: a {type(source).__name__} of unknown length"
        )

    def batch(index: Any) -> tuple:
        given = source[index]
        return examples(*(given if isinstance(given, tuple) else (given,)))

    def batches() -> Iterator[tuple]:
        for index in range(source.num_batches):
            yield batch(index)
        source.on_epoch_end()

    number = source.num_batches
    if not number:
        raise ValueError("There must be examples to train on. Received: a PyDataset of 0 batches")
    signature = tf.nest.map_structure(_common_spec, *(batch(index) for index in {0, number - 1}))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return data.apply(tf.data.experimental.assert_cardinality(number))


def _common_spec(*tensors: Any) -> tf.TensorSpec:
    """Return the `TensorSpec` of the first and the last batch, with the number of examples left open."""
    shape = tensors[0].shape.most_specific_compatible_shape(tensors[-1].shape)
    return tf.TensorSpec([None, *shape[1:]], tensors[0].dtype)
