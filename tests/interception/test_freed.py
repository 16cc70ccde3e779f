"""What an interception holds is freed once it is not used any more."""

import gc
import weakref

import keras
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, network

pytestmark = pytest.mark.usefixtures("others_frozen")


class Halving:
    """A handler, and a rule, of which one can see whether it is still there."""

    def __call__(self, *arguments):
        return 0.5 * arguments[-1]


def edited_by(halving, kind):
    """A function with this handler, or rule, in it; the hook is taken off when it was traced."""
    if kind == "hook":  # not on the network below: TensorFlow itself never lets go of a function with silu
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        traced = tf.function(model)
        with tfjac.hook(model.layers[0], backward=halving):
            traced(tf.constant(X))
        return traced
    model = network()
    edits = {"relu[0]": tfjac.handlers.straight_through(halving) if kind == "straight through" else halving}
    edited = tfjac.intercept(model, edits if kind != "rule" else None)
    return tfjac.intercept(edited, rules={"Relu": halving}) if kind in ("rule", "both") else edited


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("kind", ["edit", "rule", "both", "straight through", "hook"])
def test_what_is_not_used_any_more_is_freed(kind):
    """The graph with the edit, and all that it holds; a tape that is not done with it keeps it."""
    halving, x = Halving(), tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = edited_by(halving, kind)(x)
    gc.collect()
    assert tape.gradient(value, x) is not None
    there = weakref.ref(halving)
    del halving, tape, value
    gc.collect()
    assert there() is None
