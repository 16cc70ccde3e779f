"""Networks that satisfy an equation at the points alone: `check_between` and the callbacks say so."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

END = 20.0


def network(units=16):
    keras.utils.set_random_seed(0)
    hidden, last = keras.layers.Dense(units, "tanh", dtype="float64"), keras.layers.Dense(1, dtype="float64")
    return keras.Sequential([keras.Input((1,), dtype="float64"), hidden, last])


def points(number, end=END):
    return tf.constant(np.linspace(0.0, end, number)[:, None])


def middles(t):
    return (t[1:] + t[:-1]) / 2


def with_derivatives(u, t):
    with tf.GradientTape() as outer:
        outer.watch(t)
        with tf.GradientTape() as inner:
            inner.watch(t)
            value = u(t)
        first = inner.gradient(value, t)
    return value, first, outer.gradient(first, t)


def equation(u, t):
    """Of u'' + u = 0."""
    value, _, second = with_derivatives(u, t)
    return second + value


def oscillation(u):
    def residuals(t):
        value, first, second = with_derivatives(u, t)
        return [(second + value)[:, 0] / np.sqrt(t.shape[0]), tf.stack([value[0, 0] - 1.0, first[0, 0]])]

    return residuals


def by_differences(u, t, h=1e-4):
    """The same in NumPy: nothing from tfjac, and no tape."""
    value = lambda t: u(t).numpy()  # noqa: E731
    return (value(t + h) - 2 * value(t) + value(t - h)) / h**2 + value(t)


@pytest.mark.by_day(None)
def test_a_network_that_cheats_is_found_out():
    u, t = network(), points(60)
    found = tfjac.least_squares(oscillation(u), u.trainable_variables, args=(t,), max_steps=200)
    assert found.cost < 1e-8 and np.abs(u(t) - np.cos(t)).max() > 0.5
    with pytest.warns(UserWarning, match=r"at the other points is .* times that where it was minimised.*more points"):
        ratio = tfjac.check_between(lambda t: equation(u, t), (t,), (middles(t),))
    between = np.sqrt(np.mean(by_differences(u, middles(t).numpy()) ** 2))
    assert ratio > 1000
    np.testing.assert_allclose(ratio * np.sqrt(np.mean(equation(u, t) ** 2)), between, rtol=1e-2)


@pytest.mark.by_day(None)
def test_one_that_solves_the_equation_is_left_alone():
    u, t = network(), points(60, end=3.0)
    tfjac.least_squares(oscillation(u), u.trainable_variables, args=(t,), max_steps=100)
    assert np.abs(u(t) - np.cos(t)).max() < 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tfjac.check_between(lambda t: equation(u, t), [t], [middles(t)]) < 3


class Oscillation(keras.Model):
    def __init__(self):
        super().__init__(dtype="float64")
        self.u = network()

    def call(self, t):
        return self.u(t)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        value, _, second = with_derivatives(self.u, x)
        at_zero, slope, _ = with_derivatives(self.u, tf.zeros([1, 1], tf.float64))
        return tf.reduce_mean((second + value) ** 2) + tf.reduce_sum((at_zero - 1) ** 2) + tf.reduce_sum(slope**2)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("end", "cheats"), [(END, True), (3.0, False)])
def test_step_monitor_warns_of_it(end, cheats):
    model, t = Oscillation(), points(60, end)
    model.compile(tfjac.LevenbergMarquardt(acceleration="geodesic", steps_per_batch=10))
    model(t)
    data, between = (tf.data.Dataset.from_tensors((each,)) for each in (t, middles(t)))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        monitor = tfjac.callbacks.StepMonitor()
        history = model.fit(data, epochs=20, validation_data=between, verbose=0, callbacks=[monitor]).history
    said = [str(each.message) for each in seen if "the loss on the validation data" in str(each.message)]
    assert len(said) == cheats
    assert (history["val_loss"][-1] > 100 * history["loss"][-1]) == cheats


@pytest.mark.by_day(None)
def test_a_table_that_is_overfitted_warns_where_the_last_weights_remain():
    """`tfjac.fit` restores those of the lowest validation loss, which are no worse there."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(60, 4)).astype("float32"), rng.normal(size=(60, 1)).astype("float32")
    train, validation = (x[:40], noise[:40]), (x[40:], noise[40:])
    for call in (by_model_fit, by_tfjac_fit):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(20, "tanh"), keras.layers.Dense(1)])
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(model, *train, validation_data=validation)
        assert any("the loss on the validation data" in str(each.message) for each in seen) == (call is by_model_fit)


