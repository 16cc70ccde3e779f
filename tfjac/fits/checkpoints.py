"""Files from which a minimisation goes on as if it had never stopped."""

import contextlib
import hashlib
import os
import time
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.types import Array, Path

EVERY = 10.0
"""Seconds between two savings."""


class Checkpoint:
    """A file with all that a run needs to go on, bit for bit.

    It belongs to one problem: to residuals, data, variables and a damping. Those must be the same again, or else an
    error says what is not; options that only say when to stop may differ. A run that converged stays so.

    A path that cannot be written to is refused before the first step. Where that fails later, on a disk that has become
    full, there is a warning, the run goes on, and the file is the one before.

    Args:
        path: of the file; written as a whole or not at all.
        equations: list of the arrays of equations between parameters. What follows from them takes a factorisation,
            whose bits need not come out the same on another machine.
    """

    def __init__(self, path: Path, equations: Sequence[Array] = ()) -> None:
        self.path, self._saved, self._equations = os.fspath(path), time.monotonic(), equations

    def save(self, run: Any, overdue: bool) -> None:
        """Write the file if it is `overdue`, or if the last time is long past."""
        now = time.monotonic()
        if not overdue and now - self._saved < EVERY:
            return
        self._saved = now
        try:
            self._write(run)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(self._part)
            warn(
                "tfjac: The checkpoint could not be written; the minimisation goes on without, and the file, if there "
                f"is one, is that of earlier steps. Received: checkpoint={self.path!r}, step {run.steps} ({error})",
            )

    @property
    def _part(self) -> str:
        return f"{self.path}.part"

    def _write(self, run: Any) -> None:
        arrays = [np.asarray(each) for each in tf.nest.flatten((run.invariants, run.progress))]
        named = {f"state_{k}": array for k, array in enumerate(arrays)}
        named |= {f"value_{k}": np.asarray(value) for k, value in enumerate(tf.nest.flatten(run.x))}
        rows = np.reshape(run.rows, [-1, 7])
        with open(self._part, "wb") as file:
            np.savez(file, rows=rows, problem=_problem(run, self._equations), **named)
        os.replace(self._part, self.path)

    def restore(self, run: Any) -> None:
        """Take `run` to where the file says it was; leave it at its start where there is no file.

        Raises:
            ValueError: where the file is of another problem, or is no checkpoint.
            OSError: where no file can be written there.
        """
        self._check_writable()
        if not os.path.exists(self.path):
            return
        saved = self._read()
        if str(saved["problem"]) != _problem(run, self._equations):
            raise ValueError(
                "The checkpoint is of another problem: its data, variables or options differ. Give each problem a "
                f"file of its own, or delete it. Received: checkpoint={self.path!r}"
            )
        now = (run.invariants, run.progress)
        arrays = [saved[f"state_{k}"] for k in range(len(tf.nest.flatten(now)))]
        values = [saved[f"value_{k}"] for k in range(len(tf.nest.flatten(run.variables)))]
        invariants, progress = tf.nest.pack_sequence_as(now, [array[()] for array in arrays])
        run.resume(invariants, progress, values, saved["rows"])

    def _check_writable(self) -> None:
        try:
            if os.path.isdir(self.path) or not os.path.basename(self.path):
                raise IsADirectoryError("it is a directory, or has no name")
            with open(self._part, "wb"):
                pass
            os.remove(self._part)
        except OSError as error:
            raise type(error)(
                "checkpoint must be the path of a file that can be written, in a directory that exists. "
                f"Received: checkpoint={self.path!r} ({error})"
            ) from None

    def _read(self) -> dict[str, Array]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                saved = dict(file)
            saved["problem"]
        except (ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(
                "The file is no checkpoint of tfjac, or not all of one. Delete it, or give another path. "
                f"Received: checkpoint={self.path!r} ({error})"
            ) from None
        return saved


def _problem(run: Any, equations: Sequence[Array]) -> str:
    """Return a hash of what must be the same again."""
    digest = hashlib.sha256()
    conditions = tf.nest.flatten(run.conditions._replace(equality=()))
    for tensor in [*run.data, *conditions, *equations, run.invariants.number]:
        array = np.asarray(tensor)
        digest.update(repr((array.dtype.str if array.dtype != object else "object", array.shape)).encode())
        digest.update(b"".join(array.ravel()) if array.dtype == object else np.ascontiguousarray(array).tobytes())
    shapes = [tuple(np.shape(each)) for each in tf.nest.flatten((run.invariants, run.progress, run.x))]
    digest.update(repr((run.invariants.unit.dtype.name, shapes)).encode())
    return digest.hexdigest()
