"""JᵀJ, Jᵀr and the cost of a part of the data, as a value: for those who sum up parts by an engine of their own."""

from __future__ import annotations

import dataclasses
import io
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.arguments import resolve
from tfjac.graph import as_tf_variable, verification_wanted
from tfjac.linear.solvers.precision import checked_gram_dtype
from tfjac.objective.residuals import objective_of_residuals
from tfjac.objective.robust import LossLike, get_losses, losses_of
from tfjac.objective.tracing.callables import as_data, function_of_data
from tfjac.objective.tracing.traced_residuals import TracedResiduals, traceable
from tfjac.objective.tracing.traces import TraceCache
from tfjac.objective.variables import checked_variables
from tfjac.ops import damped_solve
from tfjac.steps.damping.scaling import SCALINGS, Scaling
from tfjac.steps.method import recipe
from tfjac.types import Array, ArrayLike, Data, GramDType, Nest, Residuals, Tensor, Variable


class DampedStep(NamedTuple):
    """What `NormalEquations.step` returns.

    Attributes:
        step: `[p]`, p in (JᵀJ + λD) p = −g; zeros where that could not be solved.
        predicted: by how much the model says that it lowers the cost.
        solved: whether it could be solved.
    """

    step: np.ndarray
    predicted: float
    solved: bool


@dataclasses.dataclass(frozen=True, eq=False)
class NormalEquations:
    """JᵀJ, g = Jᵀr and F = ½‖r‖² of some residuals at one point; the sum of two is that of both parts of the data.

        total = sum(parts)
        step, predicted, solved = total.step(damping=1e-3)

    Attributes:
        gram: `[p, p]`, JᵀJ, NumPy.
        gradient: `[p]`, g.
        cost: F, a float.
        num_residuals: how many residuals.
        position: `[p]`, where that is; None where it is not said.
    """

    gram: np.ndarray
    gradient: np.ndarray
    cost: float
    num_residuals: int
    position: np.ndarray | None = None

    def __post_init__(self) -> None:
        if np.ndim(self.gradient) != 1 or np.shape(self.gram) != 2 * np.shape(self.gradient):
            raise ValueError(
                "NormalEquations take a matrix [p, p] and a vector [p]. "
                f"Received: those of shapes {np.shape(self.gram)} and {np.shape(self.gradient)}"
            )
        if self.position is not None and np.shape(self.position) != np.shape(self.gradient):
            raise ValueError(
                "position holds the parameters, one for each element of the gradient. "
                f"Received: {np.shape(self.position)} and {np.shape(self.gradient)}"
            )

    def __add__(self, other: Any) -> NormalEquations:
        """Return the normal equations of both parts.

        Raises:
            ValueError: for those of another number of parameters, or at another point.
        """
        if not isinstance(other, NormalEquations):
            return NotImplemented
        if self.gradient.shape != other.gradient.shape:
            raise ValueError(
                "Only normal equations in the same parameters add up. Received: those in "
                f"{self.num_parameters} and in {other.num_parameters} parameters"
            )
        if not self.is_at(other.position):
            raise ValueError(
                "Only normal equations at the same point add up: some part was computed before its variables were "
                f"assigned to. Received: those at {self.position} and at {other.position}"
            )
        return NormalEquations(
            self.gram + other.gram,
            self.gradient + other.gradient,
            self.cost + other.cost,
            self.num_residuals + other.num_residuals,
            other.position if self.position is None else self.position,
        )

    def __radd__(self, other: Any) -> NormalEquations:
        """Return this, added to the zero that `sum` begins with."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def is_at(self, position: ArrayLike | None) -> bool:
        """Return whether they are those at a point `[p]`, to the precision of either; where it is not said, they are.

        Args:
            position: `[p]`, or None.
        """
        if position is None or self.position is None:
            return True
        coarser = min(self.position.dtype, np.asarray(position).dtype, key=lambda dtype: dtype.itemsize)
        return np.array_equal(self.position.astype(coarser), np.asarray(position).astype(coarser), equal_nan=True)

    @property
    def num_parameters(self) -> int:
        """p."""
        return len(self.gradient)

    def step(
        self, damping: float = 0.0, scaling: Literal["identity", "marquardt"] | Scaling | ArrayLike = "identity"
    ) -> DampedStep:
        """Solve (JᵀJ + λD) p = −g by Cholesky's factorisation.

        Args:
            damping: λ, a number that is not negative.
            scaling: D: `"identity"`, `"marquardt"`, a `Scaling`, or an array `[p]` of positive numbers.

        Returns:
            A `DampedStep`. What is not finite, or cannot be solved, is not `solved`, and the step zeros.

        Raises:
            ValueError: for negative damping, or a diagonal of another shape, or not positive.
        """
        if not damping >= 0:
            raise ValueError(f"damping must be a number that is not negative. Received: damping={damping!r}")
        diagonal = self._diagonal(scaling)
        dtype = self.gram.dtype
        system = [tf.constant(part, dtype) for part in (self.gram, -self.gradient, diagonal, damping)]
        step, solved = damped_solve(*system)
        step = step.numpy()
        predicted = -float(self.gradient @ step + step @ self.gram @ step / 2)
        return DampedStep(step, predicted, bool(solved))

    def _diagonal(self, scaling: Array | None) -> Array:
        columns = np.diag(self.gram)
        if isinstance(scaling, (str, *SCALINGS.values())):
            found = resolve("scaling", scaling, SCALINGS).update(tf.zeros_like(columns), tf.constant(columns))
            return found.numpy()
        diagonal = np.asarray(scaling, columns.dtype)
        if diagonal.shape != columns.shape or not (diagonal > 0).all():
            raise ValueError(
                f"scaling must be a name, or positive numbers, one for each of {len(columns)} parameters. "
                f"Received: scaling={scaling!r}"
            )
        return diagonal

    def to_bytes(self) -> bytes:
        """Return these as bytes, to be sent or written: an `.npz` file, without pickled objects."""
        file, position = io.BytesIO(), {} if self.position is None else {"position": self.position}
        named = {"gram": self.gram, "gradient": self.gradient, "cost": self.cost, "num_residuals": self.num_residuals}
        np.savez(file, **named, **position)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> NormalEquations:
        """Return what `to_bytes` made bytes of.

        Raises:
            ValueError: for other bytes; TypeError for what is none.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"from_bytes takes what to_bytes returned. Received: {data!r}")
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                numbers = float(file["cost"]), int(file["num_residuals"])
                return cls(file["gram"], file["gradient"], *numbers, file.get("position"))
        except _UNREADABLE:  # NumPy's words are about files, and advise to trust them
            raise ValueError(
                "These bytes are not those of NormalEquations.to_bytes, or not all of them: send them as they are, and "
                f"read all of them. Received: {len(data)} bytes, which begin with {bytes(data[:8])!r}"
            ) from None


