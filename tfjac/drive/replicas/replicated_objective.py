"""The function that a step on the examples of all replicas lowers: the sum of what each has of it."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.drive.replicas.gathering import Replica, has_other_workers, on_each
from tfjac.drive.replicas.replicated_model import AllRows, ReplicatedLinearisation
from tfjac.drive.replicas.workers import WorkersObjective
from tfjac.graph import Dependence, handle_in
from tfjac.linear.contracts import AS_FACTORS, Allowed, JacobianRows, LinearModel
from tfjac.linear.prior import total
from tfjac.objective.objective import LocalObjective
from tfjac.steps.objective import Objective
from tfjac.types import Tensor, Variable


def joined(replicas: list[Replica], make: Callable, variables: Sequence[Variable]) -> Objective:
    """Return the `Objective` that the problems of a list of `Replica` add up to.

    Args:
        make: function from the tensors of a replica and its copies of the variables to its `Objective`.
        variables: list of the variables of which the replicas have copies.
    """
    _check_apart(replicas)
    objectives = on_each(replicas, lambda replica: make(replica.tensors, replica.variables), replicas)
    objective = objectives[0] if len(objectives) == 1 else ReplicatedObjective(objectives, replicas, variables)
    return WorkersObjective(objective, variables) if has_other_workers() else objective


def _check_apart(replicas: list[Replica]) -> None:
    """Raise ValueError where what replicas compute depends on one another's variables, which are their own as well.

    Collective ops exchange values that no edge of the graph shows.
    """
    graph = tf.compat.v1.get_default_graph()
    handles = [handle_in(graph, variable) for replica in replicas for variable in replica.variables]
    for index, replica in enumerate(replicas):
        target = tf.nest.flatten(replica.tensors)[0]
        dependence = Dependence(handles, by_value=True)
        foreign = {source // len(replica.variables) for source in dependence.sources_of(target)} - {index}
        shared = [op.name for op in dependence.path([target]) if op.type.startswith(("Collective", "Nccl"))]
        if (len(replicas) > 1 or has_other_workers()) and (foreign or shared):
            raise ValueError(
                "The residuals of a replica must follow from its own examples, but those of others reach them through "
                "a layer that is synchronised. Use BatchNormalization(synchronized=False), or another normalisation. "
                f"Received: {target.op.name!r} of replica {index}, by {(shared or ['weights of another'])[0]!r}"
            )


class ReplicatedObjective(LocalObjective):
    """F = Σ F_k over replicas k, each of which has its own examples, and copies of the variables that hold the same.

    A step is solved for once, and its copies are sent to all replicas, which so accept it or not together.

    Args:
        objectives: list of the `Objective` of each replica.
        variables: list of the variables of which the replicas have copies.
    """

    def __init__(self, objectives: list, replicas: list[Replica], variables: Sequence[Variable]) -> None:
        rows = [row for objective in objectives for row in objective.rows]
        terms = [term for objective in objectives for term in objective.terms]
        cost, prior = (
            tf.add_n([objective.cost for objective in objectives]),
            total([objective.prior for objective in objectives]),
        )
        squares = all(objective.sums_squares for objective in objectives)
        half = next((objective.half for objective in objectives if objective.half is not None), None)
        super().__init__(cost, rows, prior, variables, terms=terms, sums_squares=squares, half=half)
        self._objectives, self._replicas, self.num_parts = objectives, replicas, len(objectives)

    def with_parts(self, change: Callable) -> "ReplicatedObjective":
        """Return the sum of what `change` makes of the problem of each replica."""
        return ReplicatedObjective(self._on_each(change), self._replicas, self.variables)

    def values(self) -> list[Tensor]:
        return self._objectives[0].values()

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        """Return the `Linearisation` of all residuals."""
        parts = self._on_each(lambda objective: objective.linearise(allowed))
        return ReplicatedLinearisation(parts, self._replicas)

    def jacobian_in(self, chosen: Sequence[int]) -> tuple[JacobianRows, Tensor]:
        """Return J of some of the variables as factors, of all residuals, and these in the order of its rows."""
        jacobians, residuals = zip(*self._on_each(lambda objective: objective.jacobian_in(chosen)))
        return AllRows(list(jacobians), self._replicas), tf.concat(residuals, axis=0)

    def examples_mix(self) -> bool:
        """Return whether residuals of an example depend on other examples of its replica, or may do so."""
        return any(self._on_each(lambda objective: objective.examples_mix()))

    def multiplies_often(self) -> bool:
        """Return whether residuals of a replica come about by more products than there are variables."""
        return self._objectives[0].multiplies_often()

    def linear_variables(self) -> list[int]:
        """Return the indices of the variables that residuals of a replica are linear in together."""
        return self._objectives[0].linear_variables()

    def change_of_rows(self) -> Tensor:
        return tf.concat(self._on_each(lambda objective: objective.change_of_rows()), axis=0)

    def evaluate(self) -> Tensor:
        return tf.add_n(self._on_each(lambda objective: objective.evaluate()))

    def write(self, values: list[Tensor]) -> None:
        """Assign `values` to all copies of the variables."""
        self._on_each(lambda objective: objective.write(values))

    def _on_each(self, compute: Callable) -> list:
        return on_each(self._replicas, compute, self._objectives)
