"""What runs at the same time: ops that need not wait for each other, and other processes, with which sums are taken."""

import tensorflow as tf


def run_side_by_side(calls):
    """Let ops of the current graph run at once, in a `tf.function` as well.

    It has them run in the order in which they were made otherwise, if there is but one assertion in each.

    Args:
        calls: ops, such as calls of functions, of which none depends on what another does.
    """
    order = getattr(tf.compat.v1.get_default_graph(), "experimental_acd_manager", None)
    for call in calls if order is not None else ():
        order.run_independently(call)


def sum_over_workers(tensors):
    """Return a list of the sums of `tensors`, of one dtype, over the workers of the strategy, with one device in each.

    The public `ReplicaContext.all_reduce` waits for the other replicas of this process at each call, and so refuses
    loops and branches. What it does then is this. It orders itself among others of its kind by a token that all take.
    """
    extended = tf.distribute.get_strategy().extended
    options = tf.distribute.experimental.CommunicationOptions()
    return extended._get_cross_device_ops(tensors[0])._all_reduce(tf.distribute.ReduceOp.SUM, list(tensors), 0, options)
