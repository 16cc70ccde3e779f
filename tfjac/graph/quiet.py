"""Functions of this package's own, which TensorFlow is not to speak of."""

import tensorflow as tf


def quiet_function(function, **options):
    """Return `tf.function(function)` of which TensorFlow does not say that it is traced too often.

    It counts the traces of a piece of code, whichever object it belongs to: of functions that are traced once for each
    object, as those of this package are, that is no sign of anything, and names what users know nothing of.
    """
    traced = tf.function(function, autograph=False, **options)
    traced._omit_frequent_tracing_warning = True
    return traced
