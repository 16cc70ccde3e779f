"""Where the replicas of a strategy meet: what each has traced, in the one graph of all of them.

`tf.distribute.MirroredStrategy` traces a replica after the other into the same graph. There they meet once, and one
step is traced for all: its loops could not be one for each replica, as collective ops in two of them do not meet.
`tf.distribute.MultiWorkerMirroredStrategy` traces the same graph in each worker. There collective ops do meet in loops,
and each worker takes the same step, on sums over all; see `workers`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import as_tf_variable, compiled_by_xla, sum_over_workers
from tfjac.objective.variables import variable_name
from tfjac.types import Tensor, Variable


class Replica(NamedTuple):
    """What one replica brings along.

    Attributes:
        device: name of its device.
        variables: list of the variables, its own copies.
        tensors: what it computed, a nest.
    """

    device: Any
    variables: list
    tensors: Any

    def placed(self) -> Any:
        """Return the context in which ops are placed on its device."""
        return tf.device(self.device)


def on_all_replicas(step: Callable, variables: Sequence[Variable], tensors: Any) -> Any:
    """Return `step(replicas)`, called once, in one graph, with a list of `Replica`; each replica calls this.

    Args:
        step: function that traces a step; what it returns, a nest of tensors, is returned to every replica.
        variables: list of `tf.Variable` or `keras.Variable`.
        tensors: what the calling replica has computed, a nest of tensors and None.

    Raises:
        ValueError: under a strategy of several replicas that does not trace them into one graph, or that this is
            compiled by XLA for, or outside of `strategy.run`.
    """
    check_strategy()

    def meet(strategy: tf.distribute.Strategy, tensors: Any) -> Any:
        devices = strategy.extended.worker_devices
        copies = zip(*(_copies(strategy, variable) for variable in variables))
        brought = zip(devices, copies, strategy.experimental_local_results(tensors), strict=True)
        with tf.device(devices[0]):
            return step([Replica(device, list(copy), tensors) for device, copy, tensors in brought])

    return tf.distribute.get_replica_context().merge_call(meet, args=(tensors,))


def _copies(strategy: tf.distribute.Strategy, variable: Variable) -> list:
    """Return the copies of a variable, one for each device of this worker."""
    copies = strategy.experimental_local_results(as_tf_variable(variable))
    if len(copies) != len(strategy.extended.worker_devices):
        raise ValueError(
            "Every replica has a copy of each variable, where that is made under the strategy: make the model, or the "
            "variables, within strategy.scope(). "
            f"Received: {variable_name(variable)!r}, which {len(strategy.extended.worker_devices)} replicas share"
        )
    return copies


def on_each(replicas: "list[Replica]", compute: Callable, parts: Sequence) -> list:
    """Return a list of `compute(part)`, each on the device of the replica that it belongs to."""
    results = []
    for replica, part in zip(replicas, parts):
        with replica.placed():
            results.append(compute(part))
    return results


def total(replicas: "list[Replica]", compute: Callable) -> Tensor:
    """Return the sum of `compute(tensors, variables)` over all replicas, and all workers."""
    here = tf.add_n(on_each(replicas, lambda replica: compute(replica.tensors, replica.variables), replicas))
    return sum_over_workers([here])[0] if has_other_workers() else here


def check_strategy() -> None:
    """Raise ValueError where there are several replicas that cannot meet; warn where there should be, and are not."""
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        _warn_of_distribution()
        return
    received = f"{type(strategy).__name__} of {strategy.num_replicas_in_sync} replicas"
    if not isinstance(strategy, (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)):
        raise ValueError(
            "LevenbergMarquardt sums over the replicas of tf.distribute.MirroredStrategy, or over the workers of "
            f"MultiWorkerMirroredStrategy. Received: {received}"
        )
    if has_other_workers() and len(strategy.extended.worker_devices) > 1:
        raise ValueError(
            "Over several workers LevenbergMarquardt sums with one device in each: start a worker for every device, "
            f"which sees that one alone, by CUDA_VISIBLE_DEVICES. Received: {received}, "
            f"{len(strategy.extended.worker_devices)} in a worker"
        )
    if tf.distribute.in_cross_replica_context():
        raise ValueError(
            "Under a strategy of several replicas a step is taken within strategy.run(step), in a tf.function, or by "
            f"Keras' fit. Received: a call outside of strategy.run, under {received}"
        )
    if tf.executing_eagerly():
        raise ValueError(
            "Replicas meet in a graph: call strategy.run(step) within a tf.function. "
            f"Received: eager execution, under {received}"
        )
    if compiled_by_xla(tf.compat.v1.get_default_graph()):
        raise ValueError(
            "XLA compiles for one device: use jit_compile=False under a strategy of several replicas. "
            f"Received: jit_compile=True, under {received}"
        )


def has_replicas() -> bool:
    """Return whether there are several replicas, of which each has a part of the examples."""
    return tf.distribute.get_strategy().num_replicas_in_sync > 1


def has_other_workers() -> bool:
    """Return whether the strategy spans other processes than this one."""
    strategy = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    return replicas > 1 and replicas > len(strategy.extended.worker_devices)


def _warn_of_distribution() -> None:
    """Warn of a `keras.distribution`, which Keras' TensorFlow backend takes and does nothing with."""
    distribution = keras.distribution.distribution()
    if distribution is not None:
        warn(
            "tfjac: Keras' TensorFlow backend does not act on keras.distribution: steps are taken on one device. "
            f"Compile the model under tf.distribute.MirroredStrategy. Received: {type(distribution).__name__}",
        )
