"""Many fits at once against each of them alone: by SciPy, and by `least_squares` itself, step for step."""

import functools
import warnings

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.optimizers import Status, TrustRegionDamping, least_squares

T = np.linspace(0, 4, 12)
COUNT = 20


def decays(generator, count=COUNT):
    """Give measured decays `[count, 12]` of as many sizes and rates."""
    truth = np.stack([generator.uniform(1, 4, count), generator.uniform(0.2, 2, count)], axis=1)
    return truth[:, :1] * np.exp(-truth[:, 1:] * T) + 0.05 * generator.normal(size=(count, T.size))


def residuals_of(parameters, measured, t=T):
    """Give the residuals of decays `[n, 12]` as plain TensorFlow."""
    return parameters[:, :1] * tf.exp(-parameters[:, 1:] * t) - measured


def by_scipy(measured, start, **options):
    """Give the minimum of one decay."""
    return scipy.optimize.least_squares(
        lambda x: x[0] * np.exp(-x[1] * T) - measured, start, xtol=1e-14, ftol=1e-14, gtol=1e-14, **options
    )


def started(count=COUNT, dtype=tf.float64):
    """Give the variable `[count, 2]` at the start."""
    return tf.Variable(np.tile([2.0, 1.0], [count, 1]), dtype=dtype)


@pytest.fixture
def measured(rng):
    """Give measured decays, one of which has a number that is none, and one that is constant."""
    values = decays(rng)
    values[3, 5], values[7] = np.nan, 0.0
    return values


@pytest.mark.core
@pytest.mark.parametrize("damping, chunk_size", [("trust_region", 6), ("nielsen", None)])
def test_each_fit_goes_as_if_alone(measured, damping, chunk_size):
    """Point, cost, status, and how many steps and evaluations it took are those of a fit by itself.

    But for attempts of a last step that all drown in rounding: there the first one is enough. Of a cost that falls to
    zero, it is rounding that says in which step, and by which tolerance.
    """
    x = started()
    straight = {"trust_region": TrustRegionDamping(residual_curvature=False)}  # as the steps of many fits are
    options = {"damping": straight.get(damping, damping), "max_steps": 30}
    found = least_squares(residuals_of, x, args=(measured,), batch_dims=1, chunk_size=chunk_size, **options)
    np.testing.assert_array_equal(found.x, x.numpy())
    alone = tf.Variable([2.0, 1.0], dtype=tf.float64)
    problem = tfjac.LeastSquaresProblem(
        lambda y: alone[0] * tf.exp(-alone[1] * T) - y, alone, solver="cholesky", **options
    )
    for k, values in enumerate(measured):
        alone.assign([2.0, 1.0])
        one = problem.solve(values)
        assert found.success[k] == one.success, k
        if one.cost > 0:
            assert Status(found.status[k]) == one.status, k
            drowned = 0 if one.history.accepted[-1:].all() else max(one.history.attempts[-1] - 1, 0)
            assert found.steps[k] == one.steps, k
            assert one.evaluations - drowned <= found.evaluations[k] <= one.evaluations, k
        np.testing.assert_allclose(found.x[k], one.x, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.cost[k], one.cost, rtol=1e-9, atol=1e-60)
        np.testing.assert_allclose(found.gradient_norm[k], one.gradient_norm, rtol=1e-3, atol=1e-10)
    assert Status(found.status[3]) == Status.NOT_FINITE and not found.success[3]
    np.testing.assert_array_equal(found.x[3], [2.0, 1.0])
    assert found.success.sum() >= COUNT - 2


