"""A million-parameter network: one whole step, in little memory. J itself would be 7.5 GB."""

from tests.memory import run_alone

SCRIPT = """
import json
import keras, numpy as np
from tests.memory import peak_megabytes
from tfjac.optimizers import LevenbergMarquardt

layers = keras.layers
keras.utils.set_random_seed(0)
model = keras.Sequential([layers.Input((784,)), *[layers.Dense(1024, "tanh") for _ in range(2)], layers.Dense(10)])
optimizer = LevenbergMarquardt(memory=None)
model.compile(optimizer=optimizer, loss="mse")
x = np.random.default_rng(0).normal(size=(100, 784)).astype("float32")
y = np.eye(10, dtype="float32")[np.arange(100) % 10]
first = model.evaluate(x, y, batch_size=100, verbose=0)
before = peak_megabytes()
model.fit(x, y, batch_size=100, epochs=2, verbose=0)
last = model.evaluate(x, y, batch_size=100, verbose=0)
print(json.dumps({"extra": peak_megabytes() - before, "first": first, "last": last, "solver": optimizer.solver_used,
                  "parameters": model.count_params(), "accepted": optimizer.num_accepted}))
"""


def test_one_step_of_a_million_parameters_in_less_than_a_gigabyte():
    seen = run_alone(SCRIPT)
    assert seen["parameters"] == 1_863_690 and seen["solver"] == "kernel" and seen["accepted"] == 2
    assert seen["last"] < 0.1 * seen["first"]
    assert 10 < seen["extra"] < 1000, f"{seen['extra']:.0f} MB"
