"""What the examples that race optimizers share."""

import keras
import tensorflow as tf


def warm_up(model: keras.Model, data: tf.data.Dataset, steps: int) -> None:
    """Trace and compile the training step, then put the model and its optimizer back to the start."""
    model.optimizer.build(model.trainable_variables)
    state = [*model.variables, *model.optimizer.variables]
    start = [variable.numpy() for variable in state]
    model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)
    for variable, value in zip(state, start, strict=True):
        variable.assign(value)