def by_model_fit(model, x, y, **options):
    model.compile(tfjac.LevenbergMarquardt(), loss="mse")
    model.fit(x, y, batch_size=40, epochs=60, verbose=0, callbacks=[tfjac.callbacks.StepMonitor()], **options)


def by_tfjac_fit(model, x, y, **options):
    tfjac.fit(model, x, y, verbose=0, **options)


@pytest.mark.parametrize(
    ("here", "there", "expected"), [([3.0, 4.0], [5.0], 2**0.5), ([0.0], [0.0], 1.0), ([3 + 4j], [[5.0, 5.0]], 1.0)]
)
def test_what_is_compared(here, there, expected):
    np.testing.assert_allclose(tfjac.check_between(lambda x: [x, []], (here,), (there,)), expected)


@pytest.mark.parametrize(
    ("here", "there", "at"), [(1.0, np.nan, "other points"), (1.0, np.inf, "other points"), (np.nan, 1.0, "points")]
)
def test_what_is_not_finite_is_said(here, there, at):
    with pytest.warns(UserWarning, match=f"is not finite at the {at}, so it says nothing"):
        assert not 0.1 < tfjac.check_between(lambda x: x, ([2.0, here],), ([2.0, there],)) < 10


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float64", 1e-16), ("float32", 1e-7), ("complex64", 1e-7), ("bfloat16", 1e-2)]
)
def test_rounding_is_nothing_to_warn_of(dtype, kind):
    """Of numbers of size one. A thousand times as much is more than rounding."""
    at = lambda size: (tf.cast(tf.constant([size, -size], "float64"), dtype),)  # noqa: E731
    residuals = lambda x: [x, tf.zeros([2], x.dtype)]  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tfjac.check_between(residuals, at(kind / 20), at(kind)) == pytest.approx(20, rel=0.01)
        assert tfjac.check_between(residuals, at(0.0), at(kind)) == np.inf
    with pytest.warns(UserWarning, match="times that where it was minimised"):
        tfjac.check_between(residuals, at(kind), at(1000 * kind))


def test_no_size_of_residuals_is_too_large_or_too_small_to_be_compared():
    for size in 1e200, 1e-200:
        np.testing.assert_allclose(tfjac.check_between(lambda x: x, ([3 * size],), ([4 * size, 0.0],)), 4 / 3 / 2**0.5)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    ("callback", "bad"), [(tfjac.callbacks.StepMonitor, np.nan), (tfjac.callbacks.Convergence, np.inf)]
)
def test_a_loss_of_validation_that_is_not_finite_is_said(callback, bad):
    """Also if the last epochs have no validation; nothing is said without validation data, or of those that are met."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2)).astype("float32")
    y, options = x[:, :1], {"batch_size": 20, "epochs": 3, "verbose": 0, "validation_freq": 2}
    for targets in y, bad * np.ones_like(y), None:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(tfjac.LevenbergMarquardt(), loss="mse")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            validation = None if targets is None else (x, targets)
            model.fit(x, y, validation_data=validation, callbacks=[callback()], **options)
        said = [each for each in seen if "is not finite on the validation data" in str(each.message)]
        assert len(said) == (targets is not None and targets is not y), [str(each.message) for each in seen]
        assert not any("times that where" in str(each.message) for each in seen)


def test_refusals():
    with pytest.raises(ValueError, match=r"needs residuals to compare\. Received: none"):
        tfjac.check_between(lambda x: x, ([1.0],), ([],))
    with pytest.raises(ValueError, match=r"outside of a tf.function. Received: a call in a graph"):
        tf.function(lambda: tfjac.check_between(lambda x: x, ([1.0],), ([1.0],)))()
    with pytest.warns(UserWarning, match="inf times"):
        assert tfjac.check_between(lambda x: x, ([0.0],), ([1.0],)) == np.inf
