"""A linearisation in a plane: steps p with N p = 0, in coordinates in which D is the identity.

With N D^(−½) = R Qᵀ, Q `[p, k]` orthonormal, and P = I − QQᵀ, all such steps are p = D^(−½) P y. For y,

    (Kᵀ(JᵀJ + Λ)K + λ I) y = −Kᵀg    with K = D^(−½) P

has a solution in the range of P, which is the p that minimises the damped quadratic model among those with N p = 0. So
a solver is given J K and D = I, and needs to know no more.
"""

import tensorflow as tf

from tfjac.linear.contracts import JacobianRows, LinearModel
from tfjac.linear.model.linearisation import Linearisation
from tfjac.linear.model.right_factor import RightFactor, RowsTimes
from tfjac.linear.prior import Prior
from tfjac.types import Tensor


class Frame(RightFactor):
    """K.

    Args:
        normals: `[k, p]`, N, with zeros for parameters that are held.
        metric: `[p]`, D.
        free: `[p]`, one for parameters that may move, zero for those that are held.
    """

    def __init__(self, normals: Tensor, metric: Tensor, free: Tensor) -> None:
        self._normals, self._metric, self._root, self._free = normals, metric, tf.sqrt(metric), free
        # A rounding error in the row of a parameter that is held, over a small damping, would be a long step of it.
        self._across = tf.linalg.qr(tf.transpose(normals / self._root))[0] * free[:, None]

    def cast(self, dtype: tf.DType) -> "Frame":
        return Frame(*(tf.cast(each, dtype) for each in (self._normals, self._metric, self._free)))

    def forward(self, vector: Tensor) -> Tensor:
        return self._along(vector) / self._root

    def pull(self, rows: Tensor) -> Tensor:
        return self._along(rows / self._root)

    def gram(self, gram: Tensor) -> Tensor:
        return self.pull(tf.transpose(self.pull(gram)))

    def squares(self, squares: Tensor) -> Tensor:
        """Return diag(JᵀJ)/D `[p]`, as if there were no plane: what preconditioners start from."""
        return squares / self._metric

    def factors(self, factors: list) -> list:
        """Return none for each variable: there is no structure left."""
        return [[] for _ in factors]

    def cotangent(self, gradient: Tensor) -> Tensor:
        """Return g − Nᵀμ with the multipliers μ that leave least of it, in the metric D⁻¹."""
        return self._root * self.pull(gradient)

    def _along(self, rows: Tensor) -> Tensor:
        if rows.shape.rank == 1:
            across = tf.linalg.matvec(self._across, rows, transpose_a=True)
            return rows - tf.linalg.matvec(self._across, across)
        return rows - tf.matmul(tf.matmul(rows, self._across), self._across, transpose_b=True)


class PlaneLinearisation(Linearisation):
    """A `Linearisation` in y; a prior, which is not diagonal there, is among the rows of J.

    Args:
        whole: the `Linearisation` in p.
    """

    def __init__(self, whole: LinearModel, frame: Frame) -> None:
        self._whole, self._frame, residual, root = whole, frame, whole.residual, None
        if not whole.prior.is_zero:
            root, below = whole.prior.rows()
            residual = tf.concat([residual, below], axis=0)
        none, numbers = tf.zeros_like(whole.prior.precision), tf.zeros([len(whole.columns.sizes)], whole.dtype)
        prior = Prior(none, none, numbers, is_zero=True)
        jacobian = whole.jacobian if root is None else PriorBelow(whole.jacobian, root)
        super().__init__(RowsTimes(jacobian, frame), residual, prior)

    def cast(self, dtype: tf.DType) -> "PlaneLinearisation":
        return PlaneLinearisation(self._whole.cast(dtype), self._frame.cast(dtype))

    def only_free(self, vector: Tensor) -> Tensor:
        return self._whole.only_free(vector)

    def gradient(self) -> Tensor:
        """Return Kᵀg, `[p]`."""
        return self._frame.pull(self._whole.gradient())

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return Kᵀ(JᵀJ + Λ)K `[p, p]` and Kᵀg `[p]`."""
        gram, gradient = self._whole.gram_and_gradient()
        gram = tf.linalg.set_diag(gram, tf.linalg.diag_part(gram) + self._whole.prior.precision)
        return self._frame.gram(gram), self._frame.pull(gradient)


class PriorBelow(JacobianRows):
    """[J; √Λ], the rows of a prior below those of J.

    Args:
        jacobian: J.
        root: `[p]`, √Λ.
    """

    def __init__(self, jacobian: JacobianRows, root: Tensor) -> None:
        self._jacobian, self._root = jacobian, root
        self.operators, self.columns, self.dtype = jacobian.operators, jacobian.columns, jacobian.dtype
        self.passes = jacobian.passes

    def cast(self, dtype: tf.DType) -> "PriorBelow":
        return PriorBelow(self._jacobian.cast(dtype), tf.cast(self._root, dtype))

    def factors(self) -> list[list]:
        return self._jacobian.factors()

    def column_norms_squared(self) -> Tensor:
        return self._jacobian.column_norms_squared() + tf.square(self._root)

    def matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        if not adjoint:
            return tf.concat([self._jacobian.matvec(x), self._root * x], axis=0)
        above, below = tf.split(x, [-1, self.columns.total])
        return self._jacobian.matvec(above, adjoint=True) + self._root * below

    def to_dense(self) -> Tensor:
        return tf.concat([self._jacobian.to_dense(), tf.linalg.diag(self._root)], axis=0)
