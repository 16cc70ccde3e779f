"""Influences against what algebra and one tape for each row say."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.optimizers.test_laplace import CASES, NEW, X, dense, hessian, logits, network
from tests.precision import floating

RNG = np.random.default_rng(5)
Y_NEW = {
    "gaussian": RNG.normal(size=(5, 2)),
    "categorical": RNG.integers(3, size=5),
    "bernoulli": RNG.integers(2, size=(5, 1)),
}
LOSSES = {
    "gaussian": keras.losses.mean_squared_error,
    "categorical": keras.losses.sparse_categorical_crossentropy,
    "bernoulli": keras.losses.binary_crossentropy,
}


def gradients(name, model, x, y):
    """Of the loss that Keras counts, one row at a time, `[n, p]`."""
    found = []
    for k in range(len(x)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(LOSSES[name](tf.constant(y[k : k + 1]), model(x[k : k + 1], training=False)))
        parts = tape.gradient(loss, [v.value for v in model.trainable_variables])
        found.append(np.concatenate([part.numpy().ravel() for part in parts]))
    return np.array(found)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("method", ["weights", "examples", "cg"])
@pytest.mark.parametrize("name", list(CASES))
def test_first_order_against_rows_of_a_tape(name, method):
    loss, outputs, activation, y = CASES[name]
    scale = {"gaussian": 2 / outputs, "categorical": 1, "bernoulli": 1}[name]
    damping = 0.02
    with floating("float64"):
        model = network(outputs, activation)
        model.compile(loss=loss)
        found = tfjac.influence(model, X, y, method=method, removal="first_order", damping=damping, batch_size=4)
        changes, own, levers = found.on_losses(NEW, Y_NEW[name]), found.self_influence(), found.leverages()
        moved = found.on_outputs(NEW)
        rows = dense(model, X, model.trainable_variables, activation is not None)
        new_rows = dense(model, NEW, model.trainable_variables, activation is not None)
        at, new = gradients(name, model, X, y), gradients(name, model, NEW, Y_NEW[name])
        z = model.predict(X, verbose=0) if name == "gaussian" else logits(model, X)
    weighed = scale * np.einsum("nip,nij,njq->npq", rows, hessian(name, z, 1.0), rows)
    inverse = np.linalg.inv(weighed.sum(0) + 14 * damping * np.eye(rows.shape[-1]))
    exact = {"rtol": 1e-5, "atol": 1e-8} if method != "cg" else {"rtol": 2e-3, "atol": 1e-5}
    np.testing.assert_allclose(changes, new @ inverse @ at.T, **exact)
    np.testing.assert_allclose(own, np.einsum("np,pq,nq->n", at, inverse, at), **exact)
    np.testing.assert_allclose(levers, np.einsum("npq,qp->n", weighed, inverse), **exact)
    np.testing.assert_allclose(moved, np.einsum("tip,pq,nq->tni", new_rows, inverse, at), **exact)


def ridge(x, y, left_out, penalty):
    """The weights of least squares with a penalty, one row for each example that counts: NumPy's normal equations."""
    counts = np.ones(len(x))
    counts[left_out] = 0
    return np.linalg.solve(x.T @ (counts[:, None] * x) + penalty * np.eye(x.shape[1]), x.T @ (counts[:, None] * y))


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize(("method", "damping"), [("weights", 0.0), ("weights", 0.1), ("examples", 0.1), ("cg", 0.1)])
def test_ridge_regression_without_each_example(method, damping):
    """Exact by algebra: the mean of two squares is minimised with λ/2‖w‖²."""
    n = 12
    x, y = RNG.normal(size=(n, 4)), RNG.normal(size=(n, 2))
    x_new, y_new = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 2))
    with floating("float64"):
        layer = keras.layers.Dense(2, use_bias=False)
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile(loss="mse")
        layer.kernel.assign(ridge(x, y, [], n * damping))
        found = tfjac.influence(model, x, y, method=method, damping=damping, removal="newton")
        moved, changes, own = found.on_outputs(x_new), found.on_losses(x_new, y_new), found.self_influence()
        levers = found.leverages()
    weights, without = ridge(x, y, [], n * damping), [ridge(x, y, [k], n * damping) for k in range(n)]
    exact = {"rtol": 1e-9, "atol": 1e-12} if method != "cg" else {"rtol": 2e-3, "atol": 1e-4}
    np.testing.assert_allclose(moved, [[row @ (w - weights) for w in without] for row in x_new], **exact)

    def loss(w, row, target):
        return np.mean((row @ w - target) ** 2)

    expected = [[loss(w, *each) - loss(weights, *each) for w in without] for each in zip(x_new, y_new)]
    np.testing.assert_allclose(changes, expected, **exact)
    np.testing.assert_allclose(
        own, [loss(w, x[k], y[k]) - loss(weights, x[k], y[k]) for k, w in enumerate(without)], **exact
    )
    hat = np.diag(x @ np.linalg.inv(x.T @ x + n * damping * np.eye(4)) @ x.T)
    np.testing.assert_allclose(levers, 2 * hat, **exact)


