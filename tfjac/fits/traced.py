"""Minimisations traced once and run any number of times, in a graph or watched from outside."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.drive.dense import DenseSteps, Evaluation, suits
from tfjac.drive.minimise import (
    CalledSteps,
    Drawn,
    Minimisation,
    StepFunction,
    begun,
    sees_vanished,
)
from tfjac.drive.options import Settings
from tfjac.drive.problem import Problem
from tfjac.fits.implicit import differentiable, without_derivatives
from tfjac.fits.results.frozen import FrozenModel, FrozenPoint
from tfjac.fits.results.least_squares_result import LeastSquaresResult
from tfjac.fits.run import Run
from tfjac.graph import call_flat, lean_function, unrecorded
from tfjac.jacobians.sparsity.dense_uses import dense_uses
from tfjac.linear import arrays
from tfjac.linear.solvers.plan import Plan, plan_of
from tfjac.linear.solvers.problem_sizes import LARGE
from tfjac.objective.robust import losses_of
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.steps.beside import unseen
from tfjac.steps.conditions import Conditions
from tfjac.steps.progress import Invariants
from tfjac.steps.records import Outcome, has_converged
from tfjac.steps.statuses import Status
from tfjac.types import Array, Nest, Tensor, Variable


class TracedMinimisation:
    """A minimisation, traced, of residuals with data left open.

    Args:
        variables: list of variables. They are not kept alive.
    """

    def __init__(self, residuals: TracedResiduals, variables: list[Variable], settings: Settings) -> None:
        if settings.jit_compile:
            residuals.check_compiles()
        self.residuals, self._settings, self._frozen = residuals, settings, FrozenModel(residuals, settings.losses)
        self._compiled = {"jit_compile": settings.jit_compile}
        self._looks: dict[str, Any] = {}
        self._drawn: Any = None
        self._evaluation: Evaluation | None = None
        self._step: StepFunction | None = None
        problem = Problem(residuals, variables, settings)
        if not tf.executing_eagerly():
            self._whole = lean_function(Minimisation(problem).whole, **self._compiled)
            return
        with unrecorded():
            self._trace_steps(problem, variables)

    def _trace_steps(self, problem: Problem, variables: list[Variable]) -> None:
        """Trace what a step calls, and unless the first step tells as much, a look at the residuals at the start."""
        residuals, settings = self.residuals, self._settings
        if suits(residuals, variables, settings):
            self._evaluation = Evaluation(problem)
            self._sizes = self._evaluation.sizes
            self._frozen.reuse(self._evaluation.function)
        else:
            self._step = StepFunction(problem, **self._compiled)
            self._sizes = self._step.sizes
        if self._step is not None or residuals.drawn_specs or any(losses_of(settings.losses, residuals.num_tensors)):
            look = lean_function(lambda data: Drawn.of(residuals, data, problem.dtype), **self._compiled)
            self._drawn = look.get_concrete_function(residuals.specs)

    def plan(self, variables: list[Variable]) -> Plan:
        """Return the `Plan` of its steps, given the list of the variables."""
        return plan_of(self._settings.method.solver, self._sizes, hints=self._hints(variables))

    def _hints(self, variables: list[Variable]) -> tuple[str, ...]:
        """Return what keeps J from being sparse, sentences: its graph is read once more, and thrown away."""
        if self._sizes is None or self._sizes.parameters <= LARGE or self._sizes.reads_few(WIDEST):
            return ()
        hints: list[str] = []

        def read(data: list[Tensor]) -> None:
            tensors = self.residuals.place(data, self.residuals.draw(data))
            hints.extend(hints_of(tensors, variables))

        tf.function(read, autograph=False).get_concrete_function(self.residuals.specs)
        return tuple(hints)

    def in_graph(
        self, data: list[Tensor], variables: Nest[Variable], conditions: Conditions, max_steps: int
    ) -> Outcome:
        """Return the `Outcome` of a minimisation that is part of the graph being traced, with derivatives.

        Args:
            data: list of tensors like `residuals.specs`.
        """
        flat = tf.nest.flatten(variables)
        with unrecorded():
            outcome, invariants = self._whole(data, conditions, tf.constant(max_steps))
        if any(self._settings.manifolds):
            found = outcome.in_units(invariants.unit)
            found = without_derivatives(found, "on manifolds", [*data, *self.residuals.read_traced()])
        else:
            found = differentiable(outcome, self.residuals, flat, data, invariants, self._settings)
        return found._replace(x=tf.nest.pack_sequence_as(variables, found.x))

    def __call__(
        self, data: list[Tensor], variables: Nest[Variable], conditions: Conditions, max_steps: int, supervisor: Any
    ) -> LeastSquaresResult:
        """Minimise, and leave the variables at the best point found, or as they were if the residuals raise.

        Args:
            data: list of tensors like `residuals.specs`.
            supervisor: a `Supervisor`.

        Returns:
            A `LeastSquaresResult`.
        """
        run = self._begun(data, variables, conditions, max_steps)
        supervisor.watch(run)
        vanished = self._vanished_columns(run)
        read, drawn = self.residuals.read(), run.invariants.drawn
        frozen = FrozenPoint(self._frozen, data, drawn, read)
        result = LeastSquaresResult.of(run, frozen, self._settings.manifolds, vanished)
        supervisor.tell(result)
        return result

    def _begun(self, data: list[Tensor], variables: Nest[Variable], conditions: Conditions, max_steps: int) -> Run:
        """Return a `Run` before its first step."""
        conditions = tf.nest.map_structure(np.asarray, conditions)
        problem = Problem(self.residuals, tf.nest.flatten(variables), self._settings)
        steps: Any
        if self._evaluation is not None:
            steps = DenseSteps(self._evaluation, problem, problem.variables, data)
        else:
            assert self._step is not None
            steps = CalledSteps(self._step, problem, data)
        run = Run(steps, self._settings.limits, data, variables, conditions, max_steps)
        with run.undone(), arrays.quiet():
            run.begin(*begun(steps, problem, self._known(steps, data, conditions), conditions))
        return run

    def _known(self, steps: Any, data: list[Tensor], conditions: Conditions) -> Drawn:
        """Return what is `Drawn`, NumPy but for the tensors that were drawn."""
        if self._drawn is not None:
            known = call_flat(self._drawn, data)
            return Drawn(known.drawn, known.largest.numpy(), known.number.numpy())
        steps.place(Invariants([], np.ones_like(steps.x[0]), np.int64(0), conditions))
        residual = steps.here().residual
        return Drawn([], np.max(np.abs(residual), initial=0), np.int64(residual.size))

    def _vanished_columns(self, run: Run) -> Array | None:
        """Return which columns of J have vanished at a minimum, `[p]`, bool, where a `Run` has stalled; else None.

        A run that has ended at a maximum or a saddle point gets another status.
        """
        problem = Problem(self.residuals, run.flat, self._settings)
        if has_converged(run.progress.outcome.status):
            way, box = self._way(run, problem), problem.box(run.invariants)
            with arrays.quiet():
                doubtful = np.any(unseen(run.progress.shares, *way, box))
            if doubtful and self._look("falls", run, problem):
                run.stop(Status.NOT_A_MINIMUM)
        elif run.stalled and sees_vanished(problem):
            found = self._look("vanished", run, problem)
            return found if found.any() else None
        return None

    def _way(self, run: Run, problem: Problem) -> tuple[Any, Any]:
        """Return what `Coordinates.travelled` says of a `Run`."""
        return problem.travelled(run.first) if self._evaluation is None else run.travelled()

    def _look(self, name: str, run: Run, problem: Problem) -> Any:
        """Return what a method of `Minimisation` says of the surroundings of where a `Run` has ended, NumPy."""
        given = run.data, run.invariants, run.first
        with run.undone(), arrays.quiet():
            if self._evaluation is not None:
                around = run.surroundings()
                return np.asarray(around.falls() if name == "falls" else around.vanished(self._settings.limits))
            if name not in self._looks:
                look = getattr(Minimisation(problem, alone=True), name)
                specs = tf.nest.map_structure(lambda each: tf.type_spec_from_value(tf.convert_to_tensor(each)), given)
                drawn = list(self.residuals.drawn_specs)
                specs = list(self.residuals.specs), specs[1]._replace(drawn=drawn), specs[2]  # their sizes may be open
                with unrecorded():
                    self._looks[name] = lean_function(look, **self._compiled).get_concrete_function(*specs)
            tensors = [tf.convert_to_tensor(each) for each in tf.nest.flatten(given)]
            return call_flat(self._looks[name], tensors).numpy()


WIDEST = 64
"""Columns that an example may touch without a word: a few rows of tables."""

_ROWS = "read what an example needs by tf.gather(table, index) along axis 0, with one residual row for each example"

_INSTEAD = {
    (
        "GatherV2", "ResourceGather", "GatherNd", "ResourceGatherNd",
        "ScatterNd", "TensorScatterAdd", "TensorScatterUpdate", "UnsortedSegmentSum",
    ): (
        "give indices that are known before the fit, as constants or in args=, and not computed on the way"
    ),
    ("Cumsum", "CumulativeLogsumexp"): (
        "make the running sums the variable, a row for each point, and read their differences where a term is asked for"
    ),
    (
        "Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm", "L2Loss", "Softmax", "LogSoftmax", "TopKV2",
        "FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D", "RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D",
        "MatrixInverse", "MatrixSolve", "MatrixTriangularSolve", "Cholesky",
    ): (
        'what it computes depends on all that it is given, in whatever order that is read; solver="lsmr" or "cg" needs '
        "products with J alone"
    ),
    ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"): (
        "if most elements of the matrix are zero, have it as a constant in the function and not in args=, so that they "
        "are seen"
    ),
}  # fmt: skip
"""By types of ops."""


def hints_of(tensors: list[Tensor], variables: list) -> list[str]:
    """Return sentences that name each kind of op by which examples come to depend on much of a variable.

    Args:
        tensors: list of tensors of residuals, of the graph being traced, to which ops are added.
        variables: list of variables.
    """
    tensors = [tensor for tensor in tensors if tensor.shape.rank]
    return [_sentence(use) for use in dense_uses(tensors, variables, WIDEST)]


def _sentence(use: Any) -> str:
    instead = next((words for types, words in _INSTEAD.items() if use.op.type in types), _ROWS)
    what = "mixes examples" if use.columns is None else f"lets an example touch {use.columns:,} columns of J"
    return f"hint: op {use.op.name!r} of type {use.op.type} {what}, so that J is not sparse: {instead}."
