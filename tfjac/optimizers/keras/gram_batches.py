"""`gram_batches` in the Keras optimizer: what it is combined with, what it takes, and which batches an epoch has."""

import warnings
import weakref

from tfjac.graph import as_tf_variable
from tfjac.optimizers.keras.fitting import callbacks_of_fit
from tfjac.optimizers.linearisation import Columns
from tfjac.optimizers.options import positive, positive_integer
from tfjac.optimizers.solvers import AutoSolver, CholeskySolver
from tfjac.optimizers.streaming.windows import Windows

EPOCH = "epoch"


def checked_gram_batches(value):
    """Return None, "epoch", or a number of batches; raise ValueError for anything else."""
    if value is None or value == EPOCH:
        return value
    if isinstance(value, str):
        raise ValueError(
            f"gram_batches must be a number of batches, or 'epoch' for all of an epoch. Received: {value!r}"
        )
    return positive_integer("gram_batches", value)


def checked_gram_decay(value, gram_batches):
    """Return None, or a number between 0 and 1; raise ValueError for anything else, and beside `gram_batches`."""
    if value is None:
        return None
    if gram_batches is not None:
        raise ValueError(
            "gram_batches takes a step on several batches, gram_decay one on each: leave one of them out. "
            f"Received: gram_batches={gram_batches!r} and gram_decay={value!r}"
        )
    return positive("gram_decay", value, below=1)


def summing_method(method, option, steps_per_batch):
    """Return a `Method` that solves with a sum of JᵀJ; refuse what needs more of the examples than that.

    Args:
        method: the `Method` asked for.
        option: name of the option that is the reason.
        steps_per_batch: as the optimizer was given it.

    Raises:
        ValueError: naming what does not go together.
    """
    if not isinstance(method.solver, (AutoSolver, CholeskySolver)):
        raise ValueError(
            f"{option} keeps of the batches that were the sum of JᵀJ, which only solver='cholesky' works with. "
            f"Received: {option} and solver={method.solver.name!r}"
        )
    for name, is_set, why in (
        ("acceleration", method.acceleration is not None, "it takes second derivatives of all residuals at each step"),
        ("regularization", method.evidence, "it estimates the noise from all residuals at each step"),
        ("steps_per_batch", steps_per_batch > 1, "there is one step for all batches, not several for one"),
    ):
        if is_set:
            raise ValueError(f"{option} goes without {name}: {why}. Received: both {option} and {name}")
    return method._replace(solver=CholeskySolver())


def check_memory(solver, variables, gram_dtype):
    """Raise ValueError where the matrices would be larger than what `"auto"` may take."""
    dtype, parameters = as_tf_variable(variables[0]).dtype, Columns(variables).total
    itemsize = 8 if gram_dtype else dtype.size
    taken = 2 * itemsize * parameters**2
    if isinstance(solver, AutoSolver) and taken > solver.memory_budget:
        raise ValueError(
            f"The sums of JᵀJ would take {taken / 2**30:,.1f} GB of memory, for {parameters:,} parameters, more than "
            f"the {solver.memory_budget / 2**30:,.1f} GB of the solver's budget. Train fewer weights, or mini-batches "
            "without sums; solver='cholesky' takes what it needs. Received: variables of "
            f"{parameters:,} elements in all"
        )


class GramBatches:
    """Windows of batches, and how long they are.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        variables: list of the variables that are trained.
        method: a `Method` of `summing_method`.
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
                "Compile the model again before a fit on other data, or after one that was cut short. Received: "
                f"windows of {length} batches, epochs of {steps}, {batches} batches left over",
                UserWarning,
                stacklevel=3,
            )
        self._windows.forget()
        if steps:
            self._windows.set_length(steps)
