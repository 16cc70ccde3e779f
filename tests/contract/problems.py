"""Problems of the suite, twice: in TensorFlow and Keras for tfjac, in NumPy with J in closed form for the oracle.

Every problem has three outputs z `[n, 3]` for each example, and targets. Parameters are a list of arrays; in the oracle
they are one vector, in the order of the list. Sizes: `wide` has more parameters than residuals, `tall` fewer;
`tables` reads rows of two tables by index, as bundle adjustment does; `rotations` has a table of quaternions.
"""

import functools

import numpy as np
import tensorflow as tf


class Problem:
    """Inputs, targets and a start; what a subclass adds is z, and ∂z/∂w.

    Attributes:
        inputs: list of arrays `[n, ...]`.
        targets: `[n, 3]`; labels: `[n]`, int, for cross-entropies.
        start: list of float64 arrays, one for each variable.
        penalised: index of the variables that regularisers, bounds and freezing in Keras are about.
    """

    penalised = 0

    def split(self, vector):
        """Return a vector `[p]` as arrays in the shapes of the variables."""
        ends = np.cumsum([part.size for part in self.start])[:-1]
        return [part.reshape(like.shape) for part, like in zip(np.split(vector, ends), self.start)]

    @property
    def start_vector(self):
        return np.concatenate([part.ravel() for part in self.start])

    def plus(self, position, step):
        """Return where a step leads; for problems on a manifold it is not the sum."""
        return position + step

    def coordinates(self, position):
        """Return `[p]`, where that is in what J is with respect to: zero along a manifold."""
        return position

    def masks(self, of_variable):
        """Return `[p]`, true for the elements of the variables of which `of_variable(index)` is true."""
        return np.concatenate([np.full(part.size, of_variable(i)) for i, part in enumerate(self.start)])

    def data(self):
        """Return the arguments of `residuals`: inputs, then targets."""
        return [*self.inputs, self.targets]

    def residuals(self, variables, *data):
        """Return z − y in TensorFlow."""
        return self.outputs(variables, *data[:-1]) - data[-1]


class Network(Problem):
    """z = tanh(x W₁ + b₁) W₂ + b₂."""

    def __init__(self, examples, inputs, hidden, seed):
        random = np.random.default_rng(seed)
        x = random.normal(size=[examples, inputs])
        self.inputs, self.hidden = [x], hidden
        bend = np.stack([np.sin(x[:, :3].sum(1)), x[:, 1] * x[:, 2], np.cos(2 * x[:, 3])], axis=1)
        self.targets = bend + 0.3 * random.standard_t(2, size=bend.shape)
        self.labels = np.argmax(bend, axis=1)
        shapes = ([inputs, hidden], [hidden], [hidden, 3], [3])
        scales = (0.7 / np.sqrt(inputs), 0.3, 1 / np.sqrt(hidden), 0.1)
        self.start = [scale * random.normal(size=shape) for shape, scale in zip(shapes, scales)]

    def values(self, vector):
        """Return z `[n, 3]`."""
        first, shift, second, last = self.split(vector)
        return np.tanh(self.inputs[0] @ first + shift) @ second + last

    def jacobian(self, vector):
        """Return ∂z/∂w `[3n, p]`."""
        first, shift, second, _ = self.split(vector)
        x = self.inputs[0]
        hidden = np.tanh(x @ first + shift)
        through = (1 - hidden**2)[:, None, :] * second.T[None]
        eye = np.eye(3)
        parts = [
            np.einsum("ni,nmh->nmih", x, through),
            through,
            np.einsum("nh,mk->nmhk", hidden, eye),
            np.broadcast_to(eye, [len(x), 3, 3]),
        ]
        return np.concatenate([part.reshape(3 * len(x), -1) for part in parts], axis=1)

    def outputs(self, variables, x):
        first, shift, second, last = variables
        return tf.matmul(tf.tanh(tf.matmul(x, first) + shift), second) + last

    def model(self, dtype, regularizer=None, constraint=None, trainable=True):
        """Return a Keras model of z, at the start."""
        import keras

        options = {"kernel_regularizer": regularizer, "kernel_constraint": constraint, "trainable": trainable}
        layers = [
            keras.layers.Dense(self.hidden, "tanh", dtype=dtype, **options),
            keras.layers.Dense(3, dtype=dtype),
        ]
        model = keras.Sequential([keras.Input(self.inputs[0].shape[1:], dtype=dtype), *layers])
        model.set_weights(self.start)
        return model

    def keras_inputs(self):
        return self.inputs[0]

    frozen_with = (0, 1)


