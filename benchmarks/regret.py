"""How far the default options, in plain `fit`, are from the best of all on everyday problems, at equal CPU time.

python -m benchmarks.regret                                                  # default and Adam: half an hour
python -m benchmarks.regret --problems "oscill*" --methods all --json OUT    # runs that OUT has are not repeated
python -m benchmarks.regret --methods all --batch 32 256 --seeds 0 1 2 --seconds 30 --json OUT    # everything: a day
python -m benchmarks.regret --aside                                          # the half that is put aside

The problems are those of `benchmarks/everyday.py`. All methods start from the same weights, each run in a process of
its own with one thread. CPU time is that of the process: compilation, tracing and the first epoch count, looking at
losses does not. A run ends with the batch in which its time is spent; if that took a tenth more, the look before it
counts, the first of which is at the start. The training loss is that of at most 2,000 examples at the end, the test
loss the lowest of some fifty looks. A training loss that is not finite or above 10⁶ is "diverged", and ends a run.
`L-BFGS` (SciPy's, without dropout and batch normalisation) and `tfjac.fit` take all examples as one batch, and are held
against methods of each batch; a step of `tfjac.fit` is a call of ten. Where each batch has fresh points, losses are
those of fixed ones, which `L-BFGS` and `tfjac.fit` train on.

The regret is max(loss − floor, enough) / max(best − floor, enough). The best is that of all methods. The floor is the
loss of outputs that equal the targets: the entropy of pixels, what is left of a Poisson loss without its deviance, zero
of squares and classes. So the regret of squares is a ratio of mean squares with their noise, and a loss that may be
negative has one. Enough is 10⁻³ of cross-entropies of classes, and zero of others: what is learnt is learnt. Over seeds
it is the geometric mean.
"""

import argparse
import fnmatch
import itertools
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import keras
import numpy as np
import tensorflow as tf
from scipy import optimize

import tfjac
from benchmarks import large_networks
from benchmarks.equal_time import ADAMS, L_BFGS
from benchmarks.everyday import PROBLEMS
from benchmarks.large_networks import built
from benchmarks.processes import trained_alone

DEFAULT, WHOLE = "default", (L_BFGS, "tfjac.fit")
MEMORIES = {f"memory={value}": value for value in (0.9, 0.98, 0.99, None, "epoch")}
METHODS = {
    DEFAULT: tfjac.LevenbergMarquardt,
    **{name: large_networks.METHODS[name] for name in (*ADAMS, "AdamW", "Muon")},
    **{name: lambda value=value: tfjac.LevenbergMarquardt(memory=value) for name, value in MEMORIES.items()},
    **dict.fromkeys(WHOLE),
}
GRADIENTS = (*ADAMS, "AdamW", "Muon", L_BFGS)
"""The methods that are given gradients alone."""
GROUPS = {"all": list(METHODS), "Adam": ADAMS}
DIVERGED, LATE, LOOKS, EXAMPLES = 1e6, 1.1, 50, 2_000


