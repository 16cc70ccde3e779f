"""Variables of an optimizer that are made while its first batch is traced, after Keras has built and loaded it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjac.types import Variable


class LateVariables:
    """They come after all others among the variables of the optimizer, and are saved and loaded with them.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        count: function that returns how many variables the optimizer has now.
    """

    def __init__(self, add: Callable, count: Any) -> None:
        self._add, self._count = add, count
        self._built: int | None = None
        self._waiting: dict[str, Any] = {}

    def begin(self, variables: Sequence[Variable]) -> None:
        """Be told that all other variables are there."""
        self._built = len(variables)

    def add(self, name: str, shape: Any, dtype: Any) -> Any:
        """Make a variable; its value is what was loaded for it, if its shape is the same, else zeros."""
        key = str(self._count())
        variable, value = self._add(name, shape, dtype), self._waiting.pop(key, None)
        if value is not None and value.shape == tuple(shape):
            variable.assign(value)
        return variable

    def save(self, store: Any) -> None:
        """Write what was loaded and is not made yet."""
        for key, value in self._waiting.items():
            store[key] = value

    def load(self, store: Any, variables: Sequence[Variable]) -> bool:
        """Load the variables that are there, keep what is left, and return whether that is all of a saved state.

        A state that was saved before the first batch has none of the late variables: they begin again with zeros.
        """
        saved = len(store.keys())
        if self._built is None or saved < self._built or saved == len(variables):
            return False
        for index, variable in enumerate(variables[:saved]):
            variable.assign(store[str(index)])
        for variable in variables[saved:]:
            variable.assign(np.zeros(variable.shape))
        self._waiting = {str(index): np.array(store[str(index)]) for index in range(len(variables), saved)}
        return True


class SavesLateVariables:
    """Saving and loading of an optimizer that has `LateVariables` as `_late`."""

    _late: LateVariables

    def save_own_variables(self, store: Any) -> None:
        """Write the state, with what was loaded for variables that are not made yet."""
        super().save_own_variables(store)  # type: ignore[misc]
        self._late.save(store)

    def load_own_variables(self, store: Any) -> None:
        """Set the state; keep that of variables which the first batch will make."""
        if not self._late.load(store, self.variables):  # type: ignore[attr-defined]
            super().load_own_variables(store)  # type: ignore[misc]
