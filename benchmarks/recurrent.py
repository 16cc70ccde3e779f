"""Per-example Jacobians of recurrent models, with respect to their weights."""

import keras

from benchmarks import models
from benchmarks.jacobians import jacobian_cases, jacobian_floor
from benchmarks.questions import question

FEATURES, UNITS, OUTPUTS = 8, 32, 4


@question("recurrent-jacobian")
def recurrent_jacobian(quick: bool):
    """Per-example Jacobian of an LSTM and a GRU, 20 time steps."""
    steps, examples = (5, 4) if quick else (20, 32)
    for cell in (keras.layers.LSTM, keras.layers.GRU):
        model, x = models.recurrent(cell, FEATURES, UNITS, OUTPUTS), models.inputs(examples, steps, FEATURES)
        title = f"{cell.__name__}, {UNITS} units, {steps} steps, {examples} examples, {OUTPUTS} outputs"
        aims = {False: {"tape.jacobian": 3.0}, True: {}}
        yield from jacobian_cases(title, model, x, jacobian_floor(model, examples, OUTPUTS), aims)
