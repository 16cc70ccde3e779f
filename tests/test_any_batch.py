"""Benchmarks of plain `fit` load their data, keep to the budget, and judge what was reached; no time is asserted."""

import itertools
import json
import types

import keras
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks import any_batch, equal_time, everyday, regret, tables
from benchmarks.equal_time import ADAMS, Curve, figures, train
from benchmarks.tables import Split, kinematics, split


@pytest.mark.parametrize(
    ("table", "rows", "features"),
    [("yacht", 246, 6), ("airfoil", 1202, 5), ("abalone", 3341, 10), ("kinematics", 6553, 8)],
)
def test_tables_are_split_and_standardised_by_the_training_part(table, rows, features):
    data = split(table, 0)
    assert data.x.shape == (rows, features) and data.y.shape == (rows, 1) and data.classes == 0
    assert rows + len(data.x_test) == len(tables.load(table)[0])
    np.testing.assert_allclose([*data.x.mean(axis=0), data.y.mean()], 0, atol=1e-4)
    np.testing.assert_allclose([*data.x.std(axis=0), data.y.std()], 1, rtol=1e-4)
    assert not np.array_equal(data.x, split(table, 1).x)


def test_targets_as_they_are_have_losses_in_shares_of_their_variance():
    data, standard = split("airfoil, targets as they are", 0), split("airfoil", 0)
    np.testing.assert_array_equal(data.x, standard.x)
    assert data.y.mean() > 100 and data.variance == pytest.approx(data.y.var(), rel=1e-5)
    for one, other in zip(figures(data, data.y * 0, data.y_test * 0)[:2], (data.y, data.y_test)):
        assert one == pytest.approx(np.mean(other**2) / data.y.var(), rel=1e-5)
    key = "airfoil, targets as they are, 32, small, 0"
    assert list(any_batch.grouped({key: {}, "yacht, 32, small, 1": {}})) == [
        ("yacht", "32", "small"), ("airfoil, targets as they are", "32", "small"),
    ]  # fmt: skip


def test_classes_of_scikit_learn():
    pytest.importorskip("sklearn")
    digits, cancer = split("digits", 0), split("breast cancer", 0)
    assert digits.x.shape == (1437, 64) and set(digits.y) == set(range(10)) and np.isfinite(digits.x).all()
    assert cancer.x.shape == (455, 30) and set(cancer.y) == {0, 1}


def test_the_arm_is_a_chain_of_rotations():
    angles, distances = kinematics(rows=5, noise=0.0)
    for row, distance in zip(angles, distances):
        frame, hand = Rotation.identity(), np.zeros(3)
        for joint, angle in enumerate(row):
            frame = frame * Rotation.from_euler("z", angle)
            hand = hand + frame.apply([(0.1, 0.2, 0.3)[joint % 3], 0, 0])
            frame = frame * Rotation.from_euler("x", np.pi / 2)
        assert distance == pytest.approx(np.linalg.norm(hand - 0.1))


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_figures_are_those_of_keras(classes):
    generator = np.random.default_rng(0)
    outputs = generator.normal(size=(7, classes if classes > 2 else 1))
    y = generator.integers(classes, size=7) if classes else generator.normal(size=(7, 1))
    loss = {
        0: keras.losses.MeanSquaredError(),
        2: keras.losses.BinaryCrossentropy(from_logits=True),
        3: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    }[classes]
    training, test, errors = figures(Split(None, y, None, y, classes), outputs, outputs)
    assert training == test == pytest.approx(float(loss(y[:, None] if classes == 2 else y, outputs)), rel=1e-5)
    highest = outputs.argmax(axis=1) if classes > 2 else outputs[:, 0] > 0
    assert errors == (pytest.approx(np.mean(highest != y)) if classes else None)


