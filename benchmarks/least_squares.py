"""Levenberg–Marquardt: one step against tensorflow-graphics' and optimistix', whole fits against SciPy's."""

import importlib.util

import keras
import numpy as np
import tensorflow as tf

import tfjac
from benchmarks import models, torch_peers
from benchmarks.floors import Floor
from benchmarks.questions import Case, question
from benchmarks.scipy_peer import FlatModel

DAMPING = 1e-2
STEPS = 10
"""Taken in one call: the first of a training needs several attempts, later ones hardly."""


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def forward(weights, x):
    """The perceptron of `models.mlp`, as a function of its weights."""
    *hidden, (kernel, bias) = zip(weights[::2], weights[1::2], strict=True)
    for w, b in hidden:
        x = tf.tanh(tf.matmul(x, w) + b)
    return tf.matmul(x, kernel) + bias


def tfjac_steps(model, x, y, steps=1, jit_compile=False, acceleration=None):
    """Steps from the starting point, with fresh damping: every call does the same work.

    They are straight ones, as those of others are, if nothing else is said.
    """
    optimizer = tfjac.LevenbergMarquardt(steps_per_batch=steps, acceleration=acceleration)
    optimizer.build(model.trainable_variables)
    state = [*models.values(model), *[v.value for v in optimizer.variables]]
    start = [tf.constant(v.numpy()) for v in state]

    def step():
        for variable, value in zip(state, start, strict=True):
            variable.assign(value)
        optimizer.scale_loss(tf.reduce_mean(tf.square(model(x) - y)))
        optimizer.apply([None] * len(model.trainable_variables), model.trainable_variables)
        return [tf.identity(v) for v in models.values(model)]

    return tf.function(step, jit_compile=jit_compile)


def tensorflow_graphics_steps(model, x, y, steps, jit_compile=False):
    """Iterations of the peer, from the same starting point.

    The package can be installed with `--no-deps`: its optimizer needs nothing beyond TensorFlow and six.
    """
    from tensorflow_graphics.math.optimizer.levenberg_marquardt import minimize

    weights = [tf.constant(v.numpy()) for v in models.values(model)]

    def residuals(*weights):
        return forward(weights, x) - y

    def step():
        return minimize(residuals, weights, max_iterations=steps, regularizer=DAMPING)[1]

    return tf.function(step, jit_compile=jit_compile)


def tf_levenberg_marquardt_steps(model, x, y, steps, rows=100):
    """Steps of tf-levenberg-marquardt from the same start, as its `fit` takes them: one call of Python for each.

    By Cholesky, which its documentation calls fast. It slices the batch into parts of so many rows; 100 is its default.
    The package can be installed with `--no-deps`.
    """
    import tf_levenberg_marquardt as peer

    descent = keras.optimizers.SGD(1.0)  # the default is one object for all trainers, and knows the first one's weights
    trainer = peer.training.Trainer(model, descent, solve_method="cholesky", jacobian_max_num_rows=rows)
    start = [tf.constant(v.numpy()) for v in models.values(model)]

    def train():
        for variable, value in zip(models.values(model), start, strict=True):
            variable.assign(value)
        trainer.backup_variables()
        trainer.reset_damping_factor()
        for _ in range(steps):
            loss, _, _, stop = trainer.train_step(x, y)
            if stop:
                break
        return loss

    return train


def optimistix_solver(model, x, y, steps, linear_solver):
    """Iterations of optimistix' Levenberg–Marquardt, compiled."""
    import equinox
    import jax.numpy as jnp
    import optimistix

    weights = [jnp.asarray(v.numpy()) for v in models.values(model)]
    data = jnp.asarray(x.numpy()), jnp.asarray(y.numpy())

    def residuals(weights, data):
        x, y = data
        *hidden, (kernel, bias) = zip(weights[::2], weights[1::2], strict=True)
        for w, b in hidden:
            x = jnp.tanh(x @ w + b)
        return x @ kernel + bias - y

    solver = optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8, linear_solver=linear_solver)

    @equinox.filter_jit
    def solve(weights, data):
        return optimistix.least_squares(residuals, solver, weights, args=data, max_steps=steps, throw=False).value

    return lambda: solve(weights, data)


