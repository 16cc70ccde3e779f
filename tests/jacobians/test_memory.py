"""Chunks bound what is live: peak memory of one evaluation, each in a process of its own."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
import keras, tensorflow as tf
import tfjac

layers = keras.layers
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
convolutions = [layers.Conv2D(32, 3, activation="tanh") for _ in range(2)]
model = keras.Sequential([keras.Input((32, 32, 3)), *convolutions, layers.GlobalAveragePooling2D(), layers.Dense(64)])
x = tf.random.normal([16, 32, 32, 3])
options = json.loads(sys.argv[1])
program = tf.function(lambda x: tfjac.per_example_jacobian(model(x), model.trainable_variables, **options))
program.get_concrete_function(x)
model(x)
before = peak()
program(x)
print(peak() - before)
"""


def extra_megabytes(**options):
    command = [sys.executable, "-c", SCRIPT, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def whole():
    return extra_megabytes()


@pytest.mark.parametrize("options", [{"chunk_size": 4}, {"memory_budget": 50_000_000}], ids=str)
def test_chunks_take_less_memory(options, whole):
    assert extra_megabytes(**options) < 0.6 * whole
