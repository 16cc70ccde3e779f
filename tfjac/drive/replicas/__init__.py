"""One step on the examples of several replicas of a `tf.distribute` strategy: sums over all of them, taken together."""

from tfjac.drive.replicas.gathering import check_strategy, has_replicas, on_all_replicas, total
from tfjac.drive.replicas.replicated_objective import joined
