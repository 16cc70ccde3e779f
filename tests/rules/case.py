"""A case: a small function in which one op or a few do their work, and how it is written down."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

N = 3
"""Examples of a case; no other axis of a case has this size, so that none can be taken for that of the examples."""


@dataclasses.dataclass(frozen=True)
class Case:
    """What is done to examples `[n, *shape]`.

    Attributes:
        name: what the op is put to.
        function: from a tensor `[n, *shape]`, and the variables, to `[n, ...]`.
        shape: of one example.
        m: how many outputs an example has, each a mixture of what the function gives.
        variables: shapes of the weights that the function takes, in double precision.
        rows: of x; where there are more than examples, an example is a group, with one result of the function for each.
        open: whether the trace leaves the number of examples open.
        single: whether the op takes single precision alone; the function casts.
        jit: whether it is compiled by XLA.
        refused: whether no rule makes a factor of some weight, which then costs a gradient for each row.
    """

    name: str
    function: Callable
    shape: tuple = (4,)
    variables: tuple = ()
    m: int = 1
    rows: int = N
    open: bool = False
    single: bool = False
    jit: bool = False
    refused: bool = False

    def make(self):
        """Return the inputs of the case, the same every time: examples, the weight that scales them, variables."""
        rng = np.random.default_rng(sum(map(ord, self.name)))
        x = tf.constant(rng.normal(size=(self.rows, *self.shape)))
        weight = tf.Variable(1.0 + 0.2 * rng.normal(size=self.shape))
        return x, [weight, *(tf.Variable(rng.normal(size=shape)) for shape in self.variables)]

    def __call__(self, x, weight, *variables):
        """Return the outputs `[n, m]` for scaled examples, in double precision."""
        scaled = x * weight
        y = self.function(tf.cast(scaled, tf.float32) if self.single else scaled, *variables)
        y = tf.reshape(tf.cast(y, tf.float64), [-1, int(np.prod(y.shape[1:]))])
        return y @ np.random.default_rng(1).normal(size=(y.shape[1], self.m)) / np.sqrt(y.shape[1])

    @property
    def of_groups(self):
        """Whether an example is a group of rows."""
        return self.rows not in (1, N)

    @property
    def tolerance(self):
        """For entries of the order of one."""
        return 2e-4 if self.single else 1e-9


def behind(function, position=1):
    """The function of examples along axis `position`: they are moved there, and back to the front."""

    def moved(x, *variables):
        rank = x.shape.rank
        order = [*range(1, position + 1), 0, *range(position + 1, rank)]
        y = function(tf.transpose(x, order), *variables)
        return tf.transpose(y, [position, *range(position), *range(position + 1, y.shape.rank)])

    return moved


def last(function):
    """The function of examples along the last axis."""

    def moved(x, *variables):
        rank = x.shape.rank
        y = function(tf.transpose(x, [*range(1, rank), 0]), *variables)
        return tf.transpose(y, [y.shape.rank - 1, *range(y.shape.rank - 1)])

    return moved