_UNREADABLE = (
    ValueError, TypeError, OSError, EOFError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


def normal_equations(
    residuals: Residuals,
    variables: Nest[Variable],
    args: Data = (),
    gram_dtype: GramDType | None = None,
    verify: bool | None = None,
    loss: LossLike | Sequence[LossLike] = None,
    loss_scale: float | Sequence[float | None] | None = None,
) -> NormalEquations:
    """Return JᵀJ, Jᵀr and the cost of one part of the data, where the variables are.

        partial = tfjac.normal_equations(residuals, [a, b], args=(x, y))

    They add up: the sum of those of all parts, whatever process or machine they come from, is that of all data, and
    gives the Levenberg-Marquardt step for them. See `least_squares_by_parts` for the loop.

    Args:
        residuals: callable that reads the variables and returns a tensor, or a nest of them, in any of the forms that
            `least_squares` takes. It is called each time; where its graph is the same as before, the rest of the trace
            is used again.
        variables: a variable or nest of variables, whose elements, flattened one after the other, are the parameters.
        args: tuple of the data that `residuals` is called with: nests of tensors, arrays and numbers. Parts of another
            size are traced again; one without any data adds nothing.
        gram_dtype: `"float64"` to sum up in float64 for variables in float32, or None for their own dtype.
        verify: as for `least_squares`.
        loss, loss_scale: as for `least_squares`: the cost is then that of a robust loss, and residuals and J are
            weighted by what it says of each residual.

    Returns:
        `NormalEquations`, of NumPy arrays.

    Raises:
        ValueError, TypeError: as `least_squares`; and inside of a `tf.function`, where there are no values yet.

    Cost: one linearisation and JᵀJ, without J; memory 2p².
    """
    if not tf.executing_eagerly():
        raise ValueError(
            "normal_equations returns NumPy arrays, which a tf.function has none of while it is traced: use "
            "tfjac.jacobian_operator(...).gram_and_gradient there. Received: a call inside of a graph"
        )
    gram_dtype, losses = checked_gram_dtype(gram_dtype), get_losses(loss, loss_scale)
    function, flat = function_of_data(residuals, variables, args), checked_variables(tf.nest.flatten(variables))
    args = as_data(args, flat)
    position = np.concatenate([np.ravel(as_tf_variable(variable).numpy()) for variable in flat])
    traced = TracedResiduals(traceable(function, flat, is_part=True).get_concrete_function(*args), flat)
    wide = np.dtype(gram_dtype or position.dtype)
    if not any(shape.num_elements() != 0 for shape in traced.shapes):
        return NormalEquations(np.zeros(2 * position.shape, wide), np.zeros(position.shape, wide), 0.0, 0, position)

    of_each = losses_of(losses, traced.num_tensors)

    def sums(*data: Tensor) -> tuple:
        objective = objective_of_residuals(traced.place(data, traced.draw(data)), flat, verify, losses=of_each)
        linearisation = objective.linearise()
        linearisation = linearisation if linearisation.dtype == wide else linearisation.cast(tf.as_dtype(wide))
        return (*linearisation.gram_and_gradient(), objective.cost, linearisation.num_rows)

    def trace() -> Any:
        return tf.function(sums, autograph=False).get_concrete_function(*traced.specs)

    of_losses = recipe([each for each in of_each if each is not None], tuple(each is None for each in of_each))
    options = of_losses and ("normal_equations", gram_dtype, verification_wanted(verify), of_losses)
    gram, gradient, cost, rows = _TRACES.get(traced, flat, options, trace)(*traced.data(args))
    return NormalEquations(gram.numpy(), gradient.numpy(), float(cost), int(rows), position)


_TRACES = TraceCache()
