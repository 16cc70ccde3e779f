"""example_grams against NumPy, its derivatives against finite differences, and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.ways import every_way
from tfjac import ops

pytestmark = pytest.mark.usefixtures("implementation")


@pytest.mark.by_day(one_in=3)
@every_way
@pytest.mark.parametrize("n, m, p", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (500, 25, 5), (3, 130, 32), (2, 70, 33)])
def test_values(n, m, p, compiled, dtype, rng):
    jacobian, residual = rng.standard_normal((n, m, p)), rng.standard_normal((n, m))
    gram, gradient = compiled(ops.example_grams)(tf.constant(jacobian, dtype), tf.constant(residual, dtype))
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == tf.float32 else {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(gram, jacobian.swapaxes(1, 2) @ jacobian, **tolerance)
    np.testing.assert_allclose(gradient, (jacobian.swapaxes(1, 2) @ residual[..., None])[..., 0], **tolerance)


def test_gradients_against_finite_differences(rng):
    inputs = [rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4))]
    weights = [rng.standard_normal((3, 2, 2)), rng.standard_normal((3, 2))]

    def loss(jacobian, residual):
        gram, gradient = jacobian.swapaxes(1, 2) @ jacobian, (jacobian.swapaxes(1, 2) @ residual[..., None])[..., 0]
        return np.sum(weights[0] * gram) + np.sum(weights[1] * gradient)

    @tf.function(input_signature=[tf.TensorSpec([None] * 3, tf.float64), tf.TensorSpec([None] * 2, tf.float64)])
    def gradients(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            weighted = [tf.reduce_sum(a * b) for a, b in zip(weights, ops.example_grams(*given))]
        return tape.gradient(weighted, given)

    for which, found in enumerate(gradients(*inputs)):
        direction = rng.standard_normal(inputs[which].shape)
        ahead, behind = [[x + h * direction if x is inputs[which] else x for x in inputs] for h in (1e-6, -1e-6)]
        expected = (loss(*ahead) - loss(*behind)) / 2e-6
        np.testing.assert_allclose(np.sum(found * direction), expected, rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError):
        gradients(inputs[0], inputs[1][:, :3])


def test_refused():
    with pytest.raises(ValueError, match=r"jacobian \[n,m,p\] and residual \[n,m\]. Received: \(3, 2, 4\), \(3, 4\)"):
        ops.example_grams(tf.ones([3, 2, 4]), tf.ones([3, 4]))
    with pytest.raises(TypeError, match="both be float32"):
        ops.example_grams(tf.ones([3, 2, 4]), tf.ones([3, 2], tf.float64))
    gram, _ = ops.example_grams(tf.ones([1, 300, 1], tf.float16), tf.ones([1, 300], tf.float16))
    assert gram.dtype == tf.float32 and gram[0, 0, 0] == 300
