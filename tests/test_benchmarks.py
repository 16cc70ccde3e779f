"""The benchmark harness measures, compares and reports; no time is asserted."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import forms, harness, jacobians, kfac_peer, least_squares, models, report, run
from benchmarks.curves import curves
from benchmarks.dense_tasks import Curve, Task
from benchmarks.floors import Floor, Machine
from benchmarks.harness import Timing, measure, ratio
from benchmarks.questions import Case, all_questions, disagreement, wrong_answers
from benchmarks.regression import training_part


class Clock:
    """A clock that goes on only when told to, so that what is asserted does not depend on the machine."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(harness, "time", Clock())
    return harness.time


@pytest.mark.by_day(None)
def test_measure_interleaves_and_tells_slow_from_fast(clock):
    calls = []

    def candidate(name, seconds):
        return lambda: (calls.append(name), clock.sleep(seconds))

    timings = measure({"fast": candidate("fast", 0.003), "slow": candidate("slow", 0.03)}, rounds=4)
    assert list(timings) == ["fast", "slow"]
    assert [len(timing.samples) for timing in timings.values()] == [4, 4]
    assert timings["slow"].median == pytest.approx(10 * timings["fast"].median)
    rounds = [calls[k : k + 2] for k in range(len(calls) - 8, len(calls), 2)]
    assert all(sorted(pair) == ["fast", "slow"] for pair in rounds)
    low, high = timings["slow"].spread
    assert low <= timings["slow"].median <= high


@pytest.mark.by_day(None)
def test_measure_reports_a_candidate_that_fails_and_goes_on():
    timings = measure({"good": lambda: None, "bad": lambda: 1 / 0}, rounds=3)
    assert timings["bad"].error == "ZeroDivisionError: division by zero" and not timings["bad"].samples
    assert timings["good"].error is None and len(timings["good"].samples) == 3


@pytest.mark.by_day(None)
def test_measure_times_quick_calls_several_at_a_time(clock):
    count = 0

    def quick():
        nonlocal count
        count += 1
        clock.sleep(1e-5)

    timings = measure({"quick": quick}, rounds=3)
    assert count >= 3 * harness.SHORTEST_SAMPLE / 1e-5
    assert timings["quick"].median == pytest.approx(1e-5)


def test_ratio_is_taken_within_rounds():
    """A slow phase of the machine that hits all candidates does not move the ratio."""
    assert ratio(Timing((2.0, 20.0, 2.0)), Timing((1.0, 10.0, 1.0))) == 2.0
    assert math.isnan(ratio(Timing(error="failed"), Timing((1.0,))))


def test_floor_is_the_slower_of_writing_and_computing():
    machine = Machine(memset=1e9, matmul={"float32": 1e10, "float64": 1e9})
    assert machine.seconds(Floor(bytes_written=1e9, flops=1e9)) == pytest.approx(1.0)
    assert machine.seconds(Floor(bytes_written=1e6, flops=1e9)) == pytest.approx(0.1)
    assert machine.seconds(Floor(flops=1e9, dtype="float64")) == pytest.approx(1.0)


def test_wrong_answers_are_found():
    ones = np.ones(3)
    case = Case(
        "",
        {"a": lambda: [ones], "same": lambda: [ones + 1e-6], "other": lambda: [2 * ones], "unlike": lambda: 0},
        unlike=("unlike",),
    )
    assert list(wrong_answers(case)) == ["other"]
    assert disagreement([ones], [np.ones(4)]) == float("inf")


@pytest.mark.by_day(None)
def test_report_judges_targets_and_draws(tmp_path, clock):
    case = Case(
        "two sleeps",
        {"a": lambda: clock.sleep(0.001), "b": lambda: clock.sleep(0.01)},
        Floor(flops=1e6),
        {"b": 1.0, "a": 5.0},
    )
    timings = measure(case.candidates, rounds=3)
    machine = Machine(memset=1e9, matmul={"float32": 1e10})
    entry = report.describe(case, timings, machine, {})
    assert [target["reached"] for target in entry["targets"]] == [True, False]
    assert entry["floor_seconds"] == pytest.approx(1e-4)
    saved = json.loads(report.save_json("q", {"cases": [entry]}, tmp_path).read_text())
    assert saved["cases"][0]["candidates"]["b"]["rounds"] == 3
    drawn = report.save_plot("q", "what is asked", [entry], tmp_path).read_bytes()
    assert len(drawn) > 5_000 and b"what is asked" in drawn


def test_every_question_says_what_it_asks():
    questions = all_questions()
    assert {"mlp-jacobian", "lm-step"} <= set(questions)
    assert all(run.summary(question).endswith(".") for question in questions.values())


def test_kept_results_answer_what_is_asked_today():
    for name, question in all_questions().items():
        what = run.summary(question)
        assert json.loads((report.RESULTS / f"{name}.json").read_text())["question"] == what, name
        assert what.encode() in (report.RESULTS / f"{name}.png").read_bytes(), f"{name}.png has another title"


