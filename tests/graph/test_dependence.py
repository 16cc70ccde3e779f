"""Dependence on many sources at once: who reaches what, and what lies between, against gradients one at a time."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfjac
from tfjac.graph import Dependence, _private, ancestors

pytestmark = pytest.mark.core


def test_sources_of_every_tensor_are_those_with_a_gradient(rng):
    """The oracle is `tf.gradients` for one source and one target: None where there is no path."""

    @tf.function(autograph=False)
    def trace(u, v, w):
        whole = tf.cast(u, tf.int32)
        tensors = [
            u * w,
            tf.stop_gradient(u) * v,
            tf.cast(whole, u.dtype) + w,
            tf.where(u > 0.0, v, w),
            tf.gather(v, whole % 2),
            tf.while_loop(lambda k, a: k < 2, lambda k, a: (k + 1, a * w), [0, u])[1],
            tf.math.real(tf.signal.fft(tf.complex(u, v))),
            tf.ones_like(u),
            v,
        ]
        dependence = Dependence([u, None, v, w, u])
        for tensor in tensors:
            connected = [k for k, x in ((0, u), (2, v), (3, w), (4, u)) if tf.gradients(tensor, x)[0] is not None]
            assert dependence.sources_of(tensor) == connected, tensor
            assert dependence.reaches(tensor) == bool(connected)
        assert dependence.sources_of_any(tensors) == {0, 2, 3, 4}
        return u

    trace(*(tf.constant(rng.normal(size=2), tf.float32) for _ in range(3)))


@pytest.mark.parametrize("by_value", [False, True])
def test_outputs_of_a_plain_identity_depend_on_their_own_input(by_value):
    @tf.custom_gradient
    def crossed(x, z):
        return (tf.identity(x), tf.identity(z)), lambda dx, dz: (dz, dx)

    @tf.function(autograph=False)
    def trace(x, z):
        a, b = tf.identity_n([tf.sin(x), tf.cos(z)])
        dependence = Dependence([x, z], by_value)
        assert [dependence.sources_of(t) for t in (a, b)] == [[0], [1]]
        assert [op.type for op in dependence.path([b])] == ["Cos", "IdentityN"]
        assert [dependence.sources_of(t) for t in crossed(x, z)] == [[0, 1]] * 2
        return b

    trace(tf.ones([2]), tf.ones([2]))


@pytest.mark.parametrize("chosen", [0, 1])
def test_rows_of_one_output_of_an_identity_of_several(chosen, rng):
    x = tf.constant(rng.normal(size=(3, 4)))
    variables = [tf.Variable(rng.normal(size=4)), tf.Variable(rng.normal(size=(4, 2)))]
    program = lambda: tf.identity_n([x * variables[0], x @ variables[1]])[chosen]  # noqa: E731
    rows = [np.einsum("ni,io->noi", x, np.eye(4)), np.einsum("ni,mo->nmio", x, np.eye(2))][chosen]
    np.testing.assert_allclose(tfjac.per_example_jacobian(program, variables[chosen]), rows)
    for asked in (variables[1 - chosen], variables):
        with pytest.raises(ValueError, match="not depend"):
            tfjac.per_example_jacobian(program, asked)


def test_path_is_what_lies_between():
    @tf.function(autograph=False)
    def trace(x, z):
        unused, a = tf.exp(x), tf.sin(x)
        b = a * z
        beside = tf.cos(z)
        y = b + beside
        path = Dependence([x]).path([y])
        assert [op.outputs[0] is t for op, t in zip(path, (a, b, y), strict=True)] == [True] * 3
        assert Dependence([x, a]).path([b]) == path[:2]  # one source on the way of the other
        assert Dependence([a]).path([b]) == path[1:2]
        assert not Dependence([unused]).path([y])
        return y

    trace(tf.ones([2]), tf.ones([2]))


def test_tensors_added_later_are_found():
    @tf.function(autograph=False)
    def trace(x, z):
        dependence = Dependence([x, z])
        y = tf.sin(x)
        assert dependence.sources_of(y) == [0]
        later = y * z
        assert dependence.sources_of(later) == [0, 1]
        assert [op.type for op in dependence.path([later])] == ["Sin", "Mul"]
        return later

    trace(tf.ones([2]), tf.ones([2]))


@pytest.mark.parametrize("depth", [4, 16])
def test_the_first_call_looks_at_each_op_a_few_times(depth, monkeypatch):
    """Not once for every variable, use and output, which grows with the square of the number of layers."""
    model = keras.Sequential([keras.Input((3,))] + [layers.Dense(3, "tanh") for _ in range(depth)])
    asked, is_differentiable = [], _private.is_differentiable

    def counted(op):
        asked.append(op)
        return is_differentiable(op)

    @tf.function(autograph=False)
    def trace(x):
        y = model(x)
        ops = len(ancestors([y]))
        monkeypatch.setattr(_private, "is_differentiable", counted)
        for ask in (tfjac.per_example_jacobian, tfjac.jacobian):
            ask(y, model.trainable_variables)
            assert 0 < len(asked) < 8 * ops
            asked.clear()
        return y

    trace(np.ones([2, 3], "float32"))