@pytest.mark.by_day(None)
@pytest.mark.parametrize("scaling", ["auto", "more"])
@pytest.mark.parametrize("damping", ["radius", "trust_region", "nielsen"])
def test_fits_from_far_go_as_if_alone(rng, damping, scaling):
    """Many attempts are rejected: until one is kept, D stays as it is, and so does a search that ended."""
    t = np.linspace(0, 1, 25)
    truth = np.stack([rng.uniform(1, 5, 12), rng.uniform(0.2, 0.8, 12), rng.uniform(0.05, 0.2, 12)], axis=1)
    start = np.stack([rng.uniform(0.1, 30, 12), rng.uniform(-0.5, 1.5, 12), rng.uniform(0.02, 2, 12)], axis=1)

    def peaks(p):
        return p[..., :1] * tf.exp(-(((t - p[..., 1:2]) / p[..., 2:]) ** 2) / 2)

    measured, options = peaks(truth) + 0.02 * rng.normal(size=(12, 25)), {"damping": damping, "scaling": scaling}
    fits = tf.Variable(start)
    found = least_squares(lambda y: peaks(fits) - y, fits, 6, args=(measured,), batch_dims=1, **options)
    assert found.evaluations.sum() > found.steps.sum()
    alone = tf.Variable(start[0])
    problem = tfjac.LeastSquaresProblem(lambda y: peaks(alone) - y, alone, 6, solver="cholesky", **options)
    for k in range(12):
        alone.assign(start[k])
        one = problem.solve(measured[k])
        assert (found.steps[k], found.status[k]) == (one.steps, one.status), k
        is_rounding = one.status == Status.STALLED  # how many attempts drown in it depends on the solver
        assert is_rounding or found.evaluations[k] == one.evaluations, k
        np.testing.assert_allclose(found.cost[k], one.cost, rtol=1e-7)


