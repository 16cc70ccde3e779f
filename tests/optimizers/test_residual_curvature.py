"""The curvature of residuals, which JᵀJ leaves out: where residuals stay large, a fraction of the steps."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.linear.prior import Prior
from tfjac.manifolds import UnitSphere
from tfjac.optimizers import LeastSquaresProblem, TrustRegionDamping, least_squares
from tfjac.steps.residual_curvature import PARALLEL, Secant

from . import more_garbow_hillstrom

TIGHT = dict.fromkeys(("ftol", "xtol", "gtol"), 1e-12)
T = np.linspace(0.0, 4.0, 40)


class Loop(TrustRegionDamping):
    """The default, which the native op does not know by this name."""


def chebyquad(x):
    """Of 8 parameters, as of Moré, Garbow & Hillstrom: nothing from tfjac."""
    before, now, means = tf.ones_like(x), 2 * x - 1, []
    for k in range(1, 9):
        means.append(tf.reduce_mean(now) - (0 if k % 2 else -1 / (k * k - 1)))
        before, now = now, 2 * (2 * x - 1) * now - before
    return tf.stack(means)


def decays(x):
    """A model that is wrong: large residuals."""
    data = np.exp(-T) + 3 * np.sin(7 * T) + 3 * np.cos(3 * T)
    return x[0] * tf.exp(-x[1] * T) + x[2] * tf.exp(-x[3] * T * T) - data


def wave(x):
    """A network 1-3-1 as of NumPy's numbers, on a wave that it cannot follow."""
    t = tf.constant(T, x.dtype)[:, None]
    return tf.tensordot(tf.tanh(t * x[:3] + x[3:6]), x[6:9], 1) - tf.constant(np.sin(5 * T), x.dtype)


def brown_dennis(x):
    """As of Moré, Garbow & Hillstrom, in any dtype."""
    t = np.arange(1, 21) / 5
    exponential, sine, cosine = (tf.constant(each, x.dtype) for each in (np.exp(t), np.sin(t), np.cos(t)))
    return (x[0] + tf.constant(t, x.dtype) * x[1] - exponential) ** 2 + (x[2] + sine * x[3] - cosine) ** 2


STARTS = {
    "Brown-Dennis": (*more_garbow_hillstrom.PROBLEMS["Brown-Dennis"][:2], 45),
    "Kowalik-Osborne": (*more_garbow_hillstrom.PROBLEMS["Kowalik-Osborne"][:2], 16),
    "decays": (decays, [1.0, 0.7, 0.3, 0.2], 40),
}
WAVE = np.linspace(-1.0, 1.0, 9)


def fit(function, start, damping=TrustRegionDamping, curvature=True, dtype=tf.float64, **options):
    x = tf.Variable(np.asarray(start, float), dtype=dtype)
    damping = damping(residual_curvature=curvature)
    return least_squares(lambda x: function(x), x, damping=damping, **{"max_steps": 400, **TIGHT, **options})


def by_scipy(function, start, **options):
    evaluate = lambda x: function(tf.constant(x)).numpy()  # noqa: E731
    return scipy.optimize.least_squares(evaluate, start, max_nfev=2000, **TIGHT, **options)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", [TrustRegionDamping, Loop])
@pytest.mark.parametrize("name", STARTS)
def test_large_residuals_take_few_steps_to_the_minimum_of_scipy(name, damping):
    function, start, most = STARTS[name]
    found, plain = fit(function, start, damping), fit(function, start, curvature=False)
    assert found.success and found.steps <= most and found.steps <= 0.65 * plain.steps
    np.testing.assert_allclose(found.cost, by_scipy(function, start).cost, rtol=1e-9)


@pytest.mark.by_day(None)
def test_as_many_residuals_as_parameters_take_no_more_steps():
    """J says that nothing stays."""
    start = np.arange(1, 9) / 9
    assert fit(chebyquad, start).steps <= fit(chebyquad, start, curvature=False).steps + 1


class Model:
    """A quadratic model that is known, as far as a `Secant` asks for it."""

    def __init__(self, jacobian, gradient, precision):
        self._gram, self._gradient = jacobian.T @ jacobian, gradient
        self.prior = Prior(tf.constant(precision), tf.zeros(len(gradient), tf.float64), None, is_zero=False)

    def gradient(self):
        return tf.constant(self._gradient)

    def curvature(self, vector):
        return tf.linalg.matvec(tf.constant(self._gram), vector)


@pytest.mark.parametrize("seed", range(4))
def test_estimate_against_numpy(seed):
    """The formulas of Dennis, Gay & Welsch; what comes out is symmetric, and maps the step as it should."""
    generator = np.random.default_rng(seed)
    jacobian, precision = generator.normal(size=(7, 4)), generator.uniform(size=4)
    before, after, step, product = generator.normal(size=(4, 4))
    known = generator.normal(size=(4, 4))
    known = known + known.T
    secant = Secant(*map(tf.constant, (known, step, before, product)), tf.constant(True))
    found = secant.learnt(Model(jacobian, after, precision), tf.ones(4, tf.float64))

    y = after - before
    target = y - (product + jacobian.T @ jacobian @ step + precision * step) / 2
    sized = min(1, abs(step @ target) / abs(step @ known @ step)) * known
    u, v = target - sized @ step, y / (y @ step)
    expected = sized + np.outer(u, v) + np.outer(v, u) - (u @ step) * np.outer(v, v)
    assert abs(y @ step) > PARALLEL * np.linalg.norm(y) * np.linalg.norm(step)
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-12)
    np.testing.assert_allclose(found.matrix @ step[:, None], target[:, None], rtol=1e-10)
    np.testing.assert_array_equal(found.step, np.zeros(4))


