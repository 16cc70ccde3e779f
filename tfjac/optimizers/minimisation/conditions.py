"""What is asked of parameters by themselves, whatever the residuals say: bounds, and what is known beforehand."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.graph import as_tf_variable
from tfjac.optimizers.linearisation import Columns
from tfjac.optimizers.problem.gaussian_prior import GaussianPrior, GivenPrior
from tfjac.optimizers.steps.bounds import Bounds, Box


class Conditions(NamedTuple):
    """Tensors, data of a minimisation; each an empty tuple where nothing was asked for.

    Attributes:
        box: a `Box`.
        prior: a `GaussianPrior`.
    """

    box: Any = ()
    prior: Any = ()


class GivenConditions:
    """What was asked for, checked.

    Args:
        variables: nest of the variables.
        bounds, fixed, prior: as for `least_squares`.

    Attributes:
        prior_is_uniform: whether the prior is the same for all elements of a variable.
    """

    def __init__(self, variables, bounds=None, fixed=None, prior=None):
        self._flat = tf.nest.flatten(variables)
        self._bounds, self._prior = Bounds(variables, bounds, fixed), GivenPrior(variables, prior)
        self._dtype = as_tf_variable(self._flat[0]).dtype
        self.prior_is_uniform = self._prior.is_uniform

    def tensors(self):
        """Return the `Conditions` of a minimisation from where the variables are.

        Raises:
            ValueError: outside of a graph, for variables that are not within their bounds.
        """
        box = self._bounds.box(self._flat)
        if box and tf.executing_eagerly():
            self._bounds.check_start(box, self._flat)
        return Conditions(box, self._prior.tensors(self._dtype))

    def specs(self):
        """Return `Conditions` of `tf.TensorSpec`, what they are like."""
        vector = tf.TensorSpec([Columns(self._flat).total], self._dtype)
        return Conditions(
            Box(vector, vector) if self._bounds.are_given else (),
            GaussianPrior(vector, vector) if self._prior.are_given else (),
        )
