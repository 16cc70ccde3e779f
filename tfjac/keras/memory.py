"""`memory` in the Keras optimizer: what goes with it, and which batches an epoch has."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import described_value
from tfjac.drive.replicas.replicated_objective import ReplicatedObjective
from tfjac.drive.streamed.fading import FadingModel
from tfjac.drive.streamed.memory import WITHOUT_SCHEDULE, Memory
from tfjac.drive.streamed.recalling import BatchMemory
from tfjac.drive.streamed.rows import RowModel
from tfjac.drive.streamed.windows import Windows
from tfjac.graph import as_tf_variable
from tfjac.keras.arguments import REMEMBERED_WITHOUT_CONSTRAINTS, refuse_constraints
from tfjac.keras.fit_under_way import data_stream
from tfjac.linear.columns import Columns
from tfjac.linear.solvers import AutoSolver, CholeskySolver, Solver
from tfjac.linear.solvers.plan import Plan, plan_of
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.memory_budget import bytes_in_words, bytes_of
from tfjac.objective.in_units import ObjectiveInUnits
from tfjac.objective.objective import LocalObjective
from tfjac.steps.acceleration import AutoAcceleration
from tfjac.steps.damping.scaling import IdentityScaling
from tfjac.steps.method import Method
from tfjac.types import Variable

AUTO, EPOCH = "auto", "epoch"

SMALL, SMALL_MIXED, MOST_WITH_GRAM = 1000, 400, 2000
"""Up to so many weights "auto" keeps JᵀJ of earlier batches; beyond, Kronecker factors. The second number is for
classes, whose test loss is better with factors, and where examples mix; the third, where there are no factors. Beyond
that, and without factors, rows of J are kept.
"""

WINDOW = 512
"""How many rows of J are kept."""

MOST_OUTPUTS = 4
"""Up to so many outputs no factors are kept where weights multiply often, as in residuals with derivatives."""


class MemoryOptions(NamedTuple):
    """What was asked for.

    Attributes:
        given: "auto", None, β between 0 and 1, a number of batches, or "epoch".
    """

    given: Any

    @classmethod
    def of(cls, memory: Any) -> "MemoryOptions":
        """Check the option; raise ValueError for a bad one."""
        if memory is None or (isinstance(memory, str) and memory in (AUTO, EPOCH)):
            return cls(memory)
        number = not isinstance(memory, (bool, str)) and isinstance(memory, (int, float))
        if number and 0 < memory < 1:
            return cls(float(memory))
        if number and isinstance(memory, int) and memory > 0:
            return cls(memory)
        raise ValueError(
            "memory must be 'auto', None for none, a number between 0 and 1 by which what earlier batches said fades, "
            "an integer, how many batches make up one step, or 'epoch' for all of an epoch. "
            f"Received: memory={described_value(memory)}"
        )

    @property
    def sums(self) -> bool:
        """Whether a step is solved with the sum of several batches."""
        return self.given == EPOCH or isinstance(self.given, int)

    @property
    def is_asked_for(self) -> bool:
        """Whether the user wants something to be remembered, and none of the rules decides."""
        return self.given not in (AUTO, None)

    def method(self, method: Method, steps_per_batch: int) -> Method:
        """Return a `Method` that solves with a sum of JᵀJ; refuse what needs more of the examples than that.

        Args:
            method: the `Method` asked for.
            steps_per_batch: as the optimizer was given it.

        Raises:
            ValueError: naming what does not go together.
        """
        if not self.is_asked_for:
            return method
        if not isinstance(method.solver, (AutoSolver, CholeskySolver)):
            raise ValueError(
                "memory keeps of the batches that were the sum of JᵀJ, which only solver='cholesky' works with. "
                f"Received: memory={self.given!r} and solver={method.solver.name!r}"
            )
        if isinstance(method.acceleration, AutoAcceleration):
            method = method._replace(acceleration=None)
        for name, is_set, why in (
            ("acceleration", method.acceleration is not None, "it needs the residuals of all examples at once"),
            ("regularization", method.evidence, "it estimates the noise from all residuals at once"),
            ("steps_per_batch", steps_per_batch > 1, "a batch is one part of what a step is solved with"),
        ):
            if is_set:
                raise ValueError(f"memory={self.given!r} goes without {name}: {why}. Received: both memory and {name}")
        return method._replace(solver=CholeskySolver())

    def check(self, variables: Sequence[Variable], solver: Any, gram_dtype: Any, memory_budget: Any) -> None:
        """Refuse variables that have constraints, if batches are summed up, or are too many to be remembered.

        Args:
            variables: list of the variables that are trained.
            solver: the `Solver` asked for; `"auto"` has a budget.
            gram_dtype: "float64", or None.
            memory_budget: of the optimizer.

        Raises:
            ValueError: naming the variable, or the memory.
        """
        if not self.is_asked_for:
            return
        if self.sums:
            refuse_constraints(variables, REMEMBERED_WITHOUT_CONSTRAINTS)
        parameters, taken = _size_of(variables, gram_dtype)
        budget = _budget_of(solver, memory_budget)
        if isinstance(solver, AutoSolver) and taken > budget:
            raise ValueError(
                f"The sums of JᵀJ would take {bytes_in_words(taken)} of memory, for {parameters:,} parameters, more "
                f"than the {bytes_in_words(budget)} of the memory budget. Train fewer weights, or "
                "mini-batches without memory; solver='cholesky' takes what it needs. "
                f"Received: variables of {parameters:,} elements in all"
            )

    def made(
        self,
        add: Callable,
        add_late: Callable,
        variables: Sequence[Variable],
        method: Method,
        state: Any,
        steps_per_batch: int,
        share: Callable | None = None,
    ) -> tuple:
        """Return a `SummedBatches` and a `Memory`, one of which is None, or both.

        Args:
            add: function from a name, a shape and a dtype to a new variable of the optimizer.
            add_late: the same, for variables that are made while the first batch is traced.
            variables: list of the variables that are trained.
            method: a `Method` of `method`.
            state: the `StateVariables` of the optimizer.
            steps_per_batch: as the optimizer was given it.
            share: function that returns by what steps with Kronecker factors are scaled, or None.
        """
        remembers = self.given == AUTO and steps_per_batch == 1 and _can_remember(variables, method)
        if share is not None and not remembers:
            raise ValueError(WITHOUT_SCHEDULE + f"Received: learning_rate and memory={self.given!r} with other options")
        taken: list[int] = []
        add, add_late = (partial(_counting, taken, each) for each in (add, add_late))
        summing: SummedBatches | None = None
        memory: Memory | None = None
        decay = self.given if isinstance(self.given, float) else None
        dtype, size = tf.as_dtype(method.gram_dtype or as_tf_variable(variables[0]).dtype), Columns(variables).total

        def choose() -> BatchMemory:
            if decay is not None or size <= MOST_WITH_GRAM:
                return FadingModel(add_late, size, dtype, decay)
            return RowModel(add_late, Columns(variables), dtype, WINDOW)

        if self.sums:
            summing = SummedBatches(add, variables, method, state, self.given)
        elif remembers or decay is not None:
            memory = Memory(add, size, dtype, add_late, choose, _wants_factors, share)
            memory.data_stream = data_stream
        found = summing or memory
        if found is not None:
            found.taken = taken
        return summing, memory


def plan_with(memory: Any, solver: Solver, sizes: ProblemSizes, batch_size: int | None = None) -> Plan:
    """Return the `Plan` of steps on batches that stream: with Kronecker factors if these are kept, else of a `Solver`.

    Args:
        memory: a `Memory`, a `SummedBatches`, or None.
        solver, sizes, batch_size: see `plan_of`.
    """
    given = sizes if batch_size is None else sizes.with_examples(batch_size)
    plan = memory.plan(given) if isinstance(memory, Memory) else None
    if memory is None or memory.keeps_nothing or memory.model is None:
        return plan_of(solver, sizes, batch_size)
    kept = f"remembered of earlier batches: {memory.model.what}, {bytes_in_words(sum(memory.taken))}"
    return plan or plan_of(solver, sizes, batch_size, (kept,))


def _counting(taken: list[int], add: Callable, name: str, shape: Sequence[int], dtype: Any) -> Any:
    """Return a new variable, `add(name, shape, dtype)`, and add the bytes that it takes to a list."""
    taken.append(math.prod(shape) * tf.as_dtype(dtype).size)
    return add(name, shape, dtype)


def _can_remember(variables: Sequence[Variable], method: Method) -> bool:
    """Return whether steps of a `Method` can take in what is remembered of earlier batches, at a fair cost."""
    exact = isinstance(method.solver, (AutoSolver, CholeskySolver)) and not method.evidence
    plain = method.acceleration is None or isinstance(method.acceleration, AutoAcceleration)
    most = np.inf if isinstance(method.solver, AutoSolver) else MOST_WITH_GRAM
    return exact and plain and Columns(variables).total <= most


def _wants_factors(objective: Any, method: Method) -> bool:
    """Return whether Kronecker factors are to be kept of an `Objective`, where it has them."""
    objective = objective.inner if isinstance(objective, ObjectiveInUnits) else objective
    if not isinstance(method.solver, AutoSolver) or type(objective) not in (LocalObjective, ReplicatedObjective):
        return False
    total, outputs = objective.columns.total, _outputs_of(objective)
    if not isinstance(method.scaling, IdentityScaling):
        return False
    if objective.half is not None or total <= min(SMALL, SMALL_MIXED):
        return objective.half is not None
    of_classes = outputs > 1 and any(term.of_shares for term in objective.terms)
    if of_classes or objective.examples_mix():
        return True
    return total > SMALL and not (outputs <= MOST_OUTPUTS and objective.multiplies_often())


def _outputs_of(objective: Any) -> float:
    """Return how many residuals an example has; infinity where the graph leaves it open."""
    sizes = [tensor.shape[1:].num_elements() for tensor, _ in objective.rows]
    return np.inf if None in sizes else sum(sizes) / objective.num_parts


def _budget_of(solver: Any, memory_budget: Any) -> float:
    """Return how many bytes the matrix of a solver may take."""
    return getattr(solver, "memory_budget", None) or bytes_of(memory_budget)


def _size_of(variables: Sequence[Variable], gram_dtype: Any) -> tuple[int, int]:
    """Return the number of weights, and how many bytes JᵀJ and what is remembered of it take."""
    parameters, dtype = Columns(variables).total, tf.as_dtype(gram_dtype or as_tf_variable(variables[0]).dtype)
    return parameters, 2 * dtype.size * parameters**2


class SummedBatches:
    """Windows of batches, and how long they are.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        variables: list of the variables that are trained.
        method: a `Method` of `MemoryOptions.method`.
        state: the `StateVariables` of the optimizer.
        batches: how many batches a window has, or "epoch".
    """

    keeps_nothing = False
    taken: list[int]

    def __init__(self, add: Callable, variables: Sequence[Variable], method: Method, state: Any, batches: Any) -> None:
        self._by_epoch, self._told = batches == EPOCH, False
        dtype = as_tf_variable(variables[0]).dtype
        length = 0 if self._by_epoch else batches
        self.model = self._windows = Windows(add, Columns(variables), dtype, method, state, length)

    def take(self, loss: Any, variables: Sequence[Variable], verify: bool | None) -> tuple:
        """Take a batch, as `Windows.take` does.

        Raises:
            ValueError: with "epoch", if it is unknown how many batches an epoch has.
        """
        if self._by_epoch and not self._told:
            raise ValueError(_UNTOLD + "Received: a batch of an epoch of unknown length")
        return self._windows.take(loss, variables, verify)

    def begin_epoch(self, steps: int | None) -> None:
        """With "epoch", begin a window of so many batches, of which a callback tells; None where it does not know."""
        if not self._by_epoch:
            return
        if not steps:
            raise ValueError(
                "memory='epoch' needs to know how many batches an epoch has: pass steps_per_epoch to fit, or "
                "data.apply(tf.data.experimental.assert_cardinality(...)), or the number itself as memory. "
                "Received: a fit that does not know how long an epoch is"
            )
        if self._windows.sums.batches:
            self._windows.forget()
        self._windows.set_length(steps)
        self._told = True

    def end_fit(self) -> None:
        """Say, at the end of a `fit`, if no callback told of its epochs, and forget what does not fill a window."""
        if not self._by_epoch:
            return
        if not self._told:
            received = f"Received: windows of {self._windows.length} batches, {self._windows.sums.batches} left over"
            warn(
                "tfjac: windows were those of an earlier fit, each step judged rightly on the batches of its window. "
                f"{_UNTOLD}{received}",
            )
        self._windows.forget()
        self._told = False


_UNTOLD = (
    "memory='epoch' is told of epochs by a callback: pass callbacks=[tfjac.callbacks.StepMonitor()] to fit, or "
    "Convergence(), or the number of batches itself as memory. "
)