class Tables(Problem):
    """z = tanh(P_i + C_j × P_i), with example k reading row i of P and row j of C."""

    frozen_with = (1,)

    def __init__(self, examples, points, cameras, seed):
        random = np.random.default_rng(seed)
        i = np.concatenate([np.arange(points), random.integers(points, size=examples - points)])
        j = np.concatenate([np.arange(cameras), random.integers(cameras, size=examples - cameras)])
        self.inputs = [i.astype(np.int32), j.astype(np.int32)]
        truth = [0.6 * random.normal(size=[points, 3]), 0.5 * random.normal(size=[cameras, 3])]
        self.start = [part + 0.3 * random.normal(size=part.shape) for part in truth]
        clean = self.values(np.concatenate([part.ravel() for part in truth]))
        self.targets = clean + 0.05 * random.standard_t(2, size=clean.shape)
        self.labels = np.argmax(clean, axis=1)

    def values(self, vector):
        points, cameras = (table[index] for table, index in zip(self.split(vector), self.inputs))
        return np.tanh(points + np.cross(cameras, points))

    def jacobian(self, vector):
        points, cameras = (table[index] for table, index in zip(self.split(vector), self.inputs))
        slope = 1 - np.tanh(points + np.cross(cameras, points)) ** 2
        by_point = slope[:, :, None] * (np.eye(3) + cross_matrix(cameras))
        by_camera = slope[:, :, None] * -cross_matrix(points)
        return np.concatenate(
            [
                scattered(by, index, len(table))
                for by, index, table in zip((by_point, by_camera), self.inputs, self.start)
            ],
            axis=1,
        )

    def outputs(self, variables, i, j):
        points, cameras = tf.gather(variables[0], i), tf.gather(variables[1], j)
        return tf.tanh(points + tf.linalg.cross(cameras, points))

    def model(self, dtype, regularizer=None, constraint=None, trainable=True):
        import keras

        options = {"embeddings_regularizer": regularizer, "embeddings_constraint": constraint}
        index = keras.Input((2,), dtype="int32")
        points = keras.layers.Embedding(*self.start[0].shape, dtype=dtype, **options)(index[:, 0])
        cameras = keras.layers.Embedding(*self.start[1].shape, dtype=dtype, trainable=trainable)(index[:, 1])
        turned = keras.layers.Lambda(
            lambda pair: tf.tanh(pair[0] + tf.linalg.cross(pair[1], pair[0])), output_shape=(3,), dtype=dtype
        )([points, cameras])
        model = keras.Model(index, turned)
        model.set_weights(self.start)
        return model

    def keras_inputs(self):
        return np.stack(self.inputs, axis=1)


class Rotations(Problem):
    """z = R(q_i) v + t: a table of quaternions, and a shift on no manifold."""

    def __init__(self, examples, rotations, seed):
        random = np.random.default_rng(seed)
        i = np.concatenate([np.arange(rotations), random.integers(rotations, size=examples - rotations)])
        self.inputs = [i.astype(np.int32), random.normal(size=[examples, 3])]
        turns = random.normal(size=[rotations, 4])
        truth = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        shift = np.array([0.5, -0.2, 0.1])
        away = product(truth, exponential(0.4 * random.normal(size=[rotations, 3])))
        self.start = [away, np.zeros(3) + 0.1]
        clean = rotated(truth[i], self.inputs[1]) + shift
        self.targets = clean + 0.05 * random.standard_t(2, size=clean.shape)
        self.labels = np.argmax(clean, axis=1)
        self.tangent = 3 * rotations + 3

    def values(self, vector):
        turns, shift = self.split(vector)
        return rotated(turns[self.inputs[0]], self.inputs[1]) + shift

    def jacobian(self, vector):
        turns, _ = self.split(vector)
        i, seen = self.inputs
        frames = np.stack([rotated(turns[i], np.broadcast_to(axis, seen.shape)) for axis in np.eye(3)], axis=2)
        by_turn = -frames @ cross_matrix(seen)
        shifts = np.broadcast_to(np.eye(3), [len(i), 3, 3]).reshape(-1, 3)
        return np.concatenate([scattered(by_turn, i, len(turns)), shifts], axis=1)

    def plus(self, position, step):
        turns, shift = self.split(position)
        moved = product(turns, exponential(step[:-3].reshape(-1, 3)))
        return np.concatenate([moved.ravel(), shift + step[-3:]])

    def coordinates(self, position):
        return np.concatenate([np.zeros(self.tangent - 3), position[-3:]])

    def outputs(self, variables, i, seen):
        turns, shift = tf.gather(variables[0], i), variables[1]
        axis, scalar = turns[:, :3], turns[:, 3:]
        twice = 2 * tf.linalg.cross(axis, seen)
        return seen + scalar * twice + tf.linalg.cross(axis, twice) + shift


