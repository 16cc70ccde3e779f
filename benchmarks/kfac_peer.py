"""Kronecker factors in plain `fit` beside kfac-jax: steps to a loss, and CPU seconds, each run in a process of its own.

python -m benchmarks.kfac_peer                                     # tfjac alone
python -m benchmarks.kfac_peer --kfac PEERS/bin/python             # pip install kfac-jax "jax[cpu]==0.7.2"
python -m benchmarks.kfac_peer --task digits --steps 40 --throw-away   # does it work?
python -m benchmarks.kfac_peer --show                              # the table of what was kept

Tasks are in `dense_tasks.py`: the deep autoencoder of CURVES, and scikit-learn's digits. All begin at the same weights
and see the same batches. tfjac is `model.compile(tfjac.LevenbergMarquardt(), loss); model.fit(…)`, with nothing set.
kfac-jax is given several settings:

* `adaptive`: learning rate, momentum and damping by its rules, as in its example of an autoencoder, with a damping to
  begin with. That of the example is 150.
* `fixed`: rate, damping and momentum 0.9, with its bound on the norm of a step, as its documentation recommends for
  mini-batches. The settings are the best of those that were tried on 100 steps.

Losses are those of training examples, computed by NumPy. CPU seconds are those of a process with one thread. The first
ten steps trace and compile, and count as the mean of the others. kfac-jax sees five batches before its first step.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from functools import partial

from benchmarks.dense_tasks import TASKS, Curve, Task

AT = {"curves": (50, 100, 200, 300), "digits": (50, 100, 200, 400, 800)}
TO = {"curves": (160.0, 130.0, 120.0, 110.0), "digits": (0.3, 0.1, 0.03, 0.01)}
"""After how many steps the table has a loss, and to which losses it counts steps."""

COMMON = {"inverse_update_period": 5, "num_burnin_steps": 5, "curvature_ema": 0.95}
ADAPTIVE = {
    **{f"use_adaptive_{which}": True for which in ("learning_rate", "momentum", "damping")},
    "damping_adaptation_interval": 5, "damping_adaptation_decay": 0.95, "min_damping": 1e-5, "max_damping": 1000.0,
}  # fmt: skip
SETTINGS = {
    "curves": [
        ("adaptive", 150.0, None, None),
        *(("fixed", damping, 0.1, bound) for damping, bound in ((100.0, 0.1), (10.0, 0.01))),
    ],
    "digits": [
        ("adaptive", 1.0, None, None),
        *(("fixed", damping, rate, 1e-3) for damping, rate in ((0.1, 0.1), (0.1, 0.03), (0.01, 0.1))),
    ],
}
"""Of kfac-jax: the kind, the damping at first or always, the rate, the bound on pᵀFp of a step."""

ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_TRACEBACK_FILTERING": "off",
    "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu",
}  # fmt: skip


def by_tfjac(task: Task) -> dict:
    """Return the figures of `model.fit` with default options."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfjac

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)

    class Clock(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            curve.begin()

        def on_train_batch_end(self, batch, logs=None):
            curve.end(self.model.get_weights)

    def loss(y, outputs):
        if task.classes:
            return tf.nn.softmax_cross_entropy_with_logits(y, outputs)
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(y, outputs), axis=-1)

    biases = task.weights[1::2]
    layers = [keras.layers.Dense(len(bias), None if k in task.linear else "tanh") for k, bias in enumerate(biases)]
    model = keras.Sequential([keras.Input(task.x.shape[1:]), *layers])
    model.set_weights(task.weights)
    model.compile(tfjac.LevenbergMarquardt(), loss)
    curve, (steps, batch) = Curve(task), task.orders.shape
    for rows in np.split(task.orders, range(40, steps, 40)):
        rows = rows.ravel()
        model.fit(task.x[rows], task.y[rows], batch_size=batch, shuffle=False, verbose=0, callbacks=[Clock()])
    return {**curve.figures(), "solver": str(model.optimizer.solver_used)}