@pytest.mark.parametrize("name", ["categorical", "bernoulli"])
@pytest.mark.parametrize("size", [12.0, 30.0])
def test_saturated_logits_on_the_wrong_side(name, size):
    """In float32 their probability is one; the example with the wrong label must not count as none."""
    outputs = 2 if name == "categorical" else 1
    layer = keras.layers.Dense(outputs, use_bias=False)
    model = keras.Sequential([keras.Input((2,)), layer])
    layer.kernel.assign([[size] * outputs, [1.0] * outputs] * np.array([1.0, -1.0])[:outputs] / outputs)
    x, y = np.array([[1.0, 0.0], [0.1, 1.0], [-0.1, 0.5]]), np.array([0, 1, 0])
    y = 1 - y if name == "categorical" else y[:, None]
    given = {"likelihood": name, "from_logits": True, "damping": 0.01, "removal": "first_order"}
    found = [
        tfjac.influence(model, x, y, method=method, **given).self_influence() for method in ("weights", "examples")
    ]
    p = 1 / (1 + np.exp(-x @ np.array([size, 1.0])))
    slope = p - np.array([0, 1, 0])
    if name == "bernoulli":
        rows = x
        np.testing.assert_allclose(found[0], slope**2 * quadratic(rows, p, 0.03), rtol=1e-4)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)
    assert np.argmax(found[0]) == 0


def quadratic(rows, p, shift):
    """xᵀ(Σ p(1 − p)xxᵀ + δI)⁻¹x of each row."""
    inverse = np.linalg.inv(rows.T @ ((p * (1 - p))[:, None] * rows) + shift * np.eye(rows.shape[1]))
    return np.einsum("ni,ij,nj->n", rows, inverse, rows)


@pytest.mark.parametrize("as_files", [False, True])
def test_tracin_against_rows_of_a_tape(as_files, tmp_path):
    y, y_new = CASES["categorical"][3], Y_NEW["categorical"]
    with floating("float64"):
        model = network(3, "softmax")
        model.compile(loss="sparse_categorical_crossentropy")
        checkpoints, expected, own = [], 0.0, 0.0
        for k, rate in enumerate([0.5, 0.25]):
            for weight in model.trainable_variables:
                weight.assign(weight + 0.2)
            at = gradients("categorical", model, X, y)
            expected = expected + rate * gradients("categorical", model, NEW, y_new) @ at.T
            own = own + rate * np.sum(at**2, axis=1)
            path = tmp_path / f"{k}.weights.h5"
            model.save_weights(path)
            checkpoints.append(path if as_files else model.get_weights())
        model.get_layer(index=-1).bias.assign([3.0, 0.0, -3.0])
        before = model.get_weights()
        found = tfjac.influence(
            model, X, y, method="tracin", checkpoints=checkpoints, learning_rates=[0.5, 0.25], batch_size=3
        )
        np.testing.assert_allclose(found.on_losses(NEW, y_new), expected, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(found.self_influence(), own, rtol=1e-7)
    for left, right in zip(before, model.get_weights()):
        np.testing.assert_array_equal(left, right)


class Masked:
    """A network over three positions of five examples, some of them masked, and what Keras' own loss says of it."""

    def __init__(self, loss, outputs, activation, weight):
        rng = np.random.default_rng(8)
        counts = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 0], [1, 1, 1]])
        self.x, self.weight = rng.normal(size=(5, 3, 2)) * counts[..., None], weight
        self.y = rng.normal(size=(5, 3, outputs)) if activation is None else rng.integers(outputs, size=(5, 3))
        layers = [keras.layers.Masking(), keras.layers.Dense(3, "tanh"), keras.layers.Dense(outputs, activation)]
        keras.utils.set_random_seed(1)
        self.model = keras.Sequential([keras.Input((3, 2)), *layers])
        self.model.compile(loss=loss, loss_weights=None if weight is None else [weight])

    def gradients(self):
        """Of what each example adds to the loss of all of them, times their number, `[n, p]`."""
        n, found = len(self.x), []
        for k in range(n):
            with tf.GradientTape() as tape:
                each = self.model.compute_loss(y=self.y, y_pred=self.model(self.x), sample_weight=np.eye(n)[k][:, None])
            parts = tape.gradient(each, [v.value for v in self.model.trainable_variables])
            found.append(np.concatenate([np.ravel(part) for part in parts]) * (1 if self.sums else n))
        return np.array(found)

    @property
    def sums(self):
        return getattr(self.model.loss, "reduction", None) == "sum"

    def curvature(self):
        """Σ JᵀHJ, from one tape for each output, with the Hessian of Keras' loss of all by the outputs, `[p, p]`."""
        variables = [v.value for v in self.model.trainable_variables]
        with tf.GradientTape(persistent=True) as tape:
            z = self.model(self.x)
            mask, z = z._keras_mask, z if self.model.layers[-1].activation is keras.activations.linear else None
            if z is None:
                last = self.model.layers[-1]
                z = keras.Model(self.model.inputs[0], last.input)(self.x) @ last.kernel.value + last.bias.value
            entries = [each for row in tf.unstack(tf.reshape(z, [-1, z.shape[-1]])) for each in tf.unstack(row)]
        rows = np.array(
            [np.concatenate([np.ravel(part) for part in tape.gradient(each, variables)]) for each in entries]
        )
        last = self.model.layers[-1].activation
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(z)
            with tf.GradientTape() as tape:
                tape.watch(z)
                outputs = last(z)
                outputs._keras_mask = mask
                total = self.model.compute_loss(y=self.y, y_pred=outputs) * (1 if self.sums else len(self.x))
            slopes = tape.gradient(total, z)
        return rows.T @ outer.jacobian(slopes, z).numpy().reshape(len(rows), -1) @ rows


