"""A linearisation in some of the parameters, the others held where they are."""

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.contracts import LinearModel
from tfjac.linear.model.linearisation import Linearisation
from tfjac.linear.model.right_factor import RightFactor, RowsTimes
from tfjac.types import Tensor


class FreeLinearisation(Linearisation):
    """A `Linearisation` whose columns of J, and elements of g, are zero where a parameter is not free.

    With any damping the step of such a parameter is zero, and that of the others is as if it were not there.

    Args:
        whole: the `Linearisation` in all parameters.
        free: `[p]`, bool.
    """

    def __init__(self, whole: LinearModel, free: Tensor) -> None:
        self._whole, self._mask, self.is_shared = whole, Mask(free), whole.is_shared
        super().__init__(RowsTimes(whole.jacobian, self._mask), whole.residual, whole.prior.masked(free))

    def cast(self, dtype: tf.DType) -> "FreeLinearisation":
        return FreeLinearisation(self._whole.cast(dtype), self._mask.free)

    def only_free(self, vector: Tensor) -> Tensor:
        return self._mask.pull(vector)

    def gradient(self) -> Tensor:
        """Return g `[p]`, zero for what is held."""
        return self._mask.pull(self._whole.gradient())

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return JᵀJ `[p, p]` and g `[p]`, zero for what is held."""
        gram, gradient = self._whole.gram_and_gradient()
        return self._mask.gram(gram), self._mask.pull(gradient)


class Mask(RightFactor):
    """Zeros in the columns of parameters that are held; factors have these among them.

    Args:
        free: `[p]`, bool.
    """

    def __init__(self, free: Tensor) -> None:
        self.free = free

    def cast(self, dtype: tf.DType) -> "Mask":
        return self

    def forward(self, vector: Tensor) -> Tensor:
        return self.pull(vector)

    def pull(self, rows: Tensor) -> Tensor:
        return arrays.where(self.free, rows, arrays.zeros_like(rows))

    def gram(self, gram: Tensor) -> Tensor:
        return arrays.where(self.free[:, None] & self.free, gram, arrays.zeros_like(gram))
