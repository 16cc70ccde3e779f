"""Warnings that are shown at a line of the user's program, not at one of tfjac, Keras or TensorFlow."""

import sys
import warnings

_LIBRARIES = {"tfjac", "keras", "tensorflow", "tf_keras", *sys.stdlib_module_names}
_BY_AUTOGRAPH = "__autograph_generated_file"
"""Part of the names of the files that AutoGraph writes for functions of the program."""


def warn(message: str, category: type[Warning] = UserWarning, place: tuple | None = None) -> None:
    """Warn at the innermost line on the stack that is the program's, or at the caller's if there is none.

    Or at a place, if one was kept: a graph that runs has no line of the program on its stack.
    """
    place = place or place_in_program()
    if place is None:
        return warnings.warn(message, category, stacklevel=2)
    warnings.warn_explicit(message, category, *place)


def place_in_program() -> tuple | None:
    """Return file, line, module and registry of warnings of the innermost line on the stack that is the program's."""
    frame = sys._getframe(1)
    while frame is not None and _is_of_a_library(frame):
        frame = frame.f_back
    if frame is None:
        return None
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    return frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__"), registry


def _is_of_a_library(frame):
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package in _LIBRARIES or _BY_AUTOGRAPH in frame.f_code.co_filename
