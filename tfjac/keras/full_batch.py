"""All examples as one batch, and an epoch of many steps on it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.types import Nest, TensorLike


def full_batch(
    x: Nest[TensorLike],
    y: Nest[TensorLike] | None = None,
    sample_weight: Nest[TensorLike] | None = None,
    *,
    steps: int = 1,
) -> tf.data.Dataset:
    """Return a data set whose epochs are `steps` times the same batch: all examples.

        model.compile(optimizer=tfjac.LevenbergMarquardt(), loss="mse", steps_per_execution=20)
        model.fit(tfjac.full_batch(x, y, steps=20), epochs=5)

    An epoch of one step has Keras do all that it does around an epoch for a single step, which takes longer than a step
    on a small problem.

    Args:
        x, y, sample_weight: as in `model.fit`, arrays or tensors, or nests of them, whose leading axes agree. As there,
            arrays of floating-point numbers take the dtype of `keras.config.floatx()`.
        steps: how many steps an epoch has.

    Returns:
        A `tf.data.Dataset` for `model.fit`, of known cardinality. The examples are held in memory once.

    Raises:
        ValueError: if the numbers of examples differ, a part is a list of numbers, or `steps` is no positive integer.
    """
    return tf.data.Dataset.from_tensors(examples(x, y, sample_weight)).repeat(positive_integer("steps", steps))


def examples(x: Any, y: Any = None, sample_weight: Any = None) -> tuple:
    """Return the tuple of what `full_batch` is given, without what is None at the end, as tensors.

    Raises:
        ValueError: if the numbers of examples differ, or a part is a list of numbers.
    """
    parts = [x, y, sample_weight]
    while parts[-1] is None:
        parts.pop()
    parts = _tuples(tf.nest.map_structure(_tensor, tuple(parts)))
    if any(part is not None and part.shape.rank == 0 for part in tf.nest.flatten(parts)):
        raise ValueError(
            "Every part must be an array whose first axis counts examples; a list is taken for several inputs. Convert "
            f"lists by np.asarray. Received: x of type {type(x).__name__} with numbers in it"
        )
    sizes = {len(part) for part in tf.nest.flatten(parts) if part is not None}
    if len(sizes) != 1:
        raise ValueError(f"All parts must have the same number of examples. Received: {sorted(sizes)}")
    return parts


def _tuples(parts: Any) -> Any:
    """Return a nest with tuples in place of lists, which `tf.data` would stack into one tensor."""
    if isinstance(parts, dict):
        return {key: _tuples(part) for key, part in parts.items()}
    return tuple(map(_tuples, parts)) if isinstance(parts, (list, tuple)) else parts


def _tensor(part: Any) -> Any:
    if part is None or isinstance(part, tf.Tensor):
        return part
    part = np.asarray(part)
    return tf.constant(part, keras.config.floatx() if part.dtype.kind == "f" else None)
