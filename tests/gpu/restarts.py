"""The tests on a GPU in as many processes as it takes.

What a kernel does wrong may break the GPU's context, in which no later test can pass, or end the process. Then the
tests that have not begun run in another process: a file lists those that have.
"""

import pathlib
import subprocess
import sys
import tempfile

from build_tools.settings import ROOT
from tests.gpu.running import how_it_ended

_FINISHED = "all have begun"
_NO_TESTS = how_it_ended(5)
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-ra", "--tb=short", "-p", "no:cacheprovider")
_TESTS = ("--confcutdir=tests/gpu", "tests/gpu", "--require-gpu", "--gpu-alone")


def run_tests(options=(), prefix=(), environment=None, tests=_TESTS) -> str:
    """Run the tests on the GPU.

    Args:
        options: more of pytest's.
        prefix: a command to run pytest with.
        environment: the variables, unless those of this process.
        tests: where they are, and which.

    Returns:
        How it failed, empty where all passed.
    """
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        begun = pathlib.Path(folder) / "begun"
        begun.touch()
        while True:
            before = begun.read_text().splitlines()
            command = (*prefix, *_PYTEST, *tests, *options, "--begun", str(begun))
            failures.append(how_it_ended(subprocess.run(command, cwd=ROOT, env=environment).returncode))
            after = begun.read_text().splitlines()
            if _FINISHED in after or after == before:
                break
            print(f"== {failures[-1] or 'ended'} in {after[-1]}; the rest in another process", flush=True)
    if len(failures) > 1 and failures[-1] == _NO_TESTS:  # the last test was the one that ended the process before
        failures.pop()
    found = list(dict.fromkeys(filter(None, failures)))
    if _FINISHED not in after:
        found.append("not all tests have begun")
    return ", ".join(found)


def not_begun(items, begun):
    """Give the tests that are not listed in the file."""
    listed = set(pathlib.Path(begun).read_text().splitlines())
    return [item for item in items if item.nodeid not in listed]


def begin(item, begun):
    """List the test as begun."""
    _append(begun, item.nodeid)


def finish(begun):
    """List that there is none left to begin."""
    _append(begun, _FINISHED)


def stop_if_broken(session, arrays):
    """Let the session begin no more tests if the GPU answers this process no more."""
    try:
        arrays.wait()
    except Exception as error:  # each package has its own
        session.shouldstop = f"the GPU's context is broken: {error}".splitlines()[0]


def _append(begun, line):
    with open(begun, "a") as file:
        print(line, file=file)


if __name__ == "__main__":
    failure = run_tests(sys.argv[1:])
    sys.exit(f"== {failure}" if failure else 0)