def cross_matrix(vectors):
    """Return `[n, 3, 3]`, C with C b = a × b for the rows a."""
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)


def scattered(blocks, index, rows):
    """Return `[3n, 3·rows]`: each block `[3, 3]` in the columns of the row that its example reads."""
    n = len(index)
    full = np.zeros([n, 3, rows, 3])
    full[np.arange(n), :, index] = blocks
    return full.reshape(3 * n, 3 * rows)


def product(one, other):
    """Return the product of quaternions `[n, 4]`, scalar part last."""
    a, s = one[:, :3], one[:, 3:]
    b, t = other[:, :3], other[:, 3:]
    return np.concatenate([s * b + t * a + np.cross(a, b), s * t - (a * b).sum(1, keepdims=True)], axis=1)


def exponential(delta):
    """Return exp(δ/2) of rotation vectors `[n, 3]`."""
    angle = np.linalg.norm(delta, axis=1, keepdims=True)
    return np.concatenate([delta / 2 * np.sinc(angle / 2 / np.pi), np.cos(angle / 2)], axis=1)


def rotated(turns, seen):
    """Return vectors `[n, 3]` turned by unit quaternions `[n, 4]`."""
    axis, scalar = turns[:, :3], turns[:, 3:]
    twice = 2 * np.cross(axis, seen)
    return seen + scalar * twice + np.cross(axis, twice)


class ManyFits:
    """Decays in 300 rows: r = a exp(−b t) + c − y, of 12 times each; `of(k)` is one of them as a `Problem`."""

    count = 300

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.times = np.linspace(0.0, 4.0, 12)
        truth = random.uniform([1.0, 0.4, -0.2], [4.0, 1.6, 0.2], size=[self.count, 3])
        clean = truth[:, :1] * np.exp(-truth[:, 1:2] * self.times) + truth[:, 2:]
        self.measured = clean + 0.05 * random.standard_t(2, size=clean.shape)
        self.start = truth * random.uniform(0.6, 1.4, size=truth.shape)

    def residuals(self, b, measured):
        return b[:, :1] * tf.exp(-b[:, 1:2] * tf.constant(self.times, b.dtype)) + b[:, 2:] - measured

    def of(self, k):
        return OneFit(self.times, self.measured[k], self.start[k])


class OneFit(Problem):
    """One of `ManyFits`, for the oracle alone."""

    def __init__(self, times, measured, start):
        self.times, self.targets, self.start = times, measured[:, None], [start]

    def values(self, vector):
        return (vector[0] * np.exp(-vector[1] * self.times) + vector[2])[:, None]

    def jacobian(self, vector):
        decay = np.exp(-vector[1] * self.times)
        return np.stack([decay, -vector[0] * self.times * decay, np.ones_like(decay)], axis=1)


@functools.cache
def problem(name):
    """Return the problem of that name."""
    return {
        "wide": lambda: Network(60, 20, 100, seed=1),
        "tall": lambda: Network(720, 10, 20, seed=2),
        "tables": lambda: Tables(720, 120, 12, seed=3),
        "rotations": lambda: Rotations(720, 150, seed=4),
        "many": lambda: ManyFits(seed=5),
    }[name]()
