"""How targets are distributed around what a network says: its latent outputs z, their Hessian H, and log p(y | z)."""

import abc

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from tfjac.arguments import choice
from tfjac.objective.terms import CrossEntropyTerm, SeparableTerm, SquaredTerm


class Likelihood(abc.ABC):
    """The distribution of targets given the latent outputs z of the network.

    Attributes:
        name: what it is called.
        has_noise: whether there is a standard deviation σ to be known.
    """

    name: str | None = None
    has_noise: bool = False
    activation: str | None = None

    def latent(self, output, from_logits):
        """Return z `[n, ...]`: what the network returns, or the logits below its last activation.

        Raises:
            ValueError: where the output is to be probabilities, and not that of the activation.
        """
        if self.activation is None or from_logits:
            return output
        while output.op.type == "Identity":
            output = output.op.inputs[0]
        if output.op.type != self.activation:
            raise ValueError(
                f"The network must return what its last layer's {self.activation.lower()} does, under which the logits "
                "are found; where it returns logits, say from_logits=True. "
                f"Received: the output of op {output.op.name!r} of type {output.op.type}"
            )
        return output.op.inputs[0]

    def labels(self, targets, shape):
        """Return the targets in the shape of z, float64.

        Raises:
            ValueError: for targets that do not fit, or that the likelihood does not know.
        """
        targets = np.asarray(targets, dtype=float)
        if len(targets) != shape[0] or targets.size != np.prod(shape):
            raise ValueError(
                f"y must have a target for each output of each example, {shape[0]:,} x {list(shape[1:])}. "
                f"Received: shape {targets.shape}"
            )
        if not np.isfinite(targets).all():
            raise ValueError(
                "y must be finite: leave out examples without a target. "
                f"Received: {np.count_nonzero(~np.isfinite(targets)):,} numbers that are NaN or infinite"
            )
        return targets.reshape(shape)

    @abc.abstractmethod
    def term(self, latent):
        """Return the term of a loss that has the Hessian H of −log p at z; see `objective.terms`."""

    @abc.abstractmethod
    def residual(self, latent, labels):
        """Return r, of the shape of z, with R r = −∂ log p/∂z; RᵀJ is the Jacobian of the rows of `term(latent)`.

        Args:
            latent: z, `[n, ...]`.
            labels: y in the shape of z, rows of labels for classes.
        """

    @abc.abstractmethod
    def losses(self, latent, labels):
        """Return −log p(y | z) of each output, in the shape of z, float64; σ = 1, and a constant left out."""

    @abc.abstractmethod
    def mean(self, latent):
        """Return what targets are in the mean, such as probabilities: y less that is the slope of log p."""

    @abc.abstractmethod
    def hessians(self, latent):
        """Return H of each example, `[n, m, m]`."""

    @abc.abstractmethod
    def share(self, outputs):
        """Return what the mean of `losses` over all outputs is multiplied by in Keras' loss; `outputs`: their shape."""

    def log_likelihood(self, latent, labels, noise, counts):
        """Return Σ log p(y | z).

        Args:
            latent: z, `[n, ...]`.
            labels: y in the shape of z.
            noise: σ, of a likelihood that has one; a number, or an array in the shape of the outputs.
            counts: `[n, *positions, 1]`, zero for the positions that are left out.
        """
        return -np.sum(counts * self.losses(latent, labels))


class Gaussian(Likelihood):
    """y = z + noise of standard deviation σ: H = 1/σ², of which `term` leaves σ out."""

    name, has_noise = "gaussian", True

    def term(self, latent):
        """Return ½z²."""
        return SquaredTerm(latent, tf.fill(tf.shape(latent), tf.cast(0.5, latent.dtype)), True)

    def residual(self, latent, labels):
        """Return z − y, for σ = 1."""
        return latent - labels

    def losses(self, latent, labels):
        """Return ½(z − y)²."""
        return (latent - labels) ** 2 / 2

    def mean(self, latent):
        """Return z."""
        return latent

    def hessians(self, latent):
        """Return I."""
        return np.broadcast_to(np.eye(latent[0].size), (len(latent), *[latent[0].size] * 2))

    def share(self, outputs):
        """Return 2: −log p is half the square."""
        return 2.0

    def log_likelihood(self, latent, labels, noise, counts):
        """Return the logarithm of the normal density."""
        of_width = np.log(2 * np.pi * np.broadcast_to(noise, latent.shape) ** 2) / 2
        return -np.sum(counts * (self.losses((latent - labels) / noise, 0) + of_width))


