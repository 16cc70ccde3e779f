"""Warnings that are shown at a line of the user's program, not at one of tfjac, Keras or TensorFlow."""

import sys
import warnings

_LIBRARIES = {"tfjac", "keras", "tensorflow", "tf_keras", *sys.stdlib_module_names}
_BY_AUTOGRAPH = "__autograph_generated_file"
"""Part of the names of the files that AutoGraph writes for functions of the program."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line on the stack that is the program's, or at the caller's if there is none."""
    frame = sys._getframe(1)
    while frame is not None and _is_of_a_library(frame):
        frame = frame.f_back
    if frame is None:
        return warnings.warn(message, category, stacklevel=2)
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name, file = frame.f_globals.get("__name__"), frame.f_code.co_filename
    warnings.warn_explicit(message, category, file, frame.f_lineno, name, registry)


def _is_of_a_library(frame):
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package in _LIBRARIES or _BY_AUTOGRAPH in frame.f_code.co_filename
