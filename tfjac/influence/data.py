"""A trained network, the examples that it was trained on, and the loss of each."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import added_losses, flat_layers, loss_weights
from tfjac.laplace.curvature import NetworkCurvature


class TrainingData:
    """What all methods start from.

    Args:
        model, x, y, variables, likelihood, from_logits, batch_size: as `influence` is given them.

    Attributes:
        curvature: `NetworkCurvature`.
        loss: `ExampleLoss`.
        labels: y in the shape of z.
        epsilon: rounding of the variables' dtype.
    """

    def __init__(self, model, x, y, variables, likelihood, from_logits, batch_size):
        if likelihood is None:
            check_plain(getattr(model, "loss", None))
        self.curvature = NetworkCurvature("influence", model, x, variables, likelihood, from_logits, batch_size)
        latent, distribution = self.curvature.latent, self.curvature.likelihood
        check_complete(model)
        outputs = latent.shape[1:]
        self.loss = ExampleLoss(distribution, outputs, factor_of(model, self.curvature.counts, outputs))
        self.labels = distribution.labels(y, latent.shape)
        self.epsilon = float(np.finfo(self.curvature.dtype.as_numpy_dtype).eps)

    def others(self, x: Any, y: Any = None) -> tuple:
        """Return inputs of other examples as tensors, z, their labels or None, and what their positions count for.

        The mean over these examples is what Keras evaluates.

        Raises:
            ValueError: where the model was trained further.
        """
        self.curvature.check_weights()
        x = self.curvature.as_inputs(x)
        latent, counts = self.curvature.outputs(x)
        counts *= factor_of(self.curvature.model, counts, self.loss.outputs) / self.loss.factor
        return x, latent, None if y is None else self.curvature.likelihood.labels(y, latent.shape), counts

    def slopes(self):
        """Return ∂ℓ/∂z of the training examples, `[n, m]`, by the weights that the network was given with."""
        return self.loss.slopes(self.curvature.latent, self.labels, self.curvature.counts)


class ExampleLoss:
    """ℓ(z, y) = −c·log p(y | z), as Keras counts it, NumPy in float64. z and y are of one shape `[..., *outputs]`.

    The loss is the mean of that of the examples. So with a mask, of which M positions are left over from n examples,
    the loss of an example is n/M times the sum over its own. Where Keras sums up, it is the sum; `loss_weights` are a
    factor.

    In the methods `counts` `[..., *positions, 1]` says what each position counts for, zero where it is masked.

    Args:
        likelihood: `Likelihood`.
        outputs: the shape of the outputs of one example.
        factor: what the mean over all positions is multiplied by.

    Attributes:
        scale: c.
    """

    def __init__(self, likelihood, outputs, factor=1.0):
        self._likelihood, self.outputs, self.factor = likelihood, tuple(outputs), factor
        self.scale = factor * likelihood.share(outputs) / np.prod(outputs, dtype=int)

    def values(self, latent, labels, counts):
        axes = tuple(range(-len(self.outputs), 0))
        return self.scale * np.sum(counts * self._likelihood.losses(latent, labels), axis=axes)

    def slopes(self, latent, labels, counts):
        """Return ∂ℓ/∂z, `[n, m]`."""
        return (self.scale * counts * (self._likelihood.mean(latent) - labels)).reshape(len(latent), -1)

    def hessians(self, latent, counts):
        """Return ∂²ℓ/∂z² of each example, `[n, m, m]`."""
        spread = np.broadcast_to(counts, latent.shape).reshape(len(latent), -1, 1)
        return self.scale * spread * self._likelihood.hessians(latent)


def factor_of(model, counts, outputs):
    """Return what the mean of the losses of all positions is multiplied by in the loss that the model is compiled with.

    Args:
        model: the network.
        counts: one for each position that counts, `[n, *positions, 1]`, zero where Keras masks it.
        outputs: the shape of the outputs of one example.
    """
    weights = [each for each in tf.nest.flatten(loss_weights(model)) if each is not None]
    if getattr(getattr(model, "loss", None), "reduction", "mean") in ("sum", "none", None):
        share = float(np.prod(outputs[:-1]))
    else:
        share = counts.size / max(np.sum(counts), 1)
    return share * float(np.prod(weights))


def check_plain(loss):
    """Raise ValueError for a loss of Keras with an option that changes what the loss of an example is."""
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    for name, plain in ("label_smoothing", 0.0), ("ignore_class", None):
        if config.get(name) not in (plain, None):
            raise ValueError(
                f"influence knows mean squared errors and cross-entropies without {name}: smooth the labels in y, or "
                f"leave out what is ignored. Received: a loss with {name}={config[name]!r}"
            )


def check_complete(model):
    """Raise ValueError where layers added losses of their own, of which the loss of an example would have a part."""
    adding = [layer.name for layer in flat_layers(model) if added_losses(layer)]
    if adding:
        raise ValueError(
            "influence knows the loss that the model is compiled with. Leave out add_loss and activity regularisers, "
            f"which add to it. Received: layers that add losses of their own, {', '.join(map(repr, adding))}"
        )
