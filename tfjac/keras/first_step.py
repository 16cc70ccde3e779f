"""What `fit` shows while its first step is made: one line, and how long that took."""

import functools
import inspect
import sys
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import keras

from tfjac.types import Logs

TRACING = "tracing the step, once"
_FIT = inspect.unwrap(keras.Model.fit).__code__


def tells_of_first(trace: Callable) -> Callable:
    """Decorate the method that traces a step: the first one in a `fit` that shows epochs has a line on stdout.

    Keras tells an optimizer neither of `verbose` nor of callbacks. Both are found in its call of `fit`, on the stack.

    Args:
        trace: method of an optimizer.
    """
    told: weakref.WeakSet[Any] = weakref.WeakSet()

    @functools.wraps(trace)
    def traced(optimizer: Any, *args: Any) -> Any:
        callbacks = None if optimizer in told else _callbacks_of_shown_fit()
        if callbacks is None:
            return trace(optimizer, *args)
        told.add(optimizer)
        line = _Line()
        try:
            result = trace(optimizer, *args)
        except BaseException:
            line.end()
            raise
        callbacks.insert(0, line)  # before the progress bar, which writes on the same line
        return result

    return traced


def _callbacks_of_shown_fit() -> list | None:
    """Return the callbacks of the call of Keras' `fit` that is under way; None if there is none, or it is silent."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _FIT:
        frame = frame.f_back
    of_fit = {} if frame is None else frame.f_locals
    if not of_fit.get("verbose") or not keras.config.is_interactive_logging_enabled():
        return None
    return getattr(of_fit.get("callbacks"), "callbacks", None)


class _Line(keras.callbacks.Callback):
    """The line: it begins when this is made, and ends with the time that the first call of the step took."""

    def __init__(self) -> None:
        super().__init__()
        self._began: float | None = time.monotonic()
        _write(f"tfjac: {TRACING} ... ")

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """End the line, after the first call."""
        if self._began is not None:
            self.end(f"{time.monotonic() - self._began:.1f} s")

    def end(self, text: str = "") -> None:
        """End the line by this text."""
        self._began = None
        _write(f"{text}\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
