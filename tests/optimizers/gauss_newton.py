"""A damped Gauss-Newton step in NumPy, from a Jacobian taken one row at a time; and one of the optimizer's, to compare.

Nothing of the first comes from tfjac: it is what the second is held to.
"""

import keras
import numpy as np
import tensorflow as tf

from tfjac.optimizers import LevenbergMarquardt, NielsenDamping


def rows_of_jacobian(residuals, variables):
    """Return r `[rows]` and J `[rows, p]`, NumPy, by one backward pass for each row."""
    with tf.GradientTape(persistent=True) as tape:
        parts = [tf.reshape(part, [-1]) for part in tf.nest.flatten(residuals())]
        rows = [part[index] for part in parts for index in range(part.shape[0])]
    gradients = [tape.gradient(row, variables, unconnected_gradients="zero") for row in rows]
    flat = [np.concatenate([np.reshape(tf.convert_to_tensor(g), -1) for g in gradient]) for gradient in gradients]
    return np.array([row.numpy() for row in rows]), np.array(flat)


def damped_step(residuals, variables, initial=1e-2, prior=0.0):
    """Return p in (JᵀJ + Λ + λI) p = −(Jᵀr + Λw) `[p]`, with λ = `initial`·max diag(JᵀJ) and Λ = `prior`·I."""
    r, jacobian = rows_of_jacobian(residuals, variables)
    gram, w = jacobian.T @ jacobian, flat_values(variables)
    damping = initial * np.diag(gram).max()
    return -np.linalg.solve(gram + (damping + prior) * np.eye(len(gram)), jacobian.T @ r + prior * w)


def flat_values(variables):
    """Return the values of variables as one vector."""
    return np.concatenate([np.reshape(keras.ops.convert_to_numpy(variable), -1) for variable in variables])


def first_step(loss, variables, initial=1e-2, solver="cholesky", jit_compile=False, **options):
    """Return the optimizer's first step on `loss()`, a straight one, zeros where that is no gain, and the optimizer."""
    options = {"max_attempts": 1, "min_gain": 1e-9, "acceleration": None, **options}
    optimizer = LevenbergMarquardt(NielsenDamping(initial), solver=solver, **options)
    optimizer.build(variables)
    start = flat_values(variables)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def step():
        value = optimizer.scale_loss(loss())
        optimizer.apply([None] * len(variables), variables)
        return value

    step()
    return flat_values(variables) - start, optimizer
