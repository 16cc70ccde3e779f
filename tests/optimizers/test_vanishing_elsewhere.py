"""Minima where J vanishes, in graphs, many fits and with conditions; and places like them that are no minima."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize

import tfjac
from tfjac.optimizers import Status, least_squares
from tfjac.steps.converge import tolerances
from tfjac.steps.vanished import Place, vanished_at_minimum

T = np.linspace(0.0, 1.0, 10)
Y = 2 * T - 1 + 0.1 * np.sin(30 * T)


def parabola(v):
    return v[..., :1] * T + v[..., 1:] ** 2 - Y


def variable(*values):
    return tf.Variable(np.array(values, np.float64))


def huber(r):
    return np.where(np.abs(r) <= 0.5, r**2 / 2, 0.5 * np.abs(r) - 0.125)


def cauchy(r):
    return 0.125 * np.log1p(4 * r**2)


CONDITIONS = {
    "none": ({}, lambda a, r: r**2 / 2),
    "bounds": ({"bounds": ([-9.0, -3.0], [9.0, 3.0])}, lambda a, r: r**2 / 2),
    "huber": ({"loss": "huber", "loss_scale": 0.5}, lambda a, r: huber(r)),
    "cauchy": ({"loss": "cauchy", "loss_scale": 0.5}, lambda a, r: cauchy(r)),
    "prior": ({"prior": ([2.0, 0.0], [0.1, np.inf])}, lambda a, r: r**2 / 2 + (a - 2) ** 2 / 0.02 / len(T)),
}


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("in_function", [False, True])
def test_of_one_fit(name, in_function):
    options, part = CONDITIONS[name]
    v = variable(1.0, 1.0)

    def fit():
        return least_squares(lambda: parabola(v), v, **options)

    found = (tf.function(fit) if in_function else fit)()
    assert Status(int(found.status)) is Status.GRADIENT_TOLERANCE
    known = minimize(lambda a: part(a[0], a[0] * T - Y).sum(), [1.0], tol=1e-12).x[0]
    np.testing.assert_allclose(v.numpy(), [known, 0], atol=1e-5)


@pytest.mark.by_day(None)
def test_compiled_by_xla():
    v = variable(1.0, 1.0)
    found = tf.function(lambda: least_squares(lambda: parabola(v), v), jit_compile=True)()
    assert bool(found.success)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("loss", [None, "huber"])
@pytest.mark.parametrize("in_function", [False, True])
def test_of_many_fits(loss, in_function):
    v, known = variable([1, 1], [2, 3], [-1, 0.5], [1, -2]), T @ Y / (T @ T)

    def fit():
        return least_squares(parabola, v, batch_dims=1, loss=loss, loss_scale=None if loss is None else 9.0)

    found = (tf.function(fit) if in_function else fit)()
    assert np.all(found.success)
    np.testing.assert_allclose(v.numpy(), [[known, 0]] * 4, atol=1e-6)
    if not in_function:
        assert not found.determined().any() and np.isnan(found.covariance()).any(axis=(1, 2)).all()


@pytest.mark.by_day(None)
def test_of_many_fits_for_all_only_and_in_turn():
    """Captured rows: fits can be evaluated for all alone; with chunks, those that stalled come in any order."""
    size = np.array([[5.0], [-3.0], [1.0], [2.0], [7.0]])
    for options in ({}, {"chunk_size": 2}):
        v = variable([2.0], [1.0], [-7.0], [3.0], [0.5])
        found = least_squares(lambda v, size: v**2 + size, v, args=(size,), batch_dims=1, **options)
        assert found.success.all()
        np.testing.assert_allclose(v.numpy()[:, 0] ** 2, [0, 3, 0, 0, 0], atol=1e-12)


@pytest.mark.by_day(one_in=2)
@pytest.mark.filterwarnings("ignore:tfjac. residuals returned a single number")
@pytest.mark.parametrize("kind", ["sphere", "quaternion"])
def test_on_manifolds(kind):
    start, near, manifold = {
        "sphere": ([0.8, 0.0, 0.6], [0.6, 0.8, 0.0], tfjac.manifolds.UnitSphere()),
        "quaternion": ([0.1, 0.2, 0.3, 0.927361849], [0.0, 0.0, 0.0, 1.0], tfjac.manifolds.Quaternion()),
    }[kind]
    x = tf.Variable(np.array(start) / np.linalg.norm(start))
    found = least_squares(lambda: tf.stack([6 - tf.reduce_sum(x * near)]), x, manifolds=manifold)
    assert found.success
    np.testing.assert_allclose(x.numpy(), near, atol=1e-6)


def valley(x, y):
    """A narrow valley between the axes: along each axis the cost rises, far from the end."""
    return (x + y) ** 2 + 1e6 * (x - y) ** 2


PLACES = {
    "minimum": (lambda x, y: x**2 + 3 * y**2, [1e-9, 1e-9], True),
    "end of a valley": (valley, [1e-9, -1e-9], True),
    "of fourth order": (lambda x, y: x**4 + (x - y) ** 2, [1e-6, 1e-6], True),
    "slope": (lambda x, y: x + y**2, [1.0, 1e-9], False),
    "saddle": (lambda x, y: x**2 - y**2, [1e-9, 1e-9], False),
    "saddle between the axes": (lambda x, y: x**2 + y**2 - 3 * x * y, [1e-9, 1e-9], False),
    "in a valley, far from its end": (valley, [0.05, 0.05], False),
    "inflection": (lambda x, y: x**3 + y**2, [1e-9, 1e-9], False),
    "not finite beside it": (lambda x, y: x**2 + y**2 + np.where(x > 1e-8, np.nan, 0), [1e-9, 1e-9], False),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("size", [1e-7, 1e-5])
def test_which_places_are_minima(size):
    """F = ½(5 + δf)², J = δ∇f by central differences: the columns have vanished at all places."""
    functions, places, known = zip(*PLACES.values())

    def costs(points):
        return np.array([(5 + size * f(*point)) ** 2 / 2 for f, point in zip(functions, points)])

    places, h = np.array(places), 1e-6
    slopes = np.array(
        [[(f(*(p + h * e)) - f(*(p - h * e))) / (2 * h) for e in np.eye(2)] for f, p in zip(functions, places)]
    )
    rows = size * np.nan_to_num(slopes, nan=1e-9)
    gram, gradient = rows[:, :, None] * rows[:, None], rows * 5
    place = Place._make(map(tf.constant, (costs(places), gram, gradient, np.ones([len(places), 2]), places < 9)))
    found = tf.function(
        lambda: vanished_at_minimum(
            place,
            lambda change: tf.ensure_shape(
                tf.numpy_function(lambda c: costs(places + c), [change], tf.float64), [None]
            ),
            tolerances(None, None, None, tf.float64),
        )
    )()
    assert dict(zip(PLACES, found.numpy().all(axis=1))) == dict(zip(PLACES, known))


@pytest.mark.parametrize("many", [False, True])
def test_an_inflection_is_no_minimum(many):
    v = variable([1.0]) if many else variable(1.0)
    found = least_squares(lambda v: 5 + v**3, [v], **({"batch_dims": 1} if many else {}))
    assert not np.any(found.success)
