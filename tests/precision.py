"""The precision that Keras layers are made in."""

import contextlib

import keras


@contextlib.contextmanager
def floating(dtype):
    """Layers are made in this precision, or by this mixed policy, whose variables are in float32.

    Keras keeps its policy apart from floatx once it has been asked for.
    """
    keras.config.set_floatx("float64" if dtype == "float64" else "float32")
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
