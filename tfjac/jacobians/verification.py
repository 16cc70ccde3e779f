"""Verification at run time: Σ u·J of what was found against one backward pass of TensorFlow's with u, random.

Both are linear in J, and u is drawn anew for every trace: a wrong row, a row of another example or an entry in the wrong
place shows in almost every u. Switched on by `verify=True`, or for all calls by the environment variable TFJAC_VERIFY=1.
"""

import os

import numpy as np
import tensorflow as tf

from tfjac.jacobians.cotangents import gradients_or_zeros
from tfjac.jacobians.shapes import axes

VARIABLE = "TFJAC_VERIFY"
_TOLERANCES = {tf.float64: 1e-7, tf.float32: 2e-3}
_HALF_TOLERANCE = 0.1
_SEEDS = np.random.default_rng()


def wanted(verify):
    """Return whether to verify: `verify` itself where it is no None, else what TFJAC_VERIFY says.

    Raises:
        ValueError: for another value of TFJAC_VERIFY than 0, 1, or nothing.
    """
    if verify is not None:
        return bool(verify)
    value = os.environ.get(VARIABLE, "0")
    if value not in ("", "0", "1"):
        raise ValueError(f"{VARIABLE} must be 1 to verify all Jacobians when they are computed, or 0. Received: {value!r}")
    return value == "1"


def verify_products(ys, sources, products, names):
    """Add a check to the graph being traced: products with Jᵀ against TensorFlow's gradient.

    Two u are tried: one for all examples, and one that is zero for a random half of them.

    Args:
        ys: list of tensors `[n, ...]` that were differentiated, as the user gave them.
        sources: list of tensors, or handles of variables, that they depend on.
        products: function from a list of tensors u, like `ys`, to a list of tensors of as many elements as the
            sources have: Σ_y u_y·∂y/∂s as the Jacobian in question gives it.
        names: list of what each source is called in messages.

    Where they differ, an InvalidArgumentError says by how much. XLA drops the check. A custom gradient whose backward
    is not linear in its cotangent has no Jacobian that could pass.

    Cost: two backward passes, and two products.
    """
    for halved in (False, True):
        cotangents = [_random_like(y, halved) for y in ys]
        expected = gradients_or_zeros(ys, sources, cotangents)
        check_agreement(products(cotangents), expected, names, "Σ u·J for a random u, and TensorFlow's own gradient")


def check_agreement(found, expected, names, what):
    """Add a check that two lists of tensors agree to rounding; the message names what differs most.

    Rounding is measured against each tensor's own norm, and a little against that of the largest: what cancels
    analytically is noise.
    """
    pairs = [_flat_pair(*pair) for pair in zip(found, expected)]
    norms = tf.stack([tf.norm(other) for _, other in pairs])
    errors = tf.stack([tf.norm(one - other) for one, other in pairs])
    tolerance = tf.constant([_tolerance(one.dtype, other.dtype) for one, other in zip(found, expected)], tf.float64)
    allowed = tolerance * (norms + 0.1 * tf.reduce_max(norms))
    fine = (errors <= allowed) | ~tf.math.is_finite(norms)  # what is infinite or no number has no difference
    worst = tf.argmax(tf.where(fine, tf.zeros_like(errors), tf.math.divide_no_nan(errors, norms) + 1))
    message = f"tfjac: verification failed: {what} differ. Received: (name, norm of the difference, norm expected)"
    tf.debugging.Assert(
        tf.reduce_all(fine), [message, tf.gather(tf.constant(names), worst), errors[worst], norms[worst]], summarize=10
    )


def _flat_pair(one, other):
    """Two tensors as vectors of double precision."""
    return tuple(tf.cast(tf.reshape(tensor, [-1]), tf.float64) for tensor in (one, other))


def _tolerance(*dtypes):
    return max(_TOLERANCES.get(dtype, _HALF_TOLERANCE) for dtype in dtypes)


def _random_like(y, halved):
    """A random tensor like y; zero for a random half of the examples where `halved`."""
    seed = _SEEDS.integers(0, 2**31, 2)
    u = tf.random.stateless_normal(axes(y), seed, tf.float64)
    if halved and y.shape.rank:
        n, *rest = axes(y)
        kept = tf.random.stateless_uniform([n, *[1] * len(rest)], seed, 0, 2, tf.int32)
        u *= tf.cast(kept, tf.float64)
    return tf.cast(u, y.dtype)
