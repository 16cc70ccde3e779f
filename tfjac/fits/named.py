"""What `curve_fit` and `least_squares` expect of parameters that have names: they carry out the fit themselves."""

import abc
from typing import Any

from tfjac.types import Data, Function, Nest, Residuals, TensorLike


class NamedParameters(abc.ABC):
    """Parameters by name, in the place of `p0` or of the variables. `tfjac.Parameters` is one.

    A layer above this one defines them, so that nothing here imports it.
    """

    @abc.abstractmethod
    def fit_curve(self, f: Function, xdata: Nest[TensorLike], ydata: TensorLike, **options: Any) -> Any:
        """Return what `curve_fit` returns for these parameters as p0; `options` are its other arguments."""

    @abc.abstractmethod
    def fit_residuals(self, residuals: Residuals, args: Data, **options: Any) -> Any:
        """Return what `least_squares` returns for these parameters as variables; `options` are its other arguments."""
