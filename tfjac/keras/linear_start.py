"""A start for sums over batches whose targets are far from what a new network gives: the last layer, solved alone.

A step on one batch begins in the unit of the targets by itself, see `objective/in_units.py`; on sums of many D is I.
The last layer is linear: its best weights are those of a linear least-squares problem, and no others need to move.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.types import Array

FAR = 10.0
"""The start is changed if the errors are so many times as large as the outputs, and one, or as targets deviate."""

_RIDGE = 1e-6
"""Added to the diagonal of the normal equations, in units of its mean."""


def start_near(model: Any, batches: Any) -> Any:
    """Solve for the last layer of a model, if the targets are far from its outputs, and say so.

    Args:
        model: a Keras model that is built and compiled.
        batches: an iterable of tuples (x, y) or (x, y, sample_weight), all examples.
    """
    if not _is_squared_error(model.loss):
        return
    found = [_outputs(model, *batch) for batch in batches]
    if any(each is None for each in found):
        return
    outputs, targets, weights = (np.concatenate(each) for each in zip(*found))
    far = _size(targets - outputs, weights)
    deviation = _size(targets - np.average(targets, axis=0, weights=weights), weights) if far > 0 else 0.0
    if not np.isfinite(far) or far <= FAR * min(max(1.0, _size(outputs, weights)), deviation or np.inf):
        return
    layer, received = _last_layer(model), f"Received: targets with errors of {far:.3g} at the start"
    if layer is None:
        warn(
            "tfjac.fit: the targets are far from the outputs of the model, and training may end early. Standardise "
            f"them, (y - y.mean()) / y.std(). {received}"
        )
        return
    features = keras.Model(model.inputs, layer.input)
    h = np.concatenate([np.asarray(features(x, training=False)) for x, *_ in batches])
    _solve(layer, h, targets, weights)
    warn(
        "tfjac.fit: the targets are far from the outputs of the model, so that it begins with its last layer, "
        f"{layer.name!r}, solved as a linear model of the targets. Standardise them, (y - y.mean()) / y.std(), to "
        f"begin with the weights as they are. {received}"
    )


def _is_squared_error(loss: Any) -> bool:
    known = ("mse", "MSE", "mean_squared_error", keras.losses.mean_squared_error)
    return isinstance(loss, keras.losses.MeanSquaredError) or any(loss is each or loss == each for each in known)


def _outputs(model: Any, x: Any, y: Any = None, weights: Any = None) -> Any:
    """Return outputs, targets and weights `[n, m]`, `[n, m]`, `[n]`; None for those of another form."""
    outputs = model(x, training=False)
    if not tf.is_tensor(outputs) or not tf.is_tensor(y):
        return None
    outputs, targets = (np.asarray(each, np.float64) for each in (outputs, y))
    if targets.shape == outputs.shape[:-1]:
        targets = targets[..., None]
    if outputs.ndim != 2 or targets.shape != outputs.shape:
        return None
    weights = np.ones(len(outputs)) if weights is None else np.asarray(weights, np.float64).reshape(len(outputs), -1)
    return outputs, targets, weights if weights.ndim == 1 else weights.mean(axis=1)


def _size(values: Array, weights: Array) -> float:
    """The root of the weighted mean of squares."""
    total = weights.sum()
    return float(np.sqrt((weights[:, None] * values**2).sum() / total / values.shape[1])) if total > 0 else 0.0


def _last_layer(model: Any) -> Any:
    """Return the layer that computes the only output, if it is linear, with weights that may be set; else None."""
    if len(getattr(model, "outputs", None) or ()) != 1:
        return None
    last = model.layers[-1]
    linear = type(last) is keras.layers.Dense and last.activation is keras.activations.linear
    free = linear and last.trainable and last.kernel_constraint is None and last.bias_constraint is None
    alone = free and last.output is model.outputs[0] and last.lora_rank is None
    return last if alone else None


def _solve(layer: Any, features: Array, targets: Array, weights: Array) -> None:
    """Assign the weights of the linear least-squares problem, with a ridge."""
    h = np.float64(features)
    if layer.use_bias:
        h = np.concatenate([h, np.ones((len(h), 1))], axis=1)
    gram = h.T @ (weights[:, None] * h)
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
    solved = np.linalg.solve(gram, h.T @ (weights[:, None] * targets))
    if np.all(np.isfinite(solved)):
        layer.set_weights([solved[:-1], solved[-1]] if layer.use_bias else [solved])
