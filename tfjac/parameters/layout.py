"""Named parameters as the arrays and the function that a fit works with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.parameters.ties import evaluator, names_in
from tfjac.types import Array


class Layout(NamedTuple):
    """Parameters that are not tied, in order, and how all follow from them.

    Attributes:
        names: of all parameters.
        independent: of those that are not tied, `k` of them. Arrays below are about these.
        ties: pairs of a name and a function from a dict of tensors to a tensor, in an order of evaluation.
        read: names that ties read.
        start, lower, upper: `[k]`.
        fixed: `[k]`, bool.
        mean, deviation: `[k]`, the priors; infinite deviations where nothing is known.
    """

    names: tuple[str, ...]
    independent: tuple[str, ...]
    ties: tuple[tuple[str, Callable], ...]
    read: frozenset[str]
    start: Array
    lower: Array
    upper: Array
    fixed: Array
    mean: Array
    deviation: Array

    @classmethod
    def of(cls, parameters: Mapping[str, Any], ties: Sequence) -> "Layout":
        """Return the layout of a dict of `Parameter`, with their ties."""
        plain = {name: each for name, each in parameters.items() if each.expr is None}
        read = {other for each in parameters.values() if each.expr is not None for other in names_in(each.expr)}
        priors = [each.prior or (0.0, np.inf) for each in plain.values()]
        mean, deviation = np.array(priors, np.float64).reshape([-1, 2]).T
        arrays = [[getattr(each, name) for each in plain.values()] for name in ("value", "min", "max")]
        fixed = np.array([not each.is_free for each in plain.values()], bool)
        given = (np.array(each, np.float64) for each in arrays)
        return cls(tuple(parameters), tuple(plain), tuple(ties), frozenset(read), *given, fixed, mean, deviation)

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

    def derivatives(self, vector: Array) -> Array:
        """Return the derivatives of all parameters with respect to the independent ones, `[parameters, k]`."""
        rows = dict(zip(self.independent, np.eye(self.size)))
        with tf.GradientTape(persistent=True) as tape:
            values = tf.constant(vector, tf.float64)
            tape.watch(values)
            found = self.named(tf.unstack(values))
        for name, _ in self.ties:
            slope = tape.gradient(found[name], values)
            rows[name] = np.zeros(self.size) if slope is None else slope.numpy()
        return np.array([rows[name] for name in self.names])
