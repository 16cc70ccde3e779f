"""Second derivatives through `tf.nn.moments`, and so through the normalisation of layers and batches.

It computes the variance as the mean of (x − stop_gradient(mean))²: right in first derivatives, as the variance does
not change with that mean to first order. In the gradient, 2(x − mean)·u/n, the mean counts, and TensorFlow leaves it
out.
"""

from tfjac.graph.gradients.registry import gradient


def _is_mean_in_a_gradient(op, ops):
    """Whether `op` stops the gradient of the mean of a variance, and `ops` hold the gradient of that variance."""
    mean, users = op.inputs[0].op, op.outputs[0].consumers()
    if mean.type != "Mean" or not any(user.type == "SquaredDifference" for user in users):
        return False
    names = {user.name for user in users if user.type == "Sub"}
    return any(other.name in names for other in ops)


@gradient("StopGradient", when=_is_mean_in_a_gradient)
def _passed_on(op, cotangent):
    return cotangent
