"""TracIn: influences summed along the training, from checkpoints."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import numpy as np

from tfjac.influence.data import TrainingData
from tfjac.types import Array, Nest, TensorLike


class TracInInfluence:
    """How far the steps on each training example lowered a loss, Σₜ ηₜ g*ₜ·gₜ over checkpoints t. Made by `influence`.

    Attributes:
        method: `"tracin"`.
        learning_rates: ηₜ, one for each checkpoint.
        num_parameters, num_examples, num_outputs: p, n, m.
    """

    method = "tracin"

    def __init__(self, data: TrainingData, checkpoints: list, learning_rates: Array) -> None:
        """Take what `influence` found."""
        self._data, self._checkpoints, self.learning_rates = data, checkpoints, learning_rates
        self.num_parameters, self.num_outputs = data.curvature.num_parameters, data.curvature.num_outputs
        self.num_examples = len(data.labels)

    def on_losses(self, x: Nest[TensorLike], y: TensorLike) -> Array:
        """Return Σₜ ηₜ g*ₜ·gₜ for t examples and the training examples, `[t, n]`, per unit of the example's loss.

        Positive: steps on the training example lowered the loss. Cost: for each checkpoint the products of all pairs
        from factors of the layers; no gradient is formed.
        """
        x, _, labels, counts = self._data.others(x, y)
        curvature, total = self._data.curvature, np.zeros([len(labels), self.num_examples])
        for rate in self._visited():
            left = self._data.loss.slopes(curvature.outputs(x)[0], labels, counts)
            total += rate * curvature.products(x, left, curvature.x, self._slopes())
        return total

    def self_influence(self) -> Array:
        """Return Σₜ ηₜ ‖gₜ‖² of each training example, `[n]`. Large values tell wrong labels, and rare examples."""
        self._data.curvature.check_weights()
        total, curvature = np.zeros(self.num_examples), self._data.curvature
        for rate in self._visited():
            total += rate * curvature.squared_norms(curvature.x, self._slopes())
        return total

    def _slopes(self):
        """Return the slopes of the losses of the training examples by the weights that the model has now."""
        curvature = self._data.curvature
        return self._data.loss.slopes(curvature.outputs(curvature.x)[0], self._data.labels, curvature.counts)

    def _visited(self) -> Iterator[float]:
        """Yield the learning rate of each checkpoint while the model has its weights."""
        with _kept(self._data.curvature.model):
            for weights, rate in zip(self._checkpoints, self.learning_rates):
                if isinstance(weights, (str, os.PathLike)):
                    self._data.curvature.model.load_weights(weights)
                else:
                    self._data.curvature.model.set_weights(weights)
                yield float(rate)

    def __repr__(self):
        return (
            f"TracInInfluence({self.num_parameters:,} parameters, {self.num_examples:,} examples of "
            f"{self.num_outputs} outputs, {len(self._checkpoints)} checkpoints)"
        )


@contextlib.contextmanager
def _kept(model):
    """Give the model its weights back."""
    weights = model.get_weights()
    try:
        yield
    finally:
        model.set_weights(weights)


def checked_rates(checkpoints, learning_rates) -> np.ndarray:
    """Return a learning rate for each checkpoint.

    Raises:
        ValueError: without checkpoints, or for learning rates that do not fit them.
    """
    if not checkpoints:
        raise ValueError(
            "TracIn needs checkpoints: a list of model.get_weights(), or of files of weights, from along the training. "
            f"Received: checkpoints={checkpoints!r}"
        )
    rates = np.asarray(learning_rates, dtype=float)
    rates = np.full(len(checkpoints), float(rates)) if rates.ndim == 0 else rates
    if rates.shape != (len(checkpoints),) or not (np.isfinite(rates).all() and (rates >= 0).all()):
        raise ValueError(
            f"learning_rates must be one number, or one for each of the {len(checkpoints)} checkpoints, none negative. "
            f"Received: {learning_rates!r}"
        )
    return rates
