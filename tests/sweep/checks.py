"""What is asked of each sample: are TensorFlow's gradients right, and does its vectoriser leave them so?

With J = ∂y/∂x of the sample, all in float64, in a graph:

    gradient              Jᵀu, one u at a time, against central differences
    forward               J·v as the gradient of the gradient, against Jᵀu
    second                ∂(Jᵀu)/∂x, against central differences of Jᵀu
    vectorised 1, 3       Jᵀu for one u, for three, by `tf.vectorized_map`, against one at a time
    vectorised open       the same for three, with all sizes of x left open by the trace
    forward vectorised    J·v for three v, against one at a time
    second vectorised     ∂(Jᵀu)/∂x for three cotangents, against one at a time

What is given to an op is never a parameter of the graph but made in it: kernels that write over their inputs show.
"""

import functools

import numpy as np
import tensorflow as tf

CHECKS = {}
DIFFERENCES = ("gradient", "second")
"""The checks against finite differences."""


def check(name):
    def register(function):
        CHECKS[name] = function
        return function

    return register


class Maps:
    """The linear maps of a sample at its inputs, one application at a time unless said otherwise."""

    def __init__(self, sample):
        self.sample, self.xs = sample, [tf.constant(x) for x in sample.inputs()]
        self.rng = np.random.default_rng(7)
        self.step, self.loose, self.tight = (3e-3, 3e-2, 1e-4) if sample.single else (1e-5, 1e-5, 1e-8)
        self.one = tf.Variable(1.0, dtype=tf.float64)
        self.values = tf.function(lambda *xs: self.outputs(self.made(xs)), autograph=False)
        self.back = tf.function(self._back, autograph=False)
        self.forward = tf.function(self._forward, autograph=False)
        self.second = tf.function(self._second, autograph=False)

    def made(self, tensors):
        """The same numbers, as tensors that are computed in the graph."""
        return [tensor * tf.cast(self.one, tensor.dtype) for tensor in map(tf.convert_to_tensor, tensors)]

    def outputs(self, xs):
        """The results of the sample, a list of floating-point tensors."""
        results = [tf.convert_to_tensor(y) for y in tf.nest.flatten(self.sample.function(*xs))]
        return [y for y in results if y.dtype.is_floating]

    @functools.cached_property
    def ys(self):
        return [y.numpy() for y in self.values(*self.xs)]

    def like_ys(self, *lead):
        """Random cotangents `[*lead, *y.shape]`."""
        return [self.rng.normal(size=(*lead, *y.shape)).astype(y.dtype) for y in self.ys]

    def like_xs(self, *lead):
        """Random tangents `[*lead, *x.shape]`."""
        return [self.rng.normal(size=(*lead, *x.shape)) for x in self.xs]

    def _back(self, xs, us):
        xs = self.made(xs)
        return _pulled(self.outputs(xs), xs, self.made(us))

    def _forward(self, xs, vs):
        xs = self.made(xs)
        ys = self.outputs(xs)
        seeds = [tf.zeros_like(y) for y in ys]
        return _pulled(_pulled(ys, xs, seeds), seeds, self.made(vs))

    def _second(self, xs, us, vs):
        xs = self.made(xs)
        return _pulled(_pulled(self.outputs(xs), xs, self.made(us)), xs, self.made(vs))

    @functools.cached_property
    def jacobian(self):
        """J `[all of ys, all of xs]` as TensorFlow's gradients have it, one backward pass per row."""
        size, rows = sum(y.size for y in self.ys), []
        for k in range(size):
            rows.append(flat(self.back(self.xs, unflat(np.eye(size)[k], self.ys))))
        return np.reshape(rows, [size, sum(x.shape.num_elements() for x in self.xs)])

    @functools.cached_property
    def differences_of_values(self):
        """J by central differences."""
        return self.differences(lambda xs: self.values(*xs))

    def differences(self, function):
        """The Jacobian of `function(xs)` by central differences, `[all of its results, all of xs]`."""
        x, columns = flat(self.xs), []
        for k in range(x.size):
            ends = [flat(function(unflat(x + sign * self.step * np.eye(x.size)[k], self.xs))) for sign in (1, -1)]
            columns.append((ends[0] - ends[1]) / (2 * self.step))
        return np.stack(columns, axis=-1)

    def mapped(self, function, *stacks, signature=None):
        """Apply `function(xs, *slices)` to each slice of the stacks by TensorFlow's vectoriser."""

        @functools.partial(tf.function, autograph=False, input_signature=signature)
        def run(xs, *stacks):
            return tf.vectorized_map(lambda slices: function(xs, *slices), stacks)

        return rows_of(run(self.xs, *([tf.constant(part) for part in stack] for stack in stacks)))

    def one_by_one(self, function, *stacks):
        """The same, one call for each slice."""
        return np.stack(
            [
                flat(function(self.xs, *([part[k] for part in stack] for stack in stacks)))
                for k in range(len(stacks[0][0]))
            ]
        )


