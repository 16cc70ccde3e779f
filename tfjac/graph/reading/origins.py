"""Where an op comes from: the layer that made it, which call of that layer, and the line of the program.

Keras opens a scope of names for each call of a layer, and TensorFlow numbers the scopes of one name. As Keras opens one
for the building of a layer before the first, a scope of a call always ends in a number: `functional_1/dense_3/MatMul`
belongs to the second call of the layer `dense` in the model `functional`.
"""

import itertools
import linecache
import os
import pathlib
import re
import sysconfig
import traceback
import typing
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from tfjac.graph import _private

_NUMBERED = re.compile(r"[a-z].*_\d+")
"""What names of layers look like in scopes; those of ops, `Cast_1/ReadVariableOp`, begin with a capital."""

_CONTROL_FLOW = re.compile(r"(while|cond|case|switch_case|indexed_case|grad_ys)(_grad)?(_\d+)?")
_GRADIENTS = re.compile(r"(gradients|gradient_tape)(_\d+)?")


class SourceLine(typing.NamedTuple):
    """A line of a program.

    Attributes:
        file: its file.
        line: its number.
        function: the function that it stands in.
        text: the line itself, "" where the file cannot be read.
    """

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def layer_path(op: tf.Operation) -> str:
    """Return the path of the layer that made `op`, such as "functional/dense"; "" where there is none.

    The scopes of `tf.name_scope` around a layer are part of it, and stand for it where there is no layer; those of
    loops and branches are not. An op of a gradient belongs to the layer whose gradient it is.
    """
    scopes, count = _scopes(op)
    return "/".join([re.sub(r"_\d+$", "", scope) for scope in scopes[:count]] + scopes[count:])


def layer_scope(op: tf.Operation) -> str:
    """Return `layer_path` with the numbers that tell the calls of one layer apart, such as "functional_1/dense_3"."""
    return "/".join(_scopes(op)[0])


def layer_calls(ops: Iterable[tf.Operation]) -> dict[str, int]:
    """Return a dict from each `layer_scope` among `ops` to the number of that call of the layer, from 0."""
    calls: dict[str, set[str]] = {}
    for op in ops:
        calls.setdefault(layer_path(op), set()).add(layer_scope(op))
    return {scope: number for scopes in calls.values() for number, scope in enumerate(sorted(scopes, key=_numbers))}


def _numbers(scope: str) -> list[int]:
    """The numbers at the ends of the names in a scope, which grow from call to call."""
    return [int(number) for number in re.findall(r"_(\d+)(?=/|$)", scope)]


def source_line(op: tf.Operation) -> "SourceLine | None":
    """Return the `SourceLine` of the user's program that made `op`: the innermost outside TensorFlow, Keras and tfjac.

    That of an op of a gradient is the line of the op that was differentiated. None where it is not known, as in a
    loaded SavedModel, and in the loop that takes a gradient back through another.
    """
    forward = _private.differentiated_op(op)
    if forward is None and is_of_gradient(op):
        return None
    op = forward or _private.mapped_op(op)
    for frame in reversed(op.traceback or ()):
        if not frame.filename.startswith(_LIBRARIES) and os.path.isabs(frame.filename) and not _generated(frame):
            text = linecache.getline(frame.filename, frame.lineno).strip()
            return SourceLine(frame.filename, frame.lineno, frame.name, text)
    return None


def line_of_failure(failure: BaseException) -> "SourceLine | None":
    """Return the `SourceLine` of the user's program at which an exception was raised, the innermost; None if unknown.

    Where AutoGraph has converted the function, that is the line which the user wrote.
    """
    metadata = getattr(failure, "ag_error_metadata", None)
    if metadata is not None:
        frames = [(each.filename, each.lineno, each.function_name) for each in metadata.translated_stack]
    else:
        frames = [(each.filename, each.lineno, each.name) for each in traceback.extract_tb(failure.__traceback__)][::-1]
    for file, line, function in frames:
        if not file.startswith(_LIBRARIES) and os.path.isabs(file):
            return SourceLine(file, line, function, linecache.getline(file, line).strip())
    return None


def _generated(frame: Any) -> bool:
    """Whether a frame is of a file that AutoGraph wrote: the line of the user's that it stands for is another frame."""
    return os.path.basename(frame.filename).startswith("__autograph_generated_file")


def is_of_gradient(op: tf.Operation) -> bool:
    """Return whether `op` was made by a gradient that was taken: of a tape, or of `tf.gradients`."""
    return _private.differentiated_op(op) is not None or any(map(_GRADIENTS.fullmatch, op.name.split("/")))


def _scopes(op: tf.Operation) -> tuple:
    """The names of the scopes that the layer path of `op` is made of, and how many lead to the innermost layer."""
    op = _private.differentiated_op(op) or _private.mapped_op(op)
    scopes = [scope for scope in op.name.split("/")[:-1] if not _CONTROL_FLOW.fullmatch(scope)]
    begins = [index + 1 for index, scope in enumerate(scopes) if _GRADIENTS.fullmatch(scope)]
    if begins:
        scopes = list(itertools.takewhile(lambda scope: not scope.endswith("_grad"), scopes[begins[-1] :]))
    layers = None if begins else _layers_called(op)
    numbered = [index for index, scope in enumerate(scopes) if _NUMBERED.fullmatch(scope)][:layers]
    count = numbered[-1] + 1 if numbered else 0
    return (scopes if layers == 0 else scopes[:count]), count


def _layers_called(op: tf.Operation) -> int | None:
    """How many calls of layers were under way when `op` was made, None where not known.

    In a loop, branch, or copy, that is how many layers its name tells of; in a function of its own, it may be fewer.
    """
    if not op.traceback or len(op.traceback) == 1:  # a single line says that it is not known, see `copy_traceback`
        return None
    return sum(frame.name == "__call__" and frame.filename.endswith(_LAYER) for frame in op.traceback)


_LAYER = os.path.join("layers", "layer.py")
_LIBRARIES = tuple(
    os.path.join(folder, "")
    for folder in (
        *(os.path.dirname(module.__file__) for module in (tf, keras)),
        str(pathlib.Path(__file__).parents[2]),
        os.path.join(sysconfig.get_paths()["purelib"], "wrapt"),
    )
)
