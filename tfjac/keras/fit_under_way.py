"""What a step that is traced reads of Keras' `fit`, by its locals on the stack: whether data are new, what is shown.

Keras tells an optimizer neither of its data, `verbose` nor callbacks. If they have other names, nothing is shown, and
data count as those that may come again.
"""

import functools
import inspect
import sys
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfjac.types import Logs

TRACING = "tracing the step, once"
_FIT = inspect.unwrap(keras.Model.fit).__code__


def tells_of_first(trace: Callable) -> Callable:
    """Decorate the method that traces a step: the first one in a `fit` that shows epochs has a line on stdout.

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


def data_stream() -> bool:
    """Return whether a `fit` is under way of which no epoch is one batch, nor the same one again and again.

    So it is with arrays of several batches, and with a `tf.data.Dataset` of which nothing before has a single element,
    as `from_tensors(data).repeat()` has. Of a generator this is taken for granted.
    """
    of_fit = _locals_of_fit()
    epoch, data = of_fit.get("epoch_iterator"), [of_fit.get("x")]
    if epoch is None:
        return False
    with tf.init_scope():
        if 1 in (epoch.num_batches, epoch.data_adapter.num_batches):
            return False
        while data:
            each = data.pop()
            if isinstance(each, tf.data.Dataset):
                if each.cardinality() == 1:
                    return False
                data += each._inputs()
    return True


def _locals_of_fit() -> dict[str, Any]:
    """Return the local variables of the call of Keras' `fit` that is under way; none if there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _FIT:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _callbacks_of_shown_fit() -> list | None:
    """Return the callbacks of the call of Keras' `fit` that is under way; None if there is none, or it is silent."""
    of_fit = _locals_of_fit()
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
