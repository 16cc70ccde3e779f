"""A private step on the batch of two replicas is the one of one device, and has one noise."""

import numpy as np
import pytest

from tests.privacy.test_dp_optimizer import CLIP, N, clipped_mean, compiled, data_of, gradients_of_examples
from tests.processes import run

SCRIPT = """
import keras
import numpy as np
import tensorflow as tf

devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)

from tests.privacy.test_dp_optimizer import LAYERS, N, compiled, data_of, one_step
from tfjac import privacy

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for name in "dense", "two outputs":
    plain = compiled(name)
    x, y = data_of(plain, np.random.default_rng(7))
    with strategy.scope():
        model = compiled(name)
    for got, expected in zip(one_step(model, x, y), one_step(plain, x, y)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)

with strategy.scope():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, LAYERS.Dense(4000, use_bias=False, kernel_initializer="zeros")(inputs))
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), 0.5, 3.0), loss="mse")
(noise,) = one_step(model, np.zeros((N, 6), "float32"), np.zeros((N, 4000), "float32"))
assert abs(np.std(noise) / (0.5 * 3.0 / N) - 1) < 0.02, np.std(noise)

with strategy.scope():
    clipping = privacy.AdaptiveClipping(count_noise=1e-3)
    model = compiled("dense", inner=keras.optimizers.SGD(0.0), clip=3.0, clipping=clipping, batch_size=N)
x, y = data_of(model, np.random.default_rng(4))
model.fit(*(np.concatenate([each] * 60) for each in (x, y)), batch_size=N, shuffle=False, verbose=0)
x, y = (np.concatenate([np.repeat(each[:1], N, axis=0), each[:5]]) for each in (x, y))
weights = np.concatenate([np.zeros(N), np.ones(5)])
plain = compiled("dense")
with strategy.scope():
    uneven = compiled("dense")
uneven = one_step(uneven, x, y, sample_weight=weights)  # three examples on one replica, two on the other
for got, expected in zip(uneven, one_step(plain, x, y, sample_weight=weights)):
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)

x, y = data_of(model, np.random.default_rng(4))
with strategy.scope():
    summing = compiled("dense", inner=keras.optimizers.SGD(1.0, gradient_accumulation_steps=2), batch_size=N)
try:
    one_step(summing, x, y)
except ValueError as error:
    assert "Leave out gradient_accumulation_steps" in str(error)
else:
    raise AssertionError("batches were summed up on replicas")
print(float(model.optimizer.clipping.bound()))
"""


@pytest.mark.by_day(None)
def test_two_replicas_take_the_step_of_one_device():
    bound = float(run(SCRIPT))
    model = compiled("dense")
    x, y = data_of(model, np.random.default_rng(4))
    _, norms = clipped_mean(gradients_of_examples(model, x, y)[0], CLIP)
    lower, upper = np.sort(norms)[[N // 2 - 2, N // 2 + 1]]
    assert lower < bound < upper
