"""Steps of a problem of few parameters, outside of graphs: a traced function gives r and J, and NumPy does the rest.

The formulas are those of every step, see `step.Stepper`; here they compute with NumPy arrays. So only the residuals and
J are traced, and a step of a small problem takes less than a millisecond.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.drive.driver import Carrier, Request
from tfjac.drive.options import Settings
from tfjac.drive.problem import Problem
from tfjac.graph import as_tf_variable, call_flat, verification_wanted
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import AS_FACTORS, Allowed, JacobianRows, LinearModel
from tfjac.linear.model.linearisation import Linearisation
from tfjac.linear.prior import Prior
from tfjac.linear.solvers import AutoSolver, CholeskySolver, QRSolver, Solver
from tfjac.linear.solvers.problem_sizes import SMALL, ProblemSizes
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.steps.conditions import Conditions
from tfjac.steps.objective import Objective
from tfjac.steps.progress import Invariants
from tfjac.steps.step import Restrictions, Start, Step, Stepper
from tfjac.types import Array, Tensor, Variable

ELEMENTS = 2**22
"""So many numbers of J are computed with as a matrix."""

CHEAP = 2**16
"""So many numbers of J cost little beside the call that computes them: J is had at each trial point, kept or not."""

_SLOW = {
    "If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PyFunc", "PyFuncStateless", "EagerPyFunc",
    "Assert", "Print", "PrintV2",
}  # fmt: skip
"""Ops of residuals that may take long, or that act on the world."""


def suits(residuals: TracedResiduals, variables: list[Variable], settings: Settings) -> bool:
    """Return whether steps are taken here: of few parameters, by a factorisation of J or JᵀJ, in coordinates."""
    method, conditions, columns = settings.method, settings.conditions, Columns(variables).total
    return (
        0 < columns <= SMALL
        and residuals.num_rows * columns <= ELEMENTS
        and type(method.solver) in (AutoSolver, QRSolver, CholeskySolver)
        and not (method.acceleration or method.evidence or settings.jit_compile or settings.window != 1)
        and not (conditions.equality or any(settings.manifolds) or verification_wanted(None))
        and not any(getattr(variable, "constraint", None) for variable in variables)
        and residuals.can_stand_at_values()
    )


class Evaluation:
    """Cost, residuals and J as a function of the parameters, traced once: steps call it, and so may their result.

    Attributes:
        function: `tf.ConcreteFunction` of x `[p]` and of what `given` returns: the cost, r `[m]` and J `[m, p]`, in the
            unit that is given.
        cost: the same, which returns the cost alone, where J costs more than that; else None.
        sizes: the `ProblemSizes`.
        solver: the `Solver` for them.
    """

    def __init__(self, problem: Problem) -> None:
        residuals, method, self.num_data = problem.residuals, problem.settings.method, len(problem.residuals.specs)
        allowed, sizes = method.allowed(), []

        def evaluate(position: Tensor, *given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            cost, model = problem.linearised_at(position, *self._placed(given))
            sizes.append(ProblemSizes.of(model, method.gram_dtype, method.scaling.is_one_number, allowed.budget))
            return cost, model.residual, model.jacobian.to_dense()

        def cost(position: Tensor, *given: Tensor) -> Tensor:
            return problem.cost_at(position, *self._placed(given))

        specs = [tf.TensorSpec([problem.columns.total], problem.dtype), *residuals.specs, *residuals.drawn_specs]
        specs = [tf.TensorSpec(each.shape, each.dtype) for each in [*specs, tf.TensorSpec([], problem.dtype)]]
        self.function = tf.function(evaluate, autograph=False).get_concrete_function(*specs)
        is_cheap = residuals.num_rows * problem.columns.total <= CHEAP and residuals.first_op(_SLOW) is None
        self.cost = None if is_cheap else tf.function(cost, autograph=False).get_concrete_function(*specs)
        self.sizes: ProblemSizes = sizes[-1]
        solvers, index = method.solver.choose(self.sizes)
        self.solver: Solver = solvers[index(float(self.sizes.rows))]

    def _placed(self, given: Any) -> tuple[list[Tensor], Invariants]:
        data, drawn, unit = given[: self.num_data], list(given[self.num_data : -1]), given[-1]
        return list(data), Invariants(drawn, unit, tf.constant(0, tf.int64), Conditions())


class Here(NamedTuple):
    """What is known of a point: x `[p]`, F, r `[m]` and J `[m, p]`."""

    x: Array
    cost: Any
    residual: Array
    jacobian: Array


class DenseSteps(Carrier):
    """Steps by NumPy, from where the variables are; they hold where the steps have led after `assign`.

    Args:
        problem: its `Problem`.
        data: list of tensors like `residuals.specs`.
    """

    is_small = True

    def __init__(self, evaluation: Evaluation, problem: Problem, variables: list[Variable], data: list[Tensor]) -> None:
        self._evaluation, self._settings, self.columns = evaluation, problem.settings, problem.columns
        self._variables, self._data = [as_tf_variable(each) for each in variables], data
        self._given: list[Tensor] = []
        self._unit: Any = None
        self._drawn: list = []
        self._start: Here | None = None
        self._trial: Here | None = None
        self.read()

    def place(self, invariants: Invariants) -> None:
        """Take steps with these `Invariants` from now on."""
        if self._unit != invariants.unit or any(one is not other for one, other in zip(self._drawn, invariants.drawn)):
            self._start, self._trial = None, None
        self._unit, self._drawn, (self._box, prior, _) = invariants.unit, invariants.drawn, invariants.conditions
        self._prior = prior and prior.in_units(self._unit)
        inputs = [*self._drawn, self._unit]
        self._given = [*self._data, *map(tf.convert_to_tensor, inputs)]

    def read(self) -> None:
        """Go to where the variables are."""
        self.x: Array = np.concatenate([np.ravel(each.numpy()) for each in self._variables])
        self._start, self._trial = None, None

    # -------------------------------------------------------------- as a `Carrier`

    def values(self) -> list[Array]:
        """Return a list of x `[p]` alone."""
        return [self.x]

    def write(self, values: list[Array]) -> list[Array]:
        """Go to the x in a list."""
        (self.x,) = values
        return values

    def position(self) -> Array:
        """Return x."""
        return self.x

    def go_to(self, position: Array) -> Array:
        """Go to x = `position`, and return it."""
        self.x = np.asarray(position)
        return position

    def assign(self) -> None:
        """Assign x to the variables."""
        ends = np.cumsum(self.columns.sizes)[:-1]
        for variable, part in zip(self._variables, np.split(self.x, ends)):
            variable.assign(np.reshape(part, variable.shape))

    def take(self, request: Request) -> Step:
        objective, box = DenseObjective(self), self._box or None
        method = self._settings.method
        restrictions = request.restrictions(self._settings, objective.cost, Restrictions(box))
        start = Start.of(objective, request.state, method, AS_FACTORS, box)
        end = Stepper(self._evaluation.solver, start, method, restrictions).take()
        sizes, rows = self._evaluation.sizes, start.model.num_rows
        return Step(end.state, end.report, sizes, rows, end.standing, end.refused, end.shares)

    # -------------------------------------------------------------- what it evaluates

    def here(self) -> Here:
        """Return what is known at x."""
        known = [each for each in (self._start, self._trial) if each is not None and each.x is self.x]
        found = known[0] if known else self._evaluated()
        self._start = found
        return found

    def cost(self) -> Any:
        """Return F at x."""
        if self._evaluation.cost is None:
            found = self._trial = self._evaluated()
            return self.with_prior(found.cost)
        return self.with_prior(call_flat(self._evaluation.cost, self._inputs()).numpy())

    def prior(self) -> Prior:
        if self._prior:
            return self._prior.linearised(self.x, self.columns, is_uniform=False)
        zeros = np.zeros_like(self.x)
        return Prior(zeros, zeros, None, is_zero=True)

    def _evaluated(self) -> Here:
        return Here(self.x, *(each.numpy() for each in call_flat(self._evaluation.function, self._inputs())))

    def _inputs(self) -> list[Tensor]:
        return [tf.constant(self.x), *self._given]

    def with_prior(self, cost: Any) -> Any:
        """Return a cost of residuals, and the part of the prior at x."""
        return cost + self._prior.cost(self.x) if self._prior else cost


class DenseObjective(Objective):
    """F where `DenseSteps` are."""

    sums_squares, is_shared = True, False

    def __init__(self, steps: DenseSteps) -> None:
        self._steps, self.columns, self.variables = steps, steps.columns, []
        self.cost = steps.with_prior(steps.here().cost)

    def values(self) -> list:
        return self._steps.values()

    def position(self, values: list) -> Any:
        return values[0]

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        here = self._steps.here()
        return Linearisation(DenseRows(here.jacobian, self.columns), here.residual, self._steps.prior())

    def move(self, start: list, step: Any) -> None:
        self._steps.go_to(start[0] + step)

    def move_to(self, start: list, position: Any) -> None:
        self._steps.go_to(position)

    def evaluate(self) -> Any:
        return self._steps.cost()

    def restore_unless(self, accepted: Any, start: list) -> None:
        if not accepted:
            self._steps.write(start)

    def change_of_rows(self) -> Any:
        raise NotImplementedError  # steps that bend are taken in a graph


class DenseRows(JacobianRows):
    """J as a matrix of NumPy.

    Args:
        jacobian: J, `[m, p]`.
        columns: its `Columns`.
    """

    def __init__(self, jacobian: Array, columns: Columns) -> None:
        self._jacobian, self.columns, self.dtype = jacobian, columns, tf.as_dtype(jacobian.dtype)
        self.operators: Any = (self,)

    def cast(self, dtype: tf.DType) -> "DenseRows":
        return DenseRows(self._jacobian.astype(dtype.as_numpy_dtype), self.columns)

    def to_dense(self) -> Any:
        return self._jacobian

    def matvec(self, x: Any, adjoint: bool = False) -> Any:
        return x @ self._jacobian if adjoint else self._jacobian @ x

    def gram_and_gradient(self, residual: Any) -> tuple[Any, Any]:
        return self._jacobian.T @ self._jacobian, residual @ self._jacobian

    def column_norms_squared(self) -> Any:
        return np.einsum("mp,mp->p", self._jacobian, self._jacobian)

    def factors(self) -> list[list]:
        return []
