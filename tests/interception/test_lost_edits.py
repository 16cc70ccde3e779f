"""Edits of gradients that no gradient reaches, said when the function is traced."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, network


def test_edits_that_no_gradient_reaches_are_said():
    """A recomputation, and silu, are differentiated by functions of their own, which know nothing of the edit."""
    x = tf.constant([1.0, 2.0])
    again = lambda x: tf.recompute_grad(lambda x: tfjac.tap(x**2, "inside"))(x)  # noqa: E731
    with pytest.warns(UserWarning, match=r"no effect backwards at tap 'inside'.*tf.recompute_grad"):
        tfjac.intercept(again, {"inside": tfjac.handlers.stop()})(x)
    with pytest.warns(UserWarning, match=r"no effect backwards at op '.*Sigmoid'"):
        tfjac.intercept(tf.nn.silu, rules={"Sigmoid": lambda op, d: d})(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tfjac.intercept(again, {"inside": tfjac.Edit(forward=tf.identity)})(x)
        tfjac.intercept(lambda x: tf.round(x), rules={"Round": tfjac.rules.straight_through})(x)
        tfjac.intercept(network(), rules={"Relu": tfjac.rules.guided})(X)


def test_edits_inside_of_bodies_that_no_gradient_reaches_are_said():
    x = tf.constant([1.0, 2.0])
    held = lambda v: v + tf.stop_gradient(tfjac.tap(tf.sin(v), "held"))  # noqa: E731
    passing = lambda v: tfjac.tap(tf.sin(v), "held")  # noqa: E731
    in_loop = lambda x, step: tf.while_loop(lambda k, v: k < 2, lambda k, v: (k + 1, step(v)), (0, x))[1]  # noqa: E731
    in_call = lambda x, step: tf.function(step)(x) * 2.0  # noqa: E731
    behind = lambda x, step: x + tf.stop_gradient(in_loop(x, step))  # noqa: E731
    halving = {"held": tfjac.handlers.scale(0.5)}
    for around, step in [(in_loop, held), (in_call, held), (behind, passing)]:
        with pytest.warns(UserWarning, match=r"no effect backwards at tap 'held'"):
            tfjac.intercept(lambda x, around=around, step=step: around(x, step), halving)(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for around in (in_loop, in_call):
            tfjac.intercept(lambda x, around=around: around(x, passing), halving)(x)


def test_gradients_taken_inside_are_said_and_have_a_way():
    """A function that differentiates is copied with what it found; what it differentiates can be intercepted inside."""
    x = tf.constant([0.5, 2.0])
    inner = lambda x: tfjac.tap(tf.sin(x), "wave") ** 2  # noqa: E731

    def slope(x, inner=inner):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = inner(x)
        return tape.gradient(y, x)

    for edit in (tfjac.handlers.scale(3.0), tfjac.Edit(forward=lambda v: 2.0 * v)):
        with pytest.warns(UserWarning, match=r"takes gradients itself, as at op 'gradient_tape/.*inside of the funct"):
            tfjac.intercept(slope, {"wave": edit})(x)
    tripled = tfjac.intercept(inner, {"wave": tfjac.handlers.scale(3.0)})
    expected = 3 * 2 * np.sin(x) * np.cos(x)
    np.testing.assert_allclose(tf.function(lambda x: slope(x, tripled))(x), expected, rtol=1e-6)
    np.testing.assert_allclose(slope(x, tripled), expected, rtol=1e-6)
