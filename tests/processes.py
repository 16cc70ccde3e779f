"""Python code in a process of its own."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def run(code: str, *arguments, **environment: str) -> str:
    """Run Python code in a fresh interpreter and give what it prints.

    Args:
        code: the program.
        arguments: its `sys.argv[1:]`.
        environment: variables that differ from this process's.
    """
    finished = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout
