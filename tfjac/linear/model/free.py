"""A linearisation in some of the parameters, the others held where they are."""

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.contracts import JacobianRows, LinearModel
from tfjac.linear.model.linearisation import Linearisation
from tfjac.linear.model.stacked import KernelsByRows
from tfjac.types import Tensor


class FreeLinearisation(Linearisation):
    """A `Linearisation` whose columns of J, and elements of g, are zero where a parameter is not free.

    With any damping the step of such a parameter is zero, and that of the others is as if it were not there.

    Args:
        whole: the `Linearisation` in all parameters.
        free: `[p]`, bool.
    """

    def __init__(self, whole: LinearModel, free: Tensor) -> None:
        super().__init__(FreeColumns(whole.jacobian, free), whole.residual, whole.prior.masked(free))
        self._whole, self._free, self.is_shared = whole, free, whole.is_shared

    def cast(self, dtype: tf.DType) -> "FreeLinearisation":
        """Return the same linearisation in another dtype."""
        return FreeLinearisation(self._whole.cast(dtype), self._free)

    def only_free(self, vector: Tensor) -> Tensor:
        """Return a vector `[p]` with zeros for what is held."""
        return _only(self._free, vector)

    def gradient(self) -> Tensor:
        """Return g `[p]`, zero for what is held."""
        return _only(self._free, self._whole.gradient())

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and g `[p]`, zero for what is held."""
        gram, gradient = self._whole.gram_and_gradient()
        return _only(self._free[:, None] & self._free, gram), _only(self._free, gradient)


class FreeColumns(KernelsByRows, JacobianRows):
    """A `StackedJacobian` with zeros in the columns of parameters that are held.

    Args:
        jacobian: `StackedJacobian`.
        free: `[p]`, bool.
    """

    def __init__(self, jacobian: JacobianRows, free: Tensor) -> None:
        self._jacobian, self._free = jacobian, free
        self.operators, self.columns, self.dtype = jacobian.operators, jacobian.columns, jacobian.dtype
        self.passes = jacobian.passes

    def cast(self, dtype: tf.DType) -> "FreeColumns":
        """Return the same in another dtype."""
        return FreeColumns(self._jacobian.cast(dtype), self._free)

    def gram_and_gradient(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and Jᵀu `[p]`."""
        gram, gradient = self._jacobian.gram_and_gradient(vector)
        return _only(self._free[:, None] & self._free, gram), _only(self._free, gradient)

    def factors(self) -> list[list]:
        """Return the factors of each variable, the columns that are held among them."""
        return self._jacobian.factors()

    def column_norms_squared(self) -> Tensor:
        """Return diag(JᵀJ), `[p]`."""
        return _only(self._free, self._jacobian.column_norms_squared())

    def matvec(self, vector: Tensor) -> Tensor:
        """Return J v, `[rows]`."""
        return self._jacobian.matvec(_only(self._free, vector))

    def adjoint(self, vector: Tensor) -> Tensor:
        """Return Jᵀ u, `[p]`."""
        return _only(self._free, self._jacobian.adjoint(vector))

    def square(self, vector: Tensor) -> Tensor:
        """Return ‖u‖² of a vector `[rows]`, a scalar."""
        return self._jacobian.square(vector)

    def to_dense(self) -> Tensor:
        """Return J, `[rows, p]`."""
        return _only(self._free, self._jacobian.to_dense())


def _only(free: Tensor, tensor: Tensor) -> Tensor:
    return arrays.where(free, tensor, arrays.zeros_like(tensor))
