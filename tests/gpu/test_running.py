"""Processes that are killed, take too long, or break what is behind them: each is a failure, and said to be one."""

import os
import signal
import subprocess
import sys
import time

import pytest

from build_tools.settings import ROOT
from tests.gpu.restarts import run_tests
from tests.gpu.running import how_it_ended, run_limited
from tests.gpu.sanitize import check_on_gpu


def test_how_a_process_ended():
    said = [how_it_ended(code) for code in (0, 3, -signal.SIGSEGV, -signal.SIGKILL, -signal.SIGRTMIN - 1)]
    assert said == [
        "",
        "exit status 3",
        "killed by SIGSEGV",
        "killed by SIGKILL",
        f"killed by signal {signal.SIGRTMIN + 1}",
    ]


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        ("true", ""),
        ("exit 4", "exit status 4"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("sleep 60", "killed after 0.5 s, its limit"),
    ],
)
def test_a_process_with_a_limit(words, failure):
    assert run_limited(["sh", "-c", words], 0.5) == failure
    assert run_limited(["no such command"], 0.5).startswith("not started: ")


def test_what_it_has_started_ends_with_it(tmp_path):
    child = tmp_path / "child"
    run_limited(["sh", "-c", f"sleep 60 & echo $! > {child}; wait"], 0.5)
    for _ in range(100):
        if not is_running(int(child.read_text())):
            break
        time.sleep(0.05)
    assert not is_running(int(child.read_text()))


def is_running(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


CHECKER = """#!/bin/sh
case " $* " in *" $1 $2 "*) tool=$2;; esac
case $tool in
  memcheck) kill -KILL $$;;
  racecheck) exit 3;;
esac
for begun in "$@"; do :; done  # the last argument
echo "all have begun" >> "$begun"
"""


def test_a_checker_that_a_signal_has_killed_has_not_passed(tmp_path, capsys):
    """Also beside others that end well: -9 is less than 0."""
    checker = tmp_path / "compute-sanitizer"
    checker.write_text(CHECKER)
    checker.chmod(0o755)
    assert check_on_gpu(["memcheck", "synccheck"], str(checker)) == 1
    assert check_on_gpu(["racecheck"], str(checker)) == 1
    assert check_on_gpu(["synccheck"], str(checker)) == 0
    said = capsys.readouterr().out
    assert "== memcheck: killed by SIGKILL, not all tests have begun" in said
    assert "== racecheck: exit status 3" in said and "== synccheck: nothing found" in said


TESTS = """
import os, pathlib, pytest
LOG = pathlib.Path(__file__).with_name("log")

class Broken:
    def wait(self):
        raise RuntimeError("an illegal memory access was encountered")

@pytest.mark.parametrize("k", range(6))
def test_number(k, request):
    with open(LOG, "a") as log:
        print(k, file=log)
    if k == 1:
        os.kill(os.getpid(), 9)
    if k == 3:
        restarts.stop_if_broken(request.session, Broken())
    assert k != KILLER
"""


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    ("wrong", "failure"),
    [(3, "killed by SIGKILL, exit status 2"), (5, "killed by SIGKILL, exit status 2, exit status 1")],
)
def test_tests_go_on_in_another_process(wrong, failure, tmp_path, capfd):
    """After one that a signal ends, and after one that breaks the GPU's context."""
    (tmp_path / "conftest.py").write_text(
        "from tests.gpu.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_runtest_setup\n"
        "from tests.gpu.conftest import pytest_sessionfinish\n"
    )
    (tmp_path / "test_it.py").write_text("from tests.gpu import restarts\n" + TESTS.replace("KILLER", str(wrong)))
    place = (f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}", str(tmp_path))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert run_tests(environment=environment, tests=("-c", os.devnull, "-p", "no:xdist", *place)) == failure
    assert (tmp_path / "log").read_text().split() == list("012345")
    assert "the GPU's context is broken: an illegal memory access was encountered" in capfd.readouterr().out


@pytest.mark.by_day(None)
def test_the_gpus_tests_need_no_compiler_for_the_host():
    """Without a GPU they are skipped for that, and not because nothing can be emulated."""
    command = [sys.executable, "-m", "pytest", "-rs", "--confcutdir=tests/gpu", "tests/gpu/test_example_grams.py"]
    given = os.environ | {"CXX": "no-such-compiler"}
    said = subprocess.run([*command, "--gpu-alone"], cwd=ROOT, capture_output=True, text=True, env=given)
    assert said.returncode == 0 and "emulated" not in said.stdout, said.stdout


@pytest.mark.by_day(None)
def test_tests_on_the_gpu_alone():
    """Without the suite's own conftest, and whatever the folder is called."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "--confcutdir=tests/gpu",
        "tests/gpu",
        "--gpu-alone",
    ]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    tests = [line for line in said.stdout.splitlines() if "::" in line]
    assert len(tests) > 100 and all("[gpu-" in test for test in tests), said.stdout
