"""least_squares against SciPy and known minima: results, statuses, tolerances, nests of variables."""

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, LeastSquaresResult, NielsenDamping, Report, Status, least_squares
from tfjac.steps.converge import Tolerances, standing_of, status_after

T = np.linspace(0, 4, 30)
Y = 3.0 * np.exp(-0.7 * T) + 0.2 * np.cos(5 * T)


def rosenbrock(x):
    return tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def decay(x):
    return x[0] * tf.exp(-x[1] * T) - Y


def powell(x):
    return tf.stack([x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10**0.5 * (x[0] - x[3]) ** 2])


def helix(x):
    turn = tf.atan2(x[1], x[0]) / (2 * np.pi)
    return tf.stack([10 * (x[2] - 10 * turn), 10 * (tf.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]])


PROBLEMS = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0], 0.0),
    "decay": (decay, [1.0, 0.1], None),
    "powell": (powell, [3.0, -1.0, 0.0, 1.0], 0.0),
    "helix": (helix, [-1.0, 0.5, 0.5], 0.0),
}


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize(
    "name, solver",
    [
        ("rosenbrock", "auto"), ("powell", "auto"), ("decay", "cholesky"), ("powell", "cholesky"),
        ("helix", "kernel"), ("rosenbrock", "kernel"),
    ],
)  # fmt: skip
def test_same_minimum_as_scipy(name, solver):
    function, start, minimum = PROBLEMS[name]
    x = tf.Variable(np.array(start))
    result = least_squares(lambda: function(x), x, solver=solver, ftol=1e-12, xtol=1e-12, gtol=1e-12)
    reference = scipy.optimize.least_squares(lambda v: function(tf.constant(v)).numpy(), start, x_scale="jac")
    assert result.success or result.cost < 1e-30, result
    assert result.cost <= (reference.cost if minimum is None else minimum) * (1 + 1e-8) + 1e-15
    np.testing.assert_allclose(result.x, reference.x, rtol=1e-5, atol=1e-3 if name == "powell" else 1e-6)
    np.testing.assert_allclose(result.cost, (function(x).numpy() ** 2).sum() / 2, rtol=1e-12, atol=1e-300)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", ["nielsen", "multiplicative", "trust_region"])
def test_every_damping_compiled_by_xla(damping):
    x = tf.Variable([-1.2, 1.0], dtype=tf.float64)
    result = least_squares(lambda: rosenbrock(x), x, damping=damping, jit_compile=True, ftol=1e-12, xtol=1e-12)
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, 1.0], rtol=1e-6)


def test_float32_with_default_tolerances():
    x = tf.Variable([1.0, 0.1])
    t, y = tf.constant(T, tf.float32), tf.constant(Y, tf.float32)
    result = least_squares(lambda: x[0] * tf.exp(-x[1] * t) - y, x)
    expected = scipy.optimize.least_squares(lambda v: decay(tf.constant(v)).numpy(), [1.0, 0.1]).x
    assert result.success
    np.testing.assert_allclose(result.x, expected, rtol=2e-3)


@pytest.mark.core
def test_a_nest_of_tf_and_keras_variables():
    variables = {"rate": tf.Variable(0.1, dtype=tf.float64), "size": [keras.Variable([[1.0]], dtype="float64")]}

    def residuals():
        return {"all": variables["size"][0].value[0, 0] * tf.exp(-variables["rate"] * T) - Y}

    result = least_squares(residuals, variables)
    assert isinstance(result, LeastSquaresResult) and result.success
    assert result.x["rate"].shape == () and result.x["size"][0].shape == (1, 1)
    assert result.x["rate"] == variables["rate"].numpy()
    expected = scipy.optimize.least_squares(lambda v: decay(tf.constant(v)).numpy(), [1.0, 0.1]).x
    np.testing.assert_allclose([result.x["size"][0][0, 0], result.x["rate"]], expected, rtol=1e-5)


@pytest.mark.core
def test_residuals_of_several_shapes():
    x = tf.Variable([2.0, -3.0], dtype=tf.float64)
    target = tf.constant(np.arange(6.0).reshape(3, 2))
    result = least_squares(lambda: [x[None, :] - target, 2.0 * x[0], tf.reshape(x[1] - 1.0, [1])], x)
    np.testing.assert_allclose(result.x, [(0 + 2 + 4) / 7, (1 + 3 + 5 + 1) / 4], rtol=1e-7)


def run(residuals, start, **options):
    x = tf.Variable(np.array(start, float))
    return least_squares(lambda: residuals(x), x, **options), x


@pytest.mark.core
def test_gradient_tolerance_at_the_minimum():
    result, _ = run(lambda x: x - 1.0, [1.0, 1.0])
    assert result.status is Status.GRADIENT_TOLERANCE and result.steps == 0 and result.cost == 0


