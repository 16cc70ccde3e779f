"""The loss of each example as Keras counts it, as a function of the latent outputs z: values, slopes, Hessians.

The loss is the mean of that of the examples. So with a mask, of which M positions are left over from n examples, the
loss of an example is n/M times the sum over its own. Where Keras sums up, it is the sum; `loss_weights` are a factor.
"""

import abc

import numpy as np
import scipy.special
import tensorflow as tf

from tfjac.graph import added_losses, flat_layers, loss_weights


class ExampleLoss(abc.ABC):
    """ℓ(z, y) = −c·log p(y | z), NumPy in float64. z and y are of the same shape `[..., *outputs]`.

    In the methods `counts` `[..., *positions, 1]` says what each position counts for, zero where it is masked.

    Args:
        outputs: the shape of the outputs of one example.
        factor: what the mean over all positions is multiplied by.

    Attributes:
        is_squared: whether ℓ is quadratic in z.
    """

    is_squared = False

    def __init__(self, outputs, factor=1.0):
        self.outputs, self.factor = tuple(outputs), factor
        self.num_outputs = int(np.prod(outputs))
        self._axes = tuple(range(-len(self.outputs), 0))

    @property
    def scale(self):
        """c: Keras takes means over the outputs of an example."""
        return self.factor / self.num_outputs

    @abc.abstractmethod
    def values(self, latent, labels, counts):
        """Return ℓ, `[...]`."""

    @abc.abstractmethod
    def slopes(self, latent, labels, counts):
        """Return ∂ℓ/∂z, of the shape of z."""

    @abc.abstractmethod
    def hessians(self, latent, counts):
        """Return ∂²ℓ/∂z² of each example, `[n, m, m]`."""

    def _summed(self, values):
        return self.scale * np.sum(values, axis=self._axes)

    def _spread(self, counts):
        """Return what each output counts for, `[n, m]`."""
        return np.broadcast_to(counts, (len(counts), *self.outputs)).reshape(len(counts), -1)


class Squared(ExampleLoss):
    """The mean squared error."""

    is_squared = True

    @property
    def scale(self):
        """2/m: −log p is half the square."""
        return 2 * super().scale

    def values(self, latent, labels, counts):
        """Return the mean of (z − y)²."""
        return self._summed(counts * (latent - labels) ** 2 / 2)

    def slopes(self, latent, labels, counts):
        """Return c·(z − y)."""
        return self.scale * counts * (latent - labels)

    def hessians(self, latent, counts):
        """Return c·I."""
        return self.scale * self._spread(counts)[:, :, None] * np.eye(self.num_outputs)


class BinaryCrossEntropy(ExampleLoss):
    """The binary cross-entropy of logits."""

    def values(self, latent, labels, counts):
        """Return the mean of log(1 + eᶻ) − y·z."""
        return self._summed(counts * (np.logaddexp(0, latent) - labels * latent))

    def slopes(self, latent, labels, counts):
        """Return c·(p − y)."""
        return self.scale * counts * (scipy.special.expit(latent) - labels)

    def hessians(self, latent, counts):
        """Return c·diag p(1 − p)."""
        latent = latent.reshape(len(latent), -1)
        diagonal = scipy.special.expit(latent) * scipy.special.expit(-latent)
        return self.scale * (self._spread(counts) * diagonal)[:, :, None] * np.eye(self.num_outputs)


class CrossEntropy(ExampleLoss):
    """The cross-entropy of logits of classes, which are on the last axis."""

    @property
    def scale(self):
        """One over the number of positions, each of which has its class."""
        return self.outputs[-1] * super().scale

    def values(self, latent, labels, counts):
        """Return the mean of −Σ y·log softmax(z)."""
        return self._summed(-counts * labels * scipy.special.log_softmax(latent, axis=-1))

    def slopes(self, latent, labels, counts):
        """Return c·(p − y)."""
        return self.scale * counts * (scipy.special.softmax(latent, axis=-1) - labels)

    def hessians(self, latent, counts):
        """Return c·(diag p − ppᵀ), for each position."""
        classes = self.outputs[-1]
        p = scipy.special.softmax(latent, axis=-1).reshape(len(latent), -1, classes)
        found = np.zeros((*p.shape, *p.shape[1:]))
        for k in range(p.shape[1]):
            found[:, k, :, k, :] = p[:, k, :, None] * (np.eye(classes) - p[:, k, None, :])
        return self.scale * self._spread(counts)[:, :, None] * found.reshape(len(p), *[self.num_outputs] * 2)


LOSSES = {"gaussian": Squared, "categorical": CrossEntropy, "bernoulli": BinaryCrossEntropy}
"""For each likelihood of `tfjac.laplace`."""


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