@pytest.mark.by_day(None)
def test_rejected_attempts_that_drown_in_rounding_end_a_fit(rng):
    """In float32 some fits come so near to their minima that no attempt is accepted; they try one, and not thirty."""
    measured, x = decays(rng, 400).astype("float32"), started(400, tf.float32)
    found = least_squares(lambda p, y: residuals_of(p, y, T.astype("float32")), x, args=(measured,), batch_dims=1)
    exact = least_squares(residuals_of, started(400), args=(measured.astype(float),), batch_dims=1, xtol=1e-12)
    assert found.success.all() and np.max(found.evaluations - found.steps) < 10
    np.testing.assert_allclose(found.cost, exact.cost, rtol=1e-4)
    np.testing.assert_array_less(-1e-5, found.cost / exact.cost - 1)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_bounds_and_fixed_parameters_of_each(rng, jit_compile):
    """Against SciPy within bounds of each fit: the same minima, and the same parameters at their bounds."""
    measured, x = decays(rng), started()
    upper = np.stack([np.linspace(1.5, 5, COUNT), np.linspace(2.5, 1.0, COUNT)], axis=1)
    upper[0] = [2.0, 3.0]
    start = np.minimum(x.numpy(), upper)
    x.assign(start)
    options = {"xtol": 1e-12, "ftol": 1e-13, "gtol": 1e-10, "batch_dims": 1, "jit_compile": jit_compile}
    found = least_squares(residuals_of, x, args=(measured,), bounds=(0.0, upper), **options)
    for k in range(COUNT):
        inside = np.clip(start[k], 1e-6, upper[k] - 1e-6)
        expected = by_scipy(measured[k], inside, bounds=([0, 0], upper[k]))
        np.testing.assert_allclose(found.x[k], expected.x, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found.active[k], np.isclose(expected.x, upper[k], rtol=1e-6).astype(int))
    assert np.all(found.x <= upper) and found.active.sum() >= 3

    fixed = np.zeros([COUNT, 2], bool)
    fixed[::2, 1] = True
    x.assign(np.tile([2.0, 1.0], [COUNT, 1]))
    found = least_squares(residuals_of, x, args=(measured,), fixed=fixed, **options)
    shape = np.exp(-T)
    np.testing.assert_allclose(found.x[::2, 0], measured[::2] @ shape / (shape @ shape), rtol=1e-7)
    np.testing.assert_array_equal(found.x[::2, 1], 1.0)
    np.testing.assert_allclose(found.x[1], by_scipy(measured[1], [2.0, 1.0]).x, rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("outside, chunk_size", [([4], None), ([4], 1), (range(9), 3), (range(COUNT), None)])
def test_a_start_outside_of_its_bounds_harms_no_other(rng, outside, chunk_size):
    """These fits are INFEASIBLE, and stay; the others go on, also where nothing else is under way."""
    x, measured, is_outside = started(), decays(rng), np.isin(np.arange(COUNT), outside)
    x.assign(np.where(is_outside[:, None], 9.0, x.numpy()))
    found = least_squares(
        residuals_of, x, args=(measured,), bounds=(0.0, 5.0), batch_dims=1, chunk_size=chunk_size, xtol=1e-12
    )
    np.testing.assert_array_equal(found.status == Status.INFEASIBLE, is_outside)
    np.testing.assert_array_equal(found.success, ~is_outside)
    np.testing.assert_array_equal(found.x, x.numpy())
    np.testing.assert_array_equal(found.x[is_outside], 9.0)
    squares = (9.0 * np.exp(-9.0 * T) - measured[is_outside]) ** 2
    np.testing.assert_allclose(found.cost[is_outside], squares.sum(axis=1) / 2)
    for k in np.flatnonzero(~is_outside)[::5]:
        np.testing.assert_allclose(found.x[k], by_scipy(measured[k], [2.0, 1.0], bounds=(0, 5)).x, rtol=1e-5)


@pytest.mark.by_day(None)
def test_errors_respect_masks_and_weights(rng):
    """Covariances against SciPy's `curve_fit` of the measurements that count, by their weights; of the rest, NaN."""
    measured, x = decays(rng), started()
    kept = rng.uniform(size=measured.shape) < 0.8
    kept[5], kept[6] = False, np.arange(T.size) < 2
    weights = rng.uniform(0.5, 2, size=T.size)
    measured = np.where(kept, measured, 1e3)

    def residuals(parameters, measured, kept):
        weighted = weights * residuals_of(parameters, measured)
        return tf.where(kept, weighted, tf.zeros_like(weighted))

    found = least_squares(residuals, x, xtol=1e-12, ftol=1e-13, args=(measured, kept), batch_dims=1)
    np.testing.assert_array_equal(found.num_residuals, kept.sum(axis=1))
    covariance, errors = found.covariance(), found.standard_errors()
    for k in range(COUNT):
        if k in (5, 6):
            assert np.isnan(covariance[k]).all() and not found.determined()[k]
            continue
        rows = kept[k]
        values, expected = scipy.optimize.curve_fit(
            lambda t, size, rate: size * np.exp(-rate * t), T[rows], measured[k][rows], [2, 1],
            sigma=1 / weights[rows], xtol=1e-14, ftol=1e-14,
        )  # fmt: skip
        np.testing.assert_allclose(found.x[k], values, rtol=1e-6)
        np.testing.assert_allclose(covariance[k], expected, rtol=1e-4)
        np.testing.assert_allclose(errors[k], np.sqrt(np.diag(expected)), rtol=1e-4)
    assert Status(found.status[5]) == Status.GRADIENT_TOLERANCE and found.rank[5] == 0
    assert "20 fits" in repr(found) and "GRADIENT_TOLERANCE" in found.summary()


@pytest.mark.core
def test_outliers_by_a_robust_loss(rng):
    """Against SciPy with the same loss."""
    measured, x = decays(rng), started()
    measured[:, 4] += 3.0
    found = least_squares(
        residuals_of, x, xtol=1e-12, ftol=1e-14, args=(measured,), batch_dims=1, loss="soft_l1", loss_scale=0.1
    )
    for k in range(0, COUNT, 4):
        expected = by_scipy(measured[k], [2.0, 1.0], loss="soft_l1", f_scale=0.1)
        np.testing.assert_allclose(found.x[k], expected.x, rtol=1e-5)
        np.testing.assert_allclose(found.cost[k], expected.cost, rtol=1e-8)
    assert np.isfinite(found.standard_errors()).all()


def read_by_themselves(x, measured):
    return lambda: residuals_of(tf.convert_to_tensor(x), measured)


def read_with_args(x, measured):
    return lambda y: residuals_of(tf.convert_to_tensor(x), y)


def with_numbers(x, measured):
    return lambda parameters, y, number, scalar: number * scalar * residuals_of(parameters, y)


def mapped_over_fits(x, measured):
    return lambda parameters, y: tf.vectorized_map(
        lambda one: residuals_of(one[0][None], one[1][None])[0], (parameters, y)
    )


def given_a_constant(x, measured):
    return lambda parameters: residuals_of(parameters, measured)


def given_a_captured_tensor(x, measured):
    captured = tf.constant(measured)
    return lambda parameters: residuals_of(parameters, captured)


def of_several_tensors(x, measured):
    def residuals(parameters, y):
        all_of_them = residuals_of(parameters, y)
        return {"early": all_of_them[:, :5], "late": tf.reshape(all_of_them[:, 5:], [-1, 7, 1])}

    return residuals


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize(
    "form",
    [read_by_themselves, read_with_args, with_numbers, mapped_over_fits]
    + [given_a_constant, given_a_captured_tensor, of_several_tensors],
)
def test_forms_of_residuals(rng, form):
    """Whether residuals read the variables or are given them, and where their data come from."""
    measured, x = decays(rng), started()
    args = {
        read_with_args: (measured,), of_several_tensors: (measured,), mapped_over_fits: (measured,),
        with_numbers: (measured, 0.5, tf.constant(2.0, tf.float64)),
    }.get(form, ())  # fmt: skip
    found = least_squares(form(x, measured), x, args=args, batch_dims=1)
    assert found.success.all()
    for k in (0, COUNT - 1):
        np.testing.assert_allclose(found.x[k], by_scipy(measured[k], [2.0, 1.0]).x, rtol=1e-5)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("shared", ["times", "reduced"])
def test_shared_data_with_as_many_rows_as_there_are_fits(rng, shared):
    """Data that all fits share are not taken for those of each, although there are as many as fits."""
    count = T.size
    measured, x = decays(rng, count), started(count)

    def residuals(parameters, measured, t):
        t = t if shared == "times" else T + 0 * tf.reduce_mean(t) + tf.reduce_max(t) - 4.0
        return parameters[:, :1] * tf.exp(-parameters[:, 1:] * t) - measured

    found = least_squares(residuals, x, args=(measured, T), batch_dims=1)
    for k in (0, count - 1):
        np.testing.assert_allclose(found.x[k], by_scipy(measured[k], [2.0, 1.0]).x, rtol=1e-5)


def by_slices(p, y):
    return residuals_of(p, y[: tf.shape(p)[0]])


def by_ranges(p, y):
    return residuals_of(p, tf.gather(y, tf.range(tf.shape(p)[0])))


def by_counting(p, y):
    places = tf.cumsum(tf.ones_like(p[:, 0]))
    return residuals_of(p, y) * places[:, None]


def by_the_number(p, y):
    return residuals_of(p, y) * tf.sqrt(tf.cast(tf.size(y), y.dtype))


def by_a_branch_on_the_number(p, y):
    return tf.cond(tf.shape(p)[0] > 3, lambda: residuals_of(p, y), lambda: 2 * residuals_of(p, y))


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "residuals, in_graph",
    [
        (by_slices, False),
        (by_ranges, True),
        (by_counting, True),
        (by_the_number, False),
        (by_a_branch_on_the_number, True),
    ],
)
def test_residuals_that_go_by_the_place_or_the_number_of_fits(rng, residuals, in_graph):
    """Evaluated for some of the fits they would be others: then they are evaluated for all."""
    measured, x = decays(rng), started()
    captured = tf.constant(measured)
    if residuals in (by_slices, by_ranges):
        fit = lambda: least_squares(lambda p: residuals(p, captured), x, batch_dims=1)  # noqa: E731
    else:
        fit = lambda: least_squares(residuals, x, args=(captured,), batch_dims=1)  # noqa: E731
    found = tf.function(fit)() if in_graph else fit()
    assert np.all(found.success)
    for k in range(0, COUNT, 3):
        expected = by_scipy(measured[k], [2.0, 1.0])
        np.testing.assert_allclose(found.x[k], expected.x, rtol=1e-4)
        weight = {by_counting: (k + 1) ** 2, by_the_number: measured.size}.get(residuals, 1)
        np.testing.assert_allclose(found.cost[k], weight * expected.cost, rtol=1e-6)


