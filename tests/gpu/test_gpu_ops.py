"""The benchmark of the launchers: what is wrong is never timed as right, and every question can be asked."""

import contextlib
import dataclasses
import json

import numpy as np
import pytest

from benchmarks import gpu_ops
from benchmarks.gpu_harness import relative_error
from benchmarks.gpu_questions import QUESTIONS, Question, Task, remaining_operations
from tests.gpu.problems import Problem


class Bench:
    """A bench without a GPU, on arrays of NumPy; ours takes 3 s, everything else 2 s, and half of it with TF32."""

    largest = 10
    name = "a made-up GPU"
    times_count = True

    def __init__(self):
        self.allowed, self.breaks, self.rates = False, False, {}
        self.torch = type("torch", (), {"__version__": "0", "cuda": type("cuda", (), {"empty_cache": lambda: None})})

    def wait(self):
        if self.breaks:
            raise RuntimeError("an illegal memory access was encountered")

    def on_stream(self):
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def tf32(self, allowed):
        self.allowed = allowed
        yield
        self.allowed = False

    def compare(self, candidates, with_tf32=()):
        assert set(with_tf32) < set(candidates)
        return {name: {"seconds": 3 if name == "ours" else 1 if name in with_tf32 else 2} for name in candidates}


def question(write, expected=(1.0, 2.0), aim=2.0, **options):
    """Make a question whose launcher writes these numbers."""

    def ask(bench, dtype, size):
        result = np.full(2, np.nan, dtype)

        def ours():
            result[:] = write

        reference = options.pop("reference", lambda: np.array(expected, dtype) * (1 + 1e-3 * bench.allowed))
        return Task(ours, (result,), lambda: (np.array(expected),), reference, **options)

    return Question("made up", aim, "PyTorch", ask, (3,))


@pytest.mark.parametrize("write", [(1.0, 2.1), (1.0, np.nan), (1.0, np.inf), (np.nan, np.nan)])
def test_what_is_wrong_is_not_timed(write):
    line = gpu_ops.answer(Bench(), question(write), np.float32)
    assert "WRONG" in line["error"] and "seconds" not in line and "reached" not in line
    assert "WRONG" in gpu_ops.told(line)


def test_pytorch_is_timed_with_and_without_tf32():
    line = gpu_ops.answer(Bench(), question((1.0, 2.0)), np.float32)
    assert line["ratios"] == {"reference": 1.5, "reference with TF32": 3.0} and line["reached"]
    assert line["relative error of the reference"] == 0
    assert line["relative error of the reference with TF32"] == pytest.approx(1e-3, rel=1e-3)
    assert "ratio 1.50, aim 2.00 reached" in gpu_ops.told(line)
    line = gpu_ops.answer(Bench(), question((1.0, 2.0), aim=1.0), np.float64)
    assert line["ratios"] == {"reference": 1.5} and "MISSED" in gpu_ops.told(line)


def test_what_a_gpu_allows_is_in_seconds():
    asked = question(
        (1.0, 2.0), reference=lambda tf32: 0.5 if tf32 else 4, is_floor=True, also={"bmm": lambda: pytest.fail("timed")}
    )
    line = gpu_ops.answer(Bench(), asked, np.float32)
    assert line["ratios"] == {"reference": 0.75, "reference with TF32": 6, "bmm": 1.5, "bmm with TF32": 3}


def test_relative_error():
    assert relative_error(np.array([1.0, -4.0]), np.array([1.0, -4.4])) == pytest.approx(0.4 / 4.4)
    assert np.isnan(relative_error(np.array([1.0, np.nan]), np.array([1.0, 2.0])))
    assert relative_error(np.zeros(2), np.zeros(2)) == 0


def test_record_is_kept_question_by_question(tmp_path, monkeypatch, capsys):
    """One that breaks the GPU's context is named, and what has been asked is not asked again."""
    good, bad = question((1.0, 2.0)), question((1.0, 2.0))
    bench, record = Bench(), tmp_path / "record.json"

    def breaking(bench, dtype, size):
        bench.breaks = True
        raise RuntimeError("broken here")

    bad = dataclasses.replace(bad, name="breaks", ask=breaking)
    monkeypatch.setattr(gpu_ops, "QUESTIONS", (bad, good))
    gpu_ops.ask(record, "", bench)
    assert [line["name"] for line in json.loads(record.read_text())["questions"]] == ["breaks"]
    gpu_ops.ask(record, "", Bench())
    gpu_ops.ask(record, "", Bench())
    lines = json.loads(record.read_text())["questions"]
    assert [(line["name"], "error" in line) for line in lines] == [("breaks", True)] * 2 + [("made up", False)] * 2
    assert "broken here" in lines[0]["error"] and "the GPU's context is broken" in capsys.readouterr().out


def test_kept_results_are_named_after_device_and_date(tmp_path, capsys, monkeypatch):
    record = tmp_path / "gpu_ops.json"
    lines = [{"reached": True}, {"error": "WRONG"}]
    record.write_text(json.dumps({"device": "NVIDIA H100 80GB", "date": "2026-11-26", "questions": lines}))
    assert gpu_ops.conclude(record, lines, 2, False) == 1 and record.exists()
    monkeypatch.setattr(gpu_ops, "RESULTS", tmp_path)
    assert gpu_ops.conclude(record, lines, 2, False) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["gpu_ops-nvidia-h100-80gb-2026-11-26.json"]
    assert "2 of 2 questions asked, 1 failed or wrong, 1 aims reached" in capsys.readouterr().out


def test_operations_that_both_symmetries_leave():
    problem = Problem(np.random.default_rng(0), 10, 1, [(1, 1, 4, 3, "gio"), (1, 1, 3, 1, "gio")])
    own = [10 * 12 * 13, 10 * 4 * 5 * 3 * 4 / 2], [10 * 3 * 4, 10 * 3 * 4 * 2 / 2]
    assert remaining_operations(problem) == sum(map(min, own)) + 2 * 10 * 12 * 3


def test_no_two_questions_have_one_name():
    assert len({each.name for each in QUESTIONS}) == len(QUESTIONS) >= 20


def test_every_question_can_be_asked(tmp_path, capfd):
    """Emulated, with small sizes."""
    pytest.importorskip("torch", reason="PyTorch is what the results are compared with")
    assert gpu_ops.main(["--rehearse", "--out", str(tmp_path)]) == 0, capfd.readouterr().out
    lines = json.loads((tmp_path / "gpu_ops.json").read_text())["questions"]
    assert len(lines) == 2 * len(QUESTIONS) and not [line for line in lines if "error" in line]
