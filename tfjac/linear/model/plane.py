"""A linearisation in a plane: steps p with N p = 0, in coordinates in which D is the identity.

With N D^(−½) = R Qᵀ, Q `[p, k]` orthonormal, and P = I − QQᵀ, all such steps are p = D^(−½) P y. For y,

    (Kᵀ(JᵀJ + Λ)K + λ I) y = −Kᵀg    with K = D^(−½) P

has a solution in the range of P, which is the p that minimises the damped quadratic model among those with N p = 0. So
a solver is given J K and D = I, and needs to know no more.
"""

import tensorflow as tf

from tfjac.linear.contracts import JacobianRows, LinearModel
from tfjac.linear.model.linearisation import Linearisation
from tfjac.linear.model.stacked import KernelsByRows
from tfjac.linear.prior import Prior
from tfjac.types import Tensor


class Frame:
    """K, as products.

    Args:
        normals: `[k, p]`, N, with zeros for parameters that are held.
        metric: `[p]`, D.
        free: `[p]`, one for parameters that may move, zero for those that are held.
    """

    def __init__(self, normals: Tensor, metric: Tensor, free: Tensor) -> None:
        self._normals, self.metric, self.root, self._free = normals, metric, tf.sqrt(metric), free
        # A rounding error in the row of a parameter that is held, over a small damping, would be a long step of it.
        self._across = tf.linalg.qr(tf.transpose(normals / self.root))[0] * free[:, None]

    def cast(self, dtype: tf.DType) -> "Frame":
        """Return the same in another dtype."""
        return Frame(*(tf.cast(each, dtype) for each in (self._normals, self.metric, self._free)))

    def tangent(self, vector: Tensor) -> Tensor:
        """Return K y."""
        return self._along(vector) / self.root

    def pull(self, vector: Tensor) -> Tensor:
        """Return Kᵀ v."""
        return self._along(vector / self.root)

    def cotangent(self, gradient: Tensor) -> Tensor:
        """Return g − Nᵀμ with the multipliers μ that leave least of it, in the metric D⁻¹."""
        return self.root * self.pull(gradient)

    def pull_rows(self, rows: Tensor) -> Tensor:
        """Return X K for X `[rows, p]`."""
        scaled = rows / self.root
        return scaled - tf.matmul(tf.matmul(scaled, self._across), self._across, transpose_b=True)

    def _along(self, vector: Tensor) -> Tensor:
        across = tf.linalg.matvec(self._across, vector, transpose_a=True)
        return vector - tf.linalg.matvec(self._across, across)


class PlaneLinearisation(Linearisation):
    """A `Linearisation` in y; a prior, which is not diagonal there, is among the rows of J.

    Args:
        whole: the `Linearisation` in p.
        frame: `Frame`.
    """

    def __init__(self, whole: LinearModel, frame: Frame) -> None:
        self._whole, self._frame, residual, root = whole, frame, whole.residual, None
        if not whole.prior.is_zero:
            root, below = whole.prior.rows()
            residual = tf.concat([residual, below], axis=0)
        none, numbers = tf.zeros_like(whole.prior.precision), tf.zeros([len(whole.columns.sizes)], whole.dtype)
        prior = Prior(none, none, numbers, is_zero=True)
        super().__init__(PlaneColumns(whole.jacobian, root, frame), residual, prior)

    def cast(self, dtype: tf.DType) -> "PlaneLinearisation":
        """Return the same linearisation in another dtype."""
        return PlaneLinearisation(self._whole.cast(dtype), self._frame.cast(dtype))

    def only_free(self, vector: Tensor) -> Tensor:
        """Return a vector `[p]` with zeros for parameters that are held."""
        return self._whole.only_free(vector)

    def gradient(self) -> Tensor:
        """Return Kᵀg, `[p]`."""
        return self._frame.pull(self._whole.gradient())

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return Kᵀ(JᵀJ + Λ)K `[p, p]` and Kᵀg `[p]`."""
        gram, gradient = self._whole.gram_and_gradient()
        gram = tf.linalg.set_diag(gram, tf.linalg.diag_part(gram) + self._whole.prior.precision)
        gram = self._frame.pull_rows(tf.transpose(self._frame.pull_rows(gram)))
        return gram, self._frame.pull(gradient)


class PlaneColumns(KernelsByRows, JacobianRows):
    """[J; √Λ] K, the interface of a `StackedJacobian`.

    Args:
        jacobian: `StackedJacobian`.
        root: `[p]`, √Λ, or None without a prior.
        frame: `Frame`.
    """

    def __init__(self, jacobian: JacobianRows, root: Tensor, frame: Frame) -> None:
        self._jacobian, self._root, self._frame = jacobian, root, frame
        self.operators, self.columns, self.dtype = jacobian.operators, jacobian.columns, jacobian.dtype
        self.passes = jacobian.passes

    def cast(self, dtype: tf.DType) -> "PlaneColumns":
        """Return the same in another dtype."""
        root = None if self._root is None else tf.cast(self._root, dtype)
        return PlaneColumns(self._jacobian.cast(dtype), root, self._frame.cast(dtype))

    def gram_and_gradient(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return Kᵀ(JᵀJ + Λ)K `[p, p]` and Kᵀ[J; √Λ]ᵀu `[p]`."""
        rows = vector if self._root is None else vector[: -self.columns.total]
        gram, _ = self._jacobian.gram_and_gradient(rows)
        if self._root is not None:
            gram = tf.linalg.set_diag(gram, tf.linalg.diag_part(gram) + tf.square(self._root))
        return self._frame.pull_rows(tf.transpose(self._frame.pull_rows(gram))), self.adjoint(vector)

    def factors(self) -> list[list]:
        """Return none for each variable: there is no structure left."""
        return [[] for _ in self.columns.sizes]

    def column_norms_squared(self) -> Tensor:
        """Return diag(JᵀJ + Λ)/D `[p]`, as if there were no plane: what preconditioners start from."""
        squares = self._jacobian.column_norms_squared()
        return (squares if self._root is None else squares + tf.square(self._root)) / self._frame.metric

    def matvec(self, vector: Tensor) -> Tensor:
        """Return [J; √Λ] K y, `[rows]`."""
        step = self._frame.tangent(vector)
        image = self._jacobian.matvec(step)
        return image if self._root is None else tf.concat([image, self._root * step], axis=0)

    def adjoint(self, vector: Tensor) -> Tensor:
        """Return Kᵀ[J; √Λ]ᵀ u, `[p]`."""
        if self._root is None:
            return self._frame.pull(self._jacobian.adjoint(vector))
        size = self.columns.total
        return self._frame.pull(self._jacobian.adjoint(vector[:-size]) + self._root * vector[-size:])

    def square(self, vector: Tensor) -> Tensor:
        """Return ‖u‖² of a vector `[rows]`, a scalar."""
        return tf.reduce_sum(tf.square(vector))

    def to_dense(self) -> Tensor:
        """Return [J; √Λ] K, `[rows, p]`."""
        rows = self._jacobian.to_dense()
        if self._root is not None:
            rows = tf.concat([rows, tf.linalg.diag(self._root)], axis=0)
        return self._frame.pull_rows(rows)
