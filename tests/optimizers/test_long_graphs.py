"""Fits of few parameters to what hundreds of ops compute, as an equation solved in unrolled steps, beside SciPy's."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.jacobians.rows import forms_of_blocks

T = np.linspace(0.0, 3.0, 13)
TRUE = np.array([1.1, 0.7, 0.9, 0.6])
RNG = np.random.default_rng(0)


def slopes(state, a, b, c, d):
    """Of predator and prey."""
    x, y = state
    return a * x - b * x * y, d * x * y - c * y


def runge_kutta(a, b, c, d):
    """Predator and prey at T, in one step of the method for each interval, unrolled."""
    state, found, h = (1.0 + 0 * a, 0.5 + 0 * a), [], T[1] - T[0]
    for _ in T:
        found.append(tf.stack(state) if tf.is_tensor(state[0]) else np.stack(state))
        k = [(0.0, 0.0)]
        for part in (0.0, h / 2, h / 2, h):
            k.append(slopes(tuple(z + part * dz for z, dz in zip(state, k[-1])), a, b, c, d))
        state = tuple(z + h / 6 * (p + 2 * q + 2 * r + s) for z, p, q, r, s in zip(state, *k[1:]))
    return tf.stack(found) if tf.is_tensor(found[0]) else np.stack(found)


DATA = runge_kutta(*TRUE) + 0.01 * RNG.normal(size=(len(T), 2))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_unrolled_equation(monkeypatch, dtype):
    taken, forward = [], forms_of_blocks.forward_factors
    monkeypatch.setattr(
        forms_of_blocks, "forward_factors", lambda *given, **options: taken.append(1) or forward(*given, **options)
    )
    w = tf.Variable(np.ones(4), dtype=dtype)
    result = tfjac.least_squares(lambda: runge_kutta(*tf.unstack(w)) - tf.constant(DATA, dtype), w, max_steps=50)
    oracle = scipy.optimize.least_squares(
        lambda p: (runge_kutta(*p) - DATA).ravel(), np.ones(4), xtol=1e-14, ftol=1e-14
    )
    np.testing.assert_allclose(w.numpy(), oracle.x, rtol=1e-6 if dtype == "float64" else 2e-3)
    assert taken and result.success
    jacobian = np.reshape(result.jacobian(), [-1, 4])
    np.testing.assert_allclose(jacobian, oracle.jac, rtol=1e-3, atol=1e-3)


def test_a_short_way_is_not_carried_forward(monkeypatch):
    monkeypatch.setattr(forms_of_blocks, "forward_factors", _seen_to_refuse(forms_of_blocks.forward_factors))
    w = tf.Variable(np.ones(2))
    assert tfjac.least_squares(lambda: w[0] * tf.exp(-w[1] * T) - 2 * np.exp(-T), w).success


def _seen_to_refuse(forward):
    def refused(*given, **options):
        with pytest.raises(forms_of_blocks.NoTangents):
            forward(*given, **options)
        raise forms_of_blocks.NoTangents

    return refused
