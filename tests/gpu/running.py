"""Processes with a limit of time, and what their ends mean."""

import contextlib
import os
import signal
import subprocess


def how_it_ended(returncode: int) -> str:
    """Say how a process failed; empty where it did not. A negative code is the signal that has ended it."""
    if returncode >= 0:
        return f"exit status {returncode}" if returncode else ""
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def run_limited(command, seconds: float, **options) -> str:
    """Run a process, and end it with all that it has started once its time is over.

    Args:
        command: the words of it.
        seconds: how long it may take.
        options: those of `subprocess.Popen`.

    Returns:
        How it failed, empty where it did not.
    """
    try:
        process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, **options)
    except OSError as error:
        return f"not started: {error}"
    try:
        return how_it_ended(process.wait(seconds))
    except subprocess.TimeoutExpired:
        return f"killed after {seconds:g} s, its limit"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
