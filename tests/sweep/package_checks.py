"""What is asked of the package at each sample: is it right where TensorFlow is not?

package           J by backward passes, all at once, against central differences
package, chunks   the same, two passes at a time
package, forward  J by forward products
package, second   the product of the Hessian of u·y with a vector, against central differences of Jᵀu
"""

import functools

import numpy as np
import tensorflow as tf

import tfjac
from tests.sweep.checks import check, flat, rows_of


@check("package")
def _reverse(maps):
    return _jacobian(maps, mode="reverse"), _expected(maps), maps.loose


@check("package, chunks")
def _chunks(maps):
    return _jacobian(maps, mode="reverse", chunk_size=2), _expected(maps), maps.loose


@check("package, forward")
def _forward(maps):
    return _jacobian(maps, mode="forward"), _expected(maps), maps.loose


@check("package, second")
def _second(maps):
    u, v = np.concatenate([np.ravel(u) for u in maps.like_ys()]).astype(float), maps.like_xs()

    @functools.partial(tf.function, autograph=False)
    def back(*xs):
        xs = maps.made(xs)
        return tfjac.vjp(_together(maps, xs), xs, u, unconnected_gradients="zero")

    @functools.partial(tf.function, autograph=False)
    def product(*xs):
        xs = maps.made(xs)
        return tfjac.hvp(_together(maps, xs) * u, xs, v, unconnected_gradients="zero")

    differences = maps.differences(lambda xs: back(*xs))
    return flat(product(*maps.xs)), flat(v) @ differences, maps.loose


def _together(maps, xs):
    """All results of the sample as one vector."""
    return tf.concat([tf.cast(tf.reshape(y, [-1]), tf.float64) for y in maps.outputs(xs)], 0)


def _jacobian(maps, **options):
    @functools.partial(tf.function, autograph=False)
    def compute(*xs):
        xs = maps.made(xs)
        return tfjac.jacobian(_together(maps, xs), xs, unconnected_gradients="zero", **options)

    return rows_of(compute(*maps.xs))


def _expected(maps):
    return maps.differences_of_values
