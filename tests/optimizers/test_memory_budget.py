"""A memory budget: what is over it is not chosen, told of, or refused by name before anything is allocated."""

import math
import pathlib
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.memory_budget import bytes_of, checked_memory_budget, free_memory
from tfjac.optimizers import LeastSquaresProblem, LevenbergMarquardt


def smooth(length):
    """Residuals of a vector that is kept near data and smooth, and the data; J is dense."""
    rng = np.random.default_rng(0)
    x, data = tf.Variable(rng.normal(size=length)), rng.normal(size=length)
    return lambda: [x - data, tf.math.cumsum(x) / length], x, data


def mixed(length):
    """Residuals of data whose examples mix, so that J takes a pass for each row; the data, and what is the minimum."""
    rng = np.random.default_rng(0)
    w, y = tf.Variable(np.zeros(length)), rng.normal(size=length)
    x = np.eye(length) + rng.normal(size=(length, length)) / length

    def residuals(x):
        z = tf.linalg.matvec(x, w)
        return z + tf.math.cumsum(z) / length - y

    return residuals, w, x, np.linalg.solve((np.eye(length) + np.tri(length) / length) @ x, y)


def expected_of(data):
    length = len(data)
    matrix = np.concatenate([np.eye(length), np.tri(length) / length])
    return np.linalg.lstsq(matrix, np.r_[data, np.zeros(length)])[0]


def test_j_over_the_budget_is_taken_by_products_and_the_minimum_is_the_same():
    residuals, x, data = smooth(700)
    problem = LeastSquaresProblem(residuals, x, memory_budget=2_000_000)
    with pytest.warns(UserWarning, match=r"the Jacobian would take .* MB, more than the memory budget of 1.9 MB"):
        plan = problem.plan()
    assert plan.solver == "cg" and plan.memory < 2_000_000 and "by products alone" in plan.reason
    assert problem.solve().success
    np.testing.assert_allclose(x, expected_of(data), atol=1e-5)


def test_where_examples_mix_the_op_is_named():
    residuals, w, x, expected = mixed(500)
    with pytest.warns(UserWarning, match=r"as examples mix at op .*Cumsum.*, more than the memory budget"):
        assert tfjac.least_squares(residuals, w, args=[x], memory_budget=1_000_000).success
    np.testing.assert_allclose(w, expected, atol=1e-5)


def test_a_solver_by_name_that_is_over_the_budget_is_refused_before_anything_moves():
    residuals, x, _ = smooth(700)
    before = x.numpy()
    with pytest.raises(tfjac.MemoryBudgetExceeded, match=r"'cholesky' on 1,400 residuals and 700 para"):
        tfjac.least_squares(residuals, x, solver="cholesky", memory_budget=2e6)
    np.testing.assert_array_equal(x, before)
    assert issubclass(tfjac.MemoryBudgetExceeded, MemoryError)


def test_nothing_fits():
    residuals, x, _ = smooth(700)
    with pytest.warns(UserWarning, match="products with it alone"), pytest.raises(tfjac.MemoryBudgetExceeded):
        tfjac.least_squares(residuals, x, memory_budget=1000)


def test_what_is_left_out_is_told_in_one_sentence():
    rng = np.random.default_rng(1)
    w = tf.Variable(rng.normal(size=(600, 1)))
    x, y = rng.normal(size=(2000, 600)), rng.normal(size=(2000, 1))
    taken = 2000 * 601 * 8 + 2e6
    with pytest.warns(UserWarning, match=r"solver 'cholesky' would take .* more than .*, so that steps .* by 'cg'"):
        result = tfjac.least_squares(lambda: x @ w - y, w, memory_budget=taken)
    assert result.success
    np.testing.assert_allclose(w, np.linalg.lstsq(x, y)[0], atol=1e-4)