@pytest.mark.core
def test_cost_tolerance():
    """Given in numbers of NumPy's."""
    options = {"ftol": np.float32(1e-3), "xtol": np.float64(0), "gtol": 0, "max_steps": np.int64(50)}
    result, _ = run(decay, [1.0, 0.1], **options)
    assert result.status is Status.COST_TOLERANCE and "ftol" in result.message


@pytest.mark.core
def test_step_tolerance():
    result, _ = run(decay, [1.0, 0.1], ftol=0, xtol=1e-2, gtol=0)
    assert result.status is Status.STEP_TOLERANCE and "xtol" in result.message


@pytest.mark.core
def test_max_steps():
    result, x = run(rosenbrock, [-1.2, 1.0], max_steps=3)
    assert result.status is Status.MAX_STEPS and not result.success
    assert result.steps == 3 <= result.evaluations and 3 <= result.jacobians <= 4
    assert result.cost < 24.2 / 2
    with tf.GradientTape() as tape:
        cost = tf.reduce_sum(rosenbrock(x) ** 2) / 2
    np.testing.assert_allclose(result.gradient_norm, np.abs(tape.gradient(cost, x)).max(), rtol=1e-10)


@pytest.mark.core
def test_not_finite_at_the_start():
    result, x = run(tf.math.log, [-1.0, 2.0])
    assert result.status is Status.NOT_FINITE and not result.success
    np.testing.assert_array_equal(x.numpy(), [-1.0, 2.0])


def test_stalled_where_the_derivative_is_wrong():
    @tf.custom_gradient
    def liar(x):
        return x + 1.0, lambda upstream: -upstream

    result, x = run(lambda x: liar(tf.identity(x)), [1.0])
    assert result.status is Status.STALLED and x.numpy() == [1.0] and "no step lowers the cost" in str(result)


def test_a_singular_jacobian():
    result, x = run(lambda x: tf.stack([x[0] + x[1] - 2.0, 2 * (x[0] + x[1]) - 4.0]), [5.0, 3.0])
    assert result.success and abs(x.numpy().sum() - 2) < 1e-6


def test_the_best_point_is_kept_and_the_cost_never_rises():
    x = tf.Variable(np.array([-1.2, 1.0]))
    costs = []
    for _ in range(6):
        costs.append(least_squares(lambda: rosenbrock(x), x, max_steps=1, damping=NielsenDamping(1e-9)).cost)
    assert (np.diff(costs) <= 0).all()


@pytest.mark.core
def test_covariance_of_a_straight_line():
    """Against the textbook: s²(XᵀX)⁻¹, for variables in a nest."""
    t, y = np.arange(9.0), np.array([0.1, 1.2, 1.9, 3.2, 3.8, 5.1, 6.2, 6.8, 8.1])
    line = {"offset": tf.Variable([0.0], dtype=tf.float64), "slope": tf.Variable(1.0, dtype=tf.float64)}
    result = least_squares(lambda: line["offset"] + line["slope"] * t - y, line)
    design = np.stack([np.ones(9), t], axis=1)
    rss = np.linalg.lstsq(design, y)[1][0]
    expected = rss / 7 * np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(result.covariance(), expected, rtol=1e-9)
    errors = result.standard_errors()
    np.testing.assert_allclose([errors["offset"][0], errors["slope"]], np.sqrt(np.diag(expected)), rtol=1e-9)


@pytest.mark.by_day(None)
def test_covariance_that_is_not_determined():
    result, _ = run(lambda x: tf.stack([x[0] + x[1] - 2.0, 2 * (x[0] + x[1]) - 4.0, x[0] + x[1]]), [5.0, 3.0])
    with pytest.raises(ValueError, match=r"do not determine all parameters"):
        result.covariance()
    result, _ = run(lambda x: x - 1.0, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"more residuals than parameters.*Received: 2 residuals, 2 parameters"):
        result.covariance()


def test_a_short_step_that_promises_much_is_no_convergence():
    """A variable that runs away makes every step look short next to it."""

    def status(promised, held=0.0, cosine=0.01, stuck=False, **known):
        given = {"promised": promised, "predicted": promised, "held": held, "cosine": cosine}
        given |= {"cost": 0.5, "step_length": 1.0, "magnitude": 1e6}
        numbers = {name: tf.constant(given.get(name, 0.0), tf.float64) for name in Report._fields}
        report = Report(**numbers)._replace(status=tf.constant(int(Status.REJECTED)))
        limits = Tolerances(cost=1e-6, step=1e-4, gradient=1e-6)
        if stuck:
            return status_after(report._replace(attempts=tf.constant(5)), tf.constant(int(Status.RUNNING)), limits)
        return standing_of(report, limits, 2.0, **known)

    assert status(promised=1.0) == Status.RUNNING
    assert status(promised=1e-5) == Status.STEP_TOLERANCE
    assert status(promised=1e-5, held=0.9e-5) == Status.RUNNING, "longer steps are to come"
    assert status(promised=1e-5, held=0.9e-5, is_long=True) == Status.STEP_TOLERANCE
    assert status(promised=1e-5, cosine=0.1) == Status.RUNNING, "one parameter alone would gain more"
    assert status(promised=1.0, cosine=1e-7) == Status.RUNNING, "all parameters together gain much"
    assert status(promised=1.0, cosine=1e-7, stuck=True) == Status.GRADIENT_TOLERANCE
    assert status(promised=1e-7, held=0.9e-7, cosine=1e-4, stuck=True) == Status.COST_TOLERANCE
    assert status(promised=1e-7, held=0.9e-7, cosine=0.1, stuck=True) == Status.STALLED
    assert status(promised=1e-7, cosine=1e-7) == Status.GRADIENT_TOLERANCE


