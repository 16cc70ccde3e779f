"""Nonlinear least squares on variables, to convergence, in one graph."""

import tensorflow as tf

from tfjac.graph import as_tf_variable
from tfjac.optimizers.convergence import status_after, tolerances
from tfjac.optimizers.damping import get_damping
from tfjac.optimizers.options import positive, positive_integer, recipe
from tfjac.optimizers.problem.residuals import problem_of_residuals
from tfjac.optimizers.problem.variables import checked_variables
from tfjac.optimizers.records import Method, Outcome, State
from tfjac.optimizers.results import LeastSquaresResult
from tfjac.optimizers.scaling import get_scaling
from tfjac.optimizers.solvers import get_solver
from tfjac.optimizers.statuses import Status
from tfjac.optimizers.step import take_step
from tfjac.optimizers.traces import TraceCache


@tf.autograph.experimental.do_not_convert
def least_squares(
    residuals,
    variables,
    max_steps=1000,
    ftol=None,
    xtol=None,
    gtol=None,
    *,
    damping="nielsen",
    scaling="more",
    solver="auto",
    max_attempts=30,
    min_gain=1e-3,
    jit_compile=False,
):
    """Minimise ½‖residuals()‖² over variables by the Levenberg-Marquardt method.

    The whole minimisation runs inside one graph: every step linearises the residuals, solves for a step, and keeps it
    if the cost fell as predicted, or else puts the variables back and tries again with more damping. The cost never
    rises, so that the variables are left at the best point found, whatever the status.

    Args:
        residuals: callable without arguments that reads the variables and returns a tensor of any shape, or a nest of
            them. It is traced once for the same variables and options, as by `tf.function`, and anew where it reads
            other objects than before (its free and global variables, the attributes of its object) or other numbers
            in arrays and lists among these. Where the leading axis is that of independent examples, the Jacobian is
            found far cheaper.
        variables: nest of `tf.Variable` or `keras.Variable`, all float32 or all float64.
        max_steps: at most so many steps.
        ftol, xtol, gtol: tolerances of the cost, the step and the gradient (formulas in
            `tfjac.optimizers.convergence`); default √ε of the dtype, zero to switch one off.
        damping: `"nielsen"`, `"multiplicative"`, `"trust_region"`, or a `Damping`.
        scaling: `"more"`, `"marquardt"`, `"identity"`, or a `Scaling`.
        solver: `"auto"`, `"qr"`, `"cholesky"`, `"kernel"`, `"cg"`, or a `Solver`.
        max_attempts: at most so many attempts with growing damping within a step; after that the status is STALLED.
        min_gain: a step is kept if the actual reduction of the cost exceeds this fraction of the predicted one.
        jit_compile: whether to compile the minimisation with XLA.

    Returns:
        A `LeastSquaresResult`; inside a `tf.function` an `Outcome`, the same fields as tensors.

    Raises:
        ValueError, TypeError: for bad arguments, variables that are not floating-point, residuals that don't depend on
            one of the variables. Numerical trouble never raises: it is a status.

    Cost: per step, one linearisation, and for each attempt one solve and one evaluation; one more linearisation after
    the last step. The first call traces, which takes longer than most minimisations.
    Reference: J. J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", 1978.
    """
    _check_callable(residuals)
    flat = checked_variables(tf.nest.flatten(variables))
    limits = tolerances(ftol, xtol, gtol, as_tf_variable(flat[0]).dtype)
    method = Method(
        get_damping(damping),
        get_scaling(scaling),
        get_solver(solver),
        positive_integer("max_attempts", max_attempts),
        positive("min_gain", min_gain, below=1),
    )
    max_steps = positive_integer("max_steps", max_steps)

    def minimisation():
        minimise = _minimisation(residuals, flat, method, limits, max_steps)
        return tf.function(minimise, jit_compile=jit_compile, autograph=False)

    if not tf.executing_eagerly():
        return _packed(minimisation()(), variables)
    options = (limits, max_steps, *map(recipe, (damping, scaling, solver)), *method[3:], jit_compile)
    trace = _TRACES.get(residuals, flat, options, lambda: minimisation().get_concrete_function())
    return _result(_packed(trace(), variables), _jacobian(residuals, flat))


