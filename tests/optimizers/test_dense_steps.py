"""Steps of small problems by NumPy: those of the same formulas as ops of a graph, on published problems."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.fits import traced
from tfjac.optimizers import LeastSquaresProblem, Status, least_squares

from . import more_garbow_hillstrom, nist


@pytest.fixture
def seen(monkeypatch):
    """What `suits` said, in order."""
    said, suits = [], traced.suits

    def asked(*given):
        said.append(suits(*given))
        return said[-1]

    monkeypatch.setattr(traced, "suits", asked)
    return said


def both(function, start, seen, **options):
    """Return the results of steps by NumPy, and of those by ops."""
    found, numpy_suits = [], traced.suits
    for by_ops in (False, True):
        x = tf.Variable(np.asarray(start, np.float64))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(traced, "suits", (lambda *given: False) if by_ops else numpy_suits)
            found.append(least_squares(lambda x: function(x), x, **options))
        np.testing.assert_array_equal(found[-1].x, x.numpy())
    assert seen == [True]
    return found


def check_same(op, twin, steps=6):
    """The first steps are the same to rounding, while costs fall by more than that; the rest agrees where it ends."""
    falls = np.abs(op.history.reduction) > 1e-7 * op.history.cost
    steps = min(steps, int(np.argmin(falls)) if not falls.all() else falls.size)
    for one, other in zip(op.history, twin.history):
        np.testing.assert_allclose(one[:steps], other[:steps], rtol=1e-4)
    np.testing.assert_allclose(op.cost, twin.cost, rtol=1e-6, atol=1e-20)
    assert op.success == twin.success


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", more_garbow_hillstrom.PROBLEMS)
def test_same_steps_on_hard_problems(name, seen):
    function, start = more_garbow_hillstrom.PROBLEMS[name][:2]
    check_same(*both(function, start, seen, max_steps=200))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", nist.MODELS)
def test_same_steps_on_certified_problems(name, seen):
    problem = nist.load(name)
    for start in problem.starts:
        check_same(*both(problem.residuals, start, seen, max_steps=1000))
        seen.clear()


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", more_garbow_hillstrom.PROBLEMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_same_steps_within_bounds(name, seed, seen):
    function, start = more_garbow_hillstrom.PROBLEMS[name][:2]
    start, generator = np.asarray(start, float), np.random.default_rng(seed)
    width = generator.uniform(0.05, 1, [2, start.size]) * (np.abs(start) + 0.1)
    bounds = start - width[0], start + width[1]
    op, twin = both(function, start, seen, bounds=bounds, max_steps=100)
    assert ((op.x >= bounds[0]) & (op.x <= bounds[1])).all()
    check_same(op, twin, steps=4)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "options",
    [
        {"damping": "nielsen"}, {"damping": "radius"}, {"scaling": "auto"}, {"solver": "cholesky"},
        {"prior": (0.5, 10.0)}, {"bounds": (-1.0, 0.9)},
    ],
    ids=lambda options: str(next(iter(options.values()))),
)  # fmt: skip
def test_same_steps_by_other_methods(options, seen):
    t = np.linspace(0.0, 3.0, 40)
    op, twin = both(lambda x: x[0] * tf.exp(-x[1] * t) + x[2] - 1 / (1 + t), [0.5, 0.2, 0.0], seen, **options)
    check_same(op, twin)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("loss", ["huber", "cauchy", "tukey"])
def test_same_steps_with_robust_losses(loss, seen):
    generator = np.random.default_rng(3)
    t = np.linspace(0.0, 3.0, 60)
    y = 2 * np.exp(-t) + 0.05 * generator.normal(size=60) + 3 * (generator.uniform(size=60) > 0.9)
    op, twin = both(lambda x: x[0] * tf.exp(-x[1] * t) - y, [1.0, 0.5], seen, loss=loss, loss_scale=0.1)
    check_same(op, twin)


@pytest.mark.by_day(None)
def test_parameter_that_is_fixed_stays(seen):
    t = np.linspace(0.0, 1.0, 20)
    op, twin = both(
        lambda x: x[0] + x[1] * t + x[2] * t**2 - np.sin(t), [0.1, 0.2, 0.3], seen, fixed=[False, True, False]
    )
    assert op.x[1] == 0.2
    check_same(op, twin)


def test_several_variables_and_others_that_are_read(seen):
    t, scale = np.linspace(0.0, 1.0, 30), tf.Variable(2.0, dtype=tf.float64)
    a, b = tf.Variable(1.0, dtype=tf.float64), tf.Variable([[0.5], [1.5]], dtype=tf.float64)
    found = least_squares(lambda: scale * a * tf.exp(-b[0, 0] * t) + b[1, 0] * t - tf.cos(tf.constant(t)), [a, b])
    reference = scipy.optimize.least_squares(
        lambda x: 2 * x[0] * np.exp(-x[1] * t) + x[2] * t - np.cos(t), [1.0, 0.5, 1.5], xtol=1e-14, ftol=1e-14
    )
    assert seen == [True]
    np.testing.assert_allclose(found.cost, reference.cost, rtol=1e-8)
    np.testing.assert_array_equal(found.x[1], b.numpy())


def test_against_scipy():
    """With more residuals than in a published table, and from several starts of one problem."""
    generator = np.random.default_rng(0)
    t = np.linspace(0.0, 10.0, 2000)
    truth = np.array([3.0, 2.0, 0.7, 1.0, 6.0, 1.5])
    model = lambda p, exp: p[0] * exp(-(((t - p[1]) / p[2]) ** 2)) + p[3] * exp(-(((t - p[4]) / p[5]) ** 2))  # noqa: E731
    y = model(truth, np.exp) + 0.02 * generator.normal(size=t.size)
    x = tf.Variable(truth)
    problem = LeastSquaresProblem(lambda: model(tf.unstack(x), tf.exp) - y, x, ftol=1e-14, xtol=1e-14, gtol=1e-14)
    for _ in range(4):
        start = truth * generator.uniform(0.8, 1.2, 6)
        x.assign(start)
        result = problem.solve()
        reference = scipy.optimize.least_squares(
            lambda p: model(p, np.exp) - y, start, xtol=1e-14, ftol=1e-14, gtol=1e-14
        )
        np.testing.assert_allclose(result.cost, reference.cost, rtol=1e-10)
        np.testing.assert_allclose(np.abs(result.x), np.abs(reference.x), rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("at", ["start", "trial"])
def test_values_that_are_not_finite(at, seen):
    def residuals(x):
        bad = tf.constant(np.nan if at == "start" else 1.0, tf.float64)
        return tf.stack([tf.math.log(x[0]) * bad - 3, x[1] - 1, x[0] * x[1] / 50])

    op, twin = both(residuals, [0.01, 5.0], seen)
    assert (op.status, op.steps, op.evaluations) == (twin.status, twin.steps, twin.evaluations)
    assert (op.status is Status.NOT_FINITE) == (at == "start")
    np.testing.assert_allclose(op.x, twin.x, rtol=1e-7)


def test_error_of_the_residuals_leaves_the_variables(seen):
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)

    def residuals():
        inside = tf.gather(tf.constant([1.0, 2.0], tf.float64), tf.cast(x[0] * 4, tf.int32))
        return tf.stack([x[0] + inside, x[1] - 3, x[0] * x[1]])

    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        least_squares(residuals, x)
    assert seen == [True]
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("count", [1, 3])
def test_callback_sees_each_step(count, seen):
    function, start = more_garbow_hillstrom.PROBLEMS["Osborne 1"][:2]
    x, states = tf.Variable(np.asarray(start, float)), []
    stopped = least_squares(function, x, callback=lambda state: states.append(state) or len(states) == count)
    assert stopped.status is Status.STOPPED and stopped.steps == len(states) == count
    np.testing.assert_allclose([state.cost for state in states], stopped.history.cost)
    np.testing.assert_array_equal(states[-1].x, x.numpy())
    whole = least_squares(function, x)
    x.assign(start)
    np.testing.assert_allclose(whole.cost, least_squares(function, x).cost, rtol=1e-10)


def test_checkpoint_goes_on_to_the_same_bits(tmp_path, seen):
    function, start = more_garbow_hillstrom.PROBLEMS["Meyer"][:2]
    whole, x = tf.Variable(np.asarray(start, float)), tf.Variable(np.asarray(start, float))
    least_squares(function, whole, max_steps=40)
    least_squares(function, x, max_steps=15, checkpoint=tmp_path / "kept.npz")
    result = least_squares(function, x, max_steps=40, checkpoint=tmp_path / "kept.npz")
    assert all(seen) and result.steps == 40
    np.testing.assert_array_equal(x.numpy(), whole.numpy())


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "svd"}, {"window": 3}, {"acceleration": "geodesic"}, {"equality": (np.ones([1, 4]), np.ones(1))},
        {"jit_compile": True},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_what_goes_by_ops(options, seen):
    t = np.linspace(0.0, 1.0, 10)
    x = tf.Variable([0.3, 0.2, 0.3, 0.2], dtype=tf.float64)
    result = least_squares(lambda x: x[0] + x[1] * t + x[2] * t**2 + x[3] * t**3 - np.sin(t), x, **options)
    assert not any(seen) and result.success


def test_curve_fit_takes_numpy_for_other_data_too(seen):
    x = np.linspace(0.0, 2.0, 20)
    for scale in (1.0, 2.0, 3.0):
        fit = tfjac.curve_fit(lambda x, a, b: a * tf.exp(-b * x), x, scale * np.exp(-x), p0=[1.0, 0.5])
        np.testing.assert_allclose(fit.popt, [scale, 1.0], rtol=1e-6)
    assert all(seen)
