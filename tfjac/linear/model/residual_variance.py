"""How many examples a batch has, what its residuals add up to, and how far they are spread about their means."""

import tensorflow as tf

from tfjac.linear.contracts import LinearModel
from tfjac.types import Tensor


def num_examples(batch: LinearModel, num_parts: int) -> Tensor:
    """Return how many examples a batch has, a scalar in its dtype: as many as the block with the most.

    Args:
        batch: `LinearModel`; num_parts: of how many it is the sum, which have the same blocks.
    """
    numbers = [tf.cast(block.examples_and_outputs[0], batch.dtype) for block in batch.jacobian.operators]
    if not numbers:
        return tf.ones([], batch.dtype)
    step = max(len(numbers) // num_parts, 1)
    return tf.reduce_max([tf.add_n(numbers[first::step]) for first in range(step)])


def square_and_variance(batch: LinearModel, num_parts: int) -> tuple[Tensor, Tensor]:
    """Return Σ r² of a batch, and what it would be about the mean of each output; the latter zero for one example.

    Args:
        batch: `LinearModel`; num_parts: of how many it is the sum, which have the same blocks.
    """
    residual = batch.residual
    sizes = [block.examples_and_outputs for block in batch.jacobian.operators]
    parts = tf.split(residual, [examples * outputs for examples, outputs in sizes]) if sizes else []
    blocks = [tf.reshape(part, [-1, outputs]) for part, (_, outputs) in zip(parts, sizes)]
    step = max(len(blocks) // num_parts, 1)
    variance = tf.zeros([], residual.dtype)
    for rows in (tf.concat(blocks[first::step], axis=0) for first in range(step if blocks else 0)):
        number = tf.cast(tf.shape(rows)[0], rows.dtype)
        unbiased = tf.math.divide_no_nan(number * number, number - 1)
        variance += unbiased * tf.reduce_sum(tf.math.reduce_variance(rows, axis=0))
    return tf.reduce_sum(tf.square(residual)), variance
