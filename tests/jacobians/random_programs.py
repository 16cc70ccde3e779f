"""Random small programs: a chain of ops on examples, with weights that are themselves computed from variables.

Everything that happens to examples is written per example, so the programs treat examples independently by
construction; nothing here knows how tfjac reads them. Some ops hold others: inner functions, branches, loops,
recomputed and reversed gradients.
"""

import numpy as np
import tensorflow as tf

DTYPE = tf.float64
LARGEST = 24  # elements of an example
SHAPES = [(3,), (4,), (2, 3), (3, 2), (1,), (1, 3), (2, 1)]
ACTIVATIONS = (tf.tanh, tf.sin, tf.nn.gelu, tf.nn.swish, tf.nn.softplus, tf.nn.leaky_relu, tf.nn.softmax)


class RandomProgram:
    """A function of examples `[n, ...]` and the variables it reads.

    Args:
        seed: the program, the same for the same number.

    Attributes:
        x: the examples, `[n, ...]`, n from 1 to 3.
        variables: what the program reads.
        text: one line per op, for the message of a failing test.
    """

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.variables = []
        while not self.variables:
            self._build()

    def _build(self):
        self.pool, self.steps, self.text = [], [], []
        shapes = [self.choose(SHAPES)]
        self.x = tf.constant(self.rng.normal(size=(self.rng.integers(1, 4), *shapes[0])))
        while len(self.steps) < self.rng.integers(3, 9) or not self.pool:
            position = self.rng.integers(len(shapes))
            op = getattr(self, self.choose(STEPS))
            made = op(position, shapes)
            if made is None or np.prod(made[1]) > LARGEST:
                continue
            self.steps.append(made[0])
            shapes.append(tuple(made[1]))
            self.text.append(f"{op.__name__} of {position}: {made[1]}")
        self.flat, self.shapes = self.rng.random() < 0.3, shapes[1:]
        self.variables = self._connected()

    def __call__(self, x, passed_on=lambda index, value: value):
        """Run; `passed_on` says what takes the place of each value, x being that of index 0."""
        values = [passed_on(0, x)]
        for index, (step, shape) in enumerate(zip(self.steps, self.shapes), 1):
            values.append(passed_on(index, tf.ensure_shape(step(values), [x.shape[0], *shape])))
        return tf.reshape(values[-1], [tf.shape(x)[0], -1]) if self.flat else values[-1]

    def _connected(self):
        """The variables that the result depends on by a gradient."""
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(self(self.x))
        gradients = tape.gradient(total, self.pool)
        return [variable for variable, gradient in zip(self.pool, gradients) if gradient is not None]

    def choose(self, options):
        return options[self.rng.integers(len(options))]

    # ---------------------------------------------------------------- weights

    def variable(self, shape):
        """A variable of this shape, now and then one that is used elsewhere already."""
        known = [variable for variable in self.pool if variable.shape.as_list() == list(shape)]
        if known and self.rng.random() < 0.4:
            return self.choose(known)
        self.pool.append(tf.Variable(0.5 * self.rng.normal(size=shape)))
        return self.pool[-1]

    def weight(self, *shape):
        """A function without arguments that gives a weight of this shape: a variable, or something made of some."""
        variable = self.variable
        if self.rng.random() < 0.5:
            plain = variable(shape)
            return lambda: tf.convert_to_tensor(plain)
        first, *rest = shape
        way = self.rng.integers(13)
        if way == 0:
            order = self.rng.permutation(len(shape))
            source = variable([shape[k] for k in np.argsort(order)])
            return lambda: tf.transpose(source, order)
        if way == 1:
            source, mask = variable(shape), self.rng.normal(size=shape)
            return lambda: source * mask
        if way == 2:
            source, gain = variable(shape), variable(shape[-1:])
            return lambda: gain * source / tf.sqrt(0.1 + tf.reduce_sum(source**2, 0, keepdims=True))
        if way == 3 and first > 1:
            above, below = variable([1, *rest]), variable([first - 1, *rest])
            return lambda: tf.concat([above, below], 0)
        if way == 4:
            source = variable([first + 2, *rest])
            return lambda: source[1:-1]
        if way == 5:
            source, rows = variable([first + 1, *rest]), self.rng.integers(0, first + 1, first)
            return lambda: tf.gather(source, rows)
        if way == 6:
            source = variable([int(np.prod(shape))])
            return lambda: tf.reshape(source, shape)
        if way == 7 and len(shape) == 2:
            left, right = variable([first, 2]), variable([2, *rest])
            return lambda: left @ right
        if way == 8:
            source, other, mask = variable(shape), variable(shape), self.rng.random(shape) < 0.5
            return lambda: tf.where(mask, source, tf.tanh(other))
        if way == 9:
            source = variable(shape)
            return lambda: tf.reverse(source, [0])
        if way == 10 and len(shape) == 2 and first == rest[0]:
            source = variable(shape)
            return lambda: source @ source
        if way == 11:
            source = variable(shape)
            return lambda: scaled_backwards(source) * source
        source, shift = variable(shape), variable(shape[-1:])
        return lambda: tf.square(source) + shift

    # ---------------------------------------------------------------- ops on examples: (function of all values, shape)

    def activation(self, k, shapes):
        function = self.choose(ACTIVATIONS)
        return (lambda values: function(values[k])), shapes[k]

    def dense(self, k, shapes):
        *lead, size = shapes[k]
        outputs = self.rng.integers(1, 4)
        weight, contract = self.weight(size, outputs), self.choose([tf.matmul, lambda x, w: tf.tensordot(x, w, 1)])
        return (lambda values: contract(values[k], weight())), (*lead, outputs)

    def einsum(self, k, shapes):
        if len(shapes[k]) != 2:
            return None
        t, i = shapes[k]
        outputs = self.rng.integers(1, 4)
        equation, sizes, result = self.choose(
            [
                ("nti,tio->no", (t, i, outputs), (outputs,)),
                ("nti,tio->nto", (t, i, outputs), (t, outputs)),
                ("nti,oi->not", (outputs, i), (outputs, t)),
                ("nti,st->nsi", (outputs, t), (outputs, i)),
            ]
        )
        weight = self.weight(*sizes)
        return (lambda values: tf.einsum(equation, values[k], weight())), result

    def elementwise(self, k, shapes):
        shape = shapes[k][-self.rng.integers(1, len(shapes[k]) + 1) :]
        weight = self.weight(*(1 if self.rng.random() < 0.2 else size for size in shape))
        function = self.choose([tf.add, tf.multiply, tf.maximum, lambda x, w: w - x, lambda x, w: x / (2 + w**2)])
        return (lambda values: function(values[k], weight())), shapes[k]

    def normalisation(self, k, shapes):
        gain, offset = self.weight(shapes[k][-1]), self.weight(shapes[k][-1])

        def normalise(values):
            mean, variance = tf.nn.moments(values[k], [-1], keepdims=True)
            return tf.nn.batch_normalization(values[k], mean, variance, offset(), gain(), 1e-2)

        return normalise, shapes[k]

    def convolution(self, k, shapes):
        if len(shapes[k]) != 2 or shapes[k][0] < 2:
            return None
        t, i = shapes[k]
        outputs, padding = self.rng.integers(1, 4), self.choose(["SAME", "VALID"])
        weight = self.weight(2, i, outputs)
        return (lambda values: tf.nn.conv1d(values[k], weight(), 1, padding)), (
            t - (padding == "VALID"),
            outputs,
        )

    def embedding(self, k, shapes):
        table = self.weight(4, 2)

        def look_up(values):
            ids = tf.math.floormod(tf.cast(tf.floor(3 * values[k]), tf.int32), 4)
            return tf.gather(table(), ids)

        return look_up, (*shapes[k], 2)

    def attention(self, k, shapes):
        if len(shapes[k]) != 2:
            return None
        query, key = self.weight(shapes[k][1], 2), self.weight(shapes[k][1], 2)

        def attend(values):
            x = values[k]
            scores = tf.matmul(tf.matmul(x, query()), tf.matmul(x, key()), transpose_b=True)
            return tf.matmul(tf.nn.softmax(scores), x)

        return attend, shapes[k]

    def scan(self, k, shapes):
        if len(shapes[k]) != 2:
            return None
        weight = self.weight(shapes[k][1] + 2, 2)

        def run(values):
            steps = tf.transpose(values[k], [1, 0, 2])
            start = tf.zeros([tf.shape(steps)[1], 2], DTYPE)
            return tf.scan(lambda h, x: tf.tanh(tf.matmul(tf.concat([x, h], 1), weight())), steps, start)[-1]

        return run, (2,)

    def map_over_time(self, k, shapes):
        if len(shapes[k]) != 2:
            return None
        weight = self.weight(shapes[k][1], 2)

        def run(values):
            steps = tf.transpose(values[k], [1, 0, 2])
            return tf.transpose(tf.map_fn(lambda x: tf.matmul(x, weight()), steps), [1, 0, 2])

        return run, (shapes[k][0], 2)

    def inner_function(self, k, shapes):
        weight = self.weight(shapes[k][-1], 2)
        inner = tf.function(lambda x: tf.nn.relu(tf.tensordot(x, weight(), 1) + 0.1))
        return (lambda values: inner(values[k])), (*shapes[k][:-1], 2)

    def reshape(self, k, shapes):
        size = int(np.prod(shapes[k]))
        rows = self.choose([rows for rows in range(1, size + 1) if size % rows == 0])
        shape, known = (rows, size // rows), self.rng.random() < 0.5
        return (
            lambda values: tf.reshape(values[k], [-1 if known else tf.shape(values[k])[0], *shape]),
            shape,
        )

    def move(self, k, shapes):
        shape, last = shapes[k], len(shapes[k])
        rows = self.rng.integers(0, shape[-1], 3)
        return self.choose(
            [
                (lambda values: tf.reverse(values[k], [last]), shape),
                (lambda values: tf.roll(values[k], 1, last), shape),
                (lambda values: tf.cumsum(values[k], 1), shape),
                (lambda values: tf.sort(values[k], -1), shape),
                (lambda values: tf.gather(values[k], rows, axis=-1), (*shape[:-1], 3)),
                (lambda values: tf.pad(values[k], [[0, 0]] * last + [[1, 1]]), (*shape[:-1], shape[-1] + 2)),
                (lambda values: tf.tile(values[k], [1] * last + [2]), (*shape[:-1], 2 * shape[-1])),
                (lambda values: values[k][:, tf.newaxis, ..., : shape[-1]], (1, *shape)),
                (lambda values: tf.stack([values[k], 2 * values[k]], 1), (2, *shape)),
                (lambda values: tf.stack(tf.unstack(values[k], axis=last), 1), (shape[-1], *shape[:-1])),
            ]
        )

    def reduction(self, k, shapes):
        function = self.choose([tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_logsumexp])
        if self.rng.random() < 0.5:
            return (lambda values: values[k] - function(values[k], -1, keepdims=True)), shapes[k]
        return None if len(shapes[k]) == 1 else ((lambda values: function(values[k], 1)), shapes[k][1:])

    def custom_gradient(self, k, shapes):
        function = self.choose([scaled_backwards, gated_backwards, clipped_backwards])
        return (lambda values: function(values[k])), shapes[k]

    def custom_dense(self, k, shapes):
        weight = self.weight(shapes[k][-1], 2)
        return (lambda values: dense_scaled_backwards(values[k], weight())), (*shapes[k][:-1], 2)

    def fourier(self, k, shapes):
        if shapes[k][-1] < 2:
            return None
        real, imaginary = self.weight(shapes[k][-1]), self.weight(shapes[k][-1])

        def filtered(values):
            spectrum = tf.signal.fft(tf.complex(values[k], 0.5 * values[k]))
            return tf.math.real(tf.signal.ifft(tf.complex(real(), imaginary()) * spectrum))

        return filtered, shapes[k]

    def holding(self, k, shapes):
        """Another op, behind an inner function, a branch, a loop or a gradient that is recomputed."""
        made = getattr(self, self.choose(HELD))(k, shapes)
        if made is None:
            return None
        step, shape = made
        inside = lambda values: lambda v: step([*values[:k], v, *values[k + 1 :]])  # noqa: E731
        gate = self.weight(1)
        ways = [
            lambda values: tf.function(inside(values))(values[k]),
            lambda values: tf.cond(gate()[0] > 0, lambda: step(values), lambda: 2.0 * inside(values)(values[k])),
            lambda values: tf.recompute_grad(inside(values))(values[k]),
        ]
        if tuple(shape) == tuple(shapes[k]):
            ways.append(lambda values: looped(inside(values), values[k]))
        return self.choose(ways), shape

    def merge(self, k, shapes):
        other = self.choose([j for j, shape in enumerate(shapes) if shape == shapes[k]])
        *lead, size = shapes[k]
        return self.choose(
            [
                (lambda values: values[k] + tf.sin(values[other]), shapes[k]),
                (lambda values: values[k] * values[other], shapes[k]),
                (lambda values: tf.where(values[k] > 0, values[k], values[other]), shapes[k]),
                (lambda values: tf.concat([values[k], values[other]], -1), (*lead, 2 * size)),
            ]
        )


@tf.custom_gradient
def scaled_backwards(x):
    return tf.identity(x), lambda d: -2.0 * d


@tf.custom_gradient
def gated_backwards(x):
    gate = tf.sigmoid(x)
    return x, lambda d: d * gate


@tf.custom_gradient
def clipped_backwards(x):
    return tf.sin(x), lambda d: d * tf.cos(tf.clip_by_value(x, -0.5, 0.5))


@tf.custom_gradient
def dense_scaled_backwards(x, weight):
    def backward(d):
        return tf.tensordot(d, tf.transpose(weight), 1), 3.0 * tf.tensordot(flat(x), flat(d), [[0], [0]])

    flat = lambda tensor: tf.reshape(tensor, [-1, tensor.shape[-1]])  # noqa: E731
    return tf.tensordot(x, weight, 1), backward


def looped(step, x):
    """Apply `step` twice, in a loop."""
    shape = [None, *x.shape[1:]]
    body = lambda count, v: (count + 1, tf.ensure_shape(step(v), shape))  # noqa: E731
    return tf.while_loop(lambda count, v: count < 2, body, (0, x), (tf.TensorShape([]), tf.TensorShape(shape)))[1]


HELD = ["activation", "dense", "elementwise", "custom_gradient", "einsum", "reduction", "move"]
STEPS = [
    *["custom_gradient", "custom_dense", "fourier", "holding", "holding"],
    *["dense", "einsum", "elementwise", "normalisation", "convolution", "embedding", "attention", "scan"],
    *["map_over_time", "inner_function", "activation", "reshape", "move", "reduction", "merge"],
    *["dense", "elementwise", "activation", "move"],  # these twice as often
]


def main():
    """Try many programs, as `python -m tests.jacobians.random_programs FIRST LAST` with numbers of seeds."""
    import sys
    import traceback

    from tests.jacobians.test_random_programs import check

    tf.get_logger().setLevel("ERROR")
    tf.autograph.set_verbosity(0)
    failed = []
    for seed in range(*map(int, sys.argv[1:])):
        try:
            check(seed)
        except Exception:  # all of them, and go on
            failed.append(seed)
            print(f"seed {seed}\n{traceback.format_exc(limit=-2)[-1500:]}", flush=True)
    print(f"failed: {failed}")


if __name__ == "__main__":
    main()
