"""What an estimator is: from a few more evaluations of a function around a point to its Jacobian there.

The Jacobian is given as a sum of k outer products, which are never multiplied out: where there are many inputs and few
probes it is far smaller than J[o,i].

    J[n,o,i] ≈ Σ_k responses[n,k,o] · directions[n,k,i]

Directions left out are the unit vectors, k = i: the responses are then Jᵀ itself. Letters: n points, o outputs of a
point and i inputs of it, flattened.
"""

import abc
import dataclasses
from collections.abc import Callable

import numpy as np

from tfjac.arguments import Configured
from tfjac.types import Array


@dataclasses.dataclass(frozen=True)
class Probe:
    """A function around some points, as an estimator sees it.

    Attributes:
        points: x, `[n, i]` float64.
        values: y = f(x) `[n, o]` float64, as it was measured; not measured again.
        resolution: the coarsest relative spacing of the numbers that the function takes and gives.
        value_resolution: the same, for `values` too, which have been through a tensor since.
        visit: the number of the evaluation that gave `values`.
        evaluate: function from `[n, k, i]` to `[n, k, o]`.
        rounded: function from `[n, k, i]` to the points where `evaluate` takes the function.
    """

    points: np.ndarray
    values: np.ndarray
    resolution: float
    value_resolution: float
    visit: int
    evaluate: Callable
    rounded: Callable


class Estimator(Configured, abc.ABC):
    """How the Jacobian of a function is found from evaluations."""

    has_directions = False
    """Whether `estimate` returns directions."""

    @abc.abstractmethod
    def estimate(self, probe: Probe) -> tuple[Array, Array | None]:
        """Return responses `[n, k, o]`, and directions `[n, k, i]` or None."""

    def number_of_probes(self, size: int | None) -> int | None:
        """Return k for i = `size` inputs, either of which may be None for unknown."""
        return size

    def fresh(self) -> "Estimator":
        """Return an estimator like this one without what it has learned: one for each function that it serves."""
        return type(self).from_config(self.get_config())


def steps(probe, relative, typical):
    """Return the steps h[n,i] = relative · max(|x|, typical): so large a part of each input."""
    return relative * np.maximum(np.abs(probe.points), as_sizes(typical, probe.points.shape[1]))


def as_sizes(typical, size):
    """Return the typical sizes of the inputs of a point as an array that broadcasts to `[i]`.

    Raises:
        ValueError: for another number of them.
    """
    sizes = np.asarray(typical, np.float64).reshape(-1)
    if sizes.size not in (1, size):
        raise ValueError(
            "typical must be one number, or one for each input of a point, in the order of the flattened inputs. "
            f"Received: {sizes.size} of them, for {size} inputs"
        )
    return sizes


def checked_sizes(typical):
    """Return typical sizes as they can be saved: a number, or a list of them.

    Raises:
        ValueError: for sizes that are not positive.
    """
    sizes = np.asarray(typical, np.float64)
    if not np.all(sizes > 0):
        raise ValueError(f"typical must be positive: it is the size of the inputs. Received: {typical!r}")
    return sizes.tolist()


def checked_step(step, negative=False):
    """Return a step as it is.

    Raises:
        ValueError: for one that is not positive, or zero where it may be negative.
    """
    if step is not None and not (step > 0 or (negative and step < 0)):
        raise ValueError(f"step must be {'other than zero' if negative else 'positive'}, or None. Received: {step!r}")
    return step
