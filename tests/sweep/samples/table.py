"""The table of samples: small functions of TensorFlow, and inputs at which they are smooth."""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np

SAMPLES = {}


@dataclasses.dataclass(frozen=True)
class Sample:
    """One use of some ops.

    Attributes:
        name: what is called, and what is special about it.
        function: from float64 tensors to a tensor, or a list of tensors.
        draws: functions from a NumPy generator to the arrays that it is called with.
        single: whether it computes in float32 on the way, so that finite differences know about three digits.
        random: whether it draws, so that finite differences know nothing: the draws jump.
    """

    name: str
    function: Callable
    draws: tuple
    single: bool = False
    random: bool = False

    def inputs(self):
        """Return the inputs, float64 arrays, the same in every process."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [np.asarray(draw(rng), np.float64) for draw in self.draws]


def sample(name, function, *draws, single=False, random=False):
    """Add a sample to the table."""
    assert name not in SAMPLES, f"two samples named {name!r}"
    SAMPLES[name] = Sample(name, function, draws, single, random)


def normal(*shape):
    """Numbers on both sides of zero, none of them close to it."""
    return lambda rng: (lambda x: x + 0.1 * np.sign(x))(rng.normal(size=shape))


def uniform(low, high, *shape):
    """Numbers between `low` and `high`."""
    return lambda rng: rng.uniform(low, high, size=shape)


def distinct(*shape):
    """Numbers far enough from one another to be compared and sorted."""
    return lambda rng: (rng.permutation(int(np.prod(shape))) / np.prod(shape) * 2 - 0.9).reshape(shape)


def definite(*shape):
    """Positive definite matrices."""

    def draw(rng):
        root = rng.normal(size=shape)
        return root @ np.swapaxes(root, -1, -2) + shape[-1] * np.eye(shape[-1])

    return draw


def regular(*shape):
    """Matrices with a determinant well away from zero, of distinct singular values."""
    return lambda rng: 0.15 * rng.normal(size=shape) + np.diag(np.arange(1.0, shape[-1] + 1))


def constant(value):
    """These numbers."""
    return lambda rng: np.array(value, np.float64)
