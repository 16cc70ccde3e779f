"""Nonlinear least squares on variables, to convergence, in one graph."""

import tensorflow as tf

from tfjac.graph import as_tf_variable
from tfjac.optimizers.convergence import status_after, tolerances
from tfjac.optimizers.damping import get_damping
from tfjac.optimizers.options import positive, positive_integer
from tfjac.optimizers.records import Method, State
from tfjac.optimizers.residuals import residual_objective
from tfjac.optimizers.results import LeastSquaresResult
from tfjac.optimizers.scaling import get_scaling
from tfjac.optimizers.solvers import get_solver
from tfjac.optimizers.statuses import Status
from tfjac.optimizers.step import take_step
from tfjac.optimizers.variables import checked_variables


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
            them. It is traced once, as by `tf.function`. Where the leading axis is that of independent examples, the
            Jacobian is found far cheaper.
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
        A `LeastSquaresResult`.

    Raises:
        ValueError, TypeError: for bad arguments, variables that are not floating-point, residuals that don't depend on
            one of the variables. Numerical trouble never raises: it is a status.

    Cost: per step, one linearisation, and for each attempt one solve and one evaluation.
    Reference: J. J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", 1978.
    """
    _check_call(residuals)
    flat = checked_variables(tf.nest.flatten(variables))
    dtype = as_tf_variable(flat[0]).dtype
    limits = tolerances(ftol, xtol, gtol, dtype)
    method = Method(
        get_damping(damping),
        get_scaling(scaling),
        get_solver(solver),
        positive_integer("max_attempts", max_attempts),
        positive("min_gain", min_gain, below=1),
    )
    minimise = _minimisation(residuals, flat, method, limits, positive_integer("max_steps", max_steps))
    outcome = tf.function(minimise, jit_compile=jit_compile, autograph=False).get_concrete_function()()
    jacobian = tf.function(lambda: residual_objective(residuals(), flat).to_dense(), autograph=False)
    return _result(variables, flat, *(tensor.numpy() for tensor in outcome), lambda: jacobian().numpy())


def _minimisation(residuals, variables, method, limits, max_steps):
    """Return the function that is traced: from nothing to (status, cost, gradient, steps, evaluations, damping)."""
    dtype = as_tf_variable(variables[0]).dtype
    size = sum(variable.shape.num_elements() for variable in map(as_tf_variable, variables))

    @tf.function(autograph=False)
    def step(state):
        return take_step(residual_objective(residuals(), variables), state, method)

    @tf.function(autograph=False)
    def cost_and_gradient():
        cost = tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tf.nest.flatten(residuals())]) / 2
        gradients = tf.gradients(cost, [as_tf_variable(variable) for variable in variables])
        return cost, tf.reduce_max([tf.reduce_max(tf.abs(tf.convert_to_tensor(g))) for g in gradients])

    def unfinished(status, steps, evaluations, damping, state):
        return tf.equal(status, int(Status.RUNNING)) & (steps < max_steps)

    def advance(status, steps, evaluations, damping, state):
        state, report = step(state)
        return status_after(report, limits), steps + 1, evaluations + report.attempts, report.damping, state

    def minimise():
        zero = tf.zeros([], dtype)
        state = State(tuple(zero for _ in method.damping.state_names), tf.zeros([size], dtype))
        start = (tf.constant(int(Status.RUNNING)), tf.constant(0), tf.constant(0), zero, state)
        status, steps, evaluations, damping, _ = tf.while_loop(unfinished, advance, start)
        status = tf.where(tf.equal(status, int(Status.RUNNING)), int(Status.MAX_STEPS), status)
        return status, *cost_and_gradient(), steps, evaluations, damping

    return minimise


def _result(variables, flat, status, cost, gradient_norm, steps, evaluations, damping, jacobian):
    return LeastSquaresResult(
        x=tf.nest.pack_sequence_as(variables, [as_tf_variable(variable).numpy() for variable in flat]),
        cost=float(cost),
        gradient_norm=float(gradient_norm),
        status=Status(int(status)),
        steps=int(steps),
        evaluations=int(evaluations),
        jacobians=int(steps),
        damping=float(damping),
        jacobian=jacobian,
    )


def _check_call(residuals):
    if not callable(residuals):
        raise TypeError(
            "residuals must be a callable without arguments that reads the variables, so that it can be evaluated "
            f"again elsewhere. Received: residuals={residuals!r}"
        )
    if not tf.executing_eagerly():
        raise ValueError(
            "least_squares runs a whole minimisation and returns Python numbers: call it outside of tf.function. For "
            "one step inside a graph use LevenbergMarquardt().minimize(residuals, variables). "
            "Received: a call while a graph is being traced"
        )
