"""Chunks bound what is live: the peak memory of one evaluation, in a process of its own."""

import pytest

from tests.memory import run_alone

SCRIPT = """
import json
import keras, tensorflow as tf
import tfjac
from tests.memory import peak_megabytes

layers = keras.layers
convolutions = [layers.Conv2D(32, 3, activation="tanh") for _ in range(2)]
model = keras.Sequential([keras.Input((32, 32, 3)), *convolutions, layers.GlobalAveragePooling2D(), layers.Dense(32)])
x = tf.random.normal([16, 32, 32, 3])
model(x)
programs = []
for options in ({"chunk_size": 4}, {"memory_budget": 25_000_000}, {}):
    program = tf.function(lambda x: tfjac.per_example_jacobian(model(x), model.trainable_variables, **options))
    programs.append(program.get_concrete_function(x))
before, peaks = peak_megabytes(), []
for program in programs:  # a peak is that of all so far: the small ones come first
    program(x)
    peaks.append(peak_megabytes() - before)
print(json.dumps(peaks))
"""


@pytest.mark.by_day(None)
def test_chunks_take_less_memory():
    chunks, budget, whole = run_alone(SCRIPT)
    assert whole > 25, "16 examples x 32 outputs x 11,200 parameters are 23 MB alone: nothing was measured"
    assert max(chunks, budget) < 0.6 * whole
