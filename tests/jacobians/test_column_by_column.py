"""Examples that mix, with few parameters beside rows, or few rows: passes are taken for the fewer of the two."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles_full import full_jacobian
from tfjac.jacobians.factors.strategies import column_by_column, row_by_row
from tfjac.jacobians.passes.linearise import NoForwardMode

RNG = np.random.default_rng(0)
DATA = tf.constant(RNG.normal(size=(12, 5)))
V = tf.Variable(RNG.normal(size=[5]), dtype=tf.float64)
W = tf.Variable(RNG.normal(size=[]), dtype=tf.float32)


def summed():
    """Each of 12 rows depends on all before."""
    return tf.cumsum(tf.tanh(DATA * V) * tf.cast(W, tf.float64), 0)


def looped():
    def body(k, z, found):
        z = tf.tanh(z + DATA[k] * V) * tf.cast(W, tf.float64)
        return k + 1, z, found.write(k, z)

    array = tf.TensorArray(tf.float64, 12)
    return tf.while_loop(lambda k, *_: k < 12, body, (0, tf.zeros([5], tf.float64), array))[2].stack()


@pytest.fixture
def taken(monkeypatch):
    """The ways that were taken, a list of names."""
    names = []
    for module, name in ((column_by_column, "push_forward"), (row_by_row, "pull_back")):
        original = getattr(module, name)

        def noted(*given, name=name, original=original, **options):
            names.append(name)
            return original(*given, **options)

        monkeypatch.setattr(module, name, noted)
    return names


def check(function, variables, **options):
    found = tfjac.per_example_jacobian(function, variables, examples_mix="full", **options)
    for block, rows in zip(found, full_jacobian(function, variables)):
        np.testing.assert_allclose(block, rows, rtol=2e-6, atol=1e-7 if block.dtype == tf.float32 else 1e-12)


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("options", [{}, {"chunk_size": 4}, {"verify": True}])
@pytest.mark.parametrize("function", [summed, looped])
def test_few_parameters(taken, function, options):
    check(function, [V, W], **options)
    assert taken == ["push_forward"]


def test_few_rows(taken):
    with pytest.warns(UserWarning, match="each of the 10 rows costs a backward pass"):
        check(lambda: summed()[-2:] * tf.reverse(summed()[-2:], [0]), [V, W])
    assert taken == ["pull_back"]


@pytest.mark.by_day(None)
def test_one_example_of_many_rows(taken):
    """It has no other to mix with, and no warning is needed."""
    check(lambda: tf.reshape(looped(), [1, -1]), [V, W])
    assert taken == ["push_forward"]


@pytest.mark.by_day(None)
def test_several_tensors(taken):
    scale = tf.Variable(0.7, dtype=tf.float64)
    functions = [lambda: summed() * scale, lambda: looped() * scale]
    operator = tfjac.jacobian_operator(lambda: [each() for each in functions], [V, scale], examples_mix="full")
    blocks = [full_jacobian(function, [V, scale]) for function in functions]
    rows = np.concatenate([np.concatenate([each[0], each[1][..., None]], -1) for each in blocks], 1)
    np.testing.assert_allclose(operator.to_dense(), np.reshape(rows, [-1, 6]), rtol=1e-10, atol=1e-12)
    assert taken == ["push_forward"]


def test_without_forward_mode(taken, monkeypatch):
    def refused(*_):
        raise NoForwardMode

    monkeypatch.setattr(column_by_column, "push_forward", refused)
    with pytest.warns(UserWarning, match="each of the 60 rows costs a backward pass"):
        check(looped, [V, W])
    assert set(taken) == {"pull_back"}


@pytest.mark.by_day(None)
def test_many_of_both(taken):
    many, data = tf.Variable(RNG.normal(size=[257])), tf.constant(RNG.normal(size=(4, 257)))
    with pytest.warns(UserWarning, match="each of the 257 parameters costs a forward product"):
        check(lambda: tf.scan(lambda z, row: tf.sin(z + many * row), data), [many])
    assert taken == ["push_forward"]
