"""SciPy's view of a model: residuals and Jacobian of a vector of weights, both computed by TensorFlow."""

import numpy as np
import tensorflow as tf

from benchmarks import models


class FlatModel:
    """The residuals of a model on some examples, for `scipy.optimize.least_squares`.

    SciPy is given the fastest Jacobian that TensorFlow has without tfjac.

    Attributes:
        start: the weights at first, `[p]`, float64.
    """

    def __init__(self, model, x, y):
        self._variables = models.values(model)
        self._parts = [variable.numpy() for variable in self._variables]
        self.start = np.concatenate([part.ravel() for part in self._parts]).astype(np.float64)
        self._blocks = tf.function(models.vectorized_jacobian(model, x))
        self._residuals = tf.function(lambda: tf.reshape(model(x) - y, [-1]))

    def _assign(self, vector):
        parts = np.split(vector, np.cumsum([part.size for part in self._parts])[:-1])
        for variable, part in zip(self._variables, parts, strict=True):
            variable.assign(part.reshape(variable.shape))

    def reset(self):
        """Put the model's weights back to the start."""
        self._assign(self.start)

    def residuals(self, vector):
        """r at weights `[p]`, float64."""
        self._assign(vector)
        return self._residuals().numpy().astype(np.float64)

    def jacobian(self, vector):
        """J at weights `[p]`, float64."""
        self._assign(vector)
        rows = [block.numpy().reshape(-1, np.prod(part.shape)) for block, part in zip(self._blocks(), self._parts)]
        return np.concatenate(rows, axis=1).astype(np.float64)
