"""Variables that are made while a function is traced, and are not part of it."""

import contextlib

import tensorflow as tf

from tfjac.graph._private import eager_variable


@contextlib.contextmanager
def eager_creation():
    """Make variables as if no function were being traced.

    TensorFlow takes a variable that is made in a first trace, in a `tf.init_scope` too, for one of the function's own,
    and then traces the whole function again. Strategies that place variables make them as ever.
    """
    with tf.init_scope():
        if tf.distribute.has_strategy() or not tf.executing_eagerly():
            yield
            return
        with tf.variable_creator_scope(lambda next_creator, **options: eager_variable(**options)):
            yield
