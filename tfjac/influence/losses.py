"""The loss of each example as Keras counts it, as a function of the latent outputs z: values, slopes, Hessians.

The loss is the mean of that of the examples. So with a mask, of which M positions are left over from n examples, the
loss of an example is n/M times the sum over its own. Where Keras sums up, it is the sum; `loss_weights` are a factor.
"""

import numpy as np
import tensorflow as tf

from tfjac.graph import added_losses, flat_layers, loss_weights


class ExampleLoss:
    """ℓ(z, y) = −c·log p(y | z), NumPy in float64. z and y are of the same shape `[..., *outputs]`.

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
        """Return ℓ, `[...]`."""
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
