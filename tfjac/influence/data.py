"""A trained network, the examples that it was trained on, and the loss of each."""

from typing import Any

import numpy as np

from tfjac.influence.losses import ExampleLoss, check_complete, check_plain, factor_of
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
