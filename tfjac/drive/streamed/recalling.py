"""What steps on mini-batches remember of earlier ones: a contract, and the objective of a batch with such a memory."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from tfjac.graph import cond
from tfjac.linear.contracts import AS_FACTORS, Allowed, LinearModel
from tfjac.linear.solvers import Solver
from tfjac.objective.wrapped import WrappedObjective
from tfjac.steps.objective import Objective
from tfjac.types import Tensor


class News(NamedTuple):
    """What a step finds.

    Attributes:
        stayed: scalar bool, whether the variables are where the last step left them.
        streams: scalar bool, whether the data are new; None where they always are.
        repeats: int64, how often the same data have come again.
        steps: int64, how many steps there were before, since other code has set the variables.
    """

    stayed: tf.Tensor
    streams: tf.Tensor | None
    repeats: tf.Tensor
    steps: tf.Tensor

    @property
    def are_new(self) -> tf.Tensor:
        """Whether the data are new, a scalar bool."""
        return tf.constant(True) if self.streams is None else self.streams


class Quadratic(Protocol):
    """A quadratic function of a step."""

    @abc.abstractmethod
    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Its value at a step `[p]`, a scalar; zero at zero."""


class BatchMemory(Protocol):
    """A quadratic model of earlier batches, in variables of the optimizer, which Keras saves.

    With `d` a scalar float64 that says what a batch counts for, all that it returns is in units of the loss of the
    batch that comes.
    """

    dtype: tf.DType
    """Of what is kept."""

    solver: Solver
    """What steps with it are solved by."""

    most_share: float
    """The largest share of noise that the least λ is taken by, see `LeastDamping`."""

    what: str
    """What is kept, for `plan()`."""

    @abc.abstractmethod
    def takes(self, batch: LinearModel) -> Any:
        """Whether a batch can be remembered, a bool or a scalar one: if not, it is taken alone."""

    @abc.abstractmethod
    def decay(self, seen: Tensor, rows: Tensor) -> Tensor:
        """By what the model fades when a batch of `rows` residuals comes after `seen` ones, a scalar; zero for all."""

    def begins(self, steps: Tensor, batch: LinearModel, num_parts: int) -> Tensor | None:
        """Whether a step is taken on a batch after so many others: a scalar bool, None for always.

        `num_parts` is as in `num_examples`.
        """
        return None

    @abc.abstractmethod
    def recalled(
        self, objective: Objective, batch: LinearModel, position: Tensor, decay: Tensor, weight: Tensor
    ) -> "tuple[RecallingObjective, tf.Tensor]":
        """The objective of a batch and what is remembered, and diag(JᵀJ) of the batch, `[p]`.

        `batch` is the linear model of `objective` at `position` `[p]`, where its variables are, wherever the last step
        ended. Nothing is recalled with a batch that says nothing, as where all its examples have no weight: it changes
        no bit.
        """

    @abc.abstractmethod
    def remember(
        self, recalling: "RecallingObjective", wanted: Tensor, moved: Tensor, position: Tensor, weight: Tensor
    ) -> None:
        """Add the batch, after a step `moved` `[p]` to `position` `[p]`, if `wanted`, a scalar bool, and if finite."""


class LinearisedObjective(WrappedObjective):
    """An `Objective` that is linearised already.

    Args:
        objective: `Objective`.
        model: its `LinearModel` where its variables are.
    """

    def __init__(self, objective: Objective, model: LinearModel) -> None:
        super().__init__(objective)
        self._model = model

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        """Return what was found before."""
        return self._model


class RecallingObjective(LinearisedObjective):
    """The `Objective` of a batch and a quadratic model of others around where the variables are.

    Args:
        objective: `Objective` of the batch.
        linearisation: the `LinearModel` of both.
        remembered: the `Quadratic` of the others.
        start: `[p]`, where the variables are.

    Attributes:
        linearisation, start: as given.
    """

    def __init__(self, objective: Objective, linearisation: LinearModel, remembered: Quadratic, start: Tensor) -> None:
        super().__init__(objective, linearisation)
        self.linearisation: Any = linearisation  # the memory, which made it, knows more of it
        self._quadratic, self.start = remembered, start

    def evaluate(self) -> Tensor:
        """Return what is to be lowered, at what the variables hold at this point of the program."""
        cost = super().evaluate()
        return cost + self.remembered(self.position(self.values()))

    def remembered(self, position: Tensor) -> Tensor:
        """Return the part of what is lowered that is remembered, at `position` `[p]`; zero where the step started."""
        return tf.cast(self._quadratic(position - self.start), self.cost.dtype)


def as_computed_in(batch: LinearModel, dtype: tf.DType) -> LinearModel:
    return batch if batch.dtype == dtype else batch.cast(dtype)


def unless_still(step: Tensor, product: Callable, still: Tensor) -> Tensor:
    """Return product(), or `still` for a step of zero, as of a batch that is remembered alone: then nothing is read."""
    return cond(tf.reduce_any(tf.not_equal(step, 0)), product, lambda: still)


def all_finite(*tensors: Tensor) -> Tensor:
    """Return whether all elements of tensors are finite, a scalar bool."""
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors])
