"""What functions of a trained model and its data are given: checked, and made tensors."""

import keras
import numpy as np
import tensorflow as tf

from tfjac.arguments import choice, described_value
from tfjac.graph import flat_layers


def check_trained(caller, model, x):
    """Raise TypeError or ValueError unless `caller` was given a Keras model with weights, and arrays."""
    if not isinstance(model, keras.Model):
        raise TypeError(f"{caller} takes a trained Keras model. Received: {described_value(model)}")
    if isinstance(x, (tf.data.Dataset, keras.utils.PyDataset)):
        raise TypeError(
            f"{caller} takes arrays x and y, as all pairs of examples may be needed at once. Make them of a data set: "
            "x, y = (np.concatenate(part) for part in zip(*dataset.as_numpy_iterator())), if it is in batches. "
            "Received: a data set of batches"
        )
    if not model.built:
        raise ValueError(
            f"{caller} takes a trained model, and this one has no weights yet: call it on an example, and fit it. "
            f"Received: {model!r}"
        )


def chosen_variables(model, variables):
    """Return the list of variables that "all", "last_layer" or a sequence of them names."""
    if isinstance(variables, str):
        choice("variables", variables, ("all", "last_layer"))
        layers = [layer for layer in flat_layers(model, include_self=False) if layer.trainable_variables]
        with_own = [layer for layer in layers if not isinstance(layer, keras.Model)]
        variables = model.trainable_variables if variables == "all" else with_own[-1].trainable_variables
    variables = list(variables)
    if not variables:
        raise ValueError("variables must hold at least one variable. Received: none that is trainable")
    return variables


def inputs_like(x, dtype):
    """Return a nest of tensors; numbers with a point in the dtype of the variables, lists of numbers as one tensor."""
    if isinstance(x, (list, tuple)) and all(np.ndim(part) == 0 for part in tf.nest.flatten(x)):
        x = np.asarray(x)

    def tensor(part):
        part = np.asarray(part)
        return tf.constant(part, dtype if part.dtype.kind == "f" else None)

    return tf.nest.map_structure(tensor, x)
