"""The loss of each example as Keras counts it, as a function of the latent outputs z: values, slopes, Hessians."""

import abc

import numpy as np
import scipy.special


class ExampleLoss(abc.ABC):
    """ℓ(z, y) = −c·log p(y | z), NumPy in float64. z and y are of the same shape `[..., *outputs]`.

    Args:
        outputs: the shape of the outputs of one example.

    Attributes:
        is_squared: whether ℓ is quadratic in z.
    """

    is_squared = False

    def __init__(self, outputs):
        self.outputs = tuple(outputs)
        self.num_outputs = int(np.prod(outputs))
        self._axes = tuple(range(-len(self.outputs), 0))

    @property
    def scale(self):
        """c: Keras takes means over the outputs of an example."""
        return 1 / self.num_outputs

    @abc.abstractmethod
    def values(self, latent, labels):
        """Return ℓ, `[...]`."""

    @abc.abstractmethod
    def slopes(self, latent, labels):
        """Return ∂ℓ/∂z, of the shape of z."""

    @abc.abstractmethod
    def hessians(self, latent):
        """Return ∂²ℓ/∂z² of each example, `[n, m, m]`."""

    def _summed(self, values):
        return self.scale * np.sum(values, axis=self._axes)


class Squared(ExampleLoss):
    """The mean squared error."""

    is_squared = True

    @property
    def scale(self):
        """2/m: −log p is half the square."""
        return 2 / self.num_outputs

    def values(self, latent, labels):
        """Return the mean of (z − y)²."""
        return self._summed((latent - labels) ** 2 / 2)

    def slopes(self, latent, labels):
        """Return c·(z − y)."""
        return self.scale * (latent - labels)

    def hessians(self, latent):
        """Return c·I."""
        return np.broadcast_to(self.scale * np.eye(self.num_outputs), (len(latent), *[self.num_outputs] * 2))


class BinaryCrossEntropy(ExampleLoss):
    """The binary cross-entropy of logits."""

    def values(self, latent, labels):
        """Return the mean of log(1 + eᶻ) − y·z."""
        return self._summed(np.logaddexp(0, latent) - labels * latent)

    def slopes(self, latent, labels):
        """Return c·(p − y)."""
        return self.scale * (scipy.special.expit(latent) - labels)

    def hessians(self, latent):
        """Return c·diag p(1 − p)."""
        latent = latent.reshape(len(latent), -1)
        diagonal = scipy.special.expit(latent) * scipy.special.expit(-latent)
        return self.scale * diagonal[:, :, None] * np.eye(self.num_outputs)


class CrossEntropy(ExampleLoss):
    """The cross-entropy of logits of classes, which are on the last axis."""

    @property
    def scale(self):
        """One over the number of positions, each of which has its class."""
        return self.outputs[-1] / self.num_outputs

    def values(self, latent, labels):
        """Return the mean of −Σ y·log softmax(z)."""
        return self._summed(-labels * scipy.special.log_softmax(latent, axis=-1))

    def slopes(self, latent, labels):
        """Return c·(p − y)."""
        return self.scale * (scipy.special.softmax(latent, axis=-1) - labels)

    def hessians(self, latent):
        """Return c·(diag p − ppᵀ), for each position."""
        classes = self.outputs[-1]
        p = scipy.special.softmax(latent, axis=-1).reshape(len(latent), -1, classes)
        found = np.zeros((*p.shape, *p.shape[1:]))
        for k in range(p.shape[1]):
            found[:, k, :, k, :] = p[:, k, :, None] * (np.eye(classes) - p[:, k, None, :])
        return self.scale * found.reshape(len(p), self.num_outputs, self.num_outputs)


LOSSES = {"gaussian": Squared, "categorical": CrossEntropy, "bernoulli": BinaryCrossEntropy}
"""For each likelihood of `tfjac.laplace`."""


def check_plain(loss):
    """Raise ValueError for a loss of Keras with an option that changes what the loss of an example is."""
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    for name in ("label_smoothing", "ignore_class"):
        if config.get(name):
            raise ValueError(
                f"influence knows mean squared errors and cross-entropies without {name}: smooth the labels in y, or "
                f"leave out what is ignored. Received: a loss with {name}={config[name]!r}"
            )
