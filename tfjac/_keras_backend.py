"""Keras must run on TensorFlow: said when the package is imported, before a variable of another backend gets in."""

import keras

if keras.config.backend() != "tensorflow":
    raise ImportError(
        f"tfjac works with Keras' TensorFlow backend, and this process runs Keras on {keras.config.backend()!r}. "
        "Set the environment variable KERAS_BACKEND=tensorflow before keras is imported, or write "
        '"backend": "tensorflow" in the file keras.json of the folder .keras in your home directory.'
    )
