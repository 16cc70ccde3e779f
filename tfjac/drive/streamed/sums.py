"""What batches add up to, and where a step started, in variables of the optimizer, which Keras saves."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfjac.drive.streamed.batch_weight import BatchWeight
from tfjac.linear.contracts import LinearModel
from tfjac.linear.prior import Prior
from tfjac.linear.solvers.base import System
from tfjac.linear.solvers.cholesky import NormalSystem
from tfjac.linear.solvers.precision import rounded
from tfjac.types import Tensor


class Equations(NamedTuple):
    """The normal equations of some examples at one point; tensors, or variables that keep them.

    Attributes:
        gram: `[p, p]`, JᵀJ.
        gradient: `[p]`, g = Jᵀr + Λ(w−w₀).
        precision: `[p]`, Λ.
        rows: how many residuals they are of, float64 scalar.
    """

    gram: tf.Tensor
    gradient: tf.Tensor
    precision: tf.Tensor
    rows: tf.Tensor

    @classmethod
    def of(cls, linearisation: LinearModel, dtype: tf.DType) -> "Equations":
        """Return those of a `Linearisation`, computed in a dtype."""
        linearisation = linearisation if linearisation.dtype == dtype else linearisation.cast(dtype)
        gram, gradient = linearisation.gram_and_gradient()
        return cls(gram, gradient, linearisation.prior.precision, tf.cast(linearisation.num_rows, tf.float64))

    @classmethod
    def variables(cls, add: Callable, name: str, size: int, dtype: tf.DType) -> "Equations":
        """Return variables that keep such equations, made by `add(name, shape, dtype)`."""
        shapes = {"gram": (size, size), "gradient": (size,), "precision": (size,)}
        made = [add(f"{name}_{part}", shape, dtype) for part, shape in shapes.items()]
        return cls(*[*made, add(f"{name}_rows", (), "float64")])

    def read(self) -> "Equations":
        """Return what the variables hold at this point of the program."""
        return Equations(*[variable.value.value() for variable in self])

    def assign(self, equations: "Equations") -> None:
        for variable, tensor in zip(self, equations):
            variable.value.assign(tensor)

    def system(self, dtype: tf.DType) -> tuple[System, Prior]:
        """Return the `System`, in the dtype of the variables that are trained, and the `Prior`."""
        gram, gradient, precision, rows = self
        is_singular = (rows < tf.cast(tf.size(gradient), rows.dtype)) & tf.reduce_all(tf.equal(precision, 0))
        system = NormalSystem(gram, gradient, precision, is_singular=is_singular)
        return rounded(system, dtype), Prior(tf.cast(precision, dtype), None, None, is_zero=False)


class Costs(NamedTuple):
    """F of the same examples at two points, float64 scalars: where the variables are, and where a step leads to."""

    here: tf.Tensor
    there: tf.Tensor


class Sums:
    """The sums over the batches so far, of a window of batches.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        size: number of parameters.
        dtype: of the sums of JᵀJ.
    """

    def __init__(self, add: Callable, size: int, dtype: tf.DType) -> None:
        self._equations = Equations.variables(add, "sum_of", size, dtype)
        self._costs, self._weight = add("sum_of_costs", (2,), "float64"), add("sum_of_weights", (), "float64")
        self._batches = add("batches_of_window", (), "int64")

    def add(self, equations: "Equations", costs: "Costs", share: BatchWeight) -> Tensor:
        """Add what one batch gives, in the graph being traced, and return how many batches there are now.

        A batch without examples adds nothing, whatever its loss is said to be.
        """
        weight = share.weight
        weighted = [tf.math.multiply_no_nan(each, tf.cast(weight, each.dtype)) for each in equations[:-1]]
        for variable, tensor in zip(self._equations, (*weighted, equations.rows)):
            variable.value.assign_add(tensor)
        self._costs.value.assign_add(tf.math.multiply_no_nan(tf.stack(costs), weight))
        self._weight.value.assign_add(weight)
        self._batches.value.assign_add(1)
        return self._batches.value.value()

    def totals(self, share: BatchWeight) -> "tuple[Equations, Costs]":
        """Return the `Equations` and `Costs` of all examples of the window."""
        weight = self._weight.value.value() if share.averages else tf.ones([], tf.float64)
        factor = tf.math.reciprocal_no_nan(weight)
        *weighted, rows = self._equations.read()
        equations = Equations(*[*(each * tf.cast(factor, each.dtype) for each in weighted), rows])
        return equations, Costs(*tf.unstack(self._costs.value.value() * factor))

    def clear(self) -> None:
        """Forget the batches so far, in the graph being traced or eagerly."""
        for variable in (*self._equations, self._costs, self._weight, self._batches):
            variable.value.assign(tf.zeros_like(variable.value))

    @property
    def batches(self) -> int:
        """How many batches there are so far, an int."""
        return int(self._batches.numpy())