def by_kfac_jax(task: Task, kind: str, damping: float, rate: float | None, bound: float | None) -> dict:
    """Return the figures of kfac-jax with one of its settings."""
    import jax
    import jax.numpy as jnp
    import kfac_jax

    def loss(weights, batch):
        outputs, y = batch
        for k in range(len(weights) // 2):
            outputs = outputs @ weights[2 * k] + weights[2 * k + 1]
            outputs = outputs if k in task.linear else jnp.tanh(outputs)
        if task.classes:
            kfac_jax.register_softmax_cross_entropy_loss(outputs, jnp.argmax(y, axis=1))
            return jnp.mean(jax.nn.logsumexp(outputs, axis=1) - jnp.sum(outputs * y, axis=1))
        kfac_jax.register_multi_bernoulli_predictive_distribution(outputs, y)
        return jnp.mean(jnp.sum(jax.nn.softplus(outputs) - outputs * y, axis=1))

    settings = {**ADAPTIVE, "initial_damping": damping} if kind == "adaptive" else {"norm_constraint": bound}
    given = {} if kind == "adaptive" else {"learning_rate": rate, "momentum": 0.9, "damping": damping}
    optimizer = kfac_jax.Optimizer(jax.value_and_grad(loss), l2_reg=0.0, **COMMON, **settings)
    weights, burnt_in = [jnp.asarray(each) for each in task.weights], COMMON["num_burnin_steps"]
    batches = itertools.chain(itertools.islice(task.batches(), burnt_in), task.batches())
    key, curve = jax.random.PRNGKey(0), Curve(task)
    state = optimizer.init(weights, key, next(task.batches()))
    given = {name: jnp.asarray(value) for name, value in given.items()}
    for step in range(len(task.orders)):
        key, own = jax.random.split(key)
        curve.begin()
        result = optimizer.step(weights, state, own, data_iterator=batches, global_step_int=step, **given)
        weights, state = jax.block_until_ready(result[:2])
        curve.end(partial(jax.device_get, weights))
    return curve.figures()


def run(python: str, path: pathlib.Path, *what) -> dict:
    """Return the figures of a process of another Python, or an `error`."""
    command = [python, "-m", "benchmarks.kfac_peer", "--child", str(path), json.dumps(what)]
    root = str(pathlib.Path(__file__).parents[1])
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment)
    if done.returncode:
        return {"error": (done.stderr or "killed").strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(names: list[str], seeds: list[int], steps: int | None, kfac: str | None) -> list[dict]:
    """Return a row for each task, seed and method."""
    rows = []
    for name in names:
        methods = [("tfjac", sys.executable, ())]
        methods += [(_name(*each), kfac, each) for each in SETTINGS[name] if kfac]
        for seed in seeds:
            task = TASKS[name](seed, **({"steps": steps} if steps else {}))
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "task.npz"
                task.save(path)
                for method, python, what in methods:
                    rows.append({"task": name, "seed": seed, "method": method, **run(python, path, *what)})
                    print(line_of(rows[-1]), flush=True)
    return rows


def _name(kind: str, damping: float, rate: float | None, bound: float | None) -> str:
    return f"kfac-jax {kind}, {damping:g}" + (f", rate {rate:g}, bound {bound:g}" if rate else "")


def line_of(row: dict) -> str:
    """Return one line of the table."""
    start = [row["task"], row["seed"], row["method"]]
    if "error" in row:
        return f"| {' | '.join(map(str, start))} | {row['error']} |"
    losses = dict(map(tuple, row["curve"]))
    at = [f"{losses[steps]:.3g}" if steps in losses else "–" for steps in AT[row["task"]]]
    to = [next((str(steps) for steps, loss in row["curve"] if loss <= level), "–") for level in TO[row["task"]]]
    steps = row["curve"][-1][0]
    times = [
        f"{1e3 * row['seconds_per_step']:.1f}",
        f"{steps * row['seconds_per_step']:.1f}",
        f"{row['first_steps']:.1f}",
    ]
    return f"| {' | '.join(map(str, [*start, ' / '.join(at), ' / '.join(to), *times]))} |"


def markdown(rows: list[dict]) -> str:
    """Return the table in Markdown: one for each task."""
    lines = []
    for name in dict.fromkeys(row["task"] for row in rows):
        at, to = " / ".join(map(str, AT[name])), " / ".join(f"{level:g}" for level in TO[name])
        heads = ["task", "seed", "method", f"loss after {at} steps", f"steps to {to}", "CPU ms a step"]
        heads += ["CPU s", "of the first ten"]
        lines += ["", "| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        lines += [line_of(row) for row in rows if row["task"] == name]
    return "\n".join(lines[1:])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kfac", metavar="PYTHON", help="the Python of an environment with kfac-jax")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seed", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, help="in place of 300 of CURVES and 800 of digits")
    parser.add_argument("--show", action="store_true", help="print the table of the results that were kept, and stop")
    parser.add_argument("--throw-away", action="store_true", help="keep no results")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    asked = parse()
    if asked.child:
        task, what = Task.load(pathlib.Path(asked.child[0])), json.loads(asked.child[1])
        print(json.dumps(by_kfac_jax(task, *what) if what else by_tfjac(task)))
        return
    from benchmarks import report

    if asked.show:
        print(markdown(json.loads((report.RESULTS / "kfac_peer.json").read_text())["runs"]))
        return
    rows = measured(asked.task, asked.seed, asked.steps, asked.kfac)
    print(markdown(rows))
    if not asked.throw_away:
        print(report.save_runs("kfac_peer", __doc__.splitlines()[0], rows))


if __name__ == "__main__":
    main()