def optimistix_steps(model, x, y, steps) -> dict:
    """The peer with its default solver, QR of the stacked Jacobian, and with Cholesky of the normal equations."""
    import lineax

    solvers = {"QR": lineax.QR(), "Cholesky": lineax.Normal(lineax.Cholesky())}
    return {
        f"optimistix (JAX), {name}": optimistix_solver(model, x, y, steps, solver) for name, solver in solvers.items()
    }


WAYS = {"": False, ", XLA": True}
NETWORKS = [((1, 20, 1), 1000), ((1, 20, 20, 1), 1000), ((8, 20, 20, 1), 8192), ((8, 50, 50, 1), 1000)]
NETWORKS_IN_DOUBLE = [((8, 20, 20, 1), 8192), ((8, 20, 20, 1), 506)]


@question("lm-step")
def lm_step(quick: bool):
    """Ten Levenberg–Marquardt steps of a perceptron, from the same start, against other packages."""
    for layers, examples in NETWORKS[:1] if quick else NETWORKS:
        yield _lm_step(layers, examples, "float32")
    for layers, examples in [] if quick else NETWORKS_IN_DOUBLE:
        yield _lm_step(layers, examples, "float64")


def _lm_step(layers, examples, dtype) -> Case:
    model, x = models.mlp(layers, dtype), models.inputs(examples, layers[0], dtype=dtype)
    y = tf.reduce_sum(tf.sin(2 * x), axis=1, keepdims=True)
    candidates = {f"tfjac{suffix}": tfjac_steps(model, x, y, STEPS, jit) for suffix, jit in WAYS.items()}
    if installed("tensorflow_graphics"):
        candidates |= {
            f"tensorflow-graphics{suffix}": tensorflow_graphics_steps(model, x, y, STEPS, jit)
            for suffix, jit in WAYS.items()
        }
    if installed("tf_levenberg_marquardt") and dtype == "float32":
        candidates |= {
            "tf-levenberg-marquardt": tf_levenberg_marquardt_steps(model, x, y, STEPS),
            "tf-levenberg-marquardt, all rows at once": tf_levenberg_marquardt_steps(model, x, y, STEPS, examples),
        }
    if installed("optimistix") and model.count_params() < 500 and dtype == "float32":  # beyond, half a minute a step
        candidates |= optimistix_steps(model, x, y, STEPS)
    if torch_peers.HAS_TORCH_LEVENBERG_MARQUARDT:
        candidates["torch-levenberg-marquardt"] = torch_peers.levenberg_marquardt(model, x, y, STEPS)
    title = f"{'-'.join(map(str, layers))}, {examples:,} examples" + (", float64" if dtype == "float64" else "")
    return Case(title, candidates, step_floor(model, examples, STEPS), tolerance=None)


def step_floor(model, rows: int, steps: int = 1) -> Floor:
    """Forward and backward passes, and factorisations of the smaller of JᵀJ and J·Jᵀ."""
    size = min(rows, model.count_params())
    return Floor(bytes_written=4 * size**2 * steps, flops=steps * (size**3 / 3 + 6 * rows * model.count_params()))


@question("lm-step-large")
def lm_step_large(quick: bool):
    """One Levenberg–Marquardt step of a perceptron with many more weights than residuals."""
    layers, examples = ((20, 32, 4), 8) if quick else ((784, 1024, 1024, 10), 100)
    model, x = models.mlp(layers), models.inputs(examples, layers[0])
    y = models.inputs(examples, layers[-1])
    yield Case(
        f"{'-'.join(map(str, layers))}, {examples} examples",
        {"tfjac": tfjac_steps(model, x, y)},
        step_floor(model, examples * layers[-1]),
        tolerance=None,
    )


@question("lm-step-graphs")
def lm_step_graphs(quick: bool):
    """One step of a graph network with one residual for each graph; one row at a time where two graphs are joined."""
    for graphs in [10] if quick else [100, 200, 400]:
        network, apart = models.GraphNetwork(16), models.batch_of_graphs(graphs)
        joined = models.joined_by_an_edge(apart)
        candidates = {"tfjac": graph_step(network, apart), "tfjac, two graphs joined": graph_step(network, joined)}
        candidates["plain gradient"] = graph_gradient(network, apart)
        yield Case(f"{graphs} graphs, {len(apart['nodes']):,} nodes", candidates, tolerance=None)


