"""`gram_batches` and `gram_decay` in the Keras optimizer: what goes with them, and which batches an epoch has."""

import warnings
import weakref
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.arguments import positive, positive_integer
from tfjac.graph import as_tf_variable
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.execution.streamed.recursion import Memory
from tfjac.optimizers.execution.streamed.windows import Windows
from tfjac.optimizers.keras.arguments import STREAMED_WITHOUT_CONSTRAINTS, refuse_constraints
from tfjac.optimizers.keras.fitting import callbacks_of_fit
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
        for name, is_set, why in (
            ("acceleration", method.acceleration is not None, "it takes second derivatives of all residuals at once"),
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
        self._by_epoch, self._fit = batches == EPOCH, None
        dtype = as_tf_variable(variables[0]).dtype
        length = 0 if self._by_epoch else batches
        self._windows = Windows(add, Columns(variables), dtype, method, state, length)

    def take(self, loss, variables, verify):
        """Take a batch, as `Windows.take` does; with "epoch", learn first of the `fit` that is tracing it."""
        if self._by_epoch:
            self._begin_fit()
        return self._windows.take(loss, variables, verify)

    def _begin_fit(self):
        """Let a window be an epoch of the `fit` that is calling, and begin one where that is another than before.

        Raises:
            ValueError: where no `fit` is calling, or it does not know yet how many batches its epochs have.
        """
        callbacks = callbacks_of_fit()
        steps = None if callbacks is None else callbacks.params.get("steps")
        if steps is None:
            found = "no fit that is calling" if callbacks is None else "a fit that does not know how long an epoch is"
            raise ValueError(
                "gram_batches='epoch' needs to know how many batches an epoch has: pass steps_per_epoch to fit, or "
                "data.apply(tf.data.experimental.assert_cardinality(...)), or the number itself as gram_batches. "
                f"Received: {found}"
            )
        if self._fit is None or self._fit() is not callbacks:
            self._fit = weakref.ref(callbacks)
            self._windows.forget()
        self._windows.set_length(steps)

    def begin_epoch(self, steps):
        """With "epoch", begin a window of so many batches, of which a callback tells; None where it does not know."""
        if self._by_epoch and steps:
            if self._windows.sums.batches:
                self._windows.forget()
            self._windows.set_length(steps)

    def end_fit(self):
        """Say, at the end of a `fit`, where windows were not its epochs, and forget what does not fill one."""
        if not self._by_epoch:
            return
        callbacks = callbacks_of_fit()
        steps = None if callbacks is None else callbacks.params.get("steps")
        batches, length = self._windows.sums.batches, self._windows.length
        if batches or (steps and steps != length):
            warnings.warn(
                "tfjac: gram_batches='epoch' took windows that were not the epochs of this fit, as Keras says only "
                "once, when it traces, how long these are: each step was judged rightly, on the batches of its window. "
                "Compile the model again before a fit on other data, or after one that was cut short, or pass "
                "callbacks=[tfjac.callbacks.StepMonitor()], which tells of epochs. Received: "
                f"windows of {length} batches, epochs of {steps}, {batches} batches left over",
                UserWarning,
                stacklevel=3,
            )
        self._windows.forget()
        if steps:
            self._windows.set_length(steps)