def test_nothing_is_learnt_from_a_step_that_was_not_kept_nor_from_one_without_a_number():
    known, zeros = np.eye(2), np.zeros(2)
    none = Secant(*map(tf.constant, (known, zeros, zeros, zeros)), tf.constant(True))
    ones = tf.ones(2, tf.float64)
    kept = none.learnt(Model(np.eye(2), np.array([1.0, 2.0]), zeros), ones)
    np.testing.assert_array_equal(kept.matrix, known)
    assert bool(kept.better)
    lost = none._replace(step=tf.constant([1.0, 0.0], tf.float64))
    lost = lost.learnt(Model(np.eye(2), np.array([0.0, 2.0]), zeros), ones)  # y is orthogonal to s
    np.testing.assert_array_equal(lost.matrix, 0 * known)
    assert not bool(lost.better)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", [TrustRegionDamping, Loop])
def test_within_bounds(damping):
    function, start, _ = STARTS["Brown-Dennis"]
    bounds = (np.array([-30.0, 0.0, -6.0, -6.0]), np.array([30.0, 13.0, 30.0, 30.0]))
    found = fit(function, start, damping, bounds=bounds)
    reference = by_scipy(function, start, bounds=bounds)
    np.testing.assert_allclose(found.cost, reference.cost, rtol=1e-8)
    assert found.x[1] == bounds[1][1]
    assert found.steps < fit(function, start, damping, curvature=False, bounds=bounds).steps


def test_with_a_prior():
    function, start, _ = STARTS["decays"]
    found = fit(function, start, prior=(0.5, 0.3))
    together = lambda x: tf.concat([function(x), (x - 0.5) / 0.3], 0)  # noqa: E731
    np.testing.assert_allclose(found.cost, by_scipy(together, start).cost, rtol=1e-9)
    assert found.steps <= fit(function, start, curvature=False, prior=(0.5, 0.3)).steps


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "options",
    [
        {"loss": "cauchy"}, {"window": 5}, {"acceleration": "geodesic"}, {"solver": "svd"}, {"solver": "kernel"},
        {"equality": (np.ones([1, 9]), np.ones(1))},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_what_it_is_not_for_takes_the_steps_of_j_alone(options):
    given = {"max_steps": 12, **options}
    one, other = (fit(wave, WAVE, curvature=curvature, **given) for curvature in (True, False))
    np.testing.assert_array_equal(one.history.cost, other.history.cost)


@pytest.mark.by_day(None)
def test_manifolds_take_the_steps_of_j_alone():
    costs = []
    for curvature in (True, False):
        x = tf.Variable([0.6, 0.8, 0.0], dtype=tf.float64)
        damping = TrustRegionDamping(residual_curvature=curvature)
        found = least_squares(lambda x: tf.exp(x) - [3.0, 0.2, 4.0], x, manifolds=UnitSphere(), damping=damping)
        costs.append(found.history.cost)
    np.testing.assert_array_equal(*costs)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", [TrustRegionDamping, Loop])
def test_a_checkpoint_goes_on_to_the_same_bits(damping, tmp_path):
    """It holds the estimate, too; and so does what a callback is called between."""
    function, start, _ = STARTS["Brown-Dennis"]
    whole = fit(function, start, damping, max_steps=25)
    fit(function, start, damping, max_steps=13, checkpoint=tmp_path / "kept.npz")
    rest = fit(function, start, damping, max_steps=25, checkpoint=tmp_path / "kept.npz")
    seen = fit(function, start, damping, max_steps=25, callback=lambda state: None)
    assert whole.x.tobytes() == rest.x.tobytes() == seen.x.tobytes()


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [{"jit_compile": True}, {"solver": "cholesky"}, {"dtype": tf.float32}], ids=str)
def test_under_xla_by_cholesky_and_in_float32(options):
    _, start, most = STARTS["Brown-Dennis"]
    tolerance = 1e-6 if "dtype" in options else 1e-12
    found = fit(brown_dennis, start, **options | dict.fromkeys(TIGHT, tolerance))
    assert found.success and found.steps <= most
    np.testing.assert_allclose(found.cost, 42911.10081, rtol=1e-5)


def test_a_second_solve_begins_again():
    """Nothing is remembered from the last one."""
    function, start, _ = STARTS["Brown-Dennis"]
    x = tf.Variable(np.asarray(start, float))
    problem = LeastSquaresProblem(lambda: function(x), x, **TIGHT)
    steps = []
    for _ in range(2):
        x.assign(start)
        steps.append(problem.solve().steps)
    assert steps[0] == steps[1]
