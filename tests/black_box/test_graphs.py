"""A black box in graphs: Jacobian functions, loops, least squares; what it refuses there."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import estimators

A = np.array([[0.5, -1.0], [1.5, 0.3], [-0.2, 0.7]])


def function(x):
    return np.sin(x @ A)


def by_hand(x, y, cotangents):
    return (cotangents * np.cos(x @ A)) @ A.T


def exact(x):
    """∂y[n,o]/∂x[n,i]."""
    return np.cos(x @ A)[:, :, None] * A.T


@pytest.fixture
def x(rng):
    return tf.constant(rng.normal(size=(4, 3)))


def device(gradient="central", per_example=True, **options):
    return tfjac.external(function, gradient, output_shape=(None, 2), per_example=per_example, **options)


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("gradient", ["central", "one_sided", by_hand], ids=["central", "one_sided", "user"])
@pytest.mark.parametrize("open_batch", [False, True], ids=["static", "open"])
def test_jacobian_functions(gradient, open_batch, x, rng):
    box, w = device(gradient), tf.Variable(rng.normal(size=(3, 3)))
    rows, u = exact(x.numpy()), rng.normal(size=(4, 2))
    signature = [tf.TensorSpec([None if open_batch else 4, 3], tf.float64)]

    @tf.function(input_signature=signature)
    def analyse(x):
        y, z = box(x), box(tf.tanh(x @ w))
        return [
            tfjac.batch_jacobian(y, x),
            tfjac.jacobian(y, x),
            tfjac.vjp(y, x, u),
            tfjac.per_example_jacobian(z, w),
            tfjac.per_example_gradient_norms(tf.reduce_sum(z**2, 1), w),
            tfjac.jacobian_operator(z, w).to_dense(),
        ]

    blocks, full, pulled, of_w, norms, dense = analyse(x)
    tolerance = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(blocks, rows, **tolerance)
    np.testing.assert_allclose(full, np.einsum("noi,nN->noNi", rows, np.eye(4)), **tolerance)
    np.testing.assert_allclose(pulled, np.einsum("no,noi->ni", u, rows), **tolerance)
    h = np.tanh(x.numpy() @ w.numpy())
    expected = np.einsum("noj,nj,ni->noij", exact(h), 1 - h**2, x)
    np.testing.assert_allclose(of_w, expected, **tolerance)
    np.testing.assert_allclose(np.reshape(dense, expected.shape), expected, **tolerance)
    gradients = np.einsum("no,noij->nij", 2 * function(h), expected)
    np.testing.assert_allclose(norms, np.sqrt(np.sum(gradients**2, (1, 2))), **tolerance)


@pytest.mark.parametrize("per_example", [True, False])
def test_forward_mode(per_example, x, rng):
    v = rng.normal(size=(4, 3))
    found = tfjac.jvp(lambda: device(per_example=per_example)(x), x, v)
    np.testing.assert_allclose(found, np.einsum("noi,ni->no", exact(x.numpy()), v), rtol=1e-7)


def test_not_declared_it_is_refused_by_name(x):
    box = device(per_example=False, name="reactor")
    analyse = tf.function(lambda x: tfjac.batch_jacobian(box(x), x))
    with pytest.raises(tfjac.ExamplesMix, match=r"reactor takes its inputs as a whole.*by per_example=True"):
        analyse(x)
    full = tf.function(lambda x: tfjac.jacobian(box(x), x))(x)
    np.testing.assert_allclose(full, np.einsum("noi,nN->noNi", exact(x.numpy()), np.eye(4)), rtol=1e-7, atol=1e-9)


def test_a_python_function_that_nobody_declared_is_refused_by_name(x):
    @tf.custom_gradient
    def doubled(x):
        return 2 * x, lambda d: tf.numpy_function(lambda d: 2 * d, [d], tf.float64, stateful=False)

    with pytest.raises(tfjac.ExamplesMix):
        tf.function(lambda x: tfjac.batch_jacobian(tf.ensure_shape(doubled(x), [4, 3]), x))(x)


@pytest.mark.parametrize("gradient", ["central", by_hand], ids=["central", "user"])
def test_no_second_derivatives(gradient, x):
    box = device(gradient, name="reactor")
    words = "There are no second derivatives.*through reactor"
    with pytest.raises(NotImplementedError, match=words):
        tfjac.hvp(lambda: box(x) ** 2, x, tf.ones_like(x))
    with pytest.raises(NotImplementedError, match=words), tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = box(x)
        outer.gradient(tape.gradient(y, x), x)

    @tf.function
    def twice(x):
        (first,) = tf.gradients(box(x), x)
        return tf.gradients(first, x)

    with pytest.raises(NotImplementedError, match=words):
        twice(x)


def test_no_forward_mode_through_a_users_gradient(x):
    with pytest.raises(LookupError, match=r"no forward mode.*passes no gradient on"):
        tfjac.jvp(lambda: device(by_hand)(x), x, x)


def test_xla_is_refused_by_name(x):
    with pytest.raises(ValueError, match=r"reactor calls Python, which XLA cannot compile.*jit_compile=False"):
        tf.function(device(name="reactor"), jit_compile=True)(x)


@pytest.mark.parametrize("kind", [estimators.SPSA, estimators.EvolutionStrategies])
def test_forward_and_reverse_see_the_same_directions(kind, x, rng):
    """⟨Jv, u⟩ = ⟨v, Jᵀu⟩ holds for an estimate of J only where it is one and the same."""
    box, u, v = device(kind(probes=2)), rng.normal(size=(4, 2)), rng.normal(size=(4, 3))

    @tf.function
    def both(x):
        y = box(x)
        return tfjac.jvp(y, x, v), tfjac.vjp(y, x, u)

    forward, reverse = both(x)
    np.testing.assert_allclose(np.sum(forward * u), np.sum(reverse * v), rtol=1e-10)


def test_in_a_loop(x):
    """Three times through the box, differentiated through the loop."""
    box = tfjac.external(np.sin, per_example=True)

    @tf.function
    def thrice(x):
        y = x
        for _ in tf.range(3):
            y = box(y)
        return y, tf.gradients(y, x)[0]

    y, gradient = thrice(x)
    one, two = np.sin(x), np.sin(np.sin(x))
    np.testing.assert_allclose(y, np.sin(two), rtol=1e-12)
    np.testing.assert_allclose(gradient, np.cos(x) * np.cos(one) * np.cos(two), rtol=1e-6)


T = np.linspace(0.0, 2.0, 20)


def decay(b):
    return b[0] * np.exp(-b[1] * T)


def decay_gradient(b, y, cotangents):
    return np.array([cotangents @ np.exp(-b[1] * T), cotangents @ (-T * y)])


FITS = [("central", 1e-7), ("one_sided", 1e-7), ("broyden", 1e-6), (decay_gradient, 1e-7)]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("gradient, tolerance", FITS, ids=["central", "one_sided", "broyden", "user"])
def test_least_squares_on_the_parameters_of_a_simulator(gradient, tolerance):
    b = tf.Variable([0.5, 0.5], dtype=tf.float64)
    simulator = tfjac.external(decay, gradient, output_shape=(20,))
    measured = decay([1.3, 0.7])
    result = tfjac.least_squares(lambda: simulator(b) - measured, b)
    np.testing.assert_allclose(b, [1.3, 0.7], rtol=tolerance)
    assert result.cost < 1e-12
    if gradient == "broyden":
        assert simulator.counts.gradient == 4  # the first Jacobian alone is measured


def test_least_squares_under_xla_is_refused_by_name():
    b, simulator = tf.Variable([0.5, 0.5], dtype=tf.float64), tfjac.external(decay, output_shape=(20,), name="oven")
    with pytest.raises(ValueError, match=r"call Python when they run.*leave jit_compile=True off.*op '.*oven.*' of"):
        tfjac.least_squares(lambda: simulator(b), b, jit_compile=True)
    inner = tf.function(lambda: simulator(b))
    with pytest.raises(ValueError, match=r"call Python when they run.*op '.*oven.*' of type EagerPyFunc"):
        tfjac.least_squares(lambda: inner() - 1.0, b, jit_compile=True)


def test_least_squares_rejects_steps_that_could_not_be_measured():
    """A simulator that diverges where b > 2: such trials are not-a-number, and the minimum is found all the same."""

    def simulate(b):
        if b[0] > 2:
            raise FloatingPointError("diverged")
        return b**2 - 3.0

    b, box = tf.Variable([0.1], dtype=tf.float64), tfjac.external(simulate, on_failure="nan", output_shape=(1,))
    tfjac.least_squares(lambda: box(b), b, damping="nielsen")  # whose first step is a long one
    np.testing.assert_allclose(b, [3**0.5], rtol=1e-7)
    assert box.counts.failures > 0


@pytest.mark.by_day(None)
@pytest.mark.parametrize("given", [True, False], ids=["given the variables", "reading them"])
@pytest.mark.parametrize("gradient", ["central", by_hand], ids=["central", "user"])
def test_many_fits(gradient, given, x):
    """Each by itself, of a black box; the minima are known."""
    box, target = device(gradient), function(x.numpy() + 0.1)
    start = tf.Variable(x)
    residuals = (lambda x: box(x) - target) if given else (lambda: box(start) - target)
    found = tfjac.least_squares(residuals, start, batch_dims=1)
    assert np.all(found.cost < 1e-8)
    np.testing.assert_allclose(function(found.x), target, atol=1e-3)
