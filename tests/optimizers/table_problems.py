"""Problems as users write them, whose structure shows to a different degree: for tests of what is chosen."""

import numpy as np
import tensorflow as tf


def denoising(size, by_gathers):
    """Total variation of a square image with Huber's loss, by slices of the grid or by gathers of its pixels."""
    rng = np.random.default_rng(0)
    image = (np.add.outer(np.arange(size), np.arange(size)) % 16 > 8) + 0.1 * rng.normal(size=(size, size))
    options = {"loss": [None, "huber", "huber"], "loss_scale": [None, 0.1, 0.1]}
    if not by_gathers:
        u = tf.Variable(image)
        return lambda: [u - image, u[1:] - u[:-1], u[:, 1:] - u[:, :-1]], u, options
    u, places = tf.Variable(image.reshape(-1, 1)), np.arange(size**2).reshape(size, size)
    pairs = [(places[1:], places[:-1]), (places[:, 1:], places[:, :-1])]
    return (
        lambda: [
            u - image.reshape(-1, 1),
            *(tf.gather(u, after.ravel()) - tf.gather(u, before.ravel()) for after, before in pairs),
        ],
        u,
        options,
    )


def states(number, as_rows):
    """A chain of states of three numbers, in rows or in columns of one variable."""
    rng = np.random.default_rng(0)
    before, after, seen = np.arange(number - 1), np.arange(1, number), rng.normal(size=(number - 1, 3))
    if as_rows:
        x = tf.Variable(rng.normal(size=(number, 3)))
        return lambda: [tf.gather(x, after) - tf.sin(tf.gather(x, before)) - seen, x[:1]], x, {}
    x = tf.Variable(rng.normal(size=(3, number)))
    chain = lambda: tf.gather(x, after, axis=1) - tf.sin(tf.gather(x, before, axis=1)) - seen.T  # noqa: E731
    return lambda: [chain(), x[:, :1]], x, {}


def bundle(cameras, points, seen):
    """A bundle adjustment with all parameters in one vector, as in SciPy's cookbook."""
    rng = np.random.default_rng(0)
    camera, point = np.arange(seen) % cameras, rng.integers(0, points, seen)
    x = tf.Variable(np.r_[1 + 0.1 * rng.normal(size=9 * cameras), rng.normal(size=3 * points)])
    places = rng.normal(size=(seen, 2))

    def residuals():
        table, cloud = tf.reshape(x[: 9 * cameras], [cameras, 9]), tf.reshape(x[9 * cameras :], [points, 3])
        c, p = tf.gather(table, camera), tf.gather(cloud, point)
        q = p + tf.linalg.cross(c[:, :3], p) + c[:, 3:6]
        return q[:, :2] * c[:, 6:7] / (q[:, 2:] ** 2 + 3) - places

    return residuals, x, {}


def photographs(number, points, seen):
    """A bundle adjustment photograph by photograph, in a list, each with as many points as the others."""
    rng = np.random.default_rng(0)
    cameras, cloud = (
        tf.Variable(0.1 * rng.normal(size=(number, 3))),
        tf.Variable(rng.normal(size=(points, 3)) + [0, 0, 5]),
    )
    rows = [rng.permutation(points)[:seen] for _ in range(number)]
    places = [0.1 * rng.normal(size=(seen, 2)) for _ in range(number)]

    def residuals():
        found = [tf.gather(cloud, row) + cameras[k] for k, row in enumerate(rows)]
        return [q[:, :2] / q[:, 2:] - place for q, place in zip(found, places)]

    return residuals, [cameras, cloud], {}


def bratu(size):
    """Bratu's equation on a square grid, its edge by padding."""
    u, h = tf.Variable(np.zeros((size, size))), 1 / (size + 1)

    def residuals():
        v = tf.pad(u, [[1, 1], [1, 1]])
        return v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4 * u + 6 * h**2 * tf.exp(u)

    return residuals, u, {}


def poses(number):
    """A graph of poses, the first of which is a constant put before the others."""
    rng = np.random.default_rng(0)
    x, more = tf.Variable(rng.normal(size=(number - 1, 3))), rng.integers(0, number, size=(2, number // 3))
    i, j = np.r_[np.arange(number - 1), more[0]], np.r_[np.arange(1, number), more[1]]
    seen = rng.normal(size=(len(i), 3))

    def residuals():
        every = tf.concat([tf.zeros([1, 3], tf.float64), x], 0)
        return tf.gather(every, j) - tf.sin(tf.gather(every, i)) - seen

    return residuals, x, {}
