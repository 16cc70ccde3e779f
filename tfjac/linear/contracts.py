"""What the parts of the optimizer expect of one another, one line for each thing that is asked.

    Objective  ── linearise ──▶  LinearModel  ── jacobian ──▶  JacobianRows  ── operators ──▶  JacobianBlock
    LinearModel  ──▶  Solver.prepare  ──▶  System  ──▶  steps

A class that plays one of these parts names the contract among its bases. What it lacks then is an error of the type
checker, which `make lint` runs, and a `TypeError` where an object of it is made. Shapes: `p` parameters, `rows`
residuals of all blocks, `n` examples of `m` residuals in a block. F is the cost, r the residuals, J their Jacobian, Λ
and w₀ the quadratic part that is diagonal, such as regularisers. A `Solver` and its `System` are abstract classes of
`linear/solvers/base.py`, a `Damping` is one of `steps/damping/base.py`, a `Scaling` of `steps/damping/scaling.py`.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.columns import Columns
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.prior import Prior

MANY = 512
"""Residuals of an example from which products are the cheaper way: a step takes 20 to 100 of the passes they save."""


class Allowed(NamedTuple):
    """How J may be had.

    Attributes:
        by_products: whether products alone, and estimates of JᵀJ, will do where they are the cheaper way.
        instead: whether they will do where J as factors takes more than the budget.
        budget: bytes.
        drawn: int64 scalar tensor, if products alone will do, with one random combination of the residuals of each
            example for estimates, by this number; or None.
        by_drawn: whether those combinations will do for products, too, beside an exact gradient.
        farther: scalar bool tensor, whether J of other losses than squares must say something farther off, as it is
            remembered; or None.
    """

    by_products: bool = False
    instead: bool = False
    budget: float = math.inf
    drawn: tf.Tensor | None = None
    by_drawn: bool = False
    farther: tf.Tensor | None = None

    def halved(self) -> "Allowed":
        """Return the same for numbers that are solved in twice their size."""
        return self._replace(budget=self.budget / 2)


AS_FACTORS = Allowed()
"""J as factors, whatever that takes."""


class LinearModel(Protocol):
    """F(w+p) ≈ F + gᵀp + ½ pᵀ(JᵀJ + Λ)p. Adds to the graph what is asked for, when it is asked for."""

    jacobian: "JacobianRows"
    """J, for solvers that work with rows or factors."""

    residual: tf.Tensor
    """r, `[rows]`."""

    prior: Prior
    """Λ and Λ(w−w₀), `[p]` each."""

    columns: Columns
    """The columns of J."""

    dtype: tf.DType
    """Of all that it returns."""

    is_shared: bool
    """Whether sums are over several processes, of which this one has its own rows alone."""

    @property
    @abc.abstractmethod
    def num_parameters(self) -> int:
        """p."""

    @property
    @abc.abstractmethod
    def num_rows(self) -> Any:
        """Number of residuals: an integer where the graph fixes it, else a scalar tensor."""

    @property
    @abc.abstractmethod
    def static_num_rows(self) -> int | None:
        """Number of residuals where the graph fixes it, else None. For the choice of a solver."""

    @property
    @abc.abstractmethod
    def has_residuals(self) -> bool:
        """Whether there is anything but a prior."""

    @abc.abstractmethod
    def cast(self, dtype: tf.DType) -> "LinearModel":
        """The same in another dtype. For `gram_dtype`."""

    @abc.abstractmethod
    def only_free(self, vector: tf.Tensor) -> tf.Tensor:
        """`vector` `[p]` with zeros for parameters that are held. For solvers and preconditioners."""

    @abc.abstractmethod
    def gradient(self) -> tf.Tensor:
        """g = Jᵀr + Λ(w−w₀), `[p]`."""

    @abc.abstractmethod
    def gram_and_gradient(self) -> tuple[tf.Tensor, tf.Tensor]:
        """JᵀJ `[p, p]` and g `[p]`, in one pass. For Cholesky's solver, and sums over batches."""

    @abc.abstractmethod
    def diagonal(self) -> tf.Tensor:
        """diag(JᵀJ), `[p]`. For scalings."""

    @abc.abstractmethod
    def curvature(self, vector: tf.Tensor) -> tf.Tensor:
        """JᵀJ v, `[p]`. For conjugate gradients."""

    @abc.abstractmethod
    def quadratic(self, step: tf.Tensor) -> tf.Tensor:
        """pᵀ(JᵀJ + Λ)p, a scalar. For what a step is predicted to gain."""


