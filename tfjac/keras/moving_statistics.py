"""Moving averages, as those of a batch normalisation: a method of few steps leaves them far behind the weights."""

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfjac.graph import ancestors, flat_layers, static_value
from tfjac.types import Logs, Tensor

_BEHIND = 0.5
"""The largest momentum without a warning after few steps: ten of them leave a thousandth of the start."""

LEFT = 0.01
"""The part of the start that is left after as many steps as move statistics far enough."""


def largest_momentum(graph: tf.Graph) -> float:
    """Return the largest factor m of the assignments v ← m·v + … in a graph, 0 if there are none.

    Factors of one and more are those of other things, such as seeds of random numbers.
    """
    assignments = [op for op in graph.get_operations() if op.type.startswith("Assign") and len(op.inputs) == 2]
    return max([0.0, *(m for op in assignments for m in _momenta(*op.inputs) if m < 1)])


def _momenta(handle: Tensor, value: Tensor) -> Iterator[float]:
    """Yield the constant factors with which `value`, a sum, holds what is read of the variable itself."""
    for term in value.op.inputs:
        factors = [(static_value(factor), factor) for factor in term.op.inputs]
        if len(factors) == 2 and any(_reads(handle, factor) for known, factor in factors if known is None):
            yield from (float(known) for known, _ in factors if known is not None and known.size == 1)


def _reads(handle: Tensor, tensor: Tensor) -> bool:
    return any(given is handle for op in ancestors([tensor]) for given in op.inputs)


def advice(momentum: float, steps: int) -> str | None:
    """Return what to do about moving averages of this momentum after so many steps, or None if they have moved far."""
    if momentum <= _BEHIND or momentum**steps <= LEFT:
        return None
    return (
        f"moving statistics of the model move by {1 - momentum:.2g} of the way in each step, and Levenberg-Marquardt "
        "takes few steps: in validation and inference they are those of other weights. Call tfjac.fit(model, x, y), "
        "which sets them to those of all examples, or build the layer so, BatchNormalization(momentum=0.0); of many "
        "mini-batches, momentum=0.9 takes the mean of the last ones. "
        f"Received: momentum {momentum:.4g}, and {steps:,} steps"
    )


def normalisations(model: Any) -> list:
    """List the batch normalisations of a model that take their statistics from the examples while it is trained."""
    layers = flat_layers(model)
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable]


class StatisticsOfAll(keras.callbacks.Callback):
    """Sets moving statistics to those of all examples, at the weights of the moment, before each validation.

    Args:
        inputs: the inputs of all examples, one batch.

    Cost: one forward pass for each validation, and one at the end.
    """

    def __init__(self, inputs: Any) -> None:
        super().__init__()
        self._inputs = inputs

    def on_test_begin(self, logs: Logs = None) -> None:
        """Set them before a validation."""
        self._set()

    def on_train_end(self, logs: Logs = None) -> None:
        """Set them to those at the weights that stay."""
        self._set()

    def _set(self) -> None:
        layers = normalisations(self.model)
        momenta = [layer.momentum for layer in layers]
        try:
            for layer in layers:
                layer.momentum = 0.0
            self.model(self._inputs, training=True)
        finally:
            for layer, momentum in zip(layers, momenta):
                layer.momentum = momentum


def statistics_callbacks(model: Any, inputs: Any) -> list:
    """Return the list of the callbacks that a model trained on one batch of all examples needs."""
    alone = tf.distribute.get_strategy().num_replicas_in_sync == 1
    return [StatisticsOfAll(inputs)] if alone and normalisations(model) else []
