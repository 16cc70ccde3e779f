"""Cubic splines as sums of B-splines, in TensorFlow."""

import numpy as np
import scipy.interpolate
import tensorflow as tf

DEGREE = 3


def knots_of(places):
    """Return the knots `[n + 4]` of the spline whose n coefficients stand for `places`, as FITPACK chooses them."""
    return scipy.interpolate.splrep(places, np.ones(len(places)), k=DEGREE)[0]


def centres_of(knots):
    """Return where each B-spline is centred, `[n]`."""
    return np.array([knots[k + 1 : k + 1 + DEGREE].mean() for k in range(len(knots) - DEGREE - 1)])


def spline_of(knots):
    """Return a function of x and of coefficients s0, s1, … by name.

    Args:
        knots: tuple of numbers, increasing.
    """

    def spline(x, **coefficients):
        values = tf.stack([coefficients[f"s{k}"] for k in range(len(knots) - DEGREE - 1)])
        return tf.linalg.matvec(_basis(x, knots), values)

    return spline


def _basis(x, knots):
    """Return the B-splines at x, `[..., n]`, by de Boor's recurrence; outside of the knots the outer cubics go on."""
    inner = tf.constant(knots[DEGREE + 1 : -DEGREE - 1], x.dtype)
    interval = tf.zeros(tf.shape(x), tf.int32) + DEGREE
    for place in tf.unstack(inner):
        interval += tf.cast(x >= place, tf.int32)
    found = tf.one_hot(interval, len(knots) - 1, dtype=x.dtype)
    for degree in range(1, DEGREE + 1):
        spans = np.array([after - before for before, after in zip(knots, knots[degree:])])
        inverse = np.divide(1, spans, out=np.zeros_like(spans), where=spans > 0)
        since = (x[..., None] - np.array(knots[: -degree - 1])) * inverse[:-1]
        until = (np.array(knots[degree + 1 :]) - x[..., None]) * inverse[1:]
        found = since * found[..., :-1] + until * found[..., 1:]
    return found
