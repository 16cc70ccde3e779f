"""`gram_batches` and `gram_decay` in the Keras optimizer: what goes with them, and which batches an epoch has."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import positive, positive_integer
from tfjac.graph import as_tf_variable
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.execution.streamed.recursion import Memory
from tfjac.optimizers.execution.streamed.windows import Windows
from tfjac.optimizers.keras.arguments import STREAMED_WITHOUT_CONSTRAINTS, refuse_constraints
from tfjac.optimizers.loop.acceleration import AutoAcceleration
from tfjac.optimizers.solvers import AutoSolver, CholeskySolver

EPOCH = "epoch"


class GramOptions(NamedTuple):
    """What was asked for.

    Attributes:
        batches: None, "epoch", or a number of batches.
        decay: None, or a number between 0 and 1.
    """

    batches: Any
    decay: Any

    @classmethod
    def of(cls, batches, decay):
        """Check the options; raise ValueError for bad ones, and for both."""
        if batches is not None and decay is not None:
            raise ValueError(
                "gram_batches takes a step on several batches, gram_decay one on each: leave one of them out. "
                f"Received: gram_batches={batches!r} and gram_decay={decay!r}"
            )
        if isinstance(batches, str) and batches != EPOCH:
            raise ValueError(
                f"gram_batches must be a number of batches, or 'epoch' for all of an epoch. Received: {batches!r}"
            )
        if batches is not None and batches != EPOCH:
            batches = positive_integer("gram_batches", batches)
        return cls(batches, None if decay is None else positive("gram_decay", decay, below=1))

    def __bool__(self):
        """Return whether either is set."""
        return self != (None, None)

    def method(self, method, steps_per_batch):
        """Return a `Method` that solves with a sum of JᵀJ; refuse what needs more of the examples than that.

        Args:
            method: the `Method` asked for.
            steps_per_batch: as the optimizer was given it.

        Raises:
            ValueError: naming what does not go together.
        """
        if not self:
            return method
        option = "gram_decay" if self.batches is None else "gram_batches"
        if not isinstance(method.solver, (AutoSolver, CholeskySolver)):
            raise ValueError(
                f"{option} keeps of the batches that were the sum of JᵀJ, which only solver='cholesky' works with. "
                f"Received: {option} and solver={method.solver.name!r}"
            )
        if isinstance(method.acceleration, AutoAcceleration):
            method = method._replace(acceleration=None)
        for name, is_set, why in (
            ("acceleration", method.acceleration is not None, "it needs the residuals of all examples at once"),
            ("regularization", method.evidence, "it estimates the noise from all residuals at once"),
            ("steps_per_batch", steps_per_batch > 1, "a batch is one part of what a step is solved with"),
        ):
            if is_set:
                raise ValueError(f"{option} goes without {name}: {why}. Received: both {option} and {name}")
        return method._replace(solver=CholeskySolver())

    def check(self, variables, solver, gram_dtype):
        """Refuse variables that have constraints, or are too many.

        Args:
            variables: list of the variables that are trained.
            solver: the `Solver` asked for; `"auto"` has a budget.
            gram_dtype: "float64", or None.

        Raises:
            ValueError: naming the variable, or the memory.
        """
        if not self:
            return
        refuse_constraints(variables, STREAMED_WITHOUT_CONSTRAINTS)
        parameters, dtype = Columns(variables).total, tf.as_dtype(gram_dtype or as_tf_variable(variables[0]).dtype)
        taken = 2 * dtype.size * parameters**2
        if isinstance(solver, AutoSolver) and taken > solver.memory_budget:
            raise ValueError(
                f"The sums of JᵀJ would take {taken / 2**30:,.1f} GB of memory, for {parameters:,} parameters, more "
                f"than the {solver.memory_budget / 2**30:,.1f} GB of the solver's budget. Train fewer weights, or "
                "mini-batches without sums; solver='cholesky' takes what it needs. "
                f"Received: variables of {parameters:,} elements in all"
            )

    def made(self, add, variables, method, state):
        """Return a `GramBatches` and a `Memory`, one of which is None, or both.

        Args:
            add: function from a name, a shape and a dtype to a new variable of the optimizer.
            variables: list of the variables that are trained.
            method: a `Method` of `method`.
            state: the `StateVariables` of the optimizer.
        """
        batches = None if self.batches is None else GramBatches(add, variables, method, state, self.batches)
        if self.decay is None:
            return batches, None
        dtype = tf.as_dtype(method.gram_dtype or as_tf_variable(variables[0]).dtype)
        return batches, Memory(add, Columns(variables).total, dtype, self.decay)


class GramBatches:
    """Windows of batches, and how long they are.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        variables: list of the variables that are trained.
        method: a `Method` of `GramOptions.method`.
        state: the `StateVariables` of the optimizer.
        batches: how many batches a window has, or "epoch".
    """

    def __init__(self, add, variables, method, state, batches):
        self._by_epoch, self._told = batches == EPOCH, False
        dtype = as_tf_variable(variables[0]).dtype
        length = 0 if self._by_epoch else batches
        self._windows = Windows(add, Columns(variables), dtype, method, state, length)

    def take(self, loss, variables, verify):
        """Take a batch, as `Windows.take` does.

        Raises:
            ValueError: with "epoch", where nobody has said how many batches an epoch has.
        """
        if self._by_epoch and not self._told:
            raise ValueError(_UNTOLD + "Received: a batch of an epoch of unknown length")
        return self._windows.take(loss, variables, verify)

    def begin_epoch(self, steps):
        """With "epoch", begin a window of so many batches, of which a callback tells; None where it does not know."""
        if not self._by_epoch:
            return
        if not steps:
            raise ValueError(
                "gram_batches='epoch' needs to know how many batches an epoch has: pass steps_per_epoch to fit, or "
                "data.apply(tf.data.experimental.assert_cardinality(...)), or the number itself as gram_batches. "
                "Received: a fit that does not know how long an epoch is"
            )
        if self._windows.sums.batches:
            self._windows.forget()
        self._windows.set_length(steps)
        self._told = True

    def end_fit(self):
        """Say, at the end of a `fit`, if nobody told of its epochs, and forget what does not fill a window."""
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
    "gram_batches='epoch' is told of epochs by a callback: pass callbacks=[tfjac.callbacks.StepMonitor()] to fit, or "
    "Convergence(), or the number of batches itself as gram_batches. "
)
