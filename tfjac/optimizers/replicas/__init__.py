"""One step on the examples of several replicas of a `tf.distribute` strategy: sums over all of them, taken together."""

from tfjac.optimizers.replicas.gathering import check_strategy, has_replicas, on_all_replicas
from tfjac.optimizers.replicas.problem import joined

__all__ = ["check_strategy", "has_replicas", "joined", "on_all_replicas"]
