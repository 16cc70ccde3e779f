"""Steps over workers, each a process with examples of its own: as in one, also where one dies and all start again."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.processes import ROOT

DEATH = 3

SCRIPT = """
import json, os, pathlib, sys, time

import keras
import numpy as np
import tensorflow as tf

directory, solver, death = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else that TensorFlow does

import tfjac

random = np.random.default_rng(0)
x = random.normal(size=(15, 3))
y = np.sin(x[:, :1])
with strategy.scope():
    keras.utils.set_random_seed(0)
    constrained = keras.layers.Dense(3, "tanh", dtype="float64", kernel_constraint="non_neg")
    model = keras.Sequential([keras.Input((3,)), constrained, keras.layers.Dense(1, dtype="float64")])
    optimizer = tfjac.LevenbergMarquardt(solver=solver)
    optimizer.build(model.trainable_variables)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
saved = tf.train.latest_checkpoint(os.path.join(directory, "0"))
if saved:
    checkpoint.restore(saved)


@tf.function
def step(x, y):
    residuals = lambda: model(x) - y
    return optimizer.minimize(residuals, model.trainable_variables).cost


data = tf.data.Dataset.from_tensor_slices((x, y)).batch(15).repeat()
data = iter(strategy.experimental_distribute_dataset(data))
run = tf.function(lambda x, y: strategy.run(step, args=(x, y)))
result, begin = {"refusals": [], "error": None}, time.time()
try:
    while int(optimizer.iterations.numpy()) < 6:
        batch = next(data)
        cost = run(*batch)
        cost.numpy()
        checkpoint.save(os.path.join(directory, str(rank), "steps"))
        if rank == 1 and int(optimizer.iterations.numpy()) == death:
            os._exit(1)
        begin = time.time()
except tf.errors.OpError as error:
    result["error"] = [type(error).__name__, time.time() - begin]
weights = np.concatenate([weight.ravel() for weight in model.get_weights()])
result["state"] = [*weights.tolist(), optimizer.current_damping, optimizer.num_attempts]
if saved and strategy.num_replicas_in_sync > 1:
    with strategy.scope():
        for name in ("qr", "kernel"):
            optimizer = tfjac.LevenbergMarquardt(solver=name)
            optimizer.build(model.trainable_variables)
            try:
                tf.function(lambda x, y: strategy.run(step.python_function, args=(x, y)))(*batch)
            except ValueError as error:
                result["refusals"].append(str(error))
print(json.dumps(result), flush=True)
if result["error"] is None and strategy.num_replicas_in_sync > 1:  # who leaves early ends the others
    pathlib.Path(directory, f"{rank} is done").touch()
    while time.time() < begin + 60 and not pathlib.Path(directory, f"{1 - rank} is done").exists():
        time.sleep(0.05)
os._exit(0)  # the other worker may be gone, and TensorFlow would wait for it
"""


def start(directory, rank, ports, solver="auto", death=0):
    """Start worker number `rank` of those at `ports`; the only one where there are none."""
    workers = [f"127.0.0.1:{port}" for port in ports]
    config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    environment = {**os.environ, **({"TF_CONFIG": json.dumps(config)} if ports else {})}
    command = [sys.executable, "-c", SCRIPT, directory, solver, str(death)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def results(processes):
    """Return what the processes print, None for one that died, in bounded time."""
    try:
        printed = [process.communicate(timeout=100) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [json.loads(out.splitlines()[-1]) if out.strip() else None for out, _ in printed]


def free_ports():
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What one process finds, what two do of which one dies, and what these do when they are started again."""
    directory, alone = str(tmp_path_factory.mktemp("two")), str(tmp_path_factory.mktemp("one"))
    ports = free_ports()
    died = results([start(directory, rank, ports, death=DEATH) for rank in range(2)])
    ports = free_ports()
    *resumed, one = results([*(start(directory, rank, ports) for rank in range(2)), start(alone, 0, [], "cholesky")])
    return one, died, resumed


@pytest.mark.by_day(None)
def test_as_in_one_process_after_a_worker_died(runs):
    one, _, resumed = runs
    for each in resumed:
        np.testing.assert_allclose(each["state"], one["state"], rtol=1e-7, atol=1e-10)
    assert min(one["state"][:9]) >= 0
    assert resumed[0]["state"] == resumed[1]["state"]


@pytest.mark.by_day(None)
def test_the_others_fail_where_a_worker_dies(runs):
    _, (survivor, dead), _ = runs
    assert dead is None
    name, seconds = survivor["error"]
    assert name in ("UnavailableError", "AbortedError", "InternalError", "CancelledError")
    assert seconds < 120


@pytest.mark.by_day(None)
def test_solvers_that_need_all_rows_are_refused(runs):
    _, _, (first, second) = runs
    assert first["refusals"] == second["refusals"]
    for name, message in zip(("qr", "kernel"), first["refusals"], strict=True):
        assert f"solver={name!r}" in message and "'cholesky', 'cg' or 'auto'" in message
