"""Problems of many fits that are solved again: as `least_squares` solves them, by what was traced the first time."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers.test_batched import COUNT, T, by_counting, by_scipy, decays, residuals_of, started
from tfjac.optimizers import LeastSquaresProblem, Status, least_squares

FIELDS = ["x", "cost", "status", "steps", "evaluations", "jacobians", "damping", "gradient_norm", "success", "active"]


@pytest.fixture
def counted():
    """Give residuals that are given the variables, and the list of their calls."""
    calls = []

    def residuals(parameters, measured):
        calls.append(1)
        return residuals_of(parameters, measured)

    return residuals, calls


def open_start(count):
    """Give a variable of any number of rows at the start of so many fits."""
    return tf.Variable(started(count), shape=[None, 2])


def check_same(found, expected):
    """Compare all that results say of fits, to the bit."""
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(found.covariance(), expected.covariance())
    assert found.summary() == expected.summary()


OPTIONS = {
    "bounds, XLA": {"bounds": (0.0, np.linspace(1.5, 5, COUNT)[:, None]), "jit_compile": True},
    "fixed": {"fixed": np.arange(2 * COUNT).reshape(COUNT, 2) % 5 == 0, "chunk_size": 3},
    "devices": {"devices": ["CPU:0"], "chunk_size": 7, "damping": "nielsen", "max_steps": 5},
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("options", OPTIONS)
def test_it_solves_as_least_squares_does(rng, counted, options):
    """To the bit, for data that it was traced with, and for others, from where the variables are."""
    (residuals, calls), options = counted, OPTIONS[options]
    x = started()
    problem = LeastSquaresProblem(residuals, x, batch_dims=1, **options)
    for _ in range(3):
        measured, start = decays(rng), np.stack([rng.uniform(0.5, 1.4, COUNT), rng.uniform(0.5, 1.4, COUNT)], axis=1)
        x.assign(start)
        found, before = problem.solve(measured), len(calls)
        np.testing.assert_array_equal(found.x, x.numpy())
        y = tf.Variable(start)
        check_same(found, least_squares(residuals_of, y, args=(measured,), batch_dims=1, **options))
    assert before == len(calls) == 3, "for so many fits, one more, and any number"


@pytest.mark.by_day(None)
def test_it_finds_the_minima_of_scipy(rng):
    measured, x = decays(rng), started()
    problem = LeastSquaresProblem(residuals_of, x, batch_dims=1, xtol=1e-12, loss="soft_l1", loss_scale=0.1)
    for values in (measured + 1, measured):
        found = problem.solve(values)
    for k in range(0, COUNT, 5):
        expected = by_scipy(measured[k], [2.0, 1.0], loss="soft_l1", f_scale=0.1)
        np.testing.assert_allclose(found.x[k], expected.x, rtol=1e-5)


@pytest.mark.by_day(None)
def test_other_numbers_of_fits(rng, counted):
    """A variable whose number of rows is open: no second trace, in chunks, within bounds, errors included."""
    (residuals, calls), x = counted, open_start(COUNT)
    options = {"chunk_size": 8, "bounds": (0.0, [3.0, 5.0])}
    problem = LeastSquaresProblem(residuals, x, batch_dims=1, **options)
    for count in (COUNT, 3, 1, 47):
        measured = decays(rng, count)
        x.assign(started(count))
        found, expected = problem.solve(measured), started(count)
        expected = least_squares(residuals_of, expected, args=(measured,), batch_dims=1, **options)
        for name in FIELDS:
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(found.covariance(), expected.covariance(), rtol=1e-9)
        assert found.x.shape == (count, 2)
    assert len(calls) == 3
    with pytest.raises(
        ValueError, match=r"as many rows as the variables have. Received: variables of 47 rows, args of 9"
    ):
        problem.solve(decays(rng, 9))
    np.testing.assert_array_equal(x.numpy(), found.x)


@pytest.mark.by_day(None)
def test_bounds_of_each_fit_go_with_one_number_of_fits(rng):
    x = open_start(4)
    problem = LeastSquaresProblem(residuals_of, x, batch_dims=1, bounds=(0.0, np.full([4, 2], 3.0)))
    problem.solve(decays(rng, 4))
    x.assign(started(5))
    with pytest.raises(ValueError, match=r"(?s)bounds must hold one number.*of shape \(5, 2\)"):
        problem.solve(decays(rng, 5))


@pytest.mark.by_day(None)
def test_least_squares_of_as_many_fits_as_the_variables_have_now(rng):
    x = open_start(2)
    for count in (2, 5):
        x.assign(started(count))
        measured = decays(rng, count)
        found = least_squares(residuals_of, x, args=(measured,), batch_dims=1, fixed=[False, True])
        np.testing.assert_array_equal(found.x[:, 1], 1.0)
        shape = np.exp(-T)
        np.testing.assert_allclose(found.x[:, 0], measured @ shape / (shape @ shape), rtol=1e-6)


@pytest.mark.by_day(None)
def test_other_shapes_are_traced_once_each(counted, rng):
    """More residuals for each fit, and data that all fits share, which are known by their shape."""
    x, calls = started(), []

    def residuals(parameters, measured, weights):
        calls.append(1)
        return weights * residuals_of(parameters, measured)[:, : measured.shape[1]]

    problem = LeastSquaresProblem(residuals, x, batch_dims=1, xtol=1e-12)
    measured, traced = decays(rng), []
    for weights in (np.ones(T.size), 2.0, np.ones(T.size), 3.0, np.ones([COUNT, T.size]), np.ones([COUNT, T.size])):
        x.assign(started())
        found = problem.solve(measured, weights)
        traced.append(len(calls))
        np.testing.assert_allclose(found.x[4], by_scipy(measured[4], [2.0, 1.0]).x, rtol=1e-6)
    assert traced == [3, 6, 6, 6, 9, 9]


NEST = "a nest of variables, a dictionary of data"


@pytest.mark.by_day(None)
@pytest.mark.parametrize("form", ["reading", "capturing", NEST])
def test_forms_of_residuals_and_data(rng, form):
    """What residuals capture may change its values; the nest of variables is that of the result."""
    measured, x = decays(rng), started()
    data, args, variables = tf.Variable(measured), (measured,), x
    residuals = {
        "reading": lambda y: residuals_of(tf.convert_to_tensor(x), y),
        "capturing": lambda p: residuals_of(p, data),
        NEST: lambda p, y: residuals_of(tf.concat([p["size"], p["rate"]], axis=1), y["measured"] + y["shift"]),
    }[form]
    if form == NEST:
        variables = {name: tf.Variable(np.full([COUNT, 1], start)) for name, start in (("size", 2.0), ("rate", 1.0))}
    problem = LeastSquaresProblem(residuals, variables, batch_dims=1, xtol=1e-12, ftol=1e-14, chunk_size=6)
    for shift in (0.0, 0.5):
        data.assign(measured + shift)
        args = {"capturing": (), NEST: ({"measured": measured, "shift": shift},)}.get(form, (measured + shift,))
        found = problem.solve(*args)
        values = np.concatenate([found.x["size"], found.x["rate"]], axis=1) if form == NEST else found.x
        for k in (0, COUNT - 1):
            np.testing.assert_allclose(values[k], by_scipy(measured[k] + shift, [2.0, 1.0]).x, rtol=1e-5)


def test_rows_that_residuals_capture_belong_to_one_number_of_fits(rng):
    """With other fits they are not used by place, but seen not to go together."""
    x, captured = open_start(6), tf.constant(decays(rng, 6))
    problem = LeastSquaresProblem(lambda p: residuals_of(p, captured), x, batch_dims=1)
    assert problem.solve().success.all()
    x.assign(started(4))
    with pytest.raises(ValueError, match="must be equal"):
        problem.solve()


@pytest.mark.by_day(None)
def test_residuals_for_all_fits_only_are_traced_for_each_number(rng):
    x = open_start(5)
    problem = LeastSquaresProblem(by_counting, x, batch_dims=1)
    for count in (5, 7, 5):
        measured = decays(rng, count)
        x.assign(started(count))
        found = problem.solve(measured)
        for k in (0, count - 1):
            expected = by_scipy(measured[k], [2.0, 1.0])
            np.testing.assert_allclose(found.x[k], expected.x, rtol=1e-4)
            np.testing.assert_allclose(found.cost[k], (k + 1) ** 2 * expected.cost, rtol=1e-6)


@pytest.mark.by_day(None)
def test_inside_of_a_function(rng):
    """An `Outcome`, with the data of each call; what was traced outside is not mixed up with it."""
    x, measured = started(), decays(rng)
    problem = LeastSquaresProblem(residuals_of, x, batch_dims=1, chunk_size=8)

    @tf.function
    def fit(y):
        x.assign(tf.tile([[tf.constant(2.0, tf.float64), 1.0]], [COUNT, 1]))
        return problem.solve(y)

    for shift in (0.0, 0.3):
        outcome = fit(tf.constant(measured + shift))
        x.assign(started())
        found = problem.solve(measured + shift)
        assert outcome.cost.shape == [COUNT] and Status(int(outcome.status[0])).converged
        np.testing.assert_allclose(outcome.x, found.x, rtol=1e-9)
        np.testing.assert_allclose(outcome.cost, found.cost, rtol=1e-9)


def test_refused(rng):
    """What many fits do not have, as in `least_squares`; and sizes that a graph must know."""
    x = started()
    refused = {
        "prior does not go together": {"prior": (0.0, 1.0)},
        "solver='cholesky'": {"solver": "qr"},
        "chunk_size must be": {"chunk_size": 0},
        "batch_dims must be one of": {"batch_dims": 2},
        "chunk_size is for batch_dims=1": {"batch_dims": 0, "chunk_size": 3},
        "devices is for batch_dims=1": {"batch_dims": 0, "devices": ["CPU:0"]},
    }
    for words, options in refused.items():
        with pytest.raises(ValueError, match=words):
            LeastSquaresProblem(residuals_of, x, **{"batch_dims": 1, **options})
    with pytest.raises(TypeError, match="no such option"):
        LeastSquaresProblem(residuals_of, x, batch_dims=1, tolerance=1e-3)
    problem = LeastSquaresProblem(residuals_of, open_start(3), batch_dims=1)
    with pytest.raises(ValueError, match="plan is for one problem"):
        problem.plan(decays(rng, 3))
    with pytest.raises(ValueError, match=r"must be known while tracing.*\(None, 2\)"):
        tf.function(problem.solve)(tf.constant(decays(rng, 3)))
    with pytest.raises(ValueError, match="must have a fixed shape"):
        LeastSquaresProblem(lambda: x - 1, open_start(3))
    with pytest.raises(ValueError, match=r"as the variables have. Received: variables of 20 rows, args of 19"):
        LeastSquaresProblem(residuals_of, x, batch_dims=1).solve(decays(rng, 19))


@pytest.mark.by_day(None)
def test_a_result_stays_what_it_was(rng):
    """Its errors are of its own point and data, whenever they are asked for."""
    x = open_start(4)
    problem = LeastSquaresProblem(residuals_of, x, batch_dims=1)
    measured = decays(rng, 4)
    first = problem.solve(measured)
    x.assign(started(6))
    problem.solve(decays(rng, 6))
    expected = least_squares(residuals_of, tf.Variable(first.x), args=(measured,), batch_dims=1)
    np.testing.assert_allclose(first.covariance(), expected.covariance(), rtol=1e-6)
    with warnings.catch_warnings(action="error"):
        assert first.determined().all()
