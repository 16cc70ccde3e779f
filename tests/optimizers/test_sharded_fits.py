"""Many fits shared out among devices: against SciPy one by one, and as on one device, wherever each is computed."""

import numpy as np
import pytest
import tensorflow as tf

from tests.memory import run_alone
from tests.optimizers.test_batched import by_scipy, decays, residuals_of, started
from tfjac.optimizers import Status, least_squares

COUNT = 8
BOUNDS = 0.0, 3.5


def noisy(count=COUNT):
    """Give measured decays, of which the sixth, where there is one, has a number that is none."""
    measured = decays(np.random.default_rng(0), count)
    measured[5:6, 3] = np.nan
    return measured


SCRIPT = """
import json

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context  # where a graph ran has no public reader

logical = [tf.config.LogicalDeviceConfiguration()] * 3
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)

from tests.optimizers.test_batched import residuals_of, started
from tests.optimizers.test_sharded_fits import BOUNDS, noisy
from tfjac.optimizers import least_squares

THREE = ["CPU:2", "/device:CPU:0", tf.config.list_logical_devices()[1]]
FIELDS = ["cost", "gradient_norm", "status", "steps", "evaluations", "jacobians", "damping"]
ERRORS = ["covariance", "standard_errors", "rank", "num_residuals"]
results = {}


def told(result, names):
    values = [getattr(result, name) for name in names]
    values = [np.asarray(value() if callable(value) else value) for value in values]
    x = [np.reshape(value, [len(values[0]), -1]) for value in tf.nest.flatten(result.x)]
    return {"x": np.concatenate(x, axis=1).tolist()} | {name: value.tolist() for name, value in zip(names, values)}


def fit(count, devices, names=FIELDS + ERRORS, **options):
    x, args = started(count), (noisy(count),)
    result = least_squares(residuals_of, x, args=args, batch_dims=1, bounds=BOUNDS, devices=devices, **options)
    assert np.array_equal(result.x, x.numpy())
    return told(result, names)


results["8 fits"] = [fit(8, None), fit(8, THREE, chunk_size=2)]

# two fits for three devices, where their loops are called, and what the parts wait for
one = fit(2, None)
context.enable_run_metadata()
results["2 fits"] = [one, fit(2, THREE)]
graphs = context.export_run_metadata().function_graphs
context.disable_run_metadata()
ran = [node for graph in graphs for part in graph.partition_graphs for node in part.node]
loops = [node for node in ran if "PartitionedCall" in node.op]
results["loops"] = [loop.device[-5:] for loop in loops]
calls = [node for graph in graphs for node in graph.pre_optimization_graph.node if "PartitionedCall" in node.op]
results["waiting"] = [[name for name in call.input if name.startswith("^")] for call in calls if call.device]

# a nest of variables, some of them fixed, and outliers, in a graph that is compiled
measured = noisy()
PAIR = ["CPU:2", "CPU:0"]
x = {"rate": tf.Variable(np.ones(8)), "size": tf.Variable(np.full([8, 1], 2.0))}
fixed = {"rate": np.arange(8) == 2, "size": False}


def compiled(devices):
    @tf.function(jit_compile=True)
    def fit(y):
        x["rate"].assign(tf.ones(8, tf.float64))
        x["size"].assign(tf.fill([8, 1], tf.constant(2.0, tf.float64)))
        residuals = lambda x, y: x["size"] * tf.exp(-x["rate"][:, None] * np.linspace(0, 4, 12)) - y
        given = {"args": (y,), "batch_dims": 1, "fixed": fixed, "loss": "soft_l1", "loss_scale": 0.1}
        return least_squares(residuals, x, devices=devices, **given)

    return told(fit(tf.constant(measured)), FIELDS)


results["compiled"] = [compiled(devices) for devices in (None, PAIR)]

x = started(8)
try:
    least_squares(lambda p: residuals_of(p, 1.0) * tf.cumsum(tf.ones_like(p))[:, :1], x, batch_dims=1, devices=THREE)
except ValueError as error:
    results["all only"] = str(error)
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results():
    return run_alone(SCRIPT)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("case", ["8 fits", "2 fits", "compiled"])
def test_as_on_one_device(results, case):
    """Shares of three and two fits, in chunks; fewer fits than devices; under XLA: all fits, in their order."""
    one, three = results[case]
    assert one.keys() == three.keys()
    for name, expected in one.items():
        tolerance = {"rtol": 1e-6, "atol": 1e-12} if name == "gradient_norm" else {"rtol": 1e-9, "atol": 1e-12}
        np.testing.assert_allclose(three[name], expected, **tolerance, err_msg=name)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("case", ["8 fits", "2 fits"])
def test_as_by_scipy(results, case):
    """Points, costs and covariances of each fit, but for the one with NaN, which harms none of its share."""
    found = results[case][1]
    measured = noisy(len(found["cost"]))
    for k, values in enumerate(measured):
        if np.isnan(values).any():
            assert Status(found["status"][k]) == Status.NOT_FINITE and found["x"][k] == [2.0, 1.0]
            assert np.isnan(found["covariance"][k]).all()
            continue
        expected = by_scipy(values, [2.0, 1.0], bounds=BOUNDS)
        np.testing.assert_allclose(found["x"][k], expected.x, rtol=1e-5)
        np.testing.assert_allclose(found["cost"][k], expected.cost, rtol=1e-8)
        variance = 2 * expected.cost / (values.size - 2)
        free = np.ix_(*[(expected.x < BOUNDS[1] - 1e-6).nonzero()[0]] * 2)
        gram = expected.jac.T @ expected.jac
        if len(free[0]) == 2:
            np.testing.assert_allclose(found["covariance"][k], variance * np.linalg.inv(gram), rtol=1e-3)


@pytest.mark.by_day(None)
def test_each_loop_is_where_its_share_was_put(results):
    """Of all loops that ran, as many on each of the first two devices, and none anywhere else."""
    first, second = (results["loops"].count(device) for device in ("CPU:2", "CPU:0"))
    assert first == second == len(results["loops"]) / 2 > 0


@pytest.mark.by_day(None)
def test_no_part_waits_for_another(results):
    """Neither of the fits nor of their errors: two parts each. An assertion in each would have them go one by one."""
    assert results["waiting"] == [[], [], [], []]


@pytest.mark.by_day(None)
def test_residuals_of_all_fits_only_are_refused(results):
    """They cannot be shared; on one device they are what they were."""
    assert "evaluated for all fits only" in results["all only"] and "Received: devices=" in results["all only"]
    x, measured = started(), decays(np.random.default_rng(0))
    found = least_squares(lambda: residuals_of(tf.convert_to_tensor(x), measured), x, batch_dims=1, devices=["/cpu:0"])
    np.testing.assert_allclose(found.x[0], by_scipy(measured[0], [2.0, 1.0]).x, rtol=1e-5)


REFUSED = {
    "one problem": (ValueError, {"batch_dims": 0, "devices": ["CPU:0"]}, "devices is for batch_dims=1"),
    "none": (ValueError, {"devices": []}, "at least one"),
    "one that is not there": (ValueError, {"devices": ["CPU:0", "GPU:97"]}, r"that there are: .*CPU:0.*'GPU:97'"),
    "no name": (ValueError, {"devices": ["nonsense"]}, r"that there are: .*CPU:0.*'nonsense'"),
    "any of a kind": (ValueError, {"devices": ["CPU"]}, "that there are"),
    "twice": (ValueError, {"devices": ["CPU:0", "/device:CPU:0"]}, "each device once"),
    "a string": (TypeError, {"devices": "CPU:0"}, "a list of names"),
    "a device": (TypeError, {"devices": tf.config.LogicalDevice("/device:CPU:0", "CPU")}, "a list of names"),
    "numbers": (TypeError, {"devices": [0, 1]}, "a list of names"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind):
    """What is wrong, which devices there are, and nothing moves."""
    error, options, words = REFUSED[kind]
    x = started(COUNT)
    with pytest.raises(error, match=words):
        least_squares(residuals_of, x, args=(noisy(),), **{"batch_dims": 1, **options})
    np.testing.assert_array_equal(x.numpy(), started(COUNT).numpy())