GIVEN = {
    "array": lambda y, x: lambda p: residuals_of(p, y),
    "tensor": lambda y, x: (lambda data: lambda p: residuals_of(p, data))(tf.constant(y)),
    "variable": lambda y, x: (lambda data: lambda p: residuals_of(p, data))(tf.Variable(y)),
    "reading": lambda y, x: lambda: residuals_of(tf.convert_to_tensor(x), y),
    "reading, argument": lambda y, x: lambda data: residuals_of(tf.convert_to_tensor(x), data),
    "both": lambda y, x: lambda p, data: residuals_of(p, (y + data) / 2),
    "indices": lambda y, x: lambda p: residuals_of(p, tf.gather(tf.constant(y), np.arange(len(y)))),
}
"""Ways of giving data that are each fit's own."""


@pytest.mark.by_day(None)
@pytest.mark.parametrize("count", [COUNT, T.size])
@pytest.mark.parametrize("given", GIVEN)
def test_what_is_captured_is_each_fits_own_as_arguments_are(rng, given, count):
    """In chunks, also where there are as many positions as fits; in a graph and eagerly."""
    measured, x = decays(rng, count), started(count)
    residuals = GIVEN[given](measured, x)
    args = (tf.constant(measured),) if given in ("reading, argument", "both") else ()
    for in_graph in (False, True):
        x.assign(started(count))
        with warnings.catch_warnings(action="error"):
            fit = lambda: least_squares(residuals, x, args=args, batch_dims=1, chunk_size=3, xtol=1e-12)  # noqa: E731
            found = tf.function(fit, autograph=False)() if in_graph else fit()
        for k in range(count):
            np.testing.assert_allclose(found.x[k], by_scipy(measured[k], [2.0, 1.0]).x, rtol=1e-5)


