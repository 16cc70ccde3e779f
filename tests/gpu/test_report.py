"""The one command for a machine with a GPU, with parts that end in every way."""

import sys

import pytest

from benchmarks.gpu_ops import told
from tests.gpu import machine, report
from tests.gpu.report import PARTS, Part, main, run


def part(name, program, seconds=20, missing="", commands=1):
    words = [(sys.executable, "-c", program)] * commands
    return Part(name, seconds, lambda out: words, lambda facts: missing, report.whole)


GOOD = part("good", "print('a figure')")
SKIPPED = part("skipped", "1 / 0", missing="no GPU")
FACTS = part("machine", "print('GPU: none')")


def test_limits_keep_within_the_ten_minutes_that_a_call_may_take(tmp_path):
    assert sum(each.seconds * len(each.commands(tmp_path)) for each in PARTS) < 600
    names = {f"{each.name}.log" for each in PARTS} | {"summary.txt", "gpu_ops.json"}
    assert len(names) <= 8


def test_skipped_is_no_failure(tmp_path, capsys):
    assert run([FACTS, GOOD, SKIPPED], tmp_path) == 0
    said = capsys.readouterr().out
    assert "good        done in" in said and "---- good\na figure" in said
    assert "skipped     skipped (no GPU)" in said and "2 done, 0 failed, 1 skipped of 3 parts" in said
    assert (tmp_path / "summary.txt").read_text() in said


@pytest.mark.parametrize(
    ("program", "seconds", "why"),
    [
        ("print('before'); raise SystemExit(3)", 20, "exit status 3"),
        ("import os; print('before', flush=True); os.kill(os.getpid(), 11)", 20, "killed by SIGSEGV"),
        ("import time; print('before', flush=True); time.sleep(60)", 2, "killed after 2 s, its limit"),
    ],
)
def test_a_part_that_fails_is_named_and_the_others_run(program, seconds, why, tmp_path):
    assert run([part("bad", program, seconds), GOOD], tmp_path) == 1
    summary = (tmp_path / "summary.txt").read_text()
    assert "bad         failed in" in summary and why in summary
    assert "---- bad\nbefore" in summary and "---- good\na figure" in summary


def test_one_command_of_several_fails(tmp_path):
    program = f"import pathlib; ran = pathlib.Path({str(tmp_path)!r}, 'ran'); there = ran.exists(); ran.touch()"
    program += "; raise SystemExit(0 if there else 4)"
    assert run([part("twice", program, commands=2)], tmp_path / "out") == 1
    assert (tmp_path / "out" / "summary.txt").read_text().count("exit status 4") == 1


def test_what_is_done_is_not_run_again(tmp_path, capsys):
    runs = tmp_path / "runs"
    counting = part("counting", f"open({str(runs)!r}, 'a').write('x')")
    run([FACTS, counting, SKIPPED], tmp_path / "out")
    assert run([counting, part("skipped", "print('now it can')")], tmp_path / "out") == 0
    assert runs.read_text() == "x"
    summary = (tmp_path / "out" / "summary.txt").read_text()
    assert ", earlier: --again runs it again" in summary and "now it can" in summary
    run([counting], tmp_path / "out", again=True)
    assert runs.read_text() == "xx"


def test_what_has_failed_or_was_cut_off_is_run_again(tmp_path):
    (tmp_path / "good.log").write_text("half a li")
    (tmp_path / "bad.log").write_text("\n== bad: failed in 3 s (exit status 1)\n")
    assert run([GOOD, part("bad", "print('now it can')")], tmp_path) == 0
    assert "now it can" in (tmp_path / "summary.txt").read_text()


def test_reasons():
    here = {"arrays on the GPU": "torch, a GPU", "nvcc": "/bin/nvcc, 13", "torch": "2.11", "compute-sanitizer": "none"}
    reasons = {each.name: each.missing(here) for each in PARTS}
    assert not any(reasons[name] for name in ("machine", "build", "tests", "benchmarks"))
    assert reasons["checkers"] == "compute-sanitizer was not found"
    given = {"library given (TFJAC_CUDA_LIBRARY)": "/some/library.so", "arrays on the GPU": "torch, a GPU"}
    assert report.no_gpu(given) == "" and "nvcc" in report.no_nvcc(given)
    nothing = {"arrays on the GPU": "none (torch is not installed)"}
    assert report.no_gpu(nothing) == "no GPU: torch is not installed"
    assert report.no_gpu(nothing | {"GPU": "NVIDIA H100, 9.0", "nvcc": "/bin/nvcc, 13"}) == ""
    for each in PARTS[2:]:
        assert each.missing(nothing), each.name


def test_facts_are_read_back(capsys):
    machine.main()
    assert machine.read(capsys.readouterr().out) == machine.facts()


def test_one_part_alone(tmp_path, capsys):
    assert main([str(tmp_path), "--only", "machine"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"machine.log", "summary.txt"}
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--only", "nonsense"])
    assert "'nonsense'" in capsys.readouterr().err


LOG = """...F [100%]
FAILED tests/gpu/test_factors.py::test_gram[gpu-float32-mlp-own] - AssertionError
SKIPPED [4] tests/gpu/conftest.py:90: there is no nvcc
1 failed, 3 passed, 4 skipped in 12.34s
========= Invalid __global__ read of size 4 bytes
========= ERROR SUMMARY: 1 error
== killed by SIGSEGV in tests/gpu/test_factors.py::test_rows; the rest in another process
"""


def test_key_figures(tmp_path):
    assert report.lines_of_pytest(LOG, tmp_path) == [
        "FAILED tests/gpu/test_factors.py::test_gram[gpu-float32-mlp-own] - AssertionError",
        "1 failed, 3 passed, 4 skipped in 12.34s",
        "killed by SIGSEGV in tests/gpu/test_factors.py::test_rows; the rest in another process",
    ]
    assert report.lines_of_checkers(LOG, tmp_path)[1] == "========= ERROR SUMMARY: 1 error"


def test_parts_run_where_the_machine_does_not_answer(tmp_path):
    """Whether there is a GPU is not known then, and skipping all would look as if there were none."""
    silent = part("machine", "import time; print('GPU: none', flush=True); time.sleep(60)", 1)
    assert run([silent, part("tests", "print('run')", missing="no GPU")], tmp_path) == 1
    assert "---- tests\nrun" in (tmp_path / "summary.txt").read_text()


def test_another_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "PARTS", (part("slow", "import time; time.sleep(60)"),))
    assert main([str(tmp_path), "--limit", "1"]) == 1
    assert "killed after 1 s" in (tmp_path / "summary.txt").read_text()


def test_key_figures_of_the_benchmark(tmp_path):
    right = {"name": "rows", "dtype": "float32", "aim": 1.3, "reference": "a copy", "relative error": 1e-8}
    right |= {"seconds": 1e-3, "ratios": {"reference": 1.2}, "reached": True}
    lines = [told(right), told(right | {"error": "WRONG: relative error 1.0"}), "rates: 3e+12 bytes per second, copy"]
    lines += ["2 of 2 questions asked, 1 failed or wrong, 1 aims reached"]
    log = "\n".join(["tfjac: building gpu/a.o", *lines, "written to somewhere"])
    assert report.lines_of_benchmarks(log, tmp_path) == lines
