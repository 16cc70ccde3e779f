"""Other processes, with which sums are taken."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.types import Tensor


def sum_over_workers(tensors: Sequence[Tensor]) -> Any:
    """Return a list of the sums of `tensors`, of one dtype, over the workers of the strategy, with one device in each.

    The public `ReplicaContext.all_reduce` waits for the other replicas of this process at each call, and so refuses
    loops and branches. What it does then is this. It orders itself among others of its kind by a token that all take.
    """
    extended = tf.distribute.get_strategy().extended
    options = tf.distribute.experimental.CommunicationOptions()
    return extended._get_cross_device_ops(tensors[0])._all_reduce(tf.distribute.ReduceOp.SUM, list(tensors), 0, options)
