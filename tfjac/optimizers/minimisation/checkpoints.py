"""Files from which a minimisation goes on as if it had never stopped."""

import hashlib
import os
import time

import numpy as np
import tensorflow as tf

EVERY = 10.0
"""Seconds between two savings."""


class Checkpoint:
    """A file with all that a run needs to go on, bit for bit.

    It belongs to one problem: to residuals, data, variables and a damping. Those must be the same again, or else an
    error says what is not; options that only say when to stop may differ. A run that converged stays so.

    Args:
        path: of the file; written as a whole or not at all.
    """

    def __init__(self, path):
        self.path, self._saved = os.fspath(path), time.monotonic()

    def save(self, run, overdue):
        """Write the file if it is `overdue`, or if the last time is long past."""
        now = time.monotonic()
        if not overdue and now - self._saved < EVERY:
            return
        arrays = [np.asarray(each) for each in tf.nest.flatten((run.setting, run.progress))]
        named = {f"state_{k}": array for k, array in enumerate(arrays)}
        named |= {f"value_{k}": np.asarray(value) for k, value in enumerate(tf.nest.flatten(run.x))}
        rows = np.concatenate(run.rows) if run.rows else np.zeros([0, 7])
        with open(f"{self.path}.part", "wb") as file:
            np.savez(file, rows=rows, problem=_problem(run), **named)
        os.replace(f"{self.path}.part", self.path)
        self._saved = now

    def restore(self, run):
        """Take `run` to where the file says it was; leave it at its start where there is no file.

        Raises:
            ValueError: where the file is of another problem.
        """
        if not os.path.exists(self.path):
            return
        with np.load(self.path) as file:
            if str(file["problem"]) != _problem(run):
                raise ValueError(
                    "The checkpoint is of another problem: its data, variables or options differ. Give each problem a "
                    f"file of its own, or delete it. Received: checkpoint={self.path!r}"
                )
            now = (run.setting, run.progress)
            arrays = [file[f"state_{k}"] for k in range(len(tf.nest.flatten(now)))]
            values = [file[f"value_{k}"] for k in range(len(tf.nest.flatten(run.variables)))]
            setting, progress = tf.nest.pack_sequence_as(now, [tf.constant(array) for array in arrays])
            run.resume(setting, progress, values, file["rows"])


def _problem(run):
    """Return a hash of what must be the same again."""
    digest = hashlib.sha256()
    for tensor in [*run.data, *tf.nest.flatten(run.conditions)]:
        array = np.asarray(tensor)
        digest.update(repr((array.dtype.str if array.dtype != object else "object", array.shape)).encode())
        digest.update(b"".join(array.ravel()) if array.dtype == object else np.ascontiguousarray(array).tobytes())
    shapes = [(each.dtype.name, tuple(each.shape)) for each in tf.nest.flatten((run.setting, run.progress))]
    digest.update(repr((shapes, [np.shape(value) for value in tf.nest.flatten(run.x)])).encode())
    return digest.hexdigest()
