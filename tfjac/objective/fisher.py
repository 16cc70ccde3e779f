"""The Fisher information of a normal distribution whose mean and deviation are any functions of a model's outputs."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.types import Function, Tensor


def fisher_of_normal(parameters: Callable[[Tensor], tuple[Any, Any]]) -> Function:
    """Return a root of the Fisher information of a normal distribution, for `register_curvature`.

        def parameters(z):
            return z[..., :1], tf.nn.softplus(z[..., 1:])

        def nll(y, z):
            mean, deviation = parameters(z)
            return tf.reduce_sum(tf.math.log(deviation) + 0.5 * ((y - mean) / deviation) ** 2, axis=-1)

        loss = tfjac.register_curvature(nll, hessian_root=tfjac.fisher_of_normal(parameters))

    The Fisher information is what the Hessian of the negative logarithm of the likelihood is expected to be,

        Σ_k (∂µ[k] ∂µ[k]ᵀ + 2 ∂σ[k] ∂σ[k]ᵀ) / σ[k]²

    It is never negative, which the Hessian may be, and needs no derivatives of second order.

    Args:
        parameters: function of the outputs z `[..., m]` that returns the mean and the standard deviation, `[..., k]`.
            The loss is a sum over the k.

    Returns:
        A function `(y_true, y_pred)` of the graph being traced that returns R `[..., m, 2 k]`, the root.

    Cost: 2 k backward passes of `parameters`.
    """

    def root(*args: Any) -> Tensor:
        outputs = tf.identity(tf.stop_gradient(args[-1]))
        mean, deviation = (tf.convert_to_tensor(each) for each in parameters(outputs))
        columns = []
        for tensor, factor in ((mean, 1.0), (deviation, math.sqrt(2.0))):
            for k in range(tensor.shape[-1]):
                slope = tf.gradients(tensor[..., k], outputs, unconnected_gradients="zero")[0]
                columns.append(factor * slope / deviation[..., k, None])
        return tf.stack(columns, axis=-1)

    return root
