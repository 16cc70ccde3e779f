"""Nested loops, in which TensorFlow would rewrite sums of large tensors: they are optimized apart, without that.

Its memory optimizer makes temporary variables of sums where tensors take more than 200 MB, which end a program of
nested loops with AlreadyExistsError; see `tfjac.graph.loops`.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.memory import run_alone
from tfjac.graph.running import loops
from tfjac.optimizers import LeastSquaresProblem, LevenbergMarquardt, least_squares

X = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
Y = np.sin(X[:, :1])
T = np.linspace(0, 2, 9)


def program_of_fit(**options):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    model.compile(LevenbergMarquardt(damping="trust_region", **options), "mse")
    model.optimizer.build(model.trainable_variables)
    data = [(each, [None, *each.shape[1:]]) for each in (X, Y)]  # of open size, as loops of small ones stay in place

    def step():
        return model.train_step(tuple(tf.compat.v1.placeholder_with_default(*pair) for pair in data))["loss"]

    return tf.function(step)


def program_of_least_squares(**options):
    x = tf.Variable([[1.0, 0.5]] * 4, dtype=tf.float64)

    def residuals(x):
        return x[:, :1] * tf.exp(-x[:, 1:] * T) - 3.0

    return tf.function(lambda: least_squares(residuals, x, args=(), damping="trust_region", **options).x)


PROGRAMS = {
    "least_squares": lambda: program_of_least_squares(),
    "least_squares, by conjugate gradients": lambda: program_of_least_squares(solver="cg"),
    "many fits": lambda: program_of_least_squares(batch_dims=1),
    "fit": lambda: program_of_fit(),
    "fit, by conjugate gradients": lambda: program_of_fit(solver="cg"),
    "fit, several steps for a batch": lambda: program_of_fit(steps_per_batch=3),
    "fit, sums over batches": lambda: program_of_fit(memory=2),
}


def nested_loops(graph_def):
    """Return (how many loops the memory optimizer would see within others, how many calls it is kept from)."""
    functions = {function.signature.name: function for function in graph_def.library.function}

    def walk(nodes, depth):
        seen = kept = 0
        for node in nodes:
            called = [value.func.name for value in node.attr.values() if value.HasField("func")]
            called += [each.name for value in node.attr.values() for each in value.list.func]
            config = tf.compat.v1.ConfigProto.FromString(node.attr["config_proto"].s)
            rewriter = config.graph_options.rewrite_options
            if called and "_noinline" in functions[called[0]].attr:
                kept += rewriter.memory_optimization == rewriter.NO_MEM_OPT
                continue
            loop = "While" in node.op
            seen += loop and depth > 0
            for name in called:
                inner = walk(functions[name].node_def, depth + loop)
                seen, kept = seen + inner[0], kept + inner[1]
        return seen, kept

    return walk(graph_def.node, 0)


def spared(graph):
    """Whether grappler is kept from each call that is optimized apart."""
    definition = graph.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}
    nodes = [*definition.node, *(node for function in functions.values() for node in function.node_def)]
    names = [(node, node.attr["f"].func.name) for node in nodes if node.attr["f"].func.name in functions]
    configs = [node.attr["config_proto"].s for node, name in names if "_noinline" in functions[name].attr]
    return {
        tf.compat.v1.ConfigProto.FromString(each).graph_options.rewrite_options.disable_meta_optimizer
        for each in configs
    }


@pytest.mark.by_day(None)
def test_many_fits_alone_are_spared_grappler():
    assert spared(PROGRAMS["many fits"]().get_concrete_function().graph) == {True}
    assert spared(PROGRAMS["fit"]().get_concrete_function().graph) == {False}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_nested_loops_are_optimized_apart(name):
    graph = PROGRAMS[name]().get_concrete_function().graph
    seen, kept = nested_loops(graph.as_graph_def())
    assert seen == 0 and kept > 0


POISSON = """
import json

import keras
import numpy as np
import tensorflow as tf

import tfjac

keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
along = (np.arange(30) + 0.5) / 30
inside = tf.constant(np.stack(np.meshgrid(along, along), -1).reshape(-1, 2))
sides = [np.stack(ends, 1) for at in (0.0, 1.0) for ends in ((along, 0 * along + at), (0 * along + at, along))]
border = tf.constant(np.concatenate(sides))
hidden = [keras.layers.Dense(64, "tanh") for _ in range(2)]
network = keras.Sequential([keras.Input((2,)), *hidden, keras.layers.Dense(1)])