def test_a_training_ends_within_its_budget(monkeypatch):
    """Epochs of 10, 2, 2, … seconds, each with 100 s of evaluation: the first counts as 2 s, evaluation as none."""

    class Clock:
        now = 0.0

        def process_time(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(equal_time, "time", clock)
    x, y = np.ones((4, 1), "float32"), np.ones((4, 1), "float32")
    curve = Curve(Split(x, y, x, y, 0), budget=9.0)
    curve.set_model(lambda features: setattr(clock, "now", clock.now + 50) or features)
    for epoch in range(10):
        curve.on_epoch_begin(epoch)
        clock.now += 2 if epoch else 10
        curve.on_epoch_end(epoch)
        if getattr(curve.model, "stop_training", False):
            break
    assert [row[0] for row in curve.rows()] == [2, 4, 6, 8] and curve.first == 10


@pytest.mark.by_day(None)
def test_a_network_is_trained_by_plain_fit():
    data = split("yacht", 0)
    run = train("SGD", data, 64, (4,), 0, np.inf, 3)
    assert run["weights"] == 33 and len(run["curve"]) == 3 and run["step_ms"] > 0
    assert run["curve"][-1][1] < run["curve"][0][1]


def made_up(training, test, errors=None, seconds=1.0):
    """A run whose lowest test loss is not its last."""
    curve = [[1.0, 2 * training, test, errors], [2.0, training, 9.0, 1.0]]
    return {"weights": 9, "step_ms": seconds, "epochs": 2, "curve": curve}


def test_ratios_are_to_the_best_of_adam_by_geometric_means():
    rates = {name: made_up(*numbers) for name, numbers in zip(ADAMS, [(0.4, 0.5), (0.1, 0.9), (0.2, 0.7)])}
    cases = [{**rates, "tfjac": made_up(0.05, 0.5, seconds=3.0)}, {**rates, "tfjac": made_up(0.2, 0.6)}]
    found = any_batch.ratios(cases)
    assert set(found) == {"tfjac"} and found["tfjac"] == pytest.approx({"training": 1.0, "test": 1.2**0.5})
    assert any_batch.missed(cases) == "test loss"
    table = any_batch.markdown({f"yacht, 32, small, {seed}": runs for seed, runs in enumerate(cases)})
    assert "| yacht | 32 | 9 | 2 | 2 | 0.1 / 0.5 | 1.00 / 1.10 |" in table.splitlines()[-1]


def test_worse_than_the_mean_is_a_miss():
    rates = dict.fromkeys(ADAMS, made_up(3.0, 3.0))
    assert any_batch.missed([{**rates, "tfjac": made_up(2.0, 2.0)}]) == "worse than the mean"


def test_long_curves_are_thinned_but_not_of_their_best():
    curve = [[float(k), 1.0, 0.1 if k == 777 else 1.0, None] for k in range(1000)]
    thinned = any_batch._thinned(curve)
    assert len(thinned) <= 101 and curve[777] in thinned and thinned[-1] == curve[-1]


def test_kept_results_answer_what_is_asked_today():
    what = any_batch.__doc__.splitlines()[0]
    assert json.loads(any_batch.KEPT.read_text())["question"] == what
    assert what.encode() in any_batch.KEPT.with_suffix(".png").read_bytes()


WEIGHTS = {
    "friedman": 4_929, "normalised CNN": 5_322, "autoencoder": 4_744, "counts": 193, "LSTM": 5_578,
    "recommender": 4_052, "labels": 936, "concrete, Huber": 289, "rare": 961, "oscillation": 521,
}  # fmt: skip
"""Those of issue 66."""


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", [name for name, problem in everyday.PROBLEMS.items() if not problem.large])
def test_an_everyday_problem_takes_one_step(name):
    if name == "diabetes":
        pytest.importorskip("sklearn")
    run = regret.train(name, ADAMS[0], 32, 0, seconds=0)
    assert len(run["curve"]) == 2 and run["first_epoch"] is None and run["epochs"] < 1
    assert all(run["floor"] < point[1] < 1e6 and run["floor_test"] < point[2] < 1e6 for point in run["curve"])
    assert run["training"] == run["curve"][0][1]  # the step comes too late
    assert run["weights"] == WEIGHTS.get(name, run["weights"])


@pytest.mark.by_day(None)
@pytest.mark.parametrize("method", ["L-BFGS", "tfjac.fit", "default", "memory=epoch"])
def test_each_kind_of_method_learns_a_table(method, monkeypatch):
    """Each look at the clock, one a step, takes a second."""
    monkeypatch.setattr(regret, "time", types.SimpleNamespace(process_time=itertools.count().__next__))
    run = regret.train("yacht", method, 0 if method in regret.WHOLE else 64, 0, seconds=60)
    assert run["curve"][-1][1] < 0.5 * run["curve"][0][1] and run["step_ms"] > 0


def test_the_halves_of_everyday_problems_are_alike_in_number():
    halves = [sum(problem.aside == aside for problem in everyday.PROBLEMS.values()) for aside in (False, True)]
    assert sum(halves) >= 24 and abs(halves[0] - halves[1]) <= 1


def test_floors_are_losses_of_outputs_that_equal_the_targets():
    counts = np.random.default_rng(0).poisson(2.0, (50, 1)).astype("float32")
    assert everyday.poisson_of_counts(counts) == pytest.approx(float(keras.losses.Poisson()(counts, counts)), abs=1e-5)
    shares = np.random.default_rng(0).uniform(size=(20, 6)).astype("float32")
    lowest = np.mean(everyday.sum_of_cross_entropies(shares, np.log(shares / (1 - shares))))
    assert everyday.entropy_of_pixels(shares) == pytest.approx(lowest, rel=1e-5)
    assert everyday.entropy_of_pixels(np.round(shares)) == 0
    residuals, quantile = np.linspace(-1, 1, 10_001, dtype="float32")[:, None], everyday.quantile(0.9, 0.05)
    assert quantile["floor"](None) == pytest.approx(np.min(quantile["loss"](residuals, 0)), rel=1e-4)


def test_a_course_counts_the_first_epoch_and_no_looks(monkeypatch):
    """Two steps an epoch, the first of 10 s, all others of 1 s; each look at two losses takes 100 s."""

    class Clock:
        now = 0.0

        def process_time(self):
            return self.now

    class Model:
        stop_training = False

        def count_params(self):
            return 3

    clock = Clock()
    monkeypatch.setattr(regret, "time", clock)
    course = regret.Course([(np.ones(2), np.ones(2))] * 2, seconds=14.0)
    course.set_model(Model())
    course._loss = lambda x, y: setattr(clock, "now", clock.now + 50) or 1 / clock.now
    course.on_train_begin()
    for epoch in range(10):
        for step in range(2):
            clock.now += 1 if epoch + step else 10
            course.on_train_batch_end(step)
            if course.model.stop_training:
                break
        course.on_epoch_end(epoch)
        if course.model.stop_training:
            break
    course.on_train_end()
    run = course.row(steps_per_epoch=2)
    assert [point[0] for point in run["curve"]] == [0, 11, 13, 14] and run["training"] == run["curve"][-1][1]
    assert run["first_epoch"] == 11 and run["epochs"] == 2.5 and run["step_ms"] == 1000 and not run["diverged"]
    course.points.append([16, 0.0, 0.0])
    assert course.row(2)["training"] == run["training"] and course.row(2)["test"] == run["test"]
    course._loss = lambda x, y: np.nan
    course.look()
    assert course.row(2)["diverged"]


def everyday_run(method, training, test, name="pixels", **others):
    case = {"name": name, "batch": 32, "seed": 0, "method": method}
    figures = {"training": training, "test": test, "floor": 1.0, "floor_test": 2.0, "diverged": False}
    return {**case, **figures, **dict.fromkeys(("epochs", "step_ms", "first_epoch", "cpu")), **others}


def test_regret_is_measured_above_the_floor():
    runs = [
        everyday_run("default", 1.4, 2.1),
        everyday_run(ADAMS[0], 1.2, 2.2),
        everyday_run("AdamW", None, None, diverged=True),
        everyday_run("tfjac.fit", 1.1, 9.0, batch=0),
        {"name": "pixels", "method": "Muon", "batch": 32, "seed": 0, "error": "no"},
    ]
    (found,) = regret.regrets(runs).values()
    assert found["training"] == [pytest.approx(4), "tfjac.fit", pytest.approx(2)]
    assert found["test"] == [pytest.approx(1), "default", pytest.approx(0.5)]
    again = [{**run, "seed": 1} for run in runs]
    again[0]["training"] = 1.1
    assert regret.regrets(runs + again)["pixels", 32]["training"][0] == pytest.approx(2)
    learnt = [everyday_run("default", 1.0001, 2.1, "GRU"), everyday_run(ADAMS[0], 1 + 1e-9, 2.1, "GRU")]
    assert regret.regrets(learnt)["GRU", 32]["training"][0] == 1
    runs[0] |= {"diverged": True}
    assert regret.regrets(runs)["pixels", 32]["test"][0] == np.inf
    assert "| **worst** |  |  | inf |" in regret.summary(runs) and "diverged" in regret.table(runs)


def test_cases_are_those_of_one_half_and_whole_batches_come_once():
    asked = regret.parse(["--problems", "c*", "--methods", "L-BFGS", "Adam", "--batch", "32", "256"])
    found = list(regret.cases(asked))
    assert {case["name"] for case in found} == {"counts", "concrete, Huber"}
    assert [(case["method"], case["batch"]) for case in found if case["name"] == "counts"] == [
        ("L-BFGS", 0), *[(adam, 32) for adam in ADAMS], *[(adam, 256) for adam in ADAMS],
    ]  # fmt: skip
    asked = regret.parse(["--problems", "w*", "ch*", "--aside", "--large"])
    assert {case["name"] for case in regret.cases(asked)} == {"chirp", "wide digits"}
