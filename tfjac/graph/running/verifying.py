"""Verification at run time: what was computed in two ways is compared where it is computed, and an error says the rest.

It is switched on by the environment variable `TFJAC_VERIFY=1`, read while tracing, or by an argument `verify=` of the
functions that have one.
"""

import os

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import _private
from tfjac.types import DType, Scalar, Tensor

SWITCH = "TFJAC_VERIFY"
"""The environment variable."""

ROUNDING, LARGEST, CANCELLED, ELSEWHERE = 2048, 0.1, 32, 2
"""What counts as rounding: in units of the dtype's precision, and at most, relative to a scale; in what was lost; in
units of the precision again, relative to the largest scale of all."""

_SMALLEST = {tf.float64: 2.0**-1022, tf.float16: 2.0**-14}
"""The smallest normal number where it is not that of float32 and bfloat16."""


def verification_wanted(verify: bool | None = None) -> bool:
    """Return whether to verify: `verify` where it is a bool, else what the environment says.

    Never in functions that XLA compiles, which drops assertions: a warning says so.

    Raises:
        TypeError: for anything but a bool or None.
        ValueError: for a value of the environment variable other than 0 and 1.
    """
    if verify is not None:
        if not isinstance(verify, bool):
            raise TypeError(
                f"verify must be True, False, or None, which leaves it to {SWITCH}. Received: verify={verify!r}"
            )
        return verify and _checks_run()
    value = os.environ.get(SWITCH, "") or "0"
    if value not in ("0", "1"):
        raise ValueError(f"{SWITCH} must be 0 or 1. Received: {SWITCH}={value!r}")
    return value == "1" and _checks_run()


def _checks_run() -> bool:
    """Whether assertions of the graph being traced are run; where they are dropped, warn of it."""
    dropped = _private.compiled_by_xla(tf.compat.v1.get_default_graph())
    if dropped:
        warn(
            "tfjac: nothing is verified in functions compiled by XLA, which drops assertions. Compile without "
            "jit_compile to see.",
        )
    return not dropped


def largest_of(tensor: Tensor) -> Tensor:
    """Return the largest absolute value in a tensor, a scalar; zero of an empty one."""
    size = tf.abs(tensor)
    return tf.reduce_max(tf.concat([tf.zeros([1], size.dtype), tf.reshape(size, [-1])], axis=0))


def verified(
    ours: Tensor,
    theirs: Tensor,
    scale: Scalar,
    what: str,
    resolution: float | None = None,
    lost: Scalar = 0.0,
    elsewhere: Scalar = 0.0,
) -> Tensor:
    """Return `ours`, checked when the graph runs to equal `theirs` but for rounding: |ours − theirs| ≤ 2048·ε·scale.

    Where anything is not finite nothing is compared.

    Args:
        ours, theirs: tensors of one shape and a floating-point or complex dtype.
        scale: scalar tensor, how large the terms are that either is a sum of, such as ‖J‖·‖u‖ for Jᵀu: where they
            cancel, rounding is relative to them.
        what: what differs, for the error, such as "for variable kernel, the gradient differs".
        resolution: ε, see `resolution_of`, of the coarsest dtype that either was computed in; where left out that of
            their own.
        lost: scalar tensor, the rounding seen in either, of terms that cancelled before; 32 times that counts as
            rounding too, while it is less than a tenth of the scale.
        elsewhere: scalar tensor, the largest scale of what else was computed along: 2·ε of it is rounding always, as
            where all terms cancel, and the scale itself is of rounding.

    Returns:
        `ours`. Where they differ, `tf.errors.InvalidArgumentError` is raised, saying `what`, and by how much.
    """
    size = largest_of(ours - theirs)
    resolution = resolution_of(size.dtype) if resolution is None else resolution
    scale, least = tf.cast(scale, size.dtype), _SMALLEST.get(size.dtype, 2.0**-126)
    allowed = tf.minimum(ROUNDING * resolution * scale + CANCELLED * tf.cast(lost, size.dtype), LARGEST * scale)
    allowed = tf.maximum(allowed, ELSEWHERE * resolution * tf.cast(elsewhere, size.dtype))
    sound = size <= allowed + ROUNDING * least
    sound |= ~(tf.math.is_finite(size) & tf.math.is_finite(scale))
    said = tf.strings.format(f"tfjac: {what} by {{}}, where the terms are of size {{}}", (size, scale))
    with tf.control_dependencies([tf.debugging.Assert(sound, [said])]):
        return tf.identity(ours)


def resolution_of(dtype: DType) -> float:
    """Return the spacing of numbers around one: the epsilon of a floating-point or complex dtype, a tf.DType or not.

    NumPy does not know all half precisions by itself.
    """
    dtype = tf.as_dtype(dtype).real_dtype
    return 2.0**-7 if dtype == tf.bfloat16 else float(np.finfo(dtype.as_numpy_dtype).eps)
