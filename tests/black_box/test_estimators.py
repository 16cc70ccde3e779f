"""Estimates of Jacobians: against the analytic ones, closed forms on quadratics, and NumPy's own Broyden."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import estimators


def pulled(box, x, cotangents):
    """Return the gradient by an eager tape."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = box(x)
    return tape.gradient(y, x, output_gradients=tf.constant(cotangents, y.dtype)).numpy()


class Recorded:
    """A function that remembers the arrays that it was called with."""

    def __init__(self, function):
        self.function, self.calls = function, []

    def __call__(self, *arrays):
        self.calls.append([np.array(array) for array in arrays])
        return self.function(*arrays)


SCALES = np.array([1e-4, 1.0, 3e3])


def bent(x):
    """[n, 3] -> [n, 2], with inputs of very different sizes."""
    s = x / SCALES.astype(x.dtype)
    return np.stack([np.sin(s[:, 0]) * s[:, 1], np.exp(0.3 * s[:, 2]) + s[:, 1] ** 3], axis=1)


def bent_jacobian(x):
    s = x / SCALES
    rows = np.zeros([len(x), 2, 3])
    rows[:, 0, 0], rows[:, 0, 1] = np.cos(s[:, 0]) * s[:, 1], np.sin(s[:, 0])
    rows[:, 1, 1], rows[:, 1, 2] = 3 * s[:, 1] ** 2, 0.3 * np.exp(0.3 * s[:, 2])
    return rows / SCALES


CASES = [
    (estimators.CentralDifferences, "float64", None, 1e-8),
    (estimators.CentralDifferences, "float32", None, 1e-3),
    (estimators.CentralDifferences, "float32", "float64", 1e-6),
    (estimators.OneSidedDifferences, "float64", None, 1e-6),
    (estimators.OneSidedDifferences, "float32", None, 1e-2),
    (estimators.OneSidedDifferences, "float32", "float64", 1e-2),
]


@pytest.mark.parametrize("kind, dtype, call_dtype, tolerance", CASES)
def test_differences_against_the_analytic_jacobian(kind, dtype, call_dtype, tolerance, rng):
    x, u = rng.normal(size=(4, 3)) * SCALES, rng.normal(size=(4, 2))
    box = tfjac.external(bent, kind(typical=SCALES), output_shape=(None, 2), per_example=True, call_dtype=call_dtype)
    found = pulled(box, tf.constant(x, dtype), u)
    expected = np.einsum("no,noi->ni", u, bent_jacobian(x))
    np.testing.assert_allclose(found * SCALES, expected * SCALES, rtol=tolerance, atol=tolerance)
    assert found.dtype == dtype


def test_a_wrong_typical_size_shows(rng):
    """The test above can fail: with steps of the size of one, an input of 1e-4 is differenced across its waves."""
    x = rng.normal(size=(4, 3)) * SCALES
    box = tfjac.external(bent, "central", output_shape=(None, 2), per_example=True, call_dtype="float32")
    found = pulled(box, tf.constant(x), np.ones([4, 2])) * SCALES
    assert np.abs(found - np.einsum("noi->ni", bent_jacobian(x)) * SCALES).max() > 1e-2


def test_one_sided_goes_backwards_for_a_negative_step():
    seen = Recorded(lambda x: x**2)
    box = tfjac.external(seen, estimators.OneSidedDifferences(step=-0.5), per_example=True)
    np.testing.assert_allclose(pulled(box, tf.constant([[3.0]], tf.float64), [[1.0]]), [[(9 - 1.5**2) / 1.5]])
    np.testing.assert_allclose(seen.calls[1][0], [[1.5]])


def quadratic(rng, size=5):
    a = rng.normal(size=(size, size))
    return a @ a.T


