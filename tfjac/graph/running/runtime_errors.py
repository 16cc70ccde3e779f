"""Errors of a graph that runs: what an op says stands first, and where the op was made stands after it."""

import collections
import contextlib
from collections.abc import Iterator

import tensorflow as tf

_ABOUT = ("Graph execution error", "Detected at node", "Stack trace for op definition")

_noted: collections.deque = collections.deque(maxlen=8)
"""The last exceptions of Python that ops called. TensorFlow keeps their words alone."""


@contextlib.contextmanager
def noted_errors() -> Iterator[None]:
    """Note what is raised inside, in Python that an op calls: `what_was_said_first` raises it as what it is."""
    try:
        yield
    except Exception as error:
        _noted.append(error)
        raise


@contextlib.contextmanager
def what_was_said_first() -> Iterator[None]:
    """Raise an error of TensorFlow's with what the op says in front of the long list of calls that the op comes from.

    What `noted_errors` saw is raised itself.
    """
    _noted.clear()
    try:
        yield
    except tf.errors.OpError as error:
        raised = next((each for each in _noted if f"{type(each).__name__}: {each}" in error.message), None)
        if raised is not None:
            raise raised from raised.__cause__
        said = _said_first(error.message)
        if said == error.message:
            raise
        raise type(error)(error.node_def, error.op, said).with_traceback(error.__traceback__) from None


def _said_first(message: str) -> str:
    """Return a message with the part before what the op says moved to its end."""
    lines = message.split("\n")
    is_about = [not line.strip() or line[0].isspace() or line.startswith(_ABOUT) for line in lines]
    if False not in is_about:
        return message
    first = is_about.index(False)
    about = "\n".join(lines[:first]).strip()
    said = "\n".join(lines[first:])
    return f"{said}\n\n{about}" if about else said