class Jacobian(Protocol):
    """J as products, of one block of residuals or of all."""

    @abc.abstractmethod
    def cast(self, dtype: tf.DType) -> Any:
        """The same in another dtype."""

    def gram_and_gradient(self, residual: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """JᵀJ `[p, p]` and Jᵀr `[p]` of r `[rows]`, in one pass; here J is formed."""
        rows = self.to_dense()
        return tf.matmul(rows, rows, transpose_a=True), self.matvec(residual, adjoint=True)

    @abc.abstractmethod
    def column_norms_squared(self) -> tf.Tensor:
        """diag(JᵀJ), `[p]`."""

    @abc.abstractmethod
    def matvec(self, x: tf.Tensor, adjoint: bool = False) -> tf.Tensor:
        """J v `[rows]`, or Jᵀu `[p]`."""

    @abc.abstractmethod
    def to_dense(self) -> tf.Tensor:
        """J, `[rows, p]`."""


class JacobianRows(Jacobian, Protocol):
    """J of all residuals, the rows of one block below those of another."""

    operators: Sequence["JacobianBlock"]
    """The Jacobian of each block, with columns for all variables."""

    columns: Columns
    """Which columns belong to which variable."""

    dtype: tf.DType
    """Of its elements."""

    passes: float = 0.0
    """Bytes that the backward passes take at once which its factors come from, as far as the graph fixes them."""

    value_of: Callable[[tf.Tensor], Any] = staticmethod(lambda tensor: None)
    """The value of a tensor that its factors hold, where it is the same in every run; else None. For costs."""

    @abc.abstractmethod
    def factors(self) -> list[list]:
        """For each variable the list of the factors of its columns, of all examples; empty where there are none."""

    def matvecs(self, vectors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """J v `[rows]` of several vectors, in one pass where J is there as factors."""
        return [self.matvec(vector) for vector in vectors]

    def adjoint(self, vector: tf.Tensor) -> tf.Tensor:
        """Jᵀu, `[p]`."""
        return self.matvec(vector, adjoint=True)

    def kernel(self, scales: tf.Tensor) -> tf.Tensor:
        """Σ_v scales[v]·J_v J_vᵀ `[rows, rows]`, J_v being the columns of variable v; here J is formed."""
        return self.weighted_kernel(self.columns.spread(scales))

    def weighted_kernel(self, weights: tf.Tensor) -> tf.Tensor:
        """J diag(weights) Jᵀ `[rows, rows]`, for weights `[p]` that differ within variables; here J is formed."""
        rows = self.to_dense() * tf.sqrt(weights)
        return DenseFactor(rows[:, None]).kernel()

    def square(self, vector: tf.Tensor) -> tf.Tensor:
        """‖u‖² of u `[rows]`, a scalar: over all processes."""
        return arrays.reduce_sum(arrays.square(vector))


class JacobianBlock(Jacobian, Protocol):
    """J of one block of residuals, `[n·m, p]`. `tfjac.JacobianOperator` is one, although it does not name it."""

    @property
    @abc.abstractmethod
    def factors(self) -> list:
        """One factor for each variable; None for a variable that does not move these residuals."""

    @property
    def num_probes(self) -> int | None:
        """How many rows stand for the residuals of an example in the factors; None for all of them. For costs."""
        return None

    @property
    @abc.abstractmethod
    def examples_and_outputs(self) -> tuple:
        """(n, m): integers where they are known while tracing, else scalar tensors."""