@pytest.mark.by_day(None)
def test_no_convergence_in_the_steep_part_of_a_valley():
    """Beale's function from 100 times the usual start: four steps down a wall, then some hundred along a flat valley.

    By the units of the wall, all steps in the valley are short, and the damping of the wall makes the first ones tiny.
    """
    x, powers = tf.Variable([100.0, 100.0], dtype=tf.float64), tf.constant([1.0, 2.0, 3.0], tf.float64)
    result = least_squares(lambda: tf.constant([1.5, 2.25, 2.625], tf.float64) - x[0] * (1 - x[1] ** powers), x)
    assert result.success and result.cost < 0.2261 and result.steps > 100


@pytest.mark.by_day(None)
def test_a_parameter_that_the_residuals_depend_on_by_rounding_only():
    """The bias before a batch normalisation: it runs away, and next to it all steps look short."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(3)
    data, target = rng.normal(size=(64, 6)).astype("float32"), rng.normal(size=(64, 1)).astype("float32")
    layers = keras.layers
    hidden = [layers.Dense(3), layers.BatchNormalization(), layers.Activation("tanh")]
    model = keras.Sequential([layers.Input((6,)), *hidden, layers.Dense(1)])
    result = least_squares(lambda: model(data, training=True) - target, model.trainable_variables, max_steps=4)
    assert result.status is Status.MAX_STEPS, "the residuals are far from orthogonal to the Jacobian's columns"


@pytest.mark.by_day(None)
def test_residuals_of_any_scale():
    """Their squares leave the range of float32; the minimum is the same, and so is its derivative."""
    x, one, t = tf.Variable([1.0, 0.1]), tf.Variable(0.0), tf.constant(T, tf.float32)
    problem = LeastSquaresProblem(lambda scale, data: scale * (x[0] * tf.exp(-x[1] * t) - data), x)

    @tf.function
    def mean(scale, data):
        outcome = least_squares(lambda scale, data: scale * (one - data), one, args=(scale, data))
        return outcome.x, tf.gradients(outcome.x, data)[0]

    for scale in (1e-25, 1e-15, 1.0, 1e15, 1e25):
        x.assign([1.0, 0.1])
        one.assign(0.0)
        result = problem.solve(scale, 3.0 * tf.exp(-0.7 * t))
        assert result.success
        np.testing.assert_allclose(result.x, [3.0, 0.7], rtol=1e-4)
        value, gradient = mean(tf.constant(scale), t)
        np.testing.assert_allclose(value, T.mean(), rtol=1e-5)
        np.testing.assert_allclose(gradient, np.full(len(T), 1 / len(T)), rtol=1e-5)


def test_residuals_that_no_step_can_be_judged_by():
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)
    with pytest.raises(ValueError, match=r"must not assign to a variable.*Received: op 'Assign.*to 'Variable:0'"):
        least_squares(lambda: x.assign(x / 2) - 3.0, x)
    with pytest.raises(ValueError, match=r"rank of residuals must be known.*tf.ensure_shape. Received: .*EagerPyFunc"):
        least_squares(lambda: tf.py_function(lambda value: value - 3.0, [x], tf.float64), x)


def test_a_status_prints_as_its_name():
    status = Status.COST_TOLERANCE
    assert str(status) == f"{status}" == f"{status!s}" == "COST_TOLERANCE"
    assert f"{status:>16}" == "  COST_TOLERANCE" and f"{status:d}" == "4" and int(status) == 4


@pytest.mark.core
def test_bad_arguments():
    x = tf.Variable([1.0, 2.0])
    with pytest.raises(TypeError, match=r"residuals must be a callable.*Received: residuals="):
        least_squares(x, x)
    with pytest.raises(ValueError, match=r"ftol must be a number between 0 and 1. Received: ftol=-1"):
        least_squares(lambda: x, x, ftol=-1)
    with pytest.raises(ValueError, match=r"max_steps must be an integer"):
        least_squares(lambda: x, x, max_steps=-1)
    with pytest.raises(ValueError, match=r"must depend on every variable"):
        least_squares(lambda: x * 2, [x, tf.Variable([3.0])])
