"""The names by which SciPy's users read a result: each is computed when it is asked for."""

import abc
from collections.abc import Iterator
from typing import Any

import numpy as np

from tfjac.arguments import suggestion
from tfjac.types import Array

NAMES = (
    "x", "cost", "fun", "jac", "grad", "optimality", "active_mask", "nfev", "njev", "status", "message", "success",
)  # fmt: skip
"""What `scipy.optimize.OptimizeResult` of `least_squares` holds."""


class SciPyNames(abc.ABC):
    """SciPy's names for what a `LeastSquaresResult` knows, as attributes and as keys: `res.fun`, `res["fun"]`.

    `fun`, `jac` and `grad` are about all parameters, the variables flattened one after the other.
    """

    evaluations: int
    jacobians: int

    @abc.abstractmethod
    def residuals(self) -> Array:
        """Return r `[rows]`."""

    @abc.abstractmethod
    def jacobian(self) -> Array:
        """Return J `[rows, p]`."""

    @abc.abstractmethod
    def gradient(self) -> Array:
        """Return ∂F/∂x `[p]`."""

    @abc.abstractmethod
    def _flat_active(self) -> Array:
        """−1, 0 or 1 for each parameter, `[p]`."""

    @property
    def fun(self) -> Array:
        """The residuals `[rows]` at the values found, `residuals()`; of curves (f(x) − y)/sigma."""
        return self.residuals()

    @property
    def jac(self) -> Array:
        """The Jacobian `[rows, p]` at the values found, `jacobian()`. With a robust loss SciPy scales its rows."""
        return self.jacobian()

    @property
    def grad(self) -> Array:
        """The gradient of the cost `[p]` at the values found, `gradient()`."""
        return self.gradient()

    @property
    def optimality(self) -> float:
        """The largest element of the gradient, up to its sign, among the parameters that no bound holds."""
        return float(np.max(np.abs(self.grad[self._flat_active() == 0]), initial=0))

    @property
    def active_mask(self) -> Array:
        """`[p]`: −1 for a parameter at its lower bound, 1 at its upper one or fixed, 0 between."""
        return self._flat_active()

    @property
    def nfev(self) -> int:
        """How many times the residuals were evaluated to judge a step, `evaluations`."""
        return self.evaluations

    @property
    def njev(self) -> int:
        """How many times they were linearised, `jacobians`."""
        return self.jacobians

    def keys(self) -> Iterator[str]:
        """Iterate over SciPy's names."""
        return iter(NAMES)

    def __getitem__(self, name: Any) -> Any:
        if name not in NAMES:
            near = suggestion(name, NAMES) if isinstance(name, str) else ""
            raise KeyError(f"A result has {', '.join(NAMES)}.{near} Received: {name!r}")
        return getattr(self, name)
