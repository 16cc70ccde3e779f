"""What the parts of the optimizer expect of one another: four contracts, one line for each thing that is asked.

    Objective  ── linearise ──▶  LinearModel  ── jacobian ──▶  JacobianRows  ── operators ──▶  JacobianBlock
    LinearModel  ──▶  Solver.prepare  ──▶  System  ──▶  steps

A class that plays one of these parts names the contract among its bases. What it lacks then is an error of the type
checker, which `make lint` runs, and a `TypeError` where an object of it is made. Shapes: `p` parameters, `rows`
residuals of all blocks, `n` examples of `m` residuals in a block. F is the cost, r the residuals, J their Jacobian, Λ
and w₀ the quadratic part that is diagonal, such as regularisers. A `Solver` and its `System` are abstract classes of
`solvers/base.py`, a `Damping` is one of `damping/base.py`, a `Scaling` of `damping/scaling.py`.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from tfjac.optimizers.columns import Columns
from tfjac.optimizers.prior import Prior


class Allowed(NamedTuple):
    """How J may be had.

    Attributes:
        by_products: whether products alone, and estimates of JᵀJ, will do where they are the cheaper way.
        instead: whether they will do where J as factors takes more than the budget.
        budget: bytes.
        drawn: int64 scalar tensor, if products alone will do, with one random combination of the residuals of each
            example for estimates, by this number; or None.
        farther: scalar bool tensor, whether J of other losses than squares must say something farther off, as it is
            remembered; or None.
    """

    by_products: bool = False
    instead: bool = False
    budget: float = math.inf
    drawn: tf.Tensor | None = None
    farther: tf.Tensor | None = None

    def halved(self) -> "Allowed":
        """Return the same for numbers that are solved in twice their size."""
        return self._replace(budget=self.budget / 2)


AS_FACTORS = Allowed()
"""J as factors, whatever that takes."""


class Objective(Protocol):
    """What a step lowers: F, the variables it depends on, and how to go elsewhere. Made while a graph is traced."""

    cost: tf.Tensor
    """Scalar, F where the graph computed it. The loop reads it."""

    columns: Columns
    """Which elements of `[p]` belong to which variable."""

    variables: list
    """The variables, in the order of the columns."""

    sums_squares: bool
    """Whether F adds up the squares of what J is the Jacobian of, and no other function. For acceleration."""

    is_shared: bool
    """Whether other processes have rows of J as well, which this one never sees."""

    @abc.abstractmethod
    def values(self) -> list:
        """What the variables hold at this point of the program, a list of tensors. The loop puts them back."""

    @abc.abstractmethod
    def position(self, values: list) -> tf.Tensor:
        """`values` in the coordinates of J, `[p]`; tangents of manifolds are zero. For lengths and bounds."""

    def magnitude(self, values: list) -> tf.Tensor:
        """How large `values` are in the coordinates of J, `[p]`: rounding moves them by ε times as much."""
        return self.position(values)

    def slope(self, gradient: tf.Tensor) -> tf.Tensor:
        """`gradient` `[p]`, in the coordinates of J, as that by the values of the variables. For reports."""
        return gradient

    @abc.abstractmethod
    def linearise(self, allowed: Allowed = AS_FACTORS) -> "LinearModel":
        """r to first order where the graph computed F, with J as is `Allowed`. Called once in a step."""

    @abc.abstractmethod
    def change_of_rows(self) -> tf.Tensor:
        """By how much what J is the Jacobian of is more than where the graph computed F, `[rows]`. For acceleration."""

    @abc.abstractmethod
    def move(self, start: list, step: tf.Tensor) -> None:
        """Assign `start` + `step` `[p]` to the variables."""

    @abc.abstractmethod
    def move_to(self, start: list, position: tf.Tensor) -> None:
        """Assign `position` `[p]`, in the coordinates of J at `start`. For bounds and equations."""

    @abc.abstractmethod
    def evaluate(self) -> tf.Tensor:
        """F at what the variables hold at this point of the program, a scalar."""

    @abc.abstractmethod
    def restore_unless(self, accepted: tf.Tensor, start: list) -> None:
        """Assign `start` to the variables, bit for bit, unless `accepted`, a scalar bool."""


class SummedObjective(Objective, Protocol):
    """An `Objective` whose parts are known: residuals, what weighs them, and the prior. For Bayesian regularisation."""

    prior: Prior
    """The part with Λ."""

    rows: list
    """Pairs of a tensor whose Jacobian is a part of J, and the part of r that belongs to it."""

    terms: list
    """The terms of the loss that gave the rows; empty where squares are summed as they are."""

    gradients: list | None
    """A `ReferenceGradient` for each variable, if J is verified when the graph runs."""

    half: tf.Operation | None
    """The first op that computes in bfloat16, or None."""

    num_parts: int
    """Of how many objectives, one for each replica, it is the sum."""

    @abc.abstractmethod
    def linear_variables(self) -> list[int]:
        """The indices of the variables that residuals are seen to be linear in together, the others held."""

    @abc.abstractmethod
    def with_parts(self, change: Callable) -> "SummedObjective":
        """What `change` makes of this one, or the sum of what it makes of each part."""


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


class JacobianRows(Protocol):
    """J, the rows of all blocks of residuals one below the other, as products and factors."""

    operators: Sequence["JacobianBlock"]
    """The Jacobian of each block, with columns for all variables."""

    columns: Columns
    """Which columns belong to which variable."""

    dtype: tf.DType
    """Of its elements."""

    passes: float = 0.0
    """Bytes that the backward passes take at once which its factors come from, as far as the graph fixes them."""

    @abc.abstractmethod
    def cast(self, dtype: tf.DType) -> "JacobianRows":
        """The same in another dtype."""

    @abc.abstractmethod
    def gram_and_gradient(self, vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """JᵀJ `[p, p]` and Jᵀu `[p]` of u `[rows]`, in one pass."""

    @abc.abstractmethod
    def kernel(self, scales: tf.Tensor) -> tf.Tensor:
        """Σ_v scales[v]·J_v J_vᵀ `[rows, rows]`, J_v being the columns of variable v. For `"kernel"`."""

    @abc.abstractmethod
    def weighted_kernel(self, weights: tf.Tensor) -> tf.Tensor:
        """J diag(weights) Jᵀ `[rows, rows]`, for weights `[p]` that differ within variables. For `"kernel"`."""

    @abc.abstractmethod
    def column_norms_squared(self) -> tf.Tensor:
        """diag(JᵀJ), `[p]`."""

    @abc.abstractmethod
    def factors(self) -> list[list]:
        """For each variable the list of the factors of its columns, of all examples; empty where there are none."""

    @abc.abstractmethod
    def matvec(self, vector: tf.Tensor) -> tf.Tensor:
        """J v, `[rows]`."""

    @abc.abstractmethod
    def adjoint(self, vector: tf.Tensor) -> tf.Tensor:
        """Jᵀu, `[p]`."""

    @abc.abstractmethod
    def square(self, vector: tf.Tensor) -> tf.Tensor:
        """‖u‖² of u `[rows]`, a scalar: over all processes."""

    @abc.abstractmethod
    def to_dense(self) -> tf.Tensor:
        """J, `[rows, p]`."""


class JacobianBlock(Protocol):
    """The Jacobian of one block of residuals, `[n·m, p]`, with columns for all variables.

    `tfjac.JacobianOperator` is one, although it belongs to a lower layer, which knows nothing of this contract.
    """

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

    @abc.abstractmethod
    def cast(self, dtype: tf.DType) -> "JacobianBlock":
        """The same in another dtype."""

    @abc.abstractmethod
    def gram_and_gradient(self, residual: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """JᵀJ `[p, p]` and Jᵀr `[p]` of r `[n·m]`."""

    @abc.abstractmethod
    def kernel(self, scales: tf.Tensor) -> tf.Tensor:
        """Σ_v scales[v]·J_v J_vᵀ, `[n·m, n·m]`."""

    @abc.abstractmethod
    def scaled_factors(self, scales: tf.Tensor) -> list:
        """The factors of J·√S, S the scale of each variable. For kernels of several blocks."""

    @abc.abstractmethod
    def column_norms(self) -> tf.Tensor:
        """Norms of the columns, `[p]`."""

    @abc.abstractmethod
    def matvec(self, x: tf.Tensor, adjoint: bool = False) -> tf.Tensor:
        """J v `[n·m]`, or Jᵀu `[p]`."""

    @abc.abstractmethod
    def to_dense(self) -> tf.Tensor:
        """J, `[n·m, p]`."""
