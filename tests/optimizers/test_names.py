"""The optimizer by its name, as Keras finds its own."""

import keras
import numpy as np
import pytest

import tfjac

X = np.linspace(-1.0, 1.0, 20, dtype=np.float32)[:, None]
Y = 2 * X + 1


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", ["levenberg_marquardt", "LevenbergMarquardt"])
def test_compile_takes_the_name(name, tmp_path):
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile(optimizer=name, loss="mse")
    assert type(model.optimizer) is tfjac.LevenbergMarquardt
    model.fit(X, Y, batch_size=20, epochs=5, verbose=0)
    np.testing.assert_allclose([w.ravel()[0] for w in model.get_weights()], [2, 1], rtol=1e-4)
    model.save(tmp_path / "line.keras")
    loaded = keras.models.load_model(tmp_path / "line.keras")
    assert type(loaded.optimizer) is tfjac.LevenbergMarquardt
    assert loaded.optimizer.get_config() == tfjac.LevenbergMarquardt().get_config()


def test_each_name_makes_another_optimizer():
    one, other = (keras.optimizers.get("levenberg_marquardt") for _ in range(2))
    assert one is not other
