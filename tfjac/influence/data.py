"""A trained network, the examples that it was trained on, and what is computed of them."""

import functools
from typing import Any

import numpy as np

from tfjac.graph import as_tf_variable
from tfjac.influence.gradients import OutputGradients
from tfjac.influence.losses import LOSSES, check_complete, check_plain, factor_of
from tfjac.laplace.curvature import NetworkCurvature
from tfjac.laplace.inputs import check_trained, chosen_variables, inputs_like
from tfjac.laplace.likelihoods import likelihood_of
from tfjac.laplace.posterior import fingerprint


class TrainingData:
    """What all methods start from.

    Args:
        model, x, y, variables, likelihood, from_logits, batch_size: as `influence` is given them.

    Attributes:
        model: the network.
        x: nest of tensors.
        labels: y in the shape of z.
        latent: z, `[n, ...]`.
        counts: what each position counts for, `[n, *positions, 1]`.
        curvature: `NetworkCurvature`.
        gradients: `OutputGradients`.
        loss: `ExampleLoss`.
        num_parameters: p.
        epsilon: rounding of the variables' dtype.
    """

    def __init__(self, model, x, y, variables, likelihood, from_logits, batch_size):
        check_trained("influence", model, x)
        if likelihood is None:
            check_plain(getattr(model, "loss", None))
        distribution, from_logits = likelihood_of(model, likelihood, from_logits)
        variables = [as_tf_variable(each) for each in chosen_variables(model, variables)]
        self.as_inputs = functools.partial(inputs_like, dtype=variables[0].dtype)
        self.model, self.x = model, self.as_inputs(x)
        self.num_parameters = sum(int(np.prod(each.shape)) for each in variables)
        self.epsilon = float(np.finfo(variables[0].dtype.as_numpy_dtype).eps)
        self.curvature = NetworkCurvature(model, variables, distribution, from_logits, self.x, batch_size)
        latent = self.curvature.traced_latent
        self.gradients = OutputGradients(
            latent, self.curvature.traced_rows, distribution, variables, self.x, batch_size
        )
        self.latent, self.counts = self.curvature.latent_and_counts(self.x)
        check_complete(model)
        outputs = self.latent.shape[1:]
        self.loss = LOSSES[distribution.name](outputs, factor_of(model, self.counts, outputs))
        self._likelihood = distribution
        self.labels = distribution.labels(y, self.latent.shape)
        self._weights = fingerprint(model)

    def others(self, x: Any, y: Any = None) -> tuple:
        """Return inputs of other examples as tensors, z, their labels or None, and what their positions count for.

        The mean over these examples is what Keras evaluates.

        Raises:
            ValueError: where the model was trained further.
        """
        self.check_weights()
        x = self.as_inputs(x)
        latent, counts = self.curvature.latent_and_counts(x)
        counts *= factor_of(self.model, counts, self.loss.outputs) / self.loss.factor
        return x, latent, None if y is None else self._likelihood.labels(y, latent.shape), counts

    def slopes(self, latent, labels, counts):
        """Return ∂ℓ/∂z, `[n, m]`."""
        return self.loss.slopes(latent, labels, counts).reshape(len(latent), -1)

    def check_weights(self):
        """Raise ValueError where the model has other weights than it had."""
        if fingerprint(self.model) != self._weights:
            raise ValueError(
                "The weights of the model are others than when its influences were asked for: call influence again. "
                "Received: a model that was changed"
            )
