"""Batches as the accounting assumes them: Poisson samples, padded to one size, with a mask as sample weights."""

import secrets
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import described_value, positive_integer
from tfjac.privacy.sample_sizes import most_examples
from tfjac.privacy.secure_random import uniforms
from tfjac.types import Nest


def poisson_batches(
    x: Nest[Any],
    y: Nest[Any],
    batch_size: int,
    steps: int,
    rows: int | None = None,
    seed: int | None = None,
    sample_weight: Any = None,
    secure: bool = False,
) -> tf.data.Dataset:
    """Return a data set of Poisson samples: each example is in each batch with the probability batch_size / n.

    Every batch has the same number of rows: those of the sample, and padding, rows of zeros whose sample weight is
    zero. Padding adds nothing to the clipped sum. In `metrics` it counts as examples that are wrong: compile with
    `weighted_metrics=["accuracy"]`. Give `DPOptimizer` the same `batch_size`, so that it divides by the expected size,
    as private training must.

        data = tfjac.privacy.poisson_batches(x, y, batch_size=256, steps=1000)
        model.fit(data, epochs=10, steps_per_epoch=100)

    Args:
        x, y: arrays `[n, ...]`, or nests of them. A nest of `y` is for a model of several outputs.
        batch_size: the expected number of examples of a sample, at most n.
        steps: number of samples.
        rows: rows of a batch. With fewer rows than a sample may need, a sample is spread over as many batches as the
            largest needs: give the inner optimizer `gradient_accumulation_steps=batches_per_step(...)`. If None, a
            sample is one batch.
        seed: integer, for tests alone; from the operating system if None.
        sample_weight: array `[n]`, the factor of each example's loss; ones if None.
        secure: whether all numbers come from the operating system, as with `secure_noise=True` of `DPOptimizer`.

    Returns:
        A `tf.data.Dataset` of `(x, y, sample_weight)`, of steps · batches_per_step batches. The sample weights of a
        target with positions, `[n, t]` or `[n, t, c]`, have as many axes, each of one, so that Keras multiplies the
        losses of all positions of a row by the weight of the row. A loss that returns one number for each example of
        such a target needs them as `[n]`: `data.map(lambda x, y, w: (x, y, tf.reshape(w, [-1])))`.

    Raises:
        TypeError: for what is no array, such as a `tf.data.Dataset`, from which no example can be drawn by chance.
        ValueError: for arrays of different lengths, or for sizes that do not fit.

    A sample larger than what fits is cut. Its probability is below 10⁻¹² a step.
    """
    arrays = [_as_array(array) for array in tf.nest.flatten((x, y))]
    given_weights = np.ones(len(arrays[0])) if sample_weight is None else _as_array(sample_weight)
    lengths = {len(array) for array in (*arrays, given_weights)}
    if len(lengths) != 1 or given_weights.ndim != 1:
        raise ValueError(
            "x, y and sample_weight must be arrays with the same number of examples, and sample_weight has one axis. "
            f"Received: lengths {sorted(lengths)}, sample_weight of shape {given_weights.shape}"
        )
    (n,) = lengths
    given_weights = given_weights.astype(np.float32)
    largest = largest_sample(n, batch_size)
    rows = largest if rows is None else positive_integer("rows", rows)
    parts = batches_per_step(n, batch_size, rows)
    steps = positive_integer("steps", steps)
    if secure and seed is not None:
        raise ValueError(f"Secure samples have no seed: leave it out. Received: seed={seed!r}, secure=True")

    def batches():
        random = np.random.default_rng(secrets.randbits(128) if seed is None else seed)
        draw = (lambda count: 1 - uniforms(count)) if secure else random.random
        for _ in range(steps):
            chosen = np.flatnonzero(draw(n) < batch_size / n)[:largest]
            for part in range(parts):
                yield tuple(_padded(chosen[part * rows : (part + 1) * rows], rows))

    def _padded(chosen, rows):
        for array in (*arrays, given_weights):
            batch = np.zeros((rows, *array.shape[1:]), array.dtype)
            batch[: len(chosen)] = array[chosen]
            yield batch

    specs = [tf.TensorSpec([None, *array.shape[1:]], array.dtype) for array in arrays]
    flat = tf.data.Dataset.from_generator(batches, output_signature=(*specs, tf.TensorSpec([None], tf.float32)))

    def packed(*tensors):
        given, wanted = tf.nest.pack_sequence_as((x, y), tensors[:-1])
        return given, wanted, tf.nest.map_structure(lambda target: _weights_for(target, tensors[-1]), wanted)

    data = flat.map(packed).apply(tf.data.experimental.assert_cardinality(steps * parts))
    return data.prefetch(1)


def _weights_for(target, weights):
    """Return weights `[n]` with as many axes of one as Keras needs to multiply the losses of the positions by them.

    Keras lines up axes from the last, but where the ranks differ by an axis of one. Losses have the axes of the target
    `[n, ..., c]`, without the last one or with it.
    """
    axes = target.shape.rank - (target.shape.rank > 1 and target.shape[-1] == 1)
    return tf.reshape(weights, [-1] + [1] * (axes - 1))


def _as_array(given):
    array = None if isinstance(given, tf.data.Dataset) else np.asarray(given)
    if array is None or array.ndim == 0:
        raise TypeError(
            "x, y and sample_weight must be arrays with the examples along the first axis. x and y may be nests of "
            "arrays. A list is a nest: use np.asarray for a list of numbers. A tf.data.Dataset cannot be sampled by "
            f"chance: collect it into arrays. Received: {described_value(given)}"
        )
    return array


def batches_per_step(num_examples: int, batch_size: int, rows: int) -> int:
    """Return over how many batches of `rows` rows `poisson_batches` spreads a sample."""
    return -(-largest_sample(num_examples, batch_size) // positive_integer("rows", rows))


def largest_sample(num_examples: int, batch_size: int) -> int:
    """Return a size that a Poisson sample exceeds with a probability below 10⁻¹²."""
    if not 0 < batch_size <= num_examples:
        raise ValueError(
            "batch_size must be at most the number of examples. "
            f"Received: batch_size={batch_size!r} of {num_examples} examples"
        )
    return int(min(num_examples, np.ceil(most_examples(batch_size, num_examples))))
