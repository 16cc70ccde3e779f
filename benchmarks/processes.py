"""Trainings in processes of their own, whose memory and devices are theirs alone."""

import json
import subprocess
import sys


def trained_alone(module, **case):
    """Return what `python -m benchmarks.MODULE --train` prints last of a case, a dict; or the case and its `error`.

    Args:
        module: name of the benchmark.
        **case: names and values of what `--train` is given, in its order.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", "--train", *map(str, case.values())]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {**case, "error": (done.stderr or "killed").strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def fastest(rows, seconds):
    """Return the row with the least number under the name `seconds`; one that failed, where one did."""
    return next((row for row in rows if "error" in row), None) or min(rows, key=lambda row: row[seconds])
