"""What is remembered of graphs: what was derived from residuals traced before."""

import collections
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import tensorflow as tf

from tfjac.graph import as_tf_variable, unrecorded, what_was_said_first
from tfjac.objective.tracing.constants import Constants
from tfjac.types import Residuals, Variable


@contextlib.contextmanager
def as_one_call() -> Iterator[None]:
    """Run a graph of this package as one call: no tape records it, and of an error what was said stands first."""
    with what_was_said_first(), unrecorded():
        yield


class Fingerprinted(Protocol):
    """Traced residuals: those that come out the same have the same fingerprint."""

    def fingerprint(self) -> tuple:
        """Return what is the same for them, hashable."""


class TraceCache:
    """What was made of residuals traced before, for residuals that come out the same; the oldest go first.

    Either the user's function is called, and what was made is used again where its graph is the same one: what the
    function reads of Python is in its graph, and data are no part of it. Or all that it reads is known to be the same
    by its `Constants`; then it need not be called. So nothing here can be out of date.

    Args:
        size: how many to keep; None for all.
    """

    def __init__(self, size: int = 8) -> None:
        self._size, self._lock = size, threading.Lock()
        self._kept: collections.OrderedDict[Any, Any] = collections.OrderedDict()

    def get(self, residuals: Fingerprinted, variables: Sequence[Variable], options: Any, make: Callable) -> Any:
        """Return what `make()` returned for the same residuals, variables and options; call it if it is to be.

        Args:
            residuals: `TracedResiduals`.
            variables: list of the variables, which are not kept alive: what was made goes with them.
            options: hashable; None where what is made depends on more than can be compared, and is not kept.
            make: callable without arguments; what it returns refers to no variable.
        """
        if options is None or _may_change(variables):
            return make()
        owners = [as_tf_variable(variable) for variable in variables]
        return self._get((residuals.fingerprint(), *map(id, owners), options), owners, residuals, make)

    def get_by_constants(self, function: Residuals, variables: Sequence[Variable], options: Any, make: Callable) -> Any:
        """Return the same for a function that computes by the same `Constants` as an earlier one, without calling it.

        Args:
            function: callable. Variables that it reads are not kept alive.
            variables, options, make: as of `get`.
        """
        if options is None or _may_change(variables):
            return make()
        about = Constants(function)
        if about.form is None:
            return make()
        owners = [as_tf_variable(variable) for variable in variables]
        others = [each for each in about.held if isinstance(each, tf.Variable)]
        held = [each for each in about.held if not isinstance(each, tf.Variable)]
        return self._get((about.form, *map(id, owners), options), [*owners, *others], held, make)

    def _get(self, key: Any, owners: list, held: Any, make: Callable) -> Any:
        """Return what is kept for `key`, or make it, and keep it with `held` for as long as the owners live."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        made = make()
        with self._lock:
            self._kept[key] = made, held, [weakref.ref(owner, self._forget(key)) for owner in owners]
            while self._size is not None and len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return made

    def _forget(self, key: Any) -> Callable:
        """Return the callback that drops the entry of `key`; it may come at any time, with the lock held."""
        kept = self._kept
        return lambda _: kept.pop(key, None)


def _may_change(variables: Sequence[Variable]) -> bool:
    """Return whether what is made for these variables may depend on more than can be compared."""
    return any(getattr(variable, "constraint", None) is not None for variable in variables)
