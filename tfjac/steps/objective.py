"""What a step asks of what it lowers: two contracts, one line for each thing that is asked."""

import abc
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from tfjac.linear.columns import Columns
from tfjac.linear.contracts import AS_FACTORS, Allowed, LinearModel
from tfjac.linear.prior import Prior


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
    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
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
