"""What a script takes in memory, run in a process of its own."""

import json
import pathlib
import re

from tests.processes import run


def peak_megabytes() -> float:
    """Most memory this process has held so far.

    Not getrusage's `ru_maxrss`: that one is inherited from the process that started this one, whatever it had grown to.
    """
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text()).group(1)) / 1024


def run_alone(script: str, *arguments: str):
    """Run `script` in a fresh interpreter, and give its last line, read as JSON."""
    return json.loads(run(script, *arguments).splitlines()[-1])
