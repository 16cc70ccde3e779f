"""What is remembered of graphs: what was derived from residuals traced before."""

import collections
import threading
import weakref

from tfjac.graph import as_tf_variable


class TraceCache:
    """What was made of residuals traced before, for residuals that come out the same; the oldest go first.

    The user's function is called each time, and only where its graph is the same one again is anything used again. So
    nothing here can be out of date: what the function reads of Python is in its graph, and data are no part of it.

    Args:
        size: how many to keep; None for all.
    """

    def __init__(self, size=8):
        self._size, self._kept, self._lock = size, collections.OrderedDict(), threading.Lock()

    def get(self, residuals, variables, options, make):
        """Return what `make()` returned for the same residuals, variables and options; call it if it is to be.

        Args:
            residuals: `TracedResiduals`.
            variables: list of the variables, which are not kept alive: what was made goes with them.
            options: hashable; None where what is made depends on more than can be compared, and is not kept.
            make: callable without arguments; what it returns refers to no variable.
        """
        if options is None or any(getattr(variable, "constraint", None) is not None for variable in variables):
            return make()
        owners = [as_tf_variable(variable) for variable in variables]
        key = (residuals.fingerprint(), *(id(owner) for owner in owners), options)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        made = make()
        with self._lock:
            self._kept[key] = made, residuals, [weakref.ref(owner, self._forget(key)) for owner in owners]
            while self._size is not None and len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return made

    def _forget(self, key):
        """Return the callback that drops the entry of `key`; it may come at any time, with the lock held."""
        kept = self._kept
        return lambda _: kept.pop(key, None)