@pytest.mark.by_day(None)
def test_passes_row_by_row_are_taken_in_chunks_if_j_itself_fits():
    residuals, w, x, expected = mixed(300)
    whole = LeastSquaresProblem(residuals, w, memory_budget=None).plan(x)
    some = LeastSquaresProblem(residuals, w, memory_budget=0.5 * whole.memory)
    assert some.plan(x).memory < 0.5 * whole.memory
    assert some.solve(x).success
    np.testing.assert_allclose(w, expected, atol=1e-7)


def test_fit_has_it_and_keeps_it_in_its_configuration():
    optimizer = LevenbergMarquardt(memory_budget=1e9)
    assert LevenbergMarquardt.from_config(optimizer.get_config()).get_config()["memory_budget"] == 1e9
    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(100, "tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=LevenbergMarquardt(memory=None, memory_budget=5e6), loss="mse")
    model.fit(np.ones((8, 30)), np.ones((8, 1)), verbose=0)
    assert model.optimizer.plan().solver == "kernel or cg"  # JᵀJ of 3,201 weights is 82 MB


@pytest.mark.parametrize("value", [0, -1, True, "much", math.inf])
def test_other_budgets_are_refused(value):
    with pytest.raises(ValueError, match=r"memory_budget must be .* Received: memory_budget="):
        checked_memory_budget(value)


def written(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_free_memory_by_the_system_and_by_control_groups(tmp_path: pathlib.Path):
    written(tmp_path, {"proc/meminfo": "MemTotal: 100 kB\nMemAvailable:   50000000 kB\n"})
    assert free_memory(str(tmp_path)) == 50_000_000 * 1024
    group = "sys/fs/cgroup/a"
    files = {"memory.max": "3000000\n", "memory.current": "2000000\n", "memory.stat": "anon 5\ninactive_file 700000\n"}
    written(tmp_path, {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"})
    written(tmp_path, {f"{group}/{name}": text for name, text in files.items()})
    assert free_memory(str(tmp_path)) == 1_700_000
    old = {"memory.limit_in_bytes": "900", "memory.usage_in_bytes": "400", "memory.stat": "total_inactive_file 100"}
    written(tmp_path, {f"sys/fs/cgroup/memory/x/{name}": text for name, text in old.items()})
    written(tmp_path, {"proc/self/cgroup": "4:memory:/x\n0::/a/b\n"})
    assert free_memory(str(tmp_path)) == 600


def test_by_default_it_is_half_of_what_is_free():
    assert bytes_of("auto") <= max(2**26, free_memory()) and bytes_of(None) == math.inf and bytes_of(5) == 5


LIMITED = """
    import resource
    import numpy as np, tensorflow as tf, tfjac
    n, points = 40, 4000
    rng = np.random.default_rng(0)
    camera, point = np.repeat(np.arange(n), 200), rng.integers(0, points, 200 * n)
    x = tf.Variable(np.r_[np.ones(9 * n), rng.normal(size=3 * points)])
    seen = rng.normal(size=(200 * n, 2))

    def residuals():
        cameras, table = tf.reshape(x[:9 * n], [n, 9]), tf.cumsum(tf.reshape(x[9 * n:], [points, 3]))
        c, p = tf.gather(cameras, camera), tf.gather(table, point)
        return (p + c[:, 3:6])[:, :2] * c[:, 6:7] - seen

    tfjac.least_squares(lambda: x[:3] - 1.0, x, max_steps=1)  # threads and libraries take their part before
    used = int(open("/proc/self/status").read().split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + 700 * 2**20,) * 2)
    found = tfjac.least_squares(residuals, x, max_steps=2)  # J has 16,000 × 12,360 numbers: 1.6 GB
    print(found.status.name, found.cost < found.history.cost[0])
"""


@pytest.mark.by_day(None)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA is Linux's")
def test_no_call_allocates_beyond_what_the_process_may():
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED)], capture_output=True, text=True, timeout=250, check=False
    )
    assert run.stdout.split() == ["MAX_STEPS", "True"], run.stderr[-2000:]
