"""Chunks bound what is live: peak memory of one evaluation, each in a process of its own."""

import json

import pytest

from tests.memory import run_alone

SCRIPT = """
import json, sys
import keras, tensorflow as tf
import tfjac
from tests.memory import peak_megabytes

layers = keras.layers
convolutions = [layers.Conv2D(32, 3, activation="tanh") for _ in range(2)]
model = keras.Sequential([keras.Input((32, 32, 3)), *convolutions, layers.GlobalAveragePooling2D(), layers.Dense(64)])
x = tf.random.normal([16, 32, 32, 3])
options = json.loads(sys.argv[1])
program = tf.function(lambda x: tfjac.per_example_jacobian(model(x), model.trainable_variables, **options))
program.get_concrete_function(x)
model(x)
before = peak_megabytes()
program(x)
print(peak_megabytes() - before)
"""


def extra_megabytes(**options):
    return run_alone(SCRIPT, json.dumps(options))


@pytest.fixture(scope="module")
def whole():
    megabytes = extra_megabytes()
    assert megabytes > 50, "16 examples x 64 outputs x 12,256 parameters are 50 MB alone: nothing was measured"
    return megabytes


@pytest.mark.parametrize("options", [{"chunk_size": 4}, {"memory_budget": 50_000_000}], ids=str)
def test_chunks_take_less_memory(options, whole):
    assert extra_megabytes(**options) < 0.6 * whole
