"""What a script takes in memory, run in a process of its own."""

import json
import pathlib
import re
import subprocess
import sys


def peak_megabytes() -> float:
    """Most memory this process has held so far.

    Not getrusage's `ru_maxrss`: that one is inherited from the process that started this one, whatever it had grown to.
    """
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text()).group(1)) / 1024


def run_alone(script: str, *arguments: str):
    """Runs `script` in a fresh interpreter; its last line, read as JSON."""
    command = [sys.executable, "-c", script, *arguments]
    root = pathlib.Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout.splitlines()[-1])
