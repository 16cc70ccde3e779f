"""Normal noise of which no number is drawn twice, whatever state is restored into the optimizer that adds it."""

import secrets
from collections.abc import Callable

import keras
import tensorflow as tf

from tfjac.types import Tensor, TensorLike


class Noise:
    """Normal numbers, decided by a seed, by a count of batches, by the replica and by the call within a trace.

    If an earlier state of the optimizer is restored, its count of steps goes back. The same numbers would then be added
    to other gradients, and cancel in the difference. So the count is one that no checkpoint holds, and TensorFlow does
    not track this object.

    Args:
        seed: integer, for tests alone; from the operating system if None.
    """

    def __init__(self, seed: int | None) -> None:
        self._seed = secrets.randbits(62) if seed is None else int(seed)

    def __deepcopy__(self, memo: object) -> "Noise":
        """Return noise with a seed that no other has."""
        return Noise(None)

    def build(self) -> None:
        """Create the count."""
        self._batches = keras.Variable(
            0, shape=(), dtype="int64", trainable=False, aggregation="only_first_replica", name="batches_with_noise"
        )

    def next_batch(self) -> None:
        """Count a batch; to be called after what was drawn for it."""
        self._batches.assign_add(1)

    def of_batch(self, replicas: int) -> Callable[[Tensor, TensorLike], Tensor]:
        """Return a function `(tensor, standard deviation)` that draws noise for the sum over the replicas.

        The noise has the shape and dtype of the tensor. Each call in a trace, each batch and each replica has numbers
        that no other has.
        """
        drawn: list[Tensor] = []
        replica = 0 if replicas == 1 else tf.distribute.get_replica_context().replica_id_in_sync_group
        batch = tf.convert_to_tensor(self._batches) * replicas + tf.cast(replica, tf.int64)

        def noise(tensor, deviation):
            drawn.append(tensor)
            key = tf.constant(self._seed + len(drawn), tf.int64)
            dtype = tf.float64 if tensor.dtype == tf.float64 else tf.float32
            normal = tf.random.stateless_normal(tf.shape(tensor), tf.stack([key, batch]), dtype=dtype)
            return tf.cast(normal * tf.cast(deviation, dtype) / replicas**0.5, tensor.dtype)

        return noise
