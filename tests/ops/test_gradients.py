"""Derivatives of the ops on factors against finite differences of the NumPy oracle."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.factors import Problem
from tfjac import ops

pytestmark = pytest.mark.usefixtures("implementation")

BLOCKS = [(3, 2, 2, 2, "igo"), (1, 1, 3, 2, "ogi"), (1, 1, 1, 3, "gio")]
OPS = {
    "rows": (lambda p, a, d, r: ops.jacobian_rows(a, d, p.layouts), lambda p, j: j),
    "gram": (lambda p, a, d, r: ops.jacobian_gram(a, d, p.layouts)[0], lambda p, j: j.T @ j),
    "gradient": (
        lambda p, a, d, r: ops.jacobian_gram(a, d, p.layouts, r)[1],
        lambda p, j: j.T @ p.residual.ravel(),
    ),
    "kernel": (lambda p, a, d, r: ops.jacobian_kernel(a, d), lambda p, j: j @ j.T),
    "row_norms": (lambda p, a, d, r: ops.jacobian_row_norms(a, d), lambda p, j: (j**2).sum(1)),
}


WAYS = ("eager", "function", "jit")
IN_TURN = [
    (name, *way)
    for k, name in enumerate(OPS)
    for way in (*(("native", each) for each in WAYS), ("twin", WAYS[k % len(WAYS)]))
]


@pytest.mark.by_day("values")
@pytest.mark.parametrize("name, implementation, compiled", IN_TURN, indirect=["implementation", "compiled"])
def test_gradient_against_finite_differences(name, implementation, compiled, rng):
    problem = Problem(rng, 3, 2, BLOCKS)
    op, oracle = OPS[name]
    value = oracle(problem, problem.rows())
    weights = rng.standard_normal(value.shape)

    @compiled
    def gradients(a, d, r):
        with tf.GradientTape() as tape:
            tape.watch([a, d, r])
            loss = tf.reduce_sum(tf.reshape(op(problem, a, d, r), weights.shape) * weights)
        return tape.gradient(loss, [*a, *d, r], unconnected_gradients="zero")

    found = gradients(*problem.tensors(tf.float64), tf.constant(problem.residual))
    for array, gradient in zip([*problem.a, *problem.d, problem.residual], found):
        direction = rng.standard_normal(array.shape)
        values = []
        for step in (1e-6, -2e-6):
            array += step * direction
            values.append(np.sum(weights * oracle(problem, problem.rows())))
        array += 1e-6 * direction
        uses_residual = array is not problem.residual or name == "gradient"
        expected = (values[0] - values[1]) / 2e-6 if uses_residual else 0.0
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-6, atol=1e-7)


def test_second_derivative_of_the_norms(rng):
    problem = Problem(rng, 2, 1, [(1, 1, 2, 2, "gio")])
    a, d = problem.tensors(tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape() as inner:
            inner.watch(a)
            loss = tf.reduce_sum(ops.jacobian_row_norms(a, d))
        gradient = inner.gradient(loss, a)[0]
    second = outer.jacobian(gradient, a)[0]  # d/da of 2 a ‖d‖²
    expected = 2 * np.sum(problem.d[0][:, 0, 0, 0] ** 2, axis=-1)
    np.testing.assert_allclose(tf.linalg.diag_part(tf.reshape(second, [4, 4])), np.repeat(expected, 2))