class Categorical(Likelihood):
    """One of several classes, with probabilities softmax(z): H = diag p − ppᵀ."""

    name, activation = "categorical", "Softmax"

    def labels(self, targets, shape):
        """Return the targets in the shape of z: those that name classes as rows of zeros and a one."""
        targets, classes = np.asarray(targets), shape[-1]
        if targets.shape[:1] != shape[:1] or targets.size != np.prod(shape[:-1]) or targets.shape == tuple(shape):
            labels = super().labels(targets, shape)
            if (labels < 0).any() or not np.allclose(labels.sum(axis=-1), 1, atol=1e-5):
                raise ValueError(
                    "Labels of classes must be zero or more, and add up to one. Received: labels that are not"
                )
            return labels
        positions = targets.reshape(shape[:-1])
        if not (np.all(positions == np.floor(positions)) and np.all((positions >= 0) & (positions < classes))):
            raise ValueError(
                f"y must name classes from 0 to {classes - 1}, or be rows of labels. "
                f"Received: values from {np.min(positions)} to {np.max(positions)}"
            )
        return np.eye(classes)[positions.astype(int)]

    def term(self, latent):
        """Return the cross-entropy, with labels that add up to one; which they are, H does not depend on."""
        return CrossEntropyTerm(latent, tf.ones_like(latent) / tf.cast(tf.shape(latent)[-1], latent.dtype))

    def residual(self, latent, labels):
        """Return (p − y)/√p."""
        return CrossEntropyTerm(latent, labels).rows()[1]

    def losses(self, latent, labels):
        """Return −y·log softmax(z)."""
        return -labels * scipy.special.log_softmax(latent, axis=-1)

    def mean(self, latent):
        """Return softmax(z)."""
        return scipy.special.softmax(latent, axis=-1)

    def hessians(self, latent):
        """Return diag p − ppᵀ, for each position."""
        n, *_, classes = latent.shape
        p = self.mean(latent).reshape(n, -1, classes)
        found = np.zeros((*p.shape, *p.shape[1:]))
        for k in range(p.shape[1]):
            found[:, k, :, k, :] = p[:, k, :, None] * (np.eye(classes) - p[:, k, None, :])
        return found.reshape(n, *[p[0].size] * 2)

    def share(self, outputs):
        """Return the number of classes: each position has one of them."""
        return outputs[-1]


class Bernoulli(Likelihood):
    """Zero or one, with probability sigmoid(z): H = p(1 − p)."""

    name, activation = "bernoulli", "Sigmoid"

    def labels(self, targets, shape):
        """Return the targets in the shape of z, each from zero to one."""
        labels = super().labels(targets, shape)
        if not ((labels >= 0) & (labels <= 1)).all():
            raise ValueError(
                "y must be zeros and ones, or lie between: write labels of −1 and 1 as (y + 1)/2. "
                f"Received: values from {labels.min()} to {labels.max()}"
            )
        return labels

    def term(self, latent):
        """Return the binary cross-entropy."""
        return SeparableTerm(latent, tf.zeros_like(latent), self._curvature(latent))

    def residual(self, latent, labels):
        """Return (p − y)/√(p(1 − p))."""
        return (tf.sigmoid(latent) - labels) / tf.sqrt(self._curvature(latent))

    def _curvature(self, latent):
        """p(1 − p), that is not zero where p is rounded to one."""
        latent = tf.stop_gradient(latent)
        return tf.sigmoid(latent) * tf.sigmoid(-latent)

    def losses(self, latent, labels):
        """Return log(1 + eᶻ) − y·z."""
        return np.logaddexp(0, latent) - labels * latent

    def mean(self, latent):
        """Return sigmoid(z)."""
        return scipy.special.expit(latent)

    def hessians(self, latent):
        """Return diag p(1 − p)."""
        latent = latent.reshape(len(latent), -1)
        return (self.mean(latent) * self.mean(-latent))[:, :, None] * np.eye(latent.shape[1])

    def share(self, outputs):
        """Return 1: the loss of Keras is a mean over all outputs."""
        return 1.0


LIKELIHOODS = {each.name: each for each in (Gaussian, Categorical, Bernoulli)}

_OF_LOSSES = {
    "mean_squared_error": "gaussian",
    "categorical_crossentropy": "categorical",
    "sparse_categorical_crossentropy": "categorical",
    "binary_crossentropy": "bernoulli",
}


def likelihood_of(model, name=None, from_logits=None):
    """Return the `Likelihood` of a model, by name or by the loss it was compiled with, and whether z is its output.

    Raises:
        ValueError: for an unknown name, or a model without a loss that is known.
    """
    loss = getattr(model, "loss", None)
    if name is None and getattr(loss, "ignore_class", None) is not None:
        raise ValueError(
            "Targets of a class that the loss ignores have no likelihood: leave them out, or mask them. "
            f"Received: a loss with ignore_class={loss.ignore_class}"
        )
    if name is None:
        function = keras.losses.get(loss) if isinstance(loss, str) else loss
        function = getattr(function, "fn", function)
        name = _OF_LOSSES.get(getattr(function, "__name__", ""))
        if name is None:
            raise ValueError(
                "The likelihood follows from the loss that the model is compiled with, where that is a mean squared "
                f"error or a cross-entropy; else say likelihood=, one of {', '.join(map(repr, LIKELIHOODS))}. "
                f"Received: loss={loss!r}"
            )
    likelihood = LIKELIHOODS[choice("likelihood", name, LIKELIHOODS)]()
    return likelihood, bool(getattr(loss, "from_logits", False) if from_logits is None else from_logits)