class Course(keras.callbacks.Callback):
    """Notes losses some fifty times, and ends a training when its time is spent.

    Args:
        parts: pairs of x and y, of the training and of the test part.
        seconds: of CPU, from now on.
    """

    def __init__(self, parts, seconds):
        super().__init__()
        self._parts = [[tf.constant(each[:EXAMPLES]) for each in part] for part in parts]
        self._loss = tf.function(lambda x, y: loss_of(self.model, x, y, training=False))
        self._seconds, self._began, self._next = seconds, time.process_time(), 0.0
        self.first, self.times, self.points, self.is_over, self.diverged = None, [], [], False, False

    def on_train_begin(self, logs=None):
        self.look()

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.process_time() - self._began)
        if self.times[-1] >= self._seconds:
            self.end()

    def on_epoch_end(self, epoch, logs=None):
        if self.first is None and not self.is_over:
            self.first = self.times[-1]
        if self.is_over or self.times[-1] >= self._next:
            self.look()

    def on_train_end(self, logs=None):
        if not self.diverged and self.times and self.points[-1][0] < self.times[-1]:
            self.look()

    def look(self):
        """Note the time and both losses, which counts as no time."""
        began = time.process_time()
        losses = [float(self._loss(*part)) for part in self._parts]
        self.diverged = not abs(losses[0]) <= DIVERGED
        if self.diverged:
            self.end()
        else:
            self.points.append([began - self._began, *losses])
        self._next = began - self._began + self._seconds / LOOKS
        self._began += time.process_time() - began

    def end(self):
        """Take no further step."""
        self.is_over = self.model.stop_training = True

    def row(self, steps_per_epoch):
        """Return what is kept of a run; the milliseconds of a step are the mean over the later half of them."""
        late = self.times[len(self.times) // 2 :]
        in_time = [*self.points[:1], *(point for point in self.points[1:] if point[0] <= LATE * self._seconds)]
        return {
            "weights": self.model.count_params(), "diverged": self.diverged,
            "training": in_time[-1][1] if in_time else None,
            "test": min((point[2] for point in in_time if np.isfinite(point[2])), default=None),
            "cpu": self.times[-1] if self.times else 0.0, "epochs": len(self.times) / steps_per_epoch,
            "first_epoch": self.first,
            "step_ms": 1e3 * (late[-1] - late[0]) / (len(late) - 1) if len(late) > 1 else None, "curve": self.points,
        }  # fmt: skip


def loss_of(model, x, y, training):
    """Return the loss that a model is compiled with."""
    return model.compute_loss(x=x, y=y, y_pred=model(x, training=training), training=training)


class Fresh(keras.utils.PyDataset):
    """Batches of new points, the same for all methods."""

    def __init__(self, draw, batch, count, seed):
        super().__init__()
        self._draw, self._batch, self._count, self._seed, self._epoch = draw, batch, count, seed, 0

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._draw(np.random.default_rng([self._seed, self._epoch, index]), self._batch)

    def on_epoch_end(self):
        self._epoch += 1


def train(name, method, batch, seed, seconds):
    """Return one run: its case, losses and times."""
    problem = PROBLEMS[name]
    parts = problem.parts(seed)
    (x, y), (_, y_test) = parts
    model = built(problem.make, x, seed)
    course = Course(parts, seconds)
    if method == L_BFGS:
        model.compile(loss=problem.loss)
        l_bfgs(model, x, y, course)
    elif method in WHOLE:
        tfjac.fit(model, x, y, loss=problem.loss, max_steps=10**6, callbacks=[course], verbose=0)
    else:
        model.compile(METHODS[method](), problem.loss)
        steps = -(-len(x) // batch)
        data = (x, y) if problem.draw is None else (Fresh(problem.draw, batch, steps, seed),)
        monitor = [tfjac.callbacks.StepMonitor()] if method == "memory=epoch" else []
        batches = {} if problem.draw else {"batch_size": batch}
        model.fit(*data, **batches, epochs=10**6, verbose=0, callbacks=[*monitor, course])
    case = {"name": name, "method": method, "batch": batch, "seed": seed, "seconds": seconds}
    floors = {"floor": problem.floor(y[:EXAMPLES]), "floor_test": problem.floor(y_test[:EXAMPLES])}
    return case | floors | course.row(1 if method in WHOLE else steps)


def l_bfgs(model, x, y, course):
    """Train by SciPy's L-BFGS on all examples, some thousands at a time."""
    layers = model._flatten_layers()
    if any(isinstance(layer, (keras.layers.Dropout, keras.layers.BatchNormalization)) for layer in layers):
        raise ValueError("L-BFGS is left out: dropout, or batch normalisation")
    weights = [variable.value for variable in model.trainable_variables]
    sizes = np.cumsum([int(np.prod(weight.shape)) for weight in weights])[:-1]
    course.set_model(model)
    course.on_train_begin()

    @tf.function
    def part(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y, training=True)
        gradients = tape.gradient(loss, weights)
        return loss, tf.concat([tf.reshape(tf.convert_to_tensor(each), [-1]) for each in gradients], 0)

    def assign(flat):
        for weight, values in zip(weights, np.split(flat, sizes)):
            weight.assign(values.reshape(weight.shape))

    def whole(flat):
        assign(flat)
        cuts = range(0, len(x), EXAMPLES)
        found = [(len(x[k : k + EXAMPLES]), *part(x[k : k + EXAMPLES], y[k : k + EXAMPLES])) for k in cuts]
        loss = sum(count * float(value) for count, value, _ in found) / len(x)
        return loss, sum(count * gradient.numpy().astype("float64") for count, _, gradient in found) / len(x)

    def after(intermediate_result):
        assign(intermediate_result.x)
        course.on_train_batch_end(0)
        course.on_epoch_end(0)
        if course.is_over:
            raise StopIteration

    start = np.concatenate([weight.numpy().ravel() for weight in weights]).astype("float64")
    limits = {"maxiter": 10**6, "maxfun": 10**6, "ftol": 0.0, "gtol": 0.0}
    optimize.minimize(whole, start, jac=True, method="L-BFGS-B", callback=after, options=limits)
    course.on_train_end()


def excess(run, part, enough):
    """Return what a run has above the floor, at least `enough`; infinite if it diverged or failed."""
    if run.get("diverged", True) or run[part] is None:
        return np.inf
    return max(run[part] - run["floor" if part == "training" else "floor_test"], enough)


def regrets(runs):
    """Return `{(name, batch): {part: figures}}` of the default: against the best of all, and of those of gradients.

    Args:
        runs: a list, of all seeds.

    Figures are the default's regret, the name of the best, and the regret against the best of `GRADIENTS`.
    """
    found = {}
    for name, batch in dict.fromkeys((run["name"], run["batch"]) for run in runs if run["method"] == DEFAULT):
        mine = [run for run in runs if run["name"] == name and run["batch"] in (batch, 0)]
        enough = PROBLEMS[name].enough
        for part in ("training", "test"):
            values = {}
            for run in mine:
                values.setdefault(run["seed"], {})[run["method"]] = excess(run, part, enough)
            seeds = [each for each in values.values() if DEFAULT in each]
            best = [min(each.values()) for each in seeds]
            gradients = [min((each[m] for m in GRADIENTS if m in each), default=np.nan) for each in seeds]
            ours = [each[DEFAULT] for each in seeds]
            everywhere = set.intersection(*map(set, seeds))
            winner = min(everywhere, key=lambda method: np.prod([each[method] for each in seeds]))
            found.setdefault((name, batch), {})[part] = [_ratio(ours, best), winner, _ratio(ours, gradients)]
    return found


def _ratio(ours, others):
    """Return the geometric mean of ratios; infinite where ours is."""
    if not np.isfinite(ours).all():
        return np.inf
    with np.errstate(divide="ignore"):
        return float(np.exp(np.mean(np.log(ours) - np.log(others))))


def table(runs):
    """Return the table of the runs of one problem."""
    heads = ["method", "batch", "seed", "training", "lowest test", "epochs", "ms a step", "first epoch, s", "CPU, s"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for run in runs:
        cells = [run["method"], run["batch"] or "all", run["seed"]]
        if "error" in run:
            cells += [run["error"][:60], *[""] * 5]
        else:
            training = "diverged" if run["diverged"] else _number(run["training"])
            columns = ("test", "epochs", "step_ms", "first_epoch", "cpu")
            cells += [training, *(_number(run[column]) for column in columns)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _number(value):
    return "–" if value is None else f"{value:.3g}"


def summary(runs):
    """Return the table of the regrets of the default, and their median and worst."""
    heads = [
        "problem",
        "batch",
        "weights",
        *("training", "the best", "over gradients'"),
        *("test", "the best", "over gradients'"),
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    found = regrets(runs)
    for (name, batch), parts in found.items():
        weights = max((run.get("weights", 0) for run in runs if run["name"] == name), default=0)
        cells = [name, batch, f"{weights:,}"]
        for regret, winner, over_gradients in parts.values():
            cells += [_number(regret), winner, _number(over_gradients)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for word, reduce in (("median", np.median), ("worst", np.max)):
        cells = [f"**{word}**", "", ""]
        for part in ("training", "test"):
            columns = [[parts[part][k] for parts in found.values()] for k in (0, 2)]
            cells += [_number(reduce(columns[0])), "", _number(reduce(columns[1]))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cases(asked):
    """Return the cases that are asked for, dicts of what `train` is given; batch 0 is all examples."""
    chosen = [
        name
        for name, problem in PROBLEMS.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in asked.problems)
        and problem.aside == asked.aside
        and (asked.large or not problem.large)
    ]
    methods = dict.fromkeys(itertools.chain(*(GROUPS.get(method, [method]) for method in asked.methods)))
    for name, batch, seed, method in itertools.product(chosen, asked.batch, asked.seeds, methods):
        if method not in WHOLE or batch == asked.batch[0]:
            batch_of = 0 if method in WHOLE else batch
            yield {"name": name, "method": method, "batch": batch_of, "seed": seed, "seconds": asked.seconds}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["*"], help="names or patterns")
    parser.add_argument("--methods", nargs="+", choices=[*GROUPS, *METHODS], default=[DEFAULT, "Adam"])
    parser.add_argument("--batch", nargs="+", type=int, default=[32])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of splits and starts")
    parser.add_argument("--seconds", type=float, default=10, help="of CPU, for each training")
    parser.add_argument("--aside", action="store_true", help="the problems that are put aside, in place of the others")
    parser.add_argument("--large", action="store_true", help="those of 10⁶ weights as well")
    parser.add_argument("--json", type=pathlib.Path, help="a file to add each run to, a line each; its runs are kept")
    parser.add_argument("--train", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main():
    asked = parse()
    if asked.train:
        name, method, *numbers = asked.train
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        print(json.dumps(train(name, method, *map(int, numbers[:2]), float(numbers[2]))))
        return
    kept = asked.json.read_text().splitlines() if asked.json and asked.json.exists() else []
    kept = [json.loads(line) for line in kept]
    runs, wanted = [], list(cases(asked))
    for name, alike in itertools.groupby(wanted, lambda case: case["name"]):
        print(f"\n{name}", flush=True)
        mine = []
        for case in alike:
            same = [run for run in kept if case.items() <= run.items()]
            mine.append(same[0] if same else trained_alone("regret", **case))
            print(table(mine) if len(mine) == 1 else table(mine[-1:]).splitlines()[-1], flush=True)
            if asked.json and not same:
                with asked.json.open("a") as file:
                    file.write(json.dumps(mine[-1]) + "\n")
        runs += mine
    print(f"\n{summary(runs)}" if runs else "No problem has such a name in this half.")


if __name__ == "__main__":
    main()
