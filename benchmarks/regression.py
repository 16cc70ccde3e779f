"""Trainings on real tables: the loss that is reached, and in what time, beside torch-levenberg-marquardt and SciPy.

python -m benchmarks.regression                       # all tables and splits: minutes
python -m benchmarks.regression --table yacht concrete --steps 50
python -m benchmarks.regression --alone               # tfjac alone; the numbers of the others stay as they were

A perceptron with two hidden layers of 20 tanh is fitted to the training part of each split of four UCI tables, in
float64, from the same start by everybody, with at most so many Jacobians. Reported are the mean squared error that was
reached, of targets with variance one, and the seconds: the median of three trainings taken in turn, of one by SciPy,
which takes ten times as long. Nothing is tuned: defaults, but for torch's solver, which is Cholesky's. Steps are bent
as `tfjac.fit` bends them, as all examples are one batch; straight ones, as the others take them, are listed, too.

The results of 100 steps are kept in `benchmarks/results/regression.json`, table by table, with the load of the
machine if it was noted: seconds of one load do not compare with those of another.
"""

import argparse
import json
import os
import pathlib
import statistics

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from scipy.optimize import least_squares

from benchmarks import models, report, torch_peers
from benchmarks.harness import measure
from benchmarks.least_squares import tfjac_steps
from benchmarks.scipy_peer import FlatModel
from tfjac.optimizers import AutoAcceleration

ROOT = pathlib.Path(__file__).parent
TABLES = {
    "yacht": ROOT.parent / "examples" / "data" / "yacht",
    "energy": ROOT / "data" / "energy",
    "concrete": ROOT / "data" / "concrete",
    "airfoil": ROOT / "data" / "airfoil",
}
SPLITS = (0, 1, 2)
STEPS = 100
KEPT = report.RESULTS / "regression.json"


def training_part(table: str, split: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return features `[rows, features]` and target `[rows, 1]`, standardised; a split is nine tenths of the rows."""
    folder = TABLES[table]
    data = np.loadtxt(folder / "data.txt")
    if (folder / f"index_train_{split}.txt").exists():
        rows = np.loadtxt(folder / f"index_train_{split}.txt", dtype=int)
    else:
        rows = np.random.default_rng(split).permutation(len(data))[: len(data) * 9 // 10]
    data = data[rows]
    data = (data - data.mean(axis=0)) / data.std(axis=0)
    return tf.constant(data[:, :-1]), tf.constant(data[:, -1:])


class Fit:
    """One table and split; its methods make functions that train from one start and return the loss reached."""

    def __init__(self, table: str, split: int, steps: int):
        self._x, self._y = training_part(table, split)
        self._steps = steps
        self._model = models.mlp((self._x.shape[1], 20, 20, 1), "float64")
        self._flat = FlatModel(self._model, self._x, self._y)

    def tfjac(self, acceleration):
        """`tfjac.LevenbergMarquardt`, full batches, the loop in the graph."""
        steps = tfjac_steps(self._model, self._x, self._y, self._steps, acceleration=acceleration)

        def train():
            steps()
            return float(tf.reduce_mean(tf.square(self._model(self._x) - self._y)))

        return train

    def torch(self):
        """torch-levenberg-marquardt."""
        return torch_peers.levenberg_marquardt(self._model, self._x, self._y, self._steps)

    def scipy(self, method: str):
        """`scipy.optimize.least_squares` with residuals and Jacobian by TensorFlow."""
        flat, limits = self._flat, dict.fromkeys(("ftol", "xtol", "gtol"), 1e-15)  # the least that it takes

        def train():
            result = least_squares(
                flat.residuals, flat.start, flat.jacobian, method=method, max_nfev=self._steps, **limits
            )
            return 2 * float(result.cost) / len(self._y)

        return train


def compare(table: str, split: int, steps: int, alone: bool) -> dict:
    """Return {candidate: {"loss": …, "seconds": …, "load": …}}."""
    fit = Fit(table, split, steps)
    in_turn = {"tfjac": fit.tfjac(AutoAcceleration()), "tfjac, straight": fit.tfjac(None)}
    if alone:
        return _timed(in_turn, rounds=3)
    if torch_peers.HAS_TORCH_LEVENBERG_MARQUARDT:
        in_turn["torch-levenberg-marquardt"] = fit.torch()
    once = {f"SciPy {method}": fit.scipy(method) for method in ("trf", "lm")}
    return _timed(in_turn, rounds=3) | _timed(once, rounds=1)


def _timed(candidates: dict, rounds: int) -> dict:
    losses = {}

    def noted(name, train):
        def run():
            losses[name] = train()

        return run

    timings = measure({name: noted(name, train) for name, train in candidates.items()}, rounds)
    return {
        name: {"loss": losses[name], "seconds": statistics.median(timing.samples), "load": os.getloadavg()[0]}
        for name, timing in timings.items()
        if timing.error is None
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table", nargs="+", choices=TABLES, default=list(TABLES), help="only these")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"Jacobians at most (default {STEPS})")
    parser.add_argument("--alone", action="store_true", help="tfjac alone")
    arguments = parser.parse_args()
    runs = json.loads(KEPT.read_text())["runs"] if KEPT.exists() else {}
    for table in arguments.table:
        for split in SPLITS:
            found = compare(table, split, arguments.steps, arguments.alone)
            runs.setdefault(f"{table}, split {split}", {}).update(found)
            print(f"{table}, split {split}:", flush=True)
            for name, numbers in found.items():
                print(f"    {name:28s} loss {numbers['loss']:.3e}   {numbers['seconds']:7.2f} s", flush=True)
            if arguments.steps == STEPS:
                KEPT.write_text(json.dumps({"steps": STEPS, "runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
