"""Steps on sums over batches: the iterates of the full batch, which are those of a method written down in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.optimizers.test_fit import weights
from tests.precision import floating
from tfjac.optimizers import LevenbergMarquardt, MultiplicativeDamping, Status

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(23, 4))
Y = np.sin(X[:, :3]) + 0.1 * RNG.normal(size=(23, 3))
LABELS = RNG.integers(0, 3, 23)
WEIGHTS = RNG.uniform(size=23).astype("float32").astype(float)


# ---------------------------------------------------------------- the method, in NumPy


def network(w):
    """Return the outputs of a network 4-5-3, `[n, 3]`, and their Jacobian `[n, 3, p]`; w in the order of Keras."""
    (a, b, c, d), n = np.split(w, [20, 25, 40]), len(X)
    a, c = a.reshape(4, 5), c.reshape(5, 3)
    hidden = np.tanh(X @ a + b)
    back = (1 - hidden**2)[:, None, :] * c.T  # [n, 3, 5]
    parts = [
        np.einsum("ni,nmh->nmih", X, back).reshape(n, 3, -1),
        back,
        np.einsum("nh,mk->nmhk", hidden, np.eye(3)).reshape(n, 3, -1),
        np.broadcast_to(np.eye(3), (n, 3, 3)),
    ]
    return hidden @ c + d, np.concatenate(parts, axis=2)


def squares(weights, l2=0.0):
    """Return the function from w to F, JᵀJ, g and Λ of Σ weights·(error)² + l2·‖first kernel‖²."""
    precision = np.where(np.arange(43) < 20, 2 * l2, 0.0)

    def model(w):
        outputs, jacobian = network(w)
        residual, rows = outputs - Y, jacobian.reshape(-1, 43)
        twice = 2 * np.broadcast_to(weights, (23, 3)).ravel()
        cost = (weights * residual**2).sum() + (precision * w**2).sum() / 2
        gradient = rows.T @ (twice * residual.ravel()) + precision * w
        return cost, rows.T @ (twice[:, None] * rows), gradient, precision

    return model


def cross_entropy(w):
    """Return F, JᵀHJ, g and Λ of the mean cross-entropy of logits."""
    logits, jacobian = network(w)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    hessian = np.einsum("nk,kl->nkl", probability, np.eye(3)) - np.einsum("nk,nl->nkl", probability, probability)
    cost = -np.log(probability[np.arange(23), LABELS]).mean()
    gradient = np.einsum("nkp,nk->p", jacobian, probability - np.eye(3)[LABELS]) / 23
    return cost, np.einsum("nkp,nkl,nlq->pq", jacobian, hessian, jacobian) / 23, gradient, np.zeros(43)


def squared_hinge(w):
    """Return F, JᵀJ, g and Λ of the mean of max(0, 1 − sz)², with the signs s of Y."""
    outputs, jacobian = network(w)
    left = np.maximum(1 - np.sign(Y) * outputs, 0).ravel()
    rows = -(np.sign(Y)[:, :, None] * jacobian).reshape(-1, 43) * (left > 0)[:, None]
    return np.mean(left**2), rows.T @ rows * 2 / 69, rows.T @ left * 2 / 69, np.zeros(43)


def iterates(model, w, steps, initial=1e-3):
    """Yield the weights after each attempt, accepted or not: Madsen, Nielsen & Tingleff 2004, algorithm 3.16, D = I."""
    cost, gram, gradient, precision = model(w)
    damping, growth = initial * gram.diagonal().max(), 2.0
    for _ in range(steps):
        step = -np.linalg.solve(gram + np.diag(precision) + damping * np.eye(len(w)), gradient)
        predicted = -(gradient @ step + step @ (gram + np.diag(precision)) @ step / 2)
        there = model(w + step)
        ratio = (cost - there[0]) / predicted
        if ratio > 1e-3:
            w, (cost, gram, gradient, precision) = w + step, there
            damping, growth = damping * max(1 / 3, 1 - (2 * min(ratio, 1) - 1) ** 3), 2.0
        else:
            damping, growth = damping * growth, 2 * growth
        yield w


# ---------------------------------------------------------------- the same in Keras


class Path(keras.callbacks.Callback):
    """Keeps the weights after each epoch."""

    def on_train_begin(self, logs=None):
        self.weights = []

    def on_epoch_end(self, epoch, logs=None):
        self.weights.append(weights(self.model))


def net(**options):
    keras.utils.set_random_seed(1)
    hidden = layers.Dense(5, activation="tanh", **options)
    return keras.Sequential([layers.Input((4,)), hidden, layers.Dense(3)])


def assert_same_path(keras_model, model, y=Y, steps=9, **options):
    """Train by batches of 5, the last of 3, and compare the weights after each epoch with those of NumPy."""
    path, start = Path(), weights(keras_model)
    keras_model.fit(
        X, y, batch_size=5, epochs=steps + 1, verbose=0, callbacks=[path, tfjac.callbacks.StepMonitor()], **options
    )
    np.testing.assert_array_equal(path.weights[0], start)
    expected = list(iterates(model, start, steps))
    np.testing.assert_allclose(path.weights[1:], expected, rtol=1e-8, atol=1e-9)
    moves = np.abs(np.diff(np.array([start, *expected]), axis=0)).max(axis=1)
    assert (moves > 0).sum() >= 4
    assert int(keras_model.optimizer.iterations) == steps == keras_model.optimizer.num_attempts
    assert keras_model.optimizer.num_accepted == (moves > 0).sum()
    return steps - keras_model.optimizer.num_accepted


@pytest.mark.by_day(None)
def test_shuffled_batches_weights_and_a_regulariser():
    with floating("float64"):
        model = net(kernel_regularizer=keras.regularizers.L2(2**-7))
        model.compile(LevenbergMarquardt(memory="epoch"), loss="mse", jit_compile=False)
        oracle = squares(WEIGHTS[:, None] / (23 * 3), l2=2**-7)
        rejected = assert_same_path(model, oracle, sample_weight=WEIGHTS, shuffle=True)
        assert rejected, "the path shows what becomes of a step that is rejected"
        assert model.optimizer.last_report.cost == pytest.approx(oracle(weights(model))[0], rel=1e-10)


@pytest.mark.by_day(None)
def test_several_batches_in_one_call_and_curvature():
    with floating("float64"):
        model, loss = net(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(LevenbergMarquardt(memory=5), loss=loss, jit_compile=False, steps_per_execution=3)
        assert_same_path(model, cross_entropy, y=LABELS)


def test_a_loss_that_asks_whether_all_labels_are_zeros_and_ones():
    with floating("float64"):
        model = net()
        model.compile(LevenbergMarquardt(memory="epoch"), loss="squared_hinge", jit_compile=False)
        assert_same_path(model, squared_hinge, y=(Y > 0).astype(float))


@pytest.mark.by_day(None)
def test_a_mean_by_weights():
    """Batches count by their weights, not by their examples."""
    with floating("float64"):
        loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
        model = net()
        model.compile(LevenbergMarquardt(memory="epoch"), loss=loss, jit_compile=False)
        oracle = squares(WEIGHTS[:, None] / (WEIGHTS.sum() * 3))
        assert_same_path(model, oracle, sample_weight=WEIGHTS, steps=12)


def test_a_mean_over_what_a_mask_leaves(monkeypatch):
    valid = np.arange(23) % 5 != 1
    monkeypatch.setitem(globals(), "X", np.where(valid[:, None], X, 0.0))
    with floating("float64"):
        net()  # the seed
        hidden = layers.Dense(5, activation="tanh")
        model = keras.Sequential([layers.Input((4,)), layers.Masking(), hidden, layers.Dense(3)])
        model.compile(LevenbergMarquardt(memory="epoch"), loss="mse", jit_compile=False)
        assert_same_path(model, squares(valid[:, None] / (3 * valid.sum())))


@pytest.mark.by_day(None)
def test_two_outputs():
    with floating("float64"):
        keras.utils.set_random_seed(1)
        inputs = keras.Input((4,))
        both = layers.Dense(3)(layers.Dense(5, activation="tanh")(inputs))
        model = keras.Model(inputs, {"a": both[:, :2], "b": both[:, 2:]})
        losses, loss_weights = {"a": "mse", "b": "mse"}, {"a": 1.0, "b": 0.5}
        model.compile(LevenbergMarquardt(memory=5), losses, loss_weights, jit_compile=False)
        assert_same_path(model, squares(np.array([0.5, 0.5, 0.5]) / 23), y={"a": Y[:, :2], "b": Y[:, 2:]})


def hidden_and_errors(factor):
    """Return F, JᵀJ, g and Λ of the mean squared error and `factor` times the mean over examples of Σ hidden²."""
    error = squares(np.full((23, 1), 1 / (23 * 3)))

    def model(w):
        hidden = np.tanh(X @ w[:20].reshape(4, 5) + w[20:25])
        back = 1 - hidden**2
        rows = np.concatenate([np.einsum("ni,nh,hk->nhik", X, back, np.eye(5)).reshape(115, 20)], axis=1)
        rows = np.concatenate([rows, (back[:, :, None] * np.eye(5)).reshape(115, 5), np.zeros((115, 18))], axis=1)
        cost, gram, gradient, precision = error(w)
        cost += factor / 23 * (hidden**2).sum()
        gradient = gradient + 2 * factor / 23 * rows.T @ hidden.ravel()
        return cost, gram + 2 * factor / 23 * rows.T @ rows, gradient, precision

    return model


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("is_open", [True, False])
def test_a_mean_over_examples_beside_one_over_elements(is_open, recwarn):
    """Activity regularisers, where the size of batches is open while tracing, and where it is known."""
    with floating("float64"):
        model = net(activity_regularizer=keras.regularizers.L2(2**-5))
        model.compile(LevenbergMarquardt(memory="epoch"), loss="mse", jit_compile=False)
        oracle, start = hidden_and_errors(2**-5), weights(model)
        if is_open:
            assert_same_path(model, oracle)
        else:
            path = Path()
            model.fit(X, Y, batch_size=23, epochs=6, verbose=0, callbacks=[path, tfjac.callbacks.StepMonitor()])
            np.testing.assert_allclose(path.weights[1:], list(iterates(oracle, start, 5)), rtol=1e-8, atol=1e-9)
    assert not [str(each.message) for each in recwarn if "tfjac" in str(each.message)]


@pytest.mark.by_day(None)
def test_batches_of_other_sizes_that_are_known_while_tracing():
    """Each is a trace of its own, which divides by constants: one for the examples, one for half of the squares."""

    def halves(y, outputs):
        return tf.reduce_sum(tf.square(outputs - y)) / 2 / y.shape[0]

    with floating("float64"):
        model, start = net(), weights(net())
        model.compile(LevenbergMarquardt(memory=2), loss=halves, jit_compile=False)
        functions = {}
        for _ in range(6):
            for batch in (slice(0, 6), slice(6, 23)):
                fresh = tf.data.Dataset.from_tensors((X[batch], Y[batch]))
                model.train_function = functions.get(batch.start)
                model.fit(fresh, verbose=0)
                functions[batch.start] = model.train_function
        expected = list(iterates(squares(np.full((23, 1), 0.5 / 23)), start, 5))[-1]
        np.testing.assert_allclose(weights(model), expected, rtol=1e-8, atol=1e-9)


# ---------------------------------------------------------------- windows


def line(jit_compile=False, **options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1, activation="softplus")])
    model.compile(LevenbergMarquardt(**options), loss="mse", jit_compile=jit_compile)
    return model


def fit(model, x=X[:20], y=Y[:20, :1], epochs=1, callbacks=None, **options):
    callbacks = [tfjac.callbacks.StepMonitor()] if callbacks is None else callbacks
    return model.fit(x, y, batch_size=5, epochs=epochs, verbose=0, shuffle=False, callbacks=callbacks, **options)


@pytest.mark.by_day(None)
def test_saved_in_the_middle_of_a_window(tmp_path):
    """Windows of 5 batches over epochs of 4, under XLA and not: loaded after two epochs, as if nothing had happened."""
    model, parts = line(memory=5, jit_compile=True), line(memory=5)
    fit(model, epochs=5)
    fit(parts, epochs=2)
    parts.save(tmp_path / "parts.keras")
    parts = keras.models.load_model(tmp_path / "parts.keras")
    assert parts.optimizer.get_config()["memory"] == 5
    fit(parts, epochs=3)
    assert int(parts.optimizer.iterations) == int(model.optimizer.iterations) == 3
    np.testing.assert_allclose(weights(parts), weights(model), rtol=1e-5, atol=2e-6)


@pytest.mark.by_day(None)
def test_what_is_not_finite_changes_nothing():
    model = line(memory="epoch")
    fit(model, epochs=3)
    before, damping = weights(model), model.optimizer.current_damping
    broken = X[:20].copy()
    broken[11] = np.nan
    fit(model, x=broken, epochs=2)
    assert model.optimizer.status is Status.NOT_FINITE
    np.testing.assert_array_equal(weights(model), before)
    assert model.optimizer.current_damping == damping
    fit(model, epochs=1)
    assert model.optimizer.status is Status.RUNNING and (weights(model) != before).all()


@pytest.mark.by_day(None)
def test_an_empty_batch_adds_nothing():
    def data(sizes):
        def batches():
            for start, size in zip(np.cumsum([0, *sizes]), sizes):
                yield X[start : start + size], Y[start : start + size, :1]

        specs = (tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None, 1], tf.float32))
        return tf.data.Dataset.from_generator(batches, output_signature=specs)

    models = line(memory=3), line(memory=4)
    for model, sizes in zip(models, ([9, 9, 5], [9, 0, 9, 5])):
        model.fit(data(sizes).repeat(4), epochs=1, verbose=0)
    assert models[0].optimizer.num_attempts == models[1].optimizer.num_attempts == 3
    np.testing.assert_array_equal(weights(models[0]), weights(models[1]))


@pytest.mark.by_day(None)
def test_a_window_that_says_nothing_is_as_if_it_had_not_been():
    """Without examples, first and between others, or of those that weigh nothing."""

    def trained(*kinds):
        def batches():
            for kind in kinds:
                size = 0 if kind == "empty" else 23
                yield X[:size], Y[:size, :1], np.full(size, kind == "full")

        specs = [tf.TensorSpec(shape, tf.float32) for shape in ([None, 4], [None, 1], [None])]
        model = line(memory=1)
        model.fit(tf.data.Dataset.from_generator(batches, output_signature=tuple(specs)), verbose=0)
        return model

    model, other = trained(*["full"] * 5), trained("empty", *["full", "empty", "weightless"] * 5)
    assert other.optimizer.num_attempts == model.optimizer.num_attempts == 4
    assert other.optimizer.current_damping == model.optimizer.current_damping
    np.testing.assert_array_equal(weights(other), weights(model))


@pytest.mark.by_day(None)
def test_windows_are_epochs_where_a_callback_tells_of_them():
    """After a fit that was cut short in the middle of an epoch, and on fewer data."""

    class Halt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 2 and model.optimizer.num_attempts == 1:
                raise KeyboardInterrupt

    with floating("float64"):
        model, path, start = net(), Path(), weights(net())
        model.compile(LevenbergMarquardt(memory="epoch"), loss="mse", jit_compile=False)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y, batch_size=5, epochs=9, verbose=0, callbacks=[Halt(), tfjac.callbacks.StepMonitor()])
        told = [path, tfjac.callbacks.StepMonitor()]
        model.fit(X, Y, batch_size=5, epochs=4, verbose=0, callbacks=told)
        expected = list(iterates(squares(np.full((23, 1), 1 / 69)), start, 5))
        np.testing.assert_allclose(path.weights, expected[1:], rtol=1e-8, atol=1e-9)
        steps = model.optimizer.num_attempts
        model.fit(X[:15], Y[:15], batch_size=5, epochs=4, verbose=0, callbacks=told)
        assert model.optimizer.num_attempts == steps + 4


@pytest.mark.by_day(None)
def test_windows_that_differ_are_judged_on_the_same_examples():
    """Windows have data of their own, with costs of other sizes: a step is judged by both of its ends on the same."""
    scale = np.array([1.0, 100.0, 0.01, 10.0])
    x = RNG.normal(size=(80, 4))
    y = np.repeat(scale, 20)[:, None] * np.log1p(np.exp(x @ [[1.0], [-1.0], [0.5], [0.0]]))
    model = line(memory=4, damping=MultiplicativeDamping(1.0))
    fit(model, x, y)
    report, after = model.optimizer.last_report, weights(model)
    here = model.evaluate(x[60:], y[60:], verbose=0, batch_size=20)
    assert report.cost == pytest.approx(here, rel=1e-4)
    assert len(after) == 5 and model.optimizer.num_attempts == 3


@pytest.mark.by_day(None)
def test_weights_that_somebody_else_sets():
    """What is known of the point before is dropped, in the middle of a window too: as with a new optimizer."""
    model, fresh = line(memory=5), line(memory=5)
    fit(model, epochs=3)
    for each in (model, fresh):
        each.set_weights([np.full((4, 1), 0.3), np.full(1, 0.1)])
        each.optimizer.build(each.trainable_variables)
    for variable in model.optimizer._state._damping:
        variable.assign(tf.zeros_like(variable))
    for each in (model, fresh):
        fit(each, epochs=4)
    assert fresh.optimizer.num_accepted > 0
    np.testing.assert_array_equal(weights(model), weights(fresh))


@pytest.mark.by_day(None)
def test_epochs_without_a_step_are_not_idle():
    """Three epochs make one window, of which the first takes no step."""
    model = line(memory=12)
    fit(model, epochs=9, callbacks=[tfjac.callbacks.StepMonitor(patience=1)])
    assert model.optimizer.num_steps == 2


@pytest.mark.by_day(None)
def test_convergence_ends_the_training():
    model, convergence = line(memory="epoch"), tfjac.callbacks.Convergence(patience=3)
    history = fit(model, epochs=60, callbacks=[convergence]).history
    assert convergence.status.converged and 3 < model.optimizer.num_steps < 59
    assert np.isnan(history["gain_ratio"][0]) and np.isfinite(history["gain_ratio"][1:]).all()
    assert {len(column) for column in history.values()} == {model.optimizer.num_steps + 1}


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "qr"}, "only solver='cholesky' works with. Received: memory=2 and solver='qr'"),
        ({"acceleration": "geodesic"}, "memory=2 goes without acceleration"),
        ({"regularization": "bayesian"}, "memory=2 goes without regularization"),
        ({"steps_per_batch": 2}, "memory=2 goes without steps_per_batch"),
        ({"memory": 0}, "memory must be .* Received: memory=0 of type int"),
        ({"memory": "epochs"}, "'epoch' for all of an epoch. Received: memory='epochs'"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(ValueError, match=message):
        LevenbergMarquardt(**{"memory": 2, **options})


def test_an_epoch_of_unknown_length():
    unknown = tf.data.Dataset.from_tensor_slices((X, Y[:, :1])).filter(lambda x, y: True).batch(5)
    with pytest.raises(ValueError, match=r"pass steps_per_epoch to fit, .*Received: a fit that does not know"):
        line(memory="epoch").fit(unknown, verbose=0, callbacks=[tfjac.callbacks.StepMonitor()])
    with pytest.raises(ValueError, match=r"StepMonitor\(\)\] to fit, .*Received: a batch of an epoch of unknown"):
        line(memory="epoch").fit(X, Y[:, :1], verbose=0)
    with pytest.raises(ValueError, match="Received: a batch of an epoch of unknown length"):
        line(memory="epoch").train_on_batch(X, Y[:, :1])


def test_epochs_that_nobody_tells_of_are_warned_of():
    model = line(memory="epoch")
    fit(model, epochs=2)
    with pytest.warns(UserWarning, match="StepMonitor.*windows of 4 batches, 1 left over"):
        fit(model, X[:15], Y[:15, :1], epochs=3, callbacks=[])


def test_a_matrix_that_is_too_large():
    model = keras.Sequential([layers.Input((40000,)), layers.Dense(1)])
    model.compile(LevenbergMarquardt(memory=2, memory_budget=1e10), loss="mse")
    with pytest.raises(ValueError, match=r"would take 11.9 GB of memory, for 40,001 parameters, more than the "):
        model.train_on_batch(np.zeros((2, 40000)), np.zeros((2, 1)))


SUMMED = keras.losses.MeanSquaredError(reduction="sum")


@pytest.mark.parametrize(
    ("layer", "loss", "message"),
    [
        (layers.BatchNormalization(), "mse", "examples of a batch depend on one another"),
        (None, lambda y, z: tf.reduce_sum(tf.square(y - z)) / tf.reduce_max(tf.abs(y)), "neither a number of elements"),
        (None, lambda y, z: 1e-3 * tf.square(tf.reduce_mean(y - z)), "something else stands between"),
        (layers.Dense(1, kernel_regularizer="l2"), SUMMED, "a regulariser would count again for each batch"),
    ],
)
def test_losses_that_do_not_add_up(layer, loss, message):
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1), *([layer] if layer else [])])
    model.compile(LevenbergMarquardt(memory=2), loss=loss, jit_compile=False)
    with pytest.raises(ValueError, match=rf"{message}.*Received: op"):
        model.train_on_batch(X, Y[:, :1])


def test_a_regulariser_that_is_divided_by_the_batch():
    """The mean over batches of (S + R)/n is not (S + R)/n of all."""
    model = net()

    def loss(y, z):
        weighed = tf.reduce_sum(tf.square(y - z)) + tf.reduce_sum(tf.square(model.weights[0].value))
        return weighed / tf.cast(tf.shape(y)[0], tf.float32)

    model.compile(LevenbergMarquardt(memory="epoch"), loss=loss, jit_compile=False)
    with pytest.raises(ValueError, match=r"a regulariser is divided by the number of examples.*Received: op"):
        model.fit(X, Y, batch_size=5, verbose=0, callbacks=[tfjac.callbacks.StepMonitor()])


def test_constraints_and_calls_by_hand():
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1, kernel_constraint="non_neg")])
    model.compile(LevenbergMarquardt(memory=2), loss="mse")
    with pytest.raises(ValueError, match=r"know no constraints on weights: leave one of them out. Received: NonNeg"):
        model.train_on_batch(X, Y[:, :1])
    with pytest.raises(ValueError, match=r"tfjac.normal_equations .*Received: memory=2 and a call of minimize"):
        LevenbergMarquardt(memory=2).minimize(lambda: 0.0, [tf.Variable(1.0)])