_TRACES = TraceCache()
"""Minimisations, and Jacobians at their results, traced by eager calls."""


def _packed(outcome, variables):
    """Return the `Outcome` with `x` in the nest of `variables`."""
    return outcome._replace(x=tf.nest.pack_sequence_as(variables, outcome.x))


def _minimisation(residuals, variables, method, limits, max_steps):
    """Return the function that is traced: from nothing to an `Outcome`, with `x` as a list."""
    dtype = as_tf_variable(variables[0]).dtype
    size = sum(variable.shape.num_elements() for variable in map(as_tf_variable, variables))

    @tf.function(autograph=False)
    def step(state, max_attempts):
        return take_step(problem_of_residuals(residuals, variables), state, method._replace(max_attempts=max_attempts))

    def unfinished(outcome, state, first_cost, moved):
        return _running(outcome) | moved  # once more after the last step, for the cost and the gradient there

    def advance(outcome, state, first_cost, moved):
        running = _running(outcome)
        state, report = step(state, tf.where(running, method.max_attempts, 0))
        first_cost = tf.where(tf.equal(outcome.steps, 0), report.cost_before, first_cost)
        status = status_after(report, limits, first_cost)
        return _after(outcome, running, report, status, max_steps), state, first_cost, report.accepted

    def minimise():
        zero, none = tf.zeros([], dtype), tf.constant(0)
        state = State(tuple(zero for _ in method.damping.state_names), tf.zeros([size], dtype))
        start = Outcome((), zero, zero, tf.constant(int(Status.RUNNING)), none, none, none, zero)
        outcome, *_ = tf.while_loop(unfinished, advance, (start, state, zero, tf.constant(False)))
        return outcome._replace(x=[as_tf_variable(variable).read_value() for variable in variables])

    return minimise


def _running(outcome):
    return tf.equal(outcome.status, int(Status.RUNNING))


def _after(outcome, running, report, status, max_steps):
    """Return the outcome after a step, or after a mere linearisation where it is not `running` any more."""
    steps = outcome.steps + tf.cast(running, tf.int32)
    status = tf.where(tf.equal(status, int(Status.RUNNING)) & (steps >= max_steps), int(Status.MAX_STEPS), status)
    return Outcome(
        x=(),
        cost=report.cost,
        gradient_norm=report.gradient_norm,
        status=tf.where(running, status, outcome.status),
        steps=steps,
        evaluations=outcome.evaluations + report.attempts,
        jacobians=outcome.jacobians + 1,
        damping=tf.where(running, report.damping, outcome.damping),
    )


def _result(outcome, jacobian):
    """Return the `LeastSquaresResult` of the outcome of an eager call."""
    return LeastSquaresResult(
        x=tf.nest.map_structure(lambda tensor: tensor.numpy(), outcome.x),
        cost=float(outcome.cost),
        gradient_norm=float(outcome.gradient_norm),
        status=Status(int(outcome.status)),
        steps=int(outcome.steps),
        evaluations=int(outcome.evaluations),
        jacobians=int(outcome.jacobians),
        damping=float(outcome.damping),
        jacobian=jacobian,
    )


def _jacobian(residuals, variables):
    """Return the function that computes the Jacobian where the variables are when it is called."""

    def dense():
        return problem_of_residuals(residuals, variables).linearise().jacobian.to_dense()

    def trace():
        return tf.function(dense, autograph=False).get_concrete_function()

    return lambda: _TRACES.get(residuals, variables, "jacobian", trace)().numpy()


def _check_callable(residuals):
    if not callable(residuals):
        raise TypeError(
            "residuals must be a callable without arguments that reads the variables, so that it can be evaluated "
            f"again elsewhere. Received: residuals={residuals!r}"
        )
