"""What a step is taken on: tensors that one device has computed, or that each replica of a strategy has.

A step asks for the `Objective` of it, and does not know which of the two it is.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfjac.drive.replicas import check_strategy, has_replicas, joined, on_all_replicas, total
from tfjac.steps.objective import Objective
from tfjac.types import Tensor, Variable


class OneDevice(NamedTuple):
    """What one device has computed, where it is.

    Attributes:
        variables: list of the variables.
        tensors: a nest of tensors.
    """

    variables: Sequence
    tensors: Any

    def mapped(self, change: Callable) -> "OneDevice":
        """Return the same with `change(tensors, variables)` in place of the tensors."""
        return OneDevice(self.variables, change(self.tensors, self.variables))

    def total(self, compute: Callable) -> Tensor:
        return compute(self.tensors, self.variables)

    def objective(self, make: Callable) -> Objective:
        return make(self.tensors, self.variables)


class AllReplicas(NamedTuple):
    """What each replica has computed, in the one graph of all of them.

    Attributes:
        variables: list of the variables of which the replicas have copies.
        replicas: list of `Replica`.
    """

    variables: Sequence
    replicas: list

    def mapped(self, change: Callable) -> "AllReplicas":
        """Return the same with `change(tensors, variables)` in place of the tensors of each replica."""
        return AllReplicas(
            self.variables, [each._replace(tensors=change(each.tensors, each.variables)) for each in self.replicas]
        )

    def total(self, compute: Callable) -> Tensor:
        """Return the sum of `compute(tensors, variables)` over all replicas."""
        return total(self.replicas, compute)

    def objective(self, make: Callable) -> Objective:
        """Return the sum of the `Objective` that `make(tensors, variables)` returns for each replica."""
        return joined(self.replicas, make, self.variables)


def on_what_is_computed(step: Callable, variables: Sequence[Variable], tensors: Any) -> Any:
    """Return `step(computed)`, called where a step is to be traced; each replica calls this, and one of them steps.

    Args:
        step: function of a `OneDevice` or an `AllReplicas`, which returns a nest of tensors.
        variables: list of `tf.Variable` or `keras.Variable`.
        tensors: what the caller has computed, a nest of tensors and None.

    Raises:
        ValueError: under a strategy of several replicas that cannot meet in one graph.
    """
    check_strategy()
    if not has_replicas():
        return step(OneDevice(variables, tensors))
    return on_all_replicas(lambda replicas: step(AllReplicas(variables, replicas)), variables, tensors)
