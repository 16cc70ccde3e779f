"""Nonlinear least squares on variables, to convergence, in one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

import tensorflow as tf

from tfjac.arguments import choice
from tfjac.drive.options import Options
from tfjac.fits.many_fits import BatchedProblem, batched_least_squares
from tfjac.fits.named import NamedParameters
from tfjac.fits.prepared import SingleProblem
from tfjac.fits.results.batched_result import BatchedLeastSquaresResult
from tfjac.fits.results.least_squares_result import LeastSquaresResult
from tfjac.fits.supervision import LeastSquaresState
from tfjac.linear.solvers.plan import Plan
from tfjac.objective.conditions.manifolds import Manifold
from tfjac.objective.robust import LossLike
from tfjac.progress import shown
from tfjac.steps.method import AccelerationLike, DampingLike, ScalingLike, SolverLike
from tfjac.types import (
    Data,
    Function,
    GramDType,
    MemoryBudget,
    Nest,
    Numbers,
    Pair,
    Path,
    Residuals,
    TensorLike,
    Variable,
)


@overload
def least_squares(
    residuals: Residuals,
    variables: Nest[Variable],
    max_steps: int = 1000,
    ftol: float | None = None,
    xtol: float | None = None,
    gtol: float | None = None,
    *,
    args: Data = (),
    bounds: Pair | None = None,
    fixed: Numbers = None,
    prior: Pair | None = None,
    equality: Sequence[TensorLike] | Function | None = None,
    manifolds: Nest[Manifold | None] = None,
    callback: Callable[[LeastSquaresState], Any] | None = None,
    verbose: Literal[0, 1, 2] = 0,
    time_limit: float | None = None,
    checkpoint: Path | None = None,
    batch_dims: Literal[0] = 0,
    chunk_size: int | None = None,
    devices: Sequence[str] | None = None,
    loss: LossLike | Sequence[LossLike] = None,
    loss_scale: float | Sequence[float | None] | None = None,
    damping: DampingLike | None = None,
    initial_damping: float | None = None,
    scaling: ScalingLike | None = None,
    solver: SolverLike = "auto",
    max_attempts: int = 30,
    min_gain: float = 1e-3,
    gram_dtype: GramDType | None = None,
    acceleration: AccelerationLike = "auto",
    window: int | None = None,
    memory_budget: MemoryBudget = "auto",
    jit_compile: bool = False,
) -> LeastSquaresResult | Any: ...
@overload
def least_squares(
    residuals: Residuals,
    variables: Nest[Variable],
    max_steps: int = 1000,
    ftol: float | None = None,
    xtol: float | None = None,
    gtol: float | None = None,
    *,
    batch_dims: Literal[1],
    **options: Any,
) -> BatchedLeastSquaresResult | Any: ...
@Options.shown
def least_squares(
    residuals: Residuals,
    variables: Nest[Variable],
    max_steps: int = 1000,
    ftol: float | None = None,
    xtol: float | None = None,
    gtol: float | None = None,
    *,
    args: Data = (),
    **options: Any,
) -> LeastSquaresResult | BatchedLeastSquaresResult | Any:
    """Minimise ½‖residuals(*args)‖² over variables by the Levenberg-Marquardt method.

    The whole minimisation runs inside one graph: every step linearises the residuals, solves for a step, and keeps it
    if the cost fell as predicted, or else puts the variables back and tries again with more damping. The cost never
    rises (but within a `window`), so that the variables are left at the best point found, whatever the status.

    Args:
        residuals: callable that reads the variables and returns a tensor of any shape, or a nest of them; or one that
            is given the variables, before `args`: each by itself where they are in a list; or a list of callables. It
            is called once, to be made a graph, in every call, so that it is always the function that it is now. It is
            not called again where all that it reads of Python is known to be the same. Where its graph is the same one
            again, but for `args` and the tensors that it captures, all else is used again. A `tf.function` is called by
            its own rules: not where it was called before. What it draws at random, or takes from an iterator, it does
            once in a call, and it assigns once. Complex residuals count with both parts, `[..., 2]`. Where the leading
            axis is that of independent examples, the Jacobian is found far cheaper.
        variables: nest of `tf.Variable` or `keras.Variable`, all float32 or all float64; or a `tfjac.Parameters`:
            `residuals` is given a dict of tensors by name then, and the result is by name.
        max_steps: at most so many steps; 0 to evaluate cost, Jacobian and errors at the start, for one problem.
        ftol, xtol, gtol: tolerances of the cost, the step and the gradient (formulas in
            `tfjac.steps.converge`); default √ε of the dtype, zero to switch one off.
        args: tuple of the data that `residuals` is called with: nests of tensors, arrays and numbers. Floating-point
            arrays and numbers take the dtype of the variables.
        bounds: `(lower, upper)`, each None, a number, or a nest like `variables` of None, numbers and arrays; infinite
            where there is none. All steps stay within them. The start must be; in a graph, the status is INFEASIBLE
            where it is not.
        fixed: nest like `variables` of bools, or arrays of them: which parameters stay as they are.
        prior: `(mean, deviation)` of a normal distribution for each parameter by itself, each a number, or a nest like
            `variables` of None, numbers and arrays, None where nothing is known. ½Σ((x − mean)/deviation)² is added to
            the cost, as if parameters had been measured, so that residuals should be in units of their deviations.
        equality: `(A, b)`, arrays `[k, p]` and `[k]`, for A x = b with x the parameters flattened in the order of the
            nest; or a function like `residuals`, without `args` and linear, of what must be zero. The start is moved to
            the nearest point that fulfils it, and all steps do. Not together with `bounds`.
        manifolds: nest like `variables` of a `tfjac.Manifold`, such as `tfjac.manifolds.Quaternion()`, or None: of
            variables whose rows, along the last axis, are points on it. Steps are taken in its tangent space, and stay
            on it. Without bounds, prior and equality for these variables.
        callback: called after each step with a `LeastSquaresState`; returning True, or raising StopIteration, stops.
        verbose: 1 to print how it ended, 2 to print each step too.
        time_limit: seconds of steps, after which to stop with the status TIME_LIMIT.
        checkpoint: path of a file from which to go on, where it exists, and which is kept up to date: a run that was
            cut short goes on to the same bits, also with more `max_steps` or time. Where it cannot be written any
            more, there is a warning, and the run goes on.
        batch_dims: 1 where variables and residuals are `[B, ...]`, those of B independent fits: each is minimised by
            itself, with its own damping, bounds and status. Best with residuals that are given the variables: data in
            `args` with B rows are then those of each fit, and fits that have ended take no more time. Without `prior`,
            `equality`, `manifolds`, `callback`, `verbose`, `time_limit`, `checkpoint`, `gram_dtype`, `acceleration`,
            `window` and `memory_budget`.
            Outside of a `tf.function` B may be open, `tf.Variable(start, shape=[None, 5])`: there are as many
            fits as there are rows in the call.
        chunk_size: with `batch_dims`, how many fits are under way at once, which bounds memory; about 8 MiB of
            residuals and Jacobians where left out.
        devices: with `batch_dims`, a list of devices that share the fits, such as `["GPU:0", "GPU:1"]`: each has a
            part of its own, `chunk_size` of which are under way at once. None for where TensorFlow places them.
        loss: `"huber"`, `"soft_l1"`, `"cauchy"`, `"arctan"`, `"tukey"`, `"welsch"`, `"geman_mcclure"`, or None for
            squares; or a function of z = (r/loss_scale)² that returns ρ(z) by TensorFlow, or `[3, n]`, ρ, ρ′ and ρ″, as
            SciPy's does: what is added up instead of ½r², for each residual by itself; or a list of these, one for each
            tensor that `residuals` returns.
        loss_scale: about where a residual becomes an outlier, or a list; default 1.
        damping: `"radius"`, `"trust_region"`, `"nielsen"`, `"multiplicative"`, or a `Damping`: how λ is chosen.
            Default: `"trust_region"` up to 256 parameters, where solves cost nothing, and `"radius"` for more. The
            former also estimates the curvature of residuals that stay large, see `TrustRegionDamping`.
        initial_damping: the first λ, a multiple of the largest diagonal element of JᵀJ over that of D. Default: 1e-3,
            but 1e-9 for `"radius"` with the solver `"sparse"`. If it is given, `"radius"` is the default damping.
        scaling: `"auto"`, `"identity"`, `"marquardt"`, `"more"`, or a `Scaling`: the matrix D. `"auto"` tries D = I and
            D of Moré's kind, and goes on with the one that lowers the cost by more; see `docs/damping.md`. Default:
            `"more"` up to 256 parameters, `"auto"` for more.
        solver: `"auto"`, `"qr"`, `"svd"`, `"cholesky"`, `"kernel"`, `"cg"`, `"lsmr"`, `"schur"`,
            `"schur_cg"`, `"sparse"`, or a `Solver`.
        max_attempts: at most so many attempts with growing damping within a step; after that the status is STALLED.
        min_gain: a step is kept if the actual reduction of the cost exceeds this fraction of the predicted one.
        gram_dtype: `"float64"` to solve in float64 for variables in float32, which keeps the digits that squaring J
            loses, at twice the memory and time of that part; None for their own dtype, if they are more than 256.
        acceleration: `"auto"`, `"geodesic"`, or a `GeodesicAcceleration`: steps of second order along the curve of the
            residuals; None for none. `"auto"` takes them for sums of squares of more than 256 parameters, if the solver
            factors a dense matrix, or is `"sparse"`.
        window: a step may raise the cost, if it stays below the highest of the last so many; 1 for never. At the end,
            the variables are put back to the best point. Default: 5 if the solver is `"sparse"`, else 1.
        memory_budget: bytes that a step may plan to take: for J, what is computed from it, and the passes that it comes
            from. `"auto"`: half of the memory that is free when the minimisation is traced; None: no limit. What is
            over it is left out, with a warning, for what takes less. Where nothing does, or the solver was asked for
            by name, that is a `tfjac.MemoryBudgetExceeded`, before anything is allocated.
        jit_compile: whether to compile the minimisation with XLA.

    Returns:
        A `LeastSquaresResult`, or with `batch_dims` a `BatchedLeastSquaresResult`; inside a `tf.function` an `Outcome`,
        the same fields as tensors.

    Raises:
        MemoryBudgetExceeded: where no plan fits the `memory_budget`.
        ValueError, TypeError: for bad arguments, variables that are not floating-point, residuals that don't depend on
            one of the variables, a start outside of the bounds. Numerical trouble never raises: it is a status. So is
            Ctrl-C, INTERRUPTED, if no other code handles it; the variables are at the best point found then.

    Cost: per step, one linearisation, and for each attempt one solve and one evaluation; one more linearisation after
    the last step. The first call traces, which takes longer than most minimisations.
    Reference: J. J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", 1978.
    """
    if isinstance(variables, NamedParameters):
        return variables.fit_residuals(residuals, args, **Options.of(locals(), {}).given() | options)
    given = Options.of(locals(), options)
    is_quiet = bool(given.verbose or given.callback) or not tf.executing_eagerly()
    with shown("tfjac.least_squares", is_quiet=is_quiet):
        if choice("batch_dims", given.batch_dims, (0, 1)):
            return batched_least_squares(residuals, variables, args, given)
        return SingleProblem(residuals, variables, given).prepare(args).solve(args)


_Result = TypeVar("_Result", LeastSquaresResult, BatchedLeastSquaresResult)


class LeastSquaresProblem(Generic[_Result]):
    """Residuals to be minimised more than once: for other data, or from where the variables are then.

    They are traced by the rules of `tf.function`: once for data of the same shapes and dtypes, and once more for those
    of any size where sizes differ. All that `residuals` reads besides its arguments, the variables and the tensors that
    it captures is a constant of its traces.

    With `batch_dims=1` a trace serves for any number of fits, if the residuals can be evaluated for some of the fits,
    and `devices` are left out; else once for each number. How many there are is how many rows the variables have:
    `tf.Variable(start, shape=[None, 5])` may be assigned more or fewer. Other shapes of what belongs to one fit are
    traced by themselves, once each. Residuals are called up to three times for a trace.

    Args:
        residuals: callable that is given the data, reads the variables, and returns a tensor or a nest of them; or one
            that is given the variables before the data.
        variables: nest of `tf.Variable` or `keras.Variable`, all float32 or all float64.
        **options: as for `least_squares`, all but `args`.

    Raises:
        ValueError, TypeError: for bad arguments.
    """

    @overload
    def __init__(
        self: LeastSquaresProblem[LeastSquaresResult],
        residuals: Residuals,
        variables: Nest[Variable],
        max_steps: int = 1000,
        ftol: float | None = None,
        xtol: float | None = None,
        gtol: float | None = None,
        *,
        batch_dims: Literal[0] = 0,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: LeastSquaresProblem[BatchedLeastSquaresResult],
        residuals: Residuals,
        variables: Nest[Variable],
        max_steps: int = 1000,
        ftol: float | None = None,
        xtol: float | None = None,
        gtol: float | None = None,
        *,
        batch_dims: Literal[1],
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        residuals: Residuals,
        variables: Nest[Variable],
        max_steps: int = 1000,
        ftol: float | None = None,
        xtol: float | None = None,
        gtol: float | None = None,
        **options: Any,
    ) -> None:
        given = Options.of(locals(), options)
        problem = BatchedProblem if choice("batch_dims", given.batch_dims, (0, 1)) else SingleProblem
        self.variables, self._problem = variables, problem(residuals, variables, given)

    def solve(self, *args: Any) -> _Result | Any:
        """Minimise ½‖residuals(*args)‖² from where the variables are, and leave them at the best point found.

        Args:
            *args: the data, nests of tensors, arrays and numbers.

        Returns:
            A `LeastSquaresResult`, or with `batch_dims` a `BatchedLeastSquaresResult`; inside a `tf.function` an
            `Outcome`, the same fields as tensors.

        Raises:
            ValueError, TypeError: as `least_squares`, where data are traced; for data with other rows than there are
                fits.
        """
        return self._problem.solve(args)

    def plan(self, *args: Any) -> Plan:
        """Return the `Plan` of the steps for data like `args`: solver and why, memory, operations. Nothing moves.

        Raises:
            ValueError: inside a `tf.function`, and with `batch_dims=1`, where there is one solver.
        """
        return self._problem.plan(args)