def graph_step(network, batch):
    """One step from the starting point, with fresh damping, of the squares of the network's outputs."""
    network(batch)
    return tfjac_steps(network, batch, tf.ones([batch["graphs"], 1]))


def graph_gradient(network, batch):
    """The gradient of the same loss, and nothing else."""
    variables = models.values(network)

    def gradient():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(network(batch) - 1.0))
        return tape.gradient(loss, variables)

    return tf.function(gradient)


def _osborne():
    """Return x, y (exact) and a starting point of Osborne's sum of two exponentials: 33 points, 5 parameters."""
    x = np.arange(0.0, 330.0, 10.0)
    truth = np.array([0.375, 1.936, -1.465, 0.01287, 0.02212])
    start = np.array([0.5, 1.5, -1.0, 0.01, 0.02])
    y = truth[0] + truth[1] * np.exp(-x * truth[3]) + truth[2] * np.exp(-x * truth[4])
    return x, y, start


@question("curve-fit")
def curve_fit(quick: bool):
    """Whole fits against SciPy; least_squares has traced its graph in the first call."""
    from scipy.optimize import curve_fit as scipy_curve_fit
    from scipy.optimize import least_squares

    x, y, start = _osborne()
    b = tf.Variable(start)
    x_tensor, y_tensor = tf.constant(x), tf.constant(y)

    def residuals():
        return b[0] + b[1] * tf.exp(-x_tensor * b[3]) + b[2] * tf.exp(-x_tensor * b[4]) - y_tensor

    def curve(x, b0, b1, b2, b3, b4):
        return b0 + b1 * tf.exp(-x * b3) + b2 * tf.exp(-x * b4)

    def fit():
        b.assign(start)
        return tfjac.least_squares(residuals, b).x

    problem = tfjac.LeastSquaresProblem(residuals, b)

    def solve():
        b.assign(start)
        return problem.solve().x

    def model(b):
        return b[0] + b[1] * np.exp(-x * b[3]) + b[2] * np.exp(-x * b[4]) - y

    def numpy_curve(x, b0, b1, b2, b3, b4):
        return b0 + b1 * np.exp(-x * b3) + b2 * np.exp(-x * b4)

    def jacobian(b):
        e1, e2 = np.exp(-x * b[3]), np.exp(-x * b[4])
        return np.stack([np.ones_like(x), e1, e2, -x * b[1] * e1, -x * b[2] * e2], axis=1)

    candidates = {
        "tfjac.curve_fit": lambda: tfjac.curve_fit(curve, x, y, p0=start).popt,
        "tfjac.LeastSquaresProblem.solve": solve,
        "tfjac.least_squares": fit,
        "SciPy curve_fit": lambda: scipy_curve_fit(numpy_curve, x, y, p0=start)[0],
        "SciPy least_squares, lm, exact Jacobian": lambda: least_squares(model, start, jacobian, method="lm").x,
        "SciPy least_squares, lm, finite differences": lambda: least_squares(model, start, method="lm").x,
    }
    yield Case("two exponentials, 33 points, 5 parameters, float64", candidates, tolerance=1e-3)
    if not quick:
        yield _perceptron_fit((1, 20, 20, 1), examples=1000, steps=30)


def _perceptron_fit(layers, examples, steps) -> Case:
    """The same number of linearisations by both; SciPy is given TensorFlow's fastest Jacobian and residuals."""
    from scipy.optimize import least_squares

    model, x = models.mlp(layers), models.inputs(examples, layers[0])
    y = tf.reduce_sum(tf.sin(2 * x), axis=1, keepdims=True)
    variables, flat = models.values(model), FlatModel(model, x, y)

    def fit():
        flat.reset()
        return tfjac.least_squares(lambda: model(x) - y, variables, max_steps=steps, ftol=0.0, xtol=0.0, gtol=0.0).x

    candidates = {
        "tfjac.least_squares": fit,
        "SciPy lm, TensorFlow's Jacobian": lambda: (
            least_squares(flat.residuals, flat.start, flat.jacobian, method="lm", max_nfev=steps).x
        ),
    }
    title = f"perceptron {'-'.join(map(str, layers))}, {examples:,} examples, {steps} steps"
    return Case(title, candidates, tolerance=None)
