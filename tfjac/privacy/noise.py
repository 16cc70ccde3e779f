"""Normal noise of which no number is drawn twice, whatever state is restored into the optimizer that adds it."""

import secrets
from collections.abc import Callable

import keras
import tensorflow as tf

from tfjac.graph import compiled_by_xla
from tfjac.privacy.secure_random import normals
from tfjac.types import Tensor, TensorLike


class Noise:
    """Normal numbers, decided by a seed, by a count of batches, by the replica and by the call within a trace.

    If an earlier state of the optimizer is restored, its count of steps goes back. The same numbers would then be added
    to other gradients, and cancel in the difference. So the count is one that no checkpoint holds, and TensorFlow does
    not track this object.

    Args:
        seed: integer, for tests alone; from the operating system if None.
        secure: whether all numbers come from the operating system, in float64, and none from TensorFlow's generator.
    """

    def __init__(self, seed: int | None, secure: bool = False) -> None:
        if secure and seed is not None:
            raise ValueError(f"Secure noise has no seed: leave it out. Received: seed={seed!r}, secure_noise=True")
        self._seed, self._secure = secrets.randbits(62) if seed is None else int(seed), secure

    def __deepcopy__(self, memo: object) -> "Noise":
        """Return noise with a seed that no other has."""
        return Noise(None, self._secure)

    def build(self) -> None:
        """Create the count."""
        self._batches = keras.Variable(
            0, shape=(), dtype="int64", trainable=False, aggregation="only_first_replica", name="batches_with_noise"
        )

    def next_batch(self) -> None:
        """Count a batch; to be called after what was drawn for it."""
        self._batches.assign_add(1)

    def of_batch(self, replicas: int) -> Callable[[Tensor, TensorLike], Tensor]:
        """Return a function `(tensor, standard deviation)` that adds noise, the deviation that of all replicas' sum.

        Each call in a trace, each batch and each replica has numbers that no other has. Secure noise is added before
        the sum is rounded to the dtype of the tensor.
        """
        drawn: list[Tensor] = []
        replica = 0 if replicas == 1 else tf.distribute.get_replica_context().replica_id_in_sync_group
        batch = tf.convert_to_tensor(self._batches) * replicas + tf.cast(replica, tf.int64)

        def noisy(tensor: Tensor, deviation: TensorLike) -> Tensor:
            drawn.append(tensor)
            dtype = tf.float64 if self._secure or tensor.dtype == tf.float64 else tf.float32
            if self._secure:
                normal = _of_the_operating_system(tensor)
            else:
                key = tf.constant(self._seed + len(drawn), tf.int64)
                normal = tf.random.stateless_normal(tf.shape(tensor), tf.stack([key, batch]), dtype=dtype)
            noise = normal * tf.cast(deviation, dtype) / replicas**0.5
            if self._secure:
                return tf.cast(tf.cast(tensor, dtype) + noise, tensor.dtype)
            return tensor + tf.cast(noise, tensor.dtype)

        return noisy


def _of_the_operating_system(tensor: Tensor) -> Tensor:
    """Return standard normal numbers in the shape of a tensor, drawn each time the graph runs."""
    if compiled_by_xla(tf.compat.v1.get_default_graph()):
        raise ValueError(
            "Secure noise comes from the operating system, which XLA cannot call: compile the model with "
            "jit_compile=False. Received: secure_noise=True in a step that XLA compiles"
        )
    drawn = tf.numpy_function(lambda shape: normals(shape.tolist()), [tf.shape(tensor)], tf.float64, stateful=True)
    return tf.ensure_shape(drawn, tensor.shape)