MASKED = {
    "squares": (("mse", 2, None, None), ["weights", "tracin"]),
    "weighted squares": ((keras.losses.MeanSquaredError(dtype="float64"), 2, None, 0.1), ["examples"]),
    "classes": (("sparse_categorical_crossentropy", 3, "softmax", 0.3), ["cg"]),
    "sums": (
        (keras.losses.SparseCategoricalCrossentropy(reduction="sum", dtype="float64"), 3, "softmax", 2.0),
        ["examples"],
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_the_loss_of_an_example_is_what_keras_counts_for_it(name):
    """Positions that a mask leaves out, weights of the loss, and sums in place of means."""
    given, methods = MASKED[name]
    with floating("float64"):
        case, damping = Masked(*given), 0.05
        rows = case.gradients()
        inverse = np.linalg.inv(case.curvature() + len(rows) * damping * np.eye(rows.shape[1]))
        model, x, y = case.model, case.x, case.y
        for method in methods:
            options = {"checkpoints": [model.get_weights()]} if method == "tracin" else {"damping": damping}
            if method != "tracin":
                options["removal"] = "first_order"
            found = tfjac.influence(model, x, y, method=method, **options)
            expected = rows @ rows.T if method == "tracin" else rows @ inverse @ rows.T
            exact = {"rtol": 1e-6, "atol": 1e-9} if method != "cg" else {"rtol": 2e-3, "atol": 1e-5}
            np.testing.assert_allclose(found.self_influence(), np.diag(expected), **exact)
            np.testing.assert_allclose(found.on_losses(x, y), expected, **exact)


@pytest.mark.by_day(None)
def test_ridge_regression_with_a_mask_without_each_example():
    """Exact by algebra: only the places that count are rows, and those of all examples share their mean."""
    counts = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 0], [1, 1, 1]])
    (n, places), damping = counts.shape, 0.1
    x, y = RNG.normal(size=(n, places, 2)) * counts[..., None], RNG.normal(size=(n, places, 1))
    rows, targets, owners = x[counts > 0], y[counts > 0], np.nonzero(counts)[0]
    penalty = damping * len(rows) / 2  # of the sum of squares, n/M of which are the losses
    with floating("float64"):
        layer = keras.layers.Dense(1, use_bias=False)
        model = keras.Sequential([keras.Input((places, 2)), keras.layers.Masking(), layer])
        model.compile(loss="mse")
        layer.kernel.assign(ridge(rows, targets, [], penalty))
        found = tfjac.influence(model, x, y, damping=damping).on_losses(x[:2], y[:2])
        before = model.evaluate(x[:2], y[:2], verbose=0)
        for k in range(n):
            layer.kernel.assign(ridge(rows, targets, owners == k, penalty))
            assert np.mean(found[:, k]) == pytest.approx(model.evaluate(x[:2], y[:2], verbose=0) - before, rel=1e-6)
