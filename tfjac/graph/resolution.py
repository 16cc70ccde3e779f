"""How finely numbers of a dtype are spaced, half precisions that NumPy does not know by itself included."""

import numpy as np
import tensorflow as tf


def resolution_of(dtype):
    """Return the spacing of numbers around one: the epsilon of a floating-point or complex dtype, a tf.DType or not."""
    dtype = tf.as_dtype(dtype).real_dtype
    return 2.0**-7 if dtype == tf.bfloat16 else float(np.finfo(dtype.as_numpy_dtype).eps)