def laplacian():
    columns, total = tf.unstack(inside, axis=1), 0.0
    for column in columns:
        with tf.GradientTape() as outer:
            outer.watch(column)
            with tf.GradientTape() as inner:
                inner.watch(column)
                u = network(tf.stack(columns, 1))
            slope = inner.gradient(u, column)
        total += outer.gradient(slope, column)
    return total


def residuals():
    equation = laplacian() + 2 * np.pi**2 * tf.reduce_prod(tf.sin(np.pi * inside), 1)
    return [equation / np.sqrt(450), network(border)[:, 0] / np.sqrt(60)]


weights = [variable.value for variable in network.trainable_variables]
costs = [sum(float(tf.reduce_sum(part**2)) / 2 for part in residuals())]
result = tfjac.least_squares(residuals, weights, max_steps=3)
costs.append(sum(float(tf.reduce_sum(part**2)) / 2 for part in residuals()))
print(json.dumps([*costs, result.cost]))
"""


@pytest.mark.by_day(None)
def test_a_network_of_thousands_of_weights_that_solves_an_equation():
    """Large: it takes 2 GB, in a process of its own. Costs are TensorFlow's."""
    before, after, told = run_alone(POISSON)
    assert after < 0.9 * before
    np.testing.assert_allclose(told, after, rtol=1e-9)


LARGE = """
import json
import sys

import keras
import numpy as np
import tensorflow as tf

import tfjac

keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
x = np.linspace(-1, 1, 400_000)[:, None]
y = np.sin(3 * x)
hidden, last = keras.layers.Dense(96, "tanh"), keras.layers.Dense(1)


def outputs(x):
    u = hidden(x)  # 307 MB, as each term of the sum
    return last(u + u * u + keras.ops.sin(u))


inputs = keras.Input((1,))
model = keras.Model(inputs, outputs(inputs))


def loss():
    a, b, c, d = model.get_weights()
    u = np.tanh(x @ a + b)
    return np.mean(((u + u * u + np.sin(u)) @ c + d - y) ** 2)


def fit(batches=1, **options):
    data = tf.data.Dataset.from_tensor_slices((x.reshape(batches, -1, 1), y.reshape(batches, -1, 1)))
    model.compile(tfjac.LevenbergMarquardt(damping="trust_region", solver="cholesky", **options), "mse")
    model.fit(data, epochs=3, verbose=0)
    return model.evaluate(data, verbose=0)


def least_squares():
    variables = [variable.value for variable in model.trainable_variables]
    scale = np.sqrt(2 / len(x))
    residuals = lambda x, y: scale * (outputs(x) - y)
    return tfjac.least_squares(residuals, variables, 3, args=(x, y), damping="trust_region", solver="cholesky").cost


drivers = {
    "fit": fit,
    "steps_per_batch": lambda: fit(steps_per_batch=2),
    "sums over batches": lambda: fit(2, memory=2),
    "least_squares": least_squares,
}
before = loss()
told = float(drivers[sys.argv[1]]())
print(json.dumps([before, loss(), told]))
"""


@pytest.mark.by_day(None)
@pytest.mark.parametrize("driver", ["fit", "steps_per_batch", "sums over batches", "least_squares"])
def test_tensors_of_300_megabytes(driver):
    """Each takes some 5 GB, in a process of its own. Costs are NumPy's."""
    before, after, told = run_alone(LARGE, driver)
    assert after < 0.5 * before
    np.testing.assert_allclose(told, after, rtol=1e-9)


def fitted(rows, open_size=False):
    """A fit of a slope to so many rows, called eagerly."""
    x, slope = np.linspace(0, 1, rows), tf.Variable(1.0, dtype=tf.float64)
    residuals = lambda x: slope * x - 3 * x  # noqa: E731
    if not open_size:
        return least_squares(residuals, slope, args=(x,)).x
    problem = LeastSquaresProblem(residuals, slope)
    for size in (rows - 2, rows - 1, rows):
        slope.assign(1.0)
        found = problem.solve(x[:size]).x
    return found


@pytest.mark.parametrize("case", [{"rows": 30}, {"rows": 30, "open_size": True}], ids=str)
def test_loops_of_what_is_known_to_be_small_stay_where_they_are(case, monkeypatch):
    apart, original = [], loops._called_apart
    monkeypatch.setattr(loops, "_called_apart", lambda *given: apart.append(1) or original(*given))
    np.testing.assert_allclose(fitted(**case), 3, rtol=1e-7)
    assert len(apart) == len(case) - 1