@pytest.mark.by_day(None)
def test_rows_of_other_fits_among_what_is_captured(rng):
    """They go by the place: all fits are evaluated at once, as they were."""
    measured, x = tf.constant(decays(rng)), started()
    with pytest.warns(UserWarning, match="chunk_size has no effect"):
        least_squares(lambda p: residuals_of(p, tf.reverse(measured, [0])), x, batch_dims=1, chunk_size=3)
    np.testing.assert_allclose(x[0], by_scipy(measured[-1], [2.0, 1.0]).x, rtol=1e-4)


@pytest.mark.by_day(None)
def test_nests_of_variables_in_a_graph(rng):
    """An `Outcome` of vectors, and data as arguments of the user's function; also compiled with the rest by XLA."""
    measured = decays(rng)
    x = {"rate": tf.Variable(np.ones(COUNT)), "size": tf.Variable(2 * np.ones([COUNT, 1]))}

    def residuals(x, y):
        return x["size"] * tf.exp(-x["rate"][:, None] * T) - y

    for jit_compile in (False, True):

        @tf.function(jit_compile=jit_compile)
        def fit(y):
            x["rate"].assign(tf.ones([COUNT], tf.float64))
            outcome = least_squares(residuals, x, args=(y,), batch_dims=1, chunk_size=8)
            return outcome, outcome.success

        outcome, success = fit(tf.constant(measured))
        assert success.shape == [COUNT] and np.all(success)
        np.testing.assert_array_equal(outcome.x["rate"], x["rate"].numpy())
        for k in (0, COUNT - 1):
            expected = by_scipy(measured[k], [2.0, 1.0])
            np.testing.assert_allclose([outcome.x["size"][k, 0], outcome.x["rate"][k]], expected.x, rtol=1e-5)
            np.testing.assert_allclose(outcome.cost[k], expected.cost, rtol=1e-8)
    with pytest.raises(ValueError, match="no derivatives"):
        tf.function(lambda y: tf.gradients(fit.python_function(y)[0].cost, y))(tf.constant(measured))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("given", ["argument", "captured tensor", "captured variable"])
def test_data_with_an_open_number_of_rows(rng, given):
    """There may be a row for each fit: all fits are evaluated at once, in a graph and eagerly."""
    x, measured, options = started(5), decays(rng, 5), {"batch_dims": 1, "chunk_size": 3}
    spec = tf.TensorSpec([None, T.size], tf.float64)
    if given == "captured variable":
        data = tf.Variable(measured, shape=spec.shape)
        fit = lambda: least_squares(lambda p: residuals_of(p, data), x, **options).x  # noqa: E731
    elif given == "captured tensor":
        of_data = lambda y: least_squares(lambda p: residuals_of(p, y), x, **options).x  # noqa: E731
        fit = functools.partial(tf.function(of_data, input_signature=[spec]), measured)
    else:
        of_data = lambda y: least_squares(residuals_of, x, args=(y,), **options).x  # noqa: E731
        fit = functools.partial(tf.function(of_data, input_signature=[spec]), measured)
    with pytest.warns(UserWarning, match="chunk_size has no effect"):
        found = fit()
    for k in range(5):
        np.testing.assert_allclose(found[k], by_scipy(measured[k], [2.0, 1.0]).x, rtol=1e-5)


