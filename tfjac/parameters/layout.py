"""Named parameters as the arrays and the function that a fit works with."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import quiet_function
from tfjac.parameters.ties import evaluator, names_in
from tfjac.types import Array

_ZERO = tf.UnconnectedGradients.ZERO


class Layout(NamedTuple):
    """Parameters that are not tied, in order, and how all follow from them.

    Attributes:
        names: of all parameters.
        independent: of those that are not tied, `k` of them. Arrays below are about these.
        ties: pairs of a name and a function from a dict of tensors to a tensor, in an order of evaluation.
        read: names that ties read.
        is_text: whether all ties are expressions, rather than functions of Python.
        start, lower, upper: `[k]`.
        fixed: `[k]`, bool.
        mean, deviation: `[k]`, the priors; infinite deviations where nothing is known.
    """

    names: tuple[str, ...]
    independent: tuple[str, ...]
    ties: tuple[tuple[str, Callable], ...]
    read: frozenset[str]
    is_text: bool
    start: Array
    lower: Array
    upper: Array
    fixed: Array
    mean: Array
    deviation: Array

    @classmethod
    def of(cls, parameters: Mapping[str, Any], ties: Sequence) -> "Layout":
        plain = {name: each for name, each in parameters.items() if each.expr is None}
        read = {other for each in parameters.values() if each.expr is not None for other in names_in(each.expr)}
        priors = [each.prior or (0.0, np.inf) for each in plain.values()]
        mean, deviation = np.array(priors, np.float64).reshape([-1, 2]).T
        arrays = [[getattr(each, name) for each in plain.values()] for name in ("value", "min", "max")]
        fixed = np.array([not each.is_free for each in plain.values()], bool)
        given = (np.array(each, np.float64) for each in arrays)
        is_text = all(isinstance(each.expr, str) for each in parameters.values() if each.expr is not None)
        said = tuple(parameters), tuple(plain), tuple(ties), frozenset(read), is_text
        return cls(*said, *given, fixed, mean, deviation)

    @property
    def size(self) -> int:
        """k."""
        return len(self.independent)

    @property
    def named(self) -> Callable[[Sequence[Any]], dict[str, Any]]:
        """A function from the k values to a dict of the values of all parameters."""
        return evaluator(self.independent, self.ties)

    @property
    def prior(self) -> tuple[Array, Array] | None:
        """What `least_squares` takes as `prior`; None where nothing is known beforehand."""
        return (self.mean, self.deviation) if np.isfinite(self.deviation).any() else None

    @property
    def bounds(self) -> tuple[Array, Array] | None:
        """What `least_squares` takes as `bounds`; None where there are none."""
        given = np.isfinite(self.lower).any() or np.isfinite(self.upper).any()
        return (self.lower, self.upper) if given else None

    def values(self, vector: Array) -> dict[str, float]:
        """Return the values of all parameters, in their order, for those of the independent ones `[k]`."""
        found = self.named(tf.unstack(tf.constant(vector, tf.float64)))
        return {name: float(found[name]) for name in self.names}

    def of_fits(self, vectors: Any) -> dict[str, Any]:
        """Return the values of all parameters `[B]`, in their order, for a tensor of independent ones `[B, k]`."""
        found = self.named(tf.unstack(vectors, axis=1))
        return {name: tf.broadcast_to(found[name], vectors.shape[:1]) for name in self.names}

    def derivatives_of_fits(self, vectors: Array) -> Array:
        """Return `derivatives` of each fit, `[B, parameters, k]`, for independent ones `[B, k]`."""
        vectors = tf.constant(vectors, tf.float64)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(vectors)
            found = self.of_fits(vectors)
        slopes = [tape.gradient(found[name], vectors, unconnected_gradients=_ZERO) for name in self.names]
        return tf.stack(slopes, axis=1).numpy()

    def derivatives(self, vector: Array) -> Array:
        """Return the derivatives of all parameters with respect to the independent ones, `[parameters, k]`."""
        rows = dict(zip(self.independent, np.eye(self.size)))
        slopes = _slopes_kept if self.is_text else _slopes
        if self.ties:
            found = slopes(self.independent, self.ties)(tf.constant(vector, tf.float64))
            rows |= {name: slope.numpy() for (name, _), slope in zip(self.ties, found)}
        return np.array([rows[name] for name in self.names])


def _slopes(independent, ties):
    """Return a function from the independent parameters `[k]` to a list with the derivatives of each tie `[k]`."""
    named = evaluator(independent, ties)

    def slopes(vector):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(vector)
            found = named(tf.unstack(vector))
        return [tape.gradient(found[name], vector, unconnected_gradients=_ZERO) for name, _ in ties]

    return slopes


@functools.lru_cache(maxsize=64)
def _slopes_kept(independent, ties):
    """Return `_slopes`, traced; kept, as ties that are text are the same functions each time."""
    return quiet_function(_slopes(independent, ties))