@pytest.mark.parametrize("kind", [estimators.SPSA, estimators.EvolutionStrategies])
def test_random_directions_on_a_quadratic(kind, rng):
    """[f(x+sd) − f(x−sd)]/2s · d = d dᵀ A x exactly, so the estimate is known from where the function was asked."""
    a, x = quadratic(rng), rng.normal(size=(1, 5))
    sizes = np.array([0.5, 1.0, 2.0, 1.0, 0.1])
    seen = Recorded(lambda x: 0.5 * np.einsum("ni,ij,nj->n", x, a, x))
    probes = 4000
    box = tfjac.external(seen, kind(probes=probes, typical=sizes), output_shape=(None,), per_example=True)
    found = pulled(box, tf.constant(x), [1.0])[0]
    ahead, behind = np.split(seen.calls[1][0], 2)
    np.testing.assert_allclose((ahead + behind) / 2, np.broadcast_to(x, ahead.shape), rtol=1e-9)
    length = 0.1 if kind is estimators.EvolutionStrategies else np.finfo(float).eps ** (1 / 3)
    d = (ahead - behind) / 2 / (length * sizes)
    if kind is estimators.SPSA:
        np.testing.assert_allclose(np.abs(d), 1.0, rtol=1e-4)
    samples = (d * sizes @ (a @ x[0]))[:, None] * d / sizes
    np.testing.assert_allclose(found, samples.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_less(np.abs(found - a @ x[0]), 5 * samples.std(0) / np.sqrt(probes))  # its mean is A x


def test_smoothing_sees_over_a_step():
    """d/dx E sign(x + σε) = 2 φ(x/σ)/σ, where the derivative of sign itself is zero."""
    sigma, x = 0.5, np.array([[0.3], [-0.8]])
    box = tfjac.external(np.sign, estimators.EvolutionStrategies(probes=20000, sigma=sigma), per_example=True)
    expected = 2 / sigma * np.exp(-((x / sigma) ** 2) / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(pulled(box, tf.constant(x), np.ones([2, 1])), expected, rtol=0.05)


@pytest.mark.parametrize("kind", [estimators.SPSA, estimators.EvolutionStrategies])
def test_seeds(kind):
    """The same seed, the same directions for the same forward passes; others for another seed or a later pass."""
    x, function = tf.constant([[0.3, 0.7]], tf.float64), lambda x: np.sin(x @ np.array([[1.0, 2.0], [0.5, -1.0]]))
    boxes = [tfjac.external(function, kind(probes=2, seed=seed), per_example=True) for seed in (1, 1, 2)]
    first, again, other = ([pulled(box, x, [[1.0, -2.0]]) for _ in range(3)] for box in boxes)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first[0], first[1]) and not np.allclose(first, other)


def test_broyden_against_numpy(rng):
    a = rng.normal(size=(3, 2))
    function = lambda x: np.tanh(x @ a)  # noqa: E731
    path = np.cumsum(rng.normal(size=(6, 1, 3)) * 0.3, axis=0)
    box = tfjac.external(function, estimators.Broyden(restart=4), output_shape=(None, 2), per_example=True)
    exact = lambda x: ((1 - np.tanh(x @ a) ** 2) * a).T  # noqa: E731
    jacobian, before = exact(path[0, 0]), path[0, 0]
    for step, x in enumerate(path[:, 0]):
        if step == 5:  # four updates after the first measurement
            jacobian = exact(x)
        elif step:
            s = x - before
            jacobian = jacobian + np.outer(function(x) - function(before) - jacobian @ s, s) / (s @ s)
        before = x
        for u in np.eye(2):
            np.testing.assert_allclose(pulled(box, tf.constant(x[None]), u[None])[0], u @ jacobian, atol=1e-8)
    assert box.counts.gradient == 2 * 6  # two measurements of six probes each


def test_broyden_in_two_places_at_once_is_measured_where_rows_change():
    seen = Recorded(lambda x: x**2)
    box = tfjac.external(seen, "broyden", per_example=True)
    for rows in (2, 2, 3):
        pulled(box, tf.ones([rows, 1], tf.float64), np.ones([rows, 1]))
    assert box.counts.gradient == 2 * 2 + 2 * 3
    box.forget()
    pulled(box, tf.ones([3, 1], tf.float64), np.ones([3, 1]))
    assert (box.counts.forward, box.counts.gradient) == (3, 6)


def test_broyden_measures_again_where_a_measurement_failed():
    """Not-a-numbers in the first Jacobian would stay in it through all updates."""
    answers = iter([1.0, np.nan, np.nan, 1.0, 1.0, 1.0])
    box = tfjac.external(lambda x: next(answers) * x**2, "broyden", on_failure="nan", per_example=True)
    assert np.isnan(pulled(box, tf.constant([[3.0]], tf.float64), [[1.0]]))
    next(answers)
    np.testing.assert_allclose(pulled(box, tf.constant([[4.0]], tf.float64), [[1.0]]), [[8.0]], rtol=1e-6)


def test_what_estimators_refuse():
    for make, words in [
        (lambda: estimators.SPSA(probes=0), "probes must be a positive integer"),
        (lambda: estimators.SPSA(seed=-1), "seed must be an integer"),
        (lambda: estimators.EvolutionStrategies(sigma=0.0), "sigma must be positive"),
        (lambda: estimators.Broyden(restart=0), "restart must be a positive integer"),
        (lambda: estimators.Broyden(start=estimators.SPSA()), "start must be an Estimator of the whole Jacobian"),
        (lambda: estimators.CentralDifferences(step=0), "step must be"),
        (lambda: estimators.CentralDifferences(typical=[1.0, 0.0]), "typical must be positive"),
        (lambda: tfjac.external(np.sin, "exact"), "gradient must be one of .*Received: 'exact'"),
    ]:
        with pytest.raises(ValueError, match=words):
            make()
    box = tfjac.external(np.sin, estimators.SPSA(typical=[1.0, 2.0, 3.0]), per_example=True)
    with pytest.raises(ValueError, match="typical must be one number, or one for each input of a point"):
        pulled(box, tf.ones([1, 2]), np.ones([1, 2]))