@pytest.mark.by_day(None)
def test_residuals_of_any_scale(rng):
    """In single precision, squares of what is measured would be zero, or infinite; each fit has a unit of its own."""
    measured = decays(rng, 5)
    scales = np.array([1.0, 1e-25, 1.0, 1e25, 1.0])[:, None]

    def residuals(parameters, measured, scales):
        return scales * parameters[:, :1] * tf.exp(-parameters[:, 1:] * T.astype(np.float32)) - measured

    x = started(5, tf.float32)
    found = least_squares(residuals, x, args=(measured * scales, scales), batch_dims=1)
    assert found.success.all()
    for k in range(5):
        np.testing.assert_allclose(found.x[k], by_scipy(measured[k], [2.0, 1.0]).x, rtol=2e-3)


@pytest.mark.by_day(None)
def test_undetermined_fits_are_named(rng):
    """A parameter that the data of one fit do not depend on: its errors are NaN, those of the others are not."""
    measured, x = decays(rng), started()
    seen = np.ones([COUNT, 1])
    seen[2] = 0

    def residuals(parameters, measured, seen):
        return seen * parameters[:, :1] * tf.exp(-parameters[:, 1:] * T) - measured

    found = least_squares(residuals, x, args=(measured, seen), batch_dims=1)
    np.testing.assert_array_equal(~found.determined(), np.arange(COUNT) == 2)
    np.testing.assert_array_equal(found.x[2], [2.0, 1.0])
    assert found.rank[2] == 0 and np.isnan(found.standard_errors()[2]).all()


@pytest.mark.by_day(None)
def test_a_second_call_traces_the_residuals_alone(rng):
    """New data of the same shapes, and other variables, use what was traced before; a result stays what it was."""
    x, traces = started(), []

    def residuals(parameters, measured):
        traces.append(1)
        return residuals_of(parameters, measured)

    first = least_squares(residuals, x, args=(decays(rng),), batch_dims=1)
    errors, before = first.standard_errors(), len(traces)
    measured = decays(rng)
    second = least_squares(residuals, started(), args=(measured,), batch_dims=1)
    assert len(traces) - before == 1 < before
    np.testing.assert_allclose(second.x[0], by_scipy(measured[0], [2.0, 1.0]).x, rtol=1e-5)
    np.testing.assert_array_equal(first.standard_errors(), errors)


REFUSED = {
    "mixing fits": (lambda p, y: residuals_of(p, y) - tf.reduce_mean(p[:, :1]), {}, "its own parameters alone"),
    "mixing fits by an op": (lambda p, y: residuals_of(tf.cumsum(p), y), {}, "Cumsum"),
    "mixing values": (lambda p, y: residuals_of(p, y) * tf.round(tf.reduce_mean(p)), {}, "its own parameters alone"),
    "stopped gradients": (
        lambda p, y: residuals_of(p, y) / tf.stop_gradient(tf.reduce_max(p)),
        {},
        "its own parameters alone",
    ),
    "another shape": (lambda p, y: tf.reshape(residuals_of(p, y), [-1]), {}, "along their first axis"),
    "a scalar": (lambda p, y: tf.reduce_sum(residuals_of(p, y)), {}, "along their first axis"),
    "random": (lambda p, y: residuals_of(p, y) + tf.random.normal([], dtype=tf.float64), {}, "draw at random"),
    "unused": (lambda p, y: p[:, :1] * 0 + y, {"variables": 2}, "depend on every variable"),
    "a prior": (residuals_of, {"prior": (0.0, 1.0)}, "prior does not go together"),
    "a callback": (residuals_of, {"callback": print}, "callback does not go together"),
    "a window": (residuals_of, {"window": 3}, "window does not go together"),
    "a solver": (residuals_of, {"solver": "qr"}, "cholesky"),
    "two axes": (residuals_of, {"batch_dims": 2}, "batch_dims must be one of"),
    "a size": (residuals_of, {"chunk_size": 0}, "chunk_size must be"),
    "a size without axes": (residuals_of, {"batch_dims": 0, "chunk_size": 3}, "chunk_size"),
}


