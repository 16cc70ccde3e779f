"""How steps are taken: the parts that a method is put together from, found by name and checked, in one place."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from tfjac.arguments import positive, positive_integer
from tfjac.linear.contracts import Allowed
from tfjac.linear.solvers import Solver, get_solver
from tfjac.linear.solvers.precision import checked_gram_dtype
from tfjac.memory_budget import AUTO, bytes_of, checked_memory_budget
from tfjac.steps.acceleration import GeodesicAcceleration, get_acceleration
from tfjac.steps.damping import Competition, Damping, get_damping
from tfjac.steps.damping.scaling import Scaling, get_scaling
from tfjac.types import AccelerationName, DampingName, GramDType, MemoryBudget, ScalingName, SolverName

DampingLike: TypeAlias = DampingName | Damping
ScalingLike: TypeAlias = ScalingName | Scaling
SolverLike: TypeAlias = SolverName | Solver
AccelerationLike: TypeAlias = AccelerationName | GeodesicAcceleration | None


class Method(NamedTuple):
    """The parts that a step is made of, its two numbers, and a dtype.

    Attributes:
        damping, scaling, solver: how λ and D are chosen and how the system is solved.
        max_attempts: at most so many solves and evaluations in one step.
        min_gain: a step is kept if ρ exceeds this.
        gram_dtype: "float64" to solve in, or None for the dtype of the variables.
        acceleration: a `GeodesicAcceleration`, or None.
        evidence: whether to report the effective number of parameters.
        memory_budget: bytes that steps may plan to take, `"auto"`, or None for no limit.
    """

    damping: Damping
    scaling: Scaling
    solver: Solver
    max_attempts: int
    min_gain: float
    gram_dtype: GramDType | None = None
    acceleration: GeodesicAcceleration | None = None
    evidence: bool = False
    memory_budget: Any = AUTO

    @classmethod
    def of(
        cls,
        damping: DampingLike,
        scaling: ScalingLike | Literal["outputs"],
        solver: SolverLike,
        max_attempts: int,
        min_gain: float,
        gram_dtype: GramDType | None = None,
        acceleration: AccelerationLike = None,
        memory_budget: MemoryBudget = AUTO,
    ) -> "Method":
        """Return the method that options, by name or as objects, stand for.

        Raises:
            ValueError, TypeError: for an unknown name, or a number out of range.
        """
        found, metric = get_damping(damping), get_scaling(scaling)
        return cls(
            Competition(found) if metric.competes else found,
            metric,
            get_solver(solver),
            positive_integer("max_attempts", max_attempts),
            positive("min_gain", min_gain, below=1),
            checked_gram_dtype(gram_dtype),
            get_acceleration(acceleration),
            memory_budget=checked_memory_budget(memory_budget),
        )

    def with_evidence(self) -> "Method":
        """Return the same with what Bayesian regularisation needs."""
        return self._replace(solver=self.solver.factoring(), evidence=True)

    def allowed(self) -> Allowed:
        """Return how J may be had, `Allowed`: if it is over the budget, estimates of diag(JᵀJ) will do for any D."""
        products = self.solver.takes_products
        return Allowed(products and self.scaling.is_one_number, products, bytes_of(self.memory_budget))

    @property
    def parts(self) -> list:
        """The objects that it is made of, without those that are None."""
        damping = self.damping.inner if isinstance(self.damping, Competition) else self.damping
        return [part for part in (damping, self.scaling, self.solver, self.acceleration) if part is not None]


def recipe(parts: Iterable[Any], *others: Any) -> tuple | None:
    """Return what objects, and other options, amount to, hashable: of objects, class and attributes.

    None where an object is of a class that is not this package's, which may depend on anything.
    """
    attributes = [tuple(sorted(vars(part).items())) for part in parts]
    known = all(type(part).__module__.startswith("tfjac.") for part in parts)
    plain = all(isinstance(value, (bool, int, float, str, type(None))) for items in attributes for _, value in items)
    return (*zip(map(type, parts), attributes), *others) if known and plain else None