@pytest.mark.by_day(None)
def test_quick_run(tmp_path, capsys, monkeypatch):
    """Beside one way of TensorFlow: other frameworks and packages, of which nothing is asserted, are long to load."""
    monkeypatch.setattr(jacobians, "TENSORFLOWS_WAYS", {"tape.jacobian": models.tape_jacobian})
    monkeypatch.setattr(models, "HAS_JAX", False)
    monkeypatch.setattr(least_squares, "installed", lambda package: False)
    monkeypatch.setattr(least_squares.torch_peers, "HAS_TORCH_LEVENBERG_MARQUARDT", False)
    names = ["mlp-jacobian", "lm-step"]
    assert run.main(["--quick", "--question", *names, "--output", str(tmp_path)]) == 0
    assert "tfjac" in capsys.readouterr().out
    for name in names:
        data = json.loads((tmp_path / f"{name}.json").read_text())
        assert data["environment"]["tensorflow"]
        for entry in data["cases"]:
            (tfjac, *_) = entry["candidates"].values()
            assert tfjac["error"] is None and tfjac["seconds"] > 0
            assert not any("differs_by" in row for row in entry["candidates"].values())
        assert (tmp_path / f"{name}.png").exists()


def test_forms_that_are_chosen_are_held_against_the_faster_ones(tmp_path):
    program = tmp_path / "program"
    case = {"op": "gram", "dtype": "float32", "n": 8, "m": 1, "t": 1, "widths": [3, 2], "pairs": 2e-3}
    lines = [json.dumps(case | {"chosen": chosen, "rows": 1e-3}) for chosen in (1e-3, 2e-3, 0.9e-3)]
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
    program.chmod(0o755)
    cases = forms.measured(program)
    assert [round(case["behind"], 3) for case in cases] == [2, 1, 1]
    assert forms.summary(cases) == {"gram": {"cases": 3, "missed": 1, "median": 1, "worst": 2}}
    assert "2.00 times behind" in forms.line_of(cases[0])


def test_unknown_question_is_refused(capsys):
    assert run.main(["--question", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().out


@pytest.mark.parametrize(("table", "rows", "features"), [("yacht", 277, 6), ("energy", 691, 8), ("concrete", 927, 8)])
def test_tables_are_split_as_published_and_standardised(table, rows, features):
    x, y = training_part(table, 0)
    assert x.shape == (rows, features) and y.shape == (rows, 1)
    np.testing.assert_allclose([np.std(x, axis=0).min(), np.std(y)], 1)
    assert not np.array_equal(x, training_part(table, 1)[0])


def test_curves_go_through_their_points():
    images, points = curves(20, seed=3).reshape(20, 28, 28), np.random.default_rng(3).uniform(3, 24, (20, 3, 2))
    across, down = np.rint(points).astype(int).transpose(2, 0, 1)
    assert (images[np.arange(20)[:, None], down, across] > 0.3).all()
    assert images.max() <= 1 and 0.02 < images.mean() < 0.2
    np.testing.assert_array_equal(images, curves(20, seed=3).reshape(20, 28, 28))


@pytest.mark.parametrize("classes", [False, True])
def test_loss_of_a_dense_task_is_that_of_tensorflow(classes, tmp_path):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(30, 4)).astype("float32"), np.eye(3, dtype="float32")[random.integers(0, 3, 30)]
    weights = [random.normal(size=shape).astype("float32") for shape in ((4, 5), (5,), (5, 3), (3,))]
    orders = random.permutation(30).reshape(5, 6)
    Task(x, y, weights, [1], classes, orders, 2).save(tmp_path / "task.npz")
    task = Task.load(tmp_path / "task.npz")
    outputs = tf.tanh(x @ weights[0] + weights[1]) @ weights[2] + weights[3]
    if classes:
        wanted = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, outputs))
    else:
        wanted = tf.reduce_mean(tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(y, outputs), axis=1))
    np.testing.assert_allclose(task.loss(task.weights), wanted, rtol=1e-5)
    assert [len(batch[0]) for batch in task.batches()] == [6] * 5
    curve = Curve(task, warm=1)
    for _ in range(4):
        curve.begin()
        curve.end(lambda: task.weights)
    assert [steps for steps, _ in curve.figures()["curve"]] == [0, 2, 4]


def test_line_beside_kfac_jax_counts_steps_to_a_loss():
    curve = [[0, 2.0], [10, 0.2], [50, 0.05]]
    row = {"task": "digits", "seed": 0, "method": "tfjac", "curve": curve, "seconds_per_step": 0.01, "first_steps": 3.0}
    line = kfac_peer.line_of(row)
    assert "0.05 / – / – / – / –" in line and "10 / 50 / – / –" in line and "| 10.0 | 0.5 | 3.0 |" in line