@pytest.mark.core
@pytest.mark.parametrize("kind", REFUSED)
def test_refused(rng, kind):
    """What is wrong, and what to do."""
    residuals, options, words = REFUSED[kind]
    x = started()
    variables = [x, started()] if options.pop("variables", None) else x
    if isinstance(variables, list):
        residuals = lambda p, q, y: residuals_of(p, y)  # noqa: E731
    with pytest.raises(ValueError, match=words):
        least_squares(residuals, variables, args=(decays(rng),), **{"batch_dims": 1, **options})
    np.testing.assert_array_equal(x.numpy(), started().numpy())


def test_variables_of_other_lengths_and_sizes_that_cannot_be():
    """Variables that have not the fits along their first axis; chunks of residuals that count the fits."""
    x = started()
    with pytest.raises(ValueError, match="as many in each"):
        least_squares(lambda p, q: p + q, [x, started(3)], batch_dims=1)
    with pytest.warns(UserWarning, match="chunk_size has no effect"):
        least_squares(by_counting, x, args=(tf.zeros([COUNT, 1], tf.float64),), batch_dims=1, chunk_size=4)


@pytest.mark.parametrize("fixed", [None, [False, True]])
def test_a_variable_without_elements(fixed):
    """Half of the target is nearest to it and to zero."""
    target, x, empty = np.arange(6.0).reshape(3, 2), tf.Variable(tf.ones([3, 2])), tf.Variable(tf.zeros([3, 0, 2]))
    found = least_squares(
        lambda p, q: tf.concat([p - target, p + tf.reduce_sum(q, 1)], 1), [x, empty], batch_dims=1, fixed=fixed
    )
    np.testing.assert_allclose(x, target / 2, atol=1e-5)
    assert found.success.all() and [each.shape for each in found.standard_errors()] == [(3, 2), (3, 0, 2)]


@pytest.mark.by_day(None)
def test_a_start_and_a_cost_at_infinity(rng):
    """A start that residuals do not see has a gradient of zero, but is no minimum; neither fit has errors."""
    x, measured = started(3), decays(rng, 3)
    x.assign([[2.0, 1.0], [2.0, np.inf], [2.0, 1.0]])
    measured[2, 4] = 1e160
    found = least_squares(
        lambda p, y: p[:, :1] / (1 + tf.exp(p[:, 1:])) - y,
        x, args=(measured,), batch_dims=1, fixed=np.arange(6).reshape(3, 2) == 5,
    )  # fmt: skip
    assert Status(found.status[1]) == Status.NOT_FINITE and not found.success[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(found.standard_errors()[1:]).all()


@pytest.mark.by_day(None)
def test_errors_with_a_loss_that_is_a_function(measured):
    """A tape differentiates it, at the end of fits too: errors are those by Huber's formula of the loss named so."""
    values, x = np.delete(measured, [3, 7], axis=0), started(COUNT - 2)
    options = {"args": (values,), "batch_dims": 1, "loss_scale": 0.05}
    found = least_squares(residuals_of, x, loss=lambda z: 2 * (tf.sqrt(1 + z) - 1), **options)
    errors, decay = found.standard_errors(), np.exp(-found.x[:, 1:] * T)
    assert found.determined().all()
    r = found.x[:, :1] * decay - values
    slope, bend = (1 + (r / 0.05) ** 2) ** -0.5, (1 + (r / 0.05) ** 2) ** -1.5
    scale = np.sqrt((slope**2 * r**2).sum(axis=1) / (T.size - 2)) / bend.mean(axis=1)
    rows = np.stack([decay, -found.x[:, :1] * T * decay], axis=2)
    inverse = np.linalg.inv(rows.swapaxes(1, 2) @ rows)
    np.testing.assert_allclose(errors, scale[:, None] * np.sqrt(np.diagonal(inverse, axis1=1, axis2=2)), rtol=1e-6)