def _pulled(ys, xs, us):
    gradients = tf.gradients(ys, list(xs), grad_ys=list(us), unconnected_gradients="zero")
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def flat(tensors):
    return np.concatenate([np.reshape(tensor, -1).astype(np.float64) for tensor in tensors])


def rows_of(stacks):
    return np.concatenate([np.reshape(stack, [len(stack), -1]).astype(np.float64) for stack in stacks], axis=1)


def unflat(vector, likes):
    parts = np.split(vector, np.cumsum([np.size(like) for like in likes])[:-1])
    return [np.reshape(part, like.shape).astype(_dtype(like)) for part, like in zip(parts, likes)]


def _dtype(like):
    return like.dtype.as_numpy_dtype if tf.is_tensor(like) else like.dtype


def error_between(found, expected):
    """The largest difference, relative to the largest number; infinite where something is not finite."""
    if not np.all(np.isfinite(found)):
        return float("inf")
    return float(np.max(np.abs(found - expected), initial=0) / (1e-3 + np.max(np.abs(expected), initial=0)))


@check("gradient")
def _gradient(maps):
    return maps.jacobian, maps.differences_of_values, maps.loose


@check("forward")
def _forward(maps):
    v = maps.like_xs()
    return flat(maps.forward(maps.xs, v)), maps.jacobian @ flat(v), maps.tight


@check("second")
def _second(maps):
    u, v = maps.like_ys(), maps.like_xs()
    differences = maps.differences(lambda xs: maps.back(xs, u))
    return flat(maps.second(maps.xs, u, v)), flat(v) @ differences, maps.loose


@check("vectorised 1")
def _one(maps):
    return _vectorised(maps, 1)


@check("vectorised 3")
def _three(maps):
    return _vectorised(maps, 3)


@check("vectorised open")
def _open(maps):
    us = maps.like_ys(3)
    opened = [tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in maps.xs]
    signature = [opened, [tf.TensorSpec([None] * u.ndim, u.dtype) for u in us]]
    return maps.mapped(maps._back, us, signature=signature), maps.one_by_one(maps.back, us), maps.tight


def _vectorised(maps, count):
    us = maps.like_ys(count)
    return maps.mapped(maps._back, us), maps.one_by_one(maps.back, us), maps.tight


@check("forward vectorised")
def _forward_vectorised(maps):
    vs = maps.like_xs(3)
    return maps.mapped(maps._forward, vs), maps.one_by_one(maps.forward, vs), maps.tight


@check("second vectorised")
def _second_vectorised(maps):
    u, vs = maps.like_ys(), maps.like_xs(3)
    return (
        maps.mapped(lambda xs, *v: maps._second(xs, u, *v), vs),
        maps.one_by_one(lambda xs, v: maps.second(xs, u, v), vs),
        maps.tight,
    )
