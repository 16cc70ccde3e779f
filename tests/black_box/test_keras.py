"""A black box in Keras: `fit` on plain models, XLA left out, saved and cloned, a loss that is measured outside."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

X = np.random.default_rng(3).normal(size=(50, 2)).astype("float32")
Y = (np.tanh(X @ np.array([[0.6, 0.2], [0.4, -0.8]])) + 0.1).astype("float32")


def response(x):
    return np.tanh(2 * x) + 0.1


@keras.saving.register_keras_serializable("tfjac_tests")
def registered_response(x):
    return np.tanh(2 * x) + 0.1


def in_tensorflow(x):
    return keras.ops.tanh(2 * x) + 0.1


def sequential(last):
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), last])


class Subclass(keras.Model):
    def __init__(self, last):
        super().__init__()
        keras.utils.set_random_seed(1)
        self.dense, self.last = keras.layers.Dense(2), last

    def call(self, x):
        return self.last(self.dense(x))


def losses(model, epochs=2, batch_size=16, **options):
    model.compile(**{"optimizer": "sgd", "loss": "mse", **options})
    return model.fit(X, Y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0).history["loss"]


@pytest.fixture(scope="module")
def expected():
    """The same model with the response in TensorFlow; the last batch of an epoch has two rows."""
    return losses(sequential(keras.layers.Lambda(in_tensorflow)))


@pytest.fixture
def with_an_accelerator(monkeypatch):
    """Have Keras' "auto" choose XLA, as it does where there is anything but CPUs."""
    devices = [*tf.config.list_physical_devices(), tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: devices)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("make, jit_compile", [(sequential, "auto"), (Subclass, "auto"), (sequential, True)])
@pytest.mark.filterwarnings("ignore:Model doesn't support `jit_compile=True`")
def test_fit(make, jit_compile, expected, with_an_accelerator):
    box = tfjac.external(response, per_example=True)
    np.testing.assert_allclose(losses(make(box), jit_compile=jit_compile), expected, rtol=1e-5)
    assert (box.counts.forward, box.counts.gradient) == (100, 400)
    assert box.counts.calls == 2 * 4 * 2


@pytest.mark.by_day(None)
def test_fit_eagerly_and_in_half_precision(expected):
    box = tfjac.external(response, per_example=True)
    np.testing.assert_allclose(losses(sequential(box), run_eagerly=True), expected, rtol=1e-5)
    seen = []
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = sequential(tfjac.external(lambda x: (seen.append(x.dtype), response(x))[1], per_example=True))
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(losses(model), expected, rtol=5e-3)
    assert set(seen) == {np.dtype("float32")}


def test_where_keras_cannot_know_xla_is_refused_by_name(with_an_accelerator):
    box = tfjac.external(response, per_example=True, name="plant")
    loss = lambda y, z: keras.ops.mean((box(z) - y) ** 2)  # noqa: E731
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match=r"plant calls Python, which XLA cannot compile.*jit_compile=False"):
        losses(model, loss=loss)
    assert np.isfinite(losses(model, loss=loss, jit_compile=False)).all()


@pytest.mark.parametrize("per_example", [True, False])
def test_a_loss_measured_outside(per_example, expected):
    """The number that the box returns is all that there is: no formula of it in TensorFlow."""
    measure = lambda y, z: ((response(z) - y) ** 2).mean(-1 if per_example else None)  # noqa: E731
    shape = (None,) if per_example else ()
    box = tfjac.external(measure, argnums=1, per_example=per_example, output_shape=shape)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    np.testing.assert_allclose(losses(model, loss=box, jit_compile=False), expected, rtol=1e-4)


@pytest.mark.by_day(None)
def test_levenberg_marquardt_through_a_black_box():
    box = tfjac.external(response, per_example=True)
    found = losses(sequential(box), optimizer=tfjac.LevenbergMarquardt(), batch_size=50, epochs=8)
    assert found[-1] < 1e-9 < found[0]


def test_saved_and_cloned(tmp_path):
    box = tfjac.external(registered_response, tfjac.estimators.SPSA(probes=3, seed=5), per_example=True, retries=1)
    model = sequential(box)
    before = model.predict(X, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), before)
    assert loaded.layers[-1].get_config() == box.get_config()
    broyden = sequential(tfjac.external(lambda x: x, tfjac.estimators.Broyden(restart=3)))
    clone = keras.models.clone_model(broyden)
    assert clone.layers[-1].get_config() == broyden.layers[-1].get_config()
    sine = sequential(tfjac.external(np.sin, per_example=True))
    sine.save(tmp_path / "sine.keras")
    again = keras.models.load_model(tmp_path / "sine.keras")
    np.testing.assert_array_equal(again.predict(X, verbose=0), sine.predict(X, verbose=0))
    sine.export(tmp_path / "exported", verbose=False)  # for this process: the function itself is not in the files
    kept = tf.saved_model.load(tmp_path / "exported")  # its variables live as long as it does
    np.testing.assert_allclose(kept.serve(X), sine.predict(X, verbose=0), rtol=1e-6)
    np.testing.assert_array_equal(copy.deepcopy(tfjac.external(lambda x: np.tanh(x)))(X), np.tanh(X))


def test_a_box_is_symbolic_where_its_inputs_are():
    """A functional model is made without a single evaluation, of results that differ in shape from the input."""
    box = tfjac.external(lambda x: {"sum": x.sum(-1), "twice": 2 * x}, per_example=True,
                         output_shape={"sum": (None,), "twice": (None, 2)})  # fmt: skip
    inputs = keras.Input((2,))
    model = keras.Model(inputs, box(keras.layers.Dense(2)(inputs)))
    assert {key: value.shape for key, value in model.output.items()} == {"sum": (None,), "twice": (None, 2)}
    assert box.counts.calls == 0
    found = model.predict(X, verbose=0)
    np.testing.assert_allclose(found["sum"], found["twice"].sum(-1) / 2, rtol=1e-5)
