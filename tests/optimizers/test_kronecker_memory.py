"""`memory="auto"` by Kronecker factors. Steps are held to NumPy, and what is kept to brute force."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.fixtures import ON_GPU
from tests.optimizers.test_auto_memory import (
    LOSSES,
    network,
    squares,
    streams,
    trained_at_once_and_with_a_pause,
    weights,
    with_chords,
)
from tests.precision import floating
from tfjac.drive.streamed import kronecker
from tfjac.drive.streamed.fading import FadingModel
from tfjac.drive.streamed.kronecker import KroneckerMemory
from tfjac.keras import memory
from tfjac.optimizers import LevenbergMarquardt, Status

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = np.sin(X @ RNG.normal(size=(4, 6)))
ENOUGH = 200  # examples by which the bound of α has grown
SOON = 7  # steps after each of which factors are renewed, and every fifth time from then on
LEVEL = 3  # steps after which the pace is a half, if no loss falls


def perceptron(inputs, hidden, outputs):
    keras.utils.set_random_seed(1)
    units = [layers.Dense(number, "relu") for number in hidden]
    return keras.Sequential([layers.Input((inputs,)), *units, layers.Dense(outputs)])


@pytest.fixture(autouse=True)
def factors_for_all(monkeypatch):
    """Keep factors of networks of any size and any number of outputs."""
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "MOST_OUTPUTS", 0)


class Factored:
    """The method for z = xW with a penalty c‖W‖², and a loss whose second derivative by z is diagonal."""

    def __init__(self, loss, w, penalty, share=None, by_drawn=False):
        self.by_drawn, self.losses, self.pace = by_drawn, None, 1.0
        self.loss, self.w, self.penalty, self.share = loss, w.copy(), penalty, share
        self.left, self.right, self.last = 0.0, 0.0, 0 * w
        self.damping, self.stiffness, self.largest, self.number, self.examples = 0.0, 0.0, 0.0, 0, 0
        self.weight = 0.0

    def total(self, x, y, w):
        return self.loss(x @ w, y)[0] + self.penalty * np.sum(w**2)

    def drawn(self, second):
        """d of each example, the sum of its rows with signs, which are drawn here as there."""
        bits = tf.random.stateless_uniform(second.shape[:2], [self.number, 0], 0, 2, tf.int32).numpy()
        return (2 * bits - 1) * np.sqrt(np.einsum("naa->na", second))

    def step(self, x, y):
        _, first, second = with_chords(self.loss, x @ self.w, y)
        value = self.total(x, y, self.w)
        scaled = self.paced(value / len(x)) if self.share is None else self.share(self.number)
        gradient = x.T @ first + 2 * self.penalty * self.w
        kept = min(0.95, self.number / (self.number + 1))
        earlier, weight = kept * self.weight, kept * self.weight + (1 - kept) * len(x)
        is_due, kept = self.number < SOON or self.number % 5 == 0, earlier / weight
        self.weight, self.largest = weight if is_due else self.weight, 0.9999 * self.largest
        part = min(len(x) / self.weight, 1.0)  # a smaller batch counts for less
        d = self.drawn(second)
        if is_due:
            left, right = x.T @ x / len(x), d.T @ d
            self.left, self.right = kept * self.left + (1 - kept) * left, kept * self.right + (1 - kept) * right
            mean = np.trace(self.left) * np.trace(self.right) / self.w.size
            self.largest = max(self.largest, mean)
        damping = self.damping or mean
        damping = max(damping, (1e-3 if self.loss is squares else 6 * 0.02) * self.largest)
        if is_due:
            share = np.sqrt(np.trace(self.left) / len(self.left) / (np.trace(self.right) / len(self.right)))
            sides = (self.left, share), (self.right, 1 / share)
            self.inverses = [np.linalg.inv(m + s * np.sqrt(damping) * np.eye(len(m))) for m, s in sides]
        pair = [-self.inverses[0] @ gradient @ self.inverses[1], self.last]
        matrices = np.einsum("na,nb->nab", d, d) if self.by_drawn else second
        curvature = lambda u, v: np.einsum("na,nab,nb", x @ u, matrices, x @ v) + 2 * self.penalty * np.sum(u * v)  # noqa: E731
        model = np.array([[curvature(u, v) for u in pair] for v in pair])
        squared = np.array([[np.sum(u * v) for u in pair] for v in pair])
        slopes = np.array([np.sum(gradient * u) for u in pair])
        stiffness = part * (model + damping * squared)[0, 0] / -slopes[0]
        fades = min(kept, 0.8)
        self.stiffness = fades * self.stiffness + (1 - fades) * stiffness
        most = part * min(1 / self.stiffness, 1.0)
        self.last, growth = 0 * self.w, 2.0
        for _ in range(5):
            both = model + damping * squared
            soon = min(0.1 + 0.9 * self.examples / ENOUGH, 1.0)
            first, second = self.coordinates(both, slopes, most * scaled * soon)
            step = first * pair[0] + second * pair[1]
            on = np.array([first, second])
            promise = -(slopes @ on + on @ model @ on / 2)
            if value - self.total(x, y, self.w + step) > 1e-3 * promise:
                self.w, self.last = self.w + step, step
                self.damping = damping * np.clip((0.02 * stiffness) ** 0.1, 0.8, 1.25)
                break
            self.damping = 2 * damping
            damping, growth = damping * growth, 2 * growth
        self.number += 1
        self.examples += len(x)

    def paced(self, loss):
        """The part of α's bound that is left, by how the losses of a half and a quarter of the steps have fallen."""
        before = [loss, loss] if self.losses is None else self.losses
        parts = [min(k / (self.number + 1), 1) for k in (4, 2)]
        latest, later = self.losses = [(1 - part) * mean + part * loss for part, mean in zip(parts, before)]
        power = 4 * (later - latest) / abs(2 * later - latest)
        self.pace *= 1 - (self.number > 0) * np.clip(1 - 2 * power, 0, 1) / (self.number + LEVEL)
        self.pace = max(self.pace, 0.1)
        return self.pace

    @staticmethod
    def coordinates(both, slopes, most):
        """The minimum for α up to `most` and μ from 0 to 0.95, one after the other as the method bounds them."""
        if both[1, 1] == 0:
            return min(-slopes[0] / both[0, 0], most), 0.0
        first = min(np.linalg.solve(both, -slopes)[0], most)
        best = -(slopes[1] + first * both[0, 1]) / both[1, 1]
        second = np.clip(best, 0.0, 0.95)
        if second != best:
            first = np.clip(-(slopes[0] + second * both[0, 1]) / both[0, 0], 0.0, most)
        return first, second


@pytest.mark.by_day(None)
@pytest.mark.parametrize("by_drawn", [False, True])
@pytest.mark.parametrize(
    ("name", "penalty", "share"),
    [("mse", 0.0, False), ("mse", 0.05, False), ("binary", 0.0, False), ("poisson", 0.0, False), ("mse", 0.0, True)],
)
def test_steps_are_those_of_the_method(name, penalty, share, by_drawn, monkeypatch):
    """With a schedule too, which halves the bound of α with each step, but not what λ is led by.

    If data are known to be new with each step, products are those of the drawn rows, and the gradient is exact.
    Keras keeps the penalty, and what a schedule says, in float32.
    """
    monkeypatch.setattr(kronecker, "ENOUGH", ENOUGH)
    monkeypatch.setattr(kronecker, "SOON", SOON)
    monkeypatch.setattr(kronecker, "LEVEL", LEVEL)
    monkeypatch.setattr(memory, "data_stream", lambda: by_drawn)
    oracle_loss, loss, y = LOSSES[name]
    random = np.random.default_rng(1)
    with floating("float64"):
        keras.utils.set_random_seed(1)
        regularizer = keras.regularizers.L2(penalty) if penalty else None
        model = keras.Sequential([layers.Input((4,)), layers.Dense(2, use_bias=False, kernel_regularizer=regularizer)])
        schedule = keras.optimizers.schedules.ExponentialDecay(1.5, 4, 0.5) if share else None
        model.compile(LevenbergMarquardt(learning_rate=schedule), loss=loss(), jit_compile=False)
        scaled = (lambda number: min(float(np.float32(1.5 * 0.5 ** (number / 4))), 1.0)) if share else None
        oracle = Factored(oracle_loss, model.get_weights()[0], float(np.float32(penalty)), scaled, by_drawn)
        for _ in range(3):
            for rows in np.split(random.permutation(150), range(20, 150, 20)):
                model.train_on_batch(X[rows], y[rows])
                oracle.step(X[rows], y[rows])
                np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-9, atol=1e-12)
    assert isinstance(model.optimizer._memory.model, KroneckerMemory) and model.optimizer.solver_used == "kronecker"
    np.testing.assert_allclose(model.optimizer.current_damping, oracle.damping, rtol=1e-6)


def test_a_learning_rate_of_zero_has_a_status_and_keeps_the_damping():
    model = network(hidden=5)
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([4], [1.0, 0.0])
    model.compile(LevenbergMarquardt(learning_rate=schedule), loss=model.loss, jit_compile=False)
    rests = []
    for step in range(24):
        before = model.get_weights(), float(model.optimizer.current_damping)
        model.train_on_batch(X[step :: step + 3], Y[step :: step + 3, :2])
        if model.optimizer.status is Status.ZERO_LEARNING_RATE:
            rests.append(step)
            assert all(map(np.array_equal, model.get_weights(), before[0]))
            assert model.optimizer.current_damping == before[1]
        assert model.optimizer.status in (Status.RUNNING, Status.ZERO_LEARNING_RATE)
    assert rests and rests[0] > 4


def by_example(model, kernel, x, signs):
    """Σ over signs of rows of J of one kernel, for each example: `[n, size]`, by a tape for each."""
    rows = []
    for example, sign in zip(x, signs):
        with tf.GradientTape() as tape:
            output = tf.reduce_sum(sign * model(example[None])[0])
        rows.append(tf.reshape(tape.gradient(output, kernel.value), [-1]).numpy())
    return np.array(rows)


@pytest.mark.by_day(None)
def test_what_is_kept_of_a_dense_layer_is_brute_force():
    """A ⊗ G of a layer of one position; of a bias JᵀJ itself. The trace is exact for what is drawn."""
    with floating("float64"):
        model = network(hidden=5)
        model.train_on_batch(X[:30], Y[:30, :2])
        before = network(hidden=5)
        parts = model.optimizer._memory.model._parts
        bits = tf.random.stateless_uniform([30, 2], [0, 0], 0, 2, tf.int32).numpy()
        signs = (2 * bits - 1) * np.sqrt(2 / 60)
        kernel, bias = before.layers[0].kernel, before.layers[0].bias
        rows = by_example(before, bias, X[:30], signs)
        np.testing.assert_allclose(parts[1]._sides[1].numpy()[0], rows.T @ rows, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(parts[0]._sides[0].numpy()[0], X[:30].T @ X[:30] / 30, rtol=1e-9)
        np.testing.assert_allclose(parts[0]._sides[1].numpy()[0], rows.T @ rows, rtol=1e-9, atol=1e-12)
        outer = np.einsum("ni,no->nio", X[:30], rows).reshape(30, -1)
        np.testing.assert_allclose(by_example(before, kernel, X[:30], signs), outer, rtol=1e-9, atol=1e-12)


@pytest.mark.by_day(None)
def test_of_one_output_and_one_layer_a_step_is_that_of_gauss_newton(monkeypatch):
    """A ⊗ G is JᵀJ there: with little damping the first step leads to the minimum of the batch."""
    monkeypatch.setattr(kronecker, "LEAST_OF_SQUARES", 0.0)
    with floating("float64"):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([layers.Input((4,)), layers.Dense(1, use_bias=False)])
        model.compile(LevenbergMarquardt(), loss="mse", jit_compile=False)
        model.train_on_batch(X[:20], Y[:20, :1])
        factors = model.optimizer._memory.model
        factors._damping.assign(1e-12)
        factors._stiffness.assign(0.0)
        factors._last.assign(np.zeros(4))
        factors._steps.assign(0)
        factors._examples.assign(kronecker.ENOUGH)  # a step of full length
        model.train_on_batch(X[20:60], Y[20:60, :1])
        best = np.linalg.lstsq(X[20:60], Y[20:60, :1], rcond=None)[0]
        np.testing.assert_allclose(model.get_weights()[0], best, rtol=1e-4)


@pytest.mark.by_day(None)
def test_with_much_damping_a_step_is_along_the_gradient():
    with floating("float64"):
        model = network(hidden=5)
        model.train_on_batch(X[:30], Y[:30, :2])
        model.optimizer._memory.model._damping.assign(1e8)
        model.optimizer._memory.model._last.assign(np.zeros(37))
        before = weights(model)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(X[30:60]) - Y[30:60, :2]) ** 2)
        slope = np.concatenate([each.numpy().ravel() for each in tape.gradient(loss, [v.value for v in model.weights])])
        model.train_on_batch(X[30:60], Y[30:60, :2])
        step = weights(model) - before
        assert -step @ slope > 0.999 * np.linalg.norm(step) * np.linalg.norm(slope) > 0


def test_a_text_in_batches_of_open_size_has_factors_of_all_its_weights():
    """Keras' Dense of rank 3 reshapes by a computed shape there, which says nothing of the features."""
    layout = [layers.Input((6,)), layers.Embedding(9, 5), layers.Dense(7, "tanh"), layers.Dense(9)]
    keras.utils.set_random_seed(0)
    model = keras.Sequential(layout)
    model.compile(LevenbergMarquardt(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = RNG.integers(0, 9, size=(50, 6))
    model.fit(x, x, batch_size=32, verbose=0)
    sides = [[tuple(side.shape) for side in part._sides] for part in model.optimizer._memory.model._parts]
    shapes = [(9,), (5, 5)], [(1, 5, 5), (1, 7, 7)], [(1, 1, 1), (1, 7, 7)], [(1, 7, 7), (1, 9, 9)]
    assert sides == [*map(list, shapes), [(1, 1, 1), (1, 9, 9)]]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("often", [False, True])
def test_many_weights_with_one_output_have_factors_unless_they_multiply_often(often, monkeypatch):
    monkeypatch.setattr(memory, "MOST_OUTPUTS", 4)
    entry = keras.Input((4,))
    shared = layers.Dense(4, "tanh")
    hidden = layers.Dense(20, "tanh")(shared(shared(shared(shared(shared(entry)))) if often else entry))
    model = keras.Model(entry, layers.Dense(1)(hidden))
    model.compile(LevenbergMarquardt(), "mse", jit_compile=False)
    model.fit(X, Y[:, :1], batch_size=50, verbose=0)
    assert isinstance(model.optimizer._memory.model, FadingModel if often else KroneckerMemory)


# ------------------------------------------------------------------------ in company


@pytest.mark.by_day(None)
@pytest.mark.parametrize("damping", ["nielsen", "multiplicative"])
def test_data_that_repeat_are_taken_as_a_full_batch(damping):
    """Of a linear layer with a penalty, weights go to those of ridge regression."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.05))])
    model.compile(LevenbergMarquardt(damping), loss="mse", jit_compile=False)
    solvers = []
    for _ in range(10):
        model.train_on_batch(X, Y[:, :2])
        solvers.append(model.optimizer.solver_used)
    assert solvers[0] == "kronecker" and solvers[-1] == "cg"
    inputs = np.c_[X, np.ones(150)]
    ridge = np.linalg.solve(inputs.T @ inputs / 300 + np.diag([0.05] * 4 + [0]), inputs.T @ Y[:, :2] / 300)
    np.testing.assert_allclose(np.vstack(model.get_weights()), ridge, atol=1e-4)
    model.train_on_batch(X[:50], Y[:50, :2])
    model.train_on_batch(X[50:], Y[50:, :2])
    assert model.optimizer.solver_used == "kronecker"


def kept_in(factors):
    parts = [variable for part in factors._parts for variable in (*part._sides, *part._inverses)]
    return [each.numpy() for each in (*parts, factors._last, factors._damping, factors._stiffness, factors._steps)]


@pytest.mark.by_day(None)
def test_a_batch_that_says_nothing_changes_nothing():
    """With NaN, or without weight: bits, damping and memory stay."""
    with_gap, without = network(), network()
    batches = np.array_split(RNG.permutation(150), 10)
    for rows in batches[:5]:
        for model in (with_gap, without):
            model.train_on_batch(X[rows], Y[rows, :2])
    before = weights(with_gap)
    with_gap.train_on_batch(np.full_like(X[:9], np.nan), Y[:9, :2])
    with_gap.train_on_batch(X[:9], Y[:9, :2], sample_weight=np.zeros(9))
    np.testing.assert_array_equal(weights(with_gap), before)
    for one, two in zip(*(kept_in(model.optimizer._memory.model) for model in (with_gap, without))):
        np.testing.assert_array_equal(one, two)


@pytest.mark.by_day(None)
def test_a_small_last_batch_moves_little():
    """Four examples after batches of 32, of classes that are noise for the most part: they stand for an eighth."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1604, 8)).astype("float32")
    y = (x @ rng.normal(size=(8, 16)) + 4 * rng.gumbel(size=(1604, 16))).argmax(axis=1)
    model = perceptron(8, [32, 32], 16)
    model.compile(LevenbergMarquardt(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for _ in range(3):
        model.fit(x[:1600], y[:1600], epochs=1, verbose=0)
        before = model.evaluate(x, y, batch_size=1604, verbose=0)
        model.train_on_batch(x[1600:], y[1600:])
        assert model.evaluate(x, y, batch_size=1604, verbose=0) < before + 0.1


@pytest.mark.by_day(None)
@pytest.mark.parametrize("heavy", [True, False])
def test_rare_classes_and_weights_of_examples_are_learnt(heavy):
    """3 % of labels are one. Weights of examples differ a hundredfold, or those of classes three hundredfold."""
    rng = np.random.default_rng(1)
    y = (rng.uniform(size=(3000, 1)) < 0.03).astype("float32")
    centres = rng.normal(size=(4, 20))
    x = np.float32(rng.normal(size=(3000, 20)) + np.where(y > 0, centres[rng.integers(0, 4, 3000)], 0))
    given = np.exp(2 * rng.normal(size=3000)) if heavy else np.where(y > 0, 30.0, 0.1)[:, 0]
    model = perceptron(20, [64, 32], 1)
    model.compile(LevenbergMarquardt(), keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(x, y, epochs=3, verbose=0, sample_weight=given)
    share = np.average(y[:, 0], weights=given)
    constant = -np.mean(given) * (share * np.log(share) + (1 - share) * np.log(1 - share))
    assert isinstance(model.optimizer._memory.model, KroneckerMemory)
    assert model.evaluate(x, y, sample_weight=given, batch_size=3000, verbose=0) < 0.5 * constant


@pytest.mark.by_day(None)
def test_saved_in_the_middle_of_an_epoch_and_gone_on(tmp_path):
    whole, loaded = trained_at_once_and_with_a_pause(tmp_path)
    assert whole.optimizer.solver_used == "kronecker"
    np.testing.assert_array_equal(weights(loaded), weights(whole))


@pytest.mark.by_day(None)
def test_compiled_by_xla_it_is_the_same():
    models = network(), network()
    models[1].compile(LevenbergMarquardt(), loss="mse", jit_compile=True)
    for rows in np.split(RNG.permutation(150), 5):
        for model in models:
            model.train_on_batch(X[rows], Y[rows, :2])
    np.testing.assert_allclose(weights(models[1]), weights(models[0]), rtol=2e-3, atol=1e-4)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("restart", ["load_weights", "set_weights"])
def test_a_fit_after_a_restart_is_the_first_one_again(restart, tmp_path):
    """By the state before the first batch, or by the weights alone, as for the next fold of a cross-validation."""
    model = network()
    model.optimizer.build(model.trainable_variables)
    model.save_weights(tmp_path / "untrained.weights.h5")
    first, found = model.get_weights(), []
    for _ in range(2):
        model.fit(X, Y[:, :2], epochs=2, shuffle=False, verbose=0)
        assert model.optimizer.solver_used == "kronecker"
        found.append(weights(model))
        model.load_weights(tmp_path / "untrained.weights.h5") if restart == "load_weights" else model.set_weights(first)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4 if ON_GPU else 0)  # cuBLAS sums in any order


@pytest.mark.by_day(None)
def test_another_scaling_keeps_the_gram_matrix():
    model = network(scaling="marquardt")
    model.fit(X, Y[:, :2], epochs=1, verbose=0)
    assert streams(model) and isinstance(model.optimizer._memory.model, FadingModel)


# ------------------------------------------------------------------------ at real size


@pytest.mark.by_day(None)
def test_a_recurrent_network_has_half_the_loss_of_adam_after_six_epochs(monkeypatch):
    """7,278 weights, an embedding among them, 30 classes at 16 places: the symbol before."""
    monkeypatch.undo()
    x = np.random.default_rng(0).integers(0, 30, (256, 16))
    losses = []
    for optimizer in (LevenbergMarquardt(), keras.optimizers.Adam(3e-3)):
        keras.utils.set_random_seed(0)
        parts = [layers.Embedding(30, 24), layers.GRU(32, return_sequences=True), layers.Dense(30)]
        model = keras.Sequential([layers.Input((16,)), *parts])
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        losses.append(model.fit(x, np.roll(x, 1, 1), epochs=6, verbose=0).history["loss"][-1])
    assert losses[0] < 0.5 * losses[1]


@pytest.mark.by_day(None)
def test_half_a_million_weights_and_several_outputs(monkeypatch):
    monkeypatch.undo()
    entry = keras.Input((600,))
    hidden = layers.Dense(600, "tanh")(layers.Dense(300, "tanh")(entry))
    model = keras.Model(entry, [layers.Dense(4, name="a")(hidden), layers.Dense(5, name="b")(hidden)])
    model.compile(LevenbergMarquardt(), loss={"a": "mse", "b": "huber"}, jit_compile=False)
    x = RNG.normal(size=(128, 600)).astype("float32")
    y = np.tanh(x[:, :9]).astype("float32")
    history = model.fit(x, {"a": y[:, :4], "b": y[:, 4:]}, epochs=3, verbose=0).history["loss"]
    assert model.optimizer.solver_used == "kronecker" and history[-1] < 0.5 * history[0]


@pytest.mark.by_day(None)
def test_positions_of_a_batch_of_open_size_stay_with_their_example(monkeypatch):
    """Keras reshapes logits of texts to rows, by sizes that a ragged last batch leaves open; attention mixes places."""
    monkeypatch.undo()
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(0).integers(0, 12, (70, 6))
    entry = keras.Input((6,), dtype="int32")
    hidden = layers.Embedding(12, 8)(entry)
    hidden = hidden + layers.MultiHeadAttention(2, 4)(hidden, hidden, use_causal_mask=True)
    model = keras.Model(entry, layers.Dense(12)(hidden))
    model.compile(LevenbergMarquardt(), keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    history = model.fit(x, np.roll(x, 1, 1), epochs=2, verbose=0).history["loss"]
    assert model.optimizer.solver_used == "kronecker" and history[1] < history[0]


# ------------------------------------------------------------------------ the pace


@tf.function
def pace_after(losses):
    """The pace after the last of so many losses `[t]`."""
    numbers = tf.range(tf.shape(losses)[0])
    at_each = losses, tf.cast(numbers, losses.dtype)
    return tf.foldl(lambda kept, at: kronecker.paced(kept, *at), at_each, tf.zeros([3], losses.dtype))[2]


@pytest.mark.core
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(("power", "falls"), [(0.0, 1.0), (0.25, 0.5), (0.5, 0.0), (1.0, 0.0), (3.0, 0.0)])
def test_the_pace_falls_as_one_over_the_steps_where_losses_do_not(power, falls, unit):
    """Losses fall as t⁻ᵖ; the pace as (t + 500)⁻⁽¹⁻²ᵖ⁾, from the beginning on."""
    losses = unit * np.arange(1, 3001.0) ** -power
    assert pace_after(losses).numpy() == pytest.approx((500 / 3500) ** falls, rel=0.05)


@pytest.mark.core
def test_the_pace_of_losses_that_are_negative_noisy_or_not_finite():
    random = np.random.default_rng(1)
    noisy = -5 + random.normal(size=3000)
    assert pace_after(noisy).numpy() == pytest.approx(500 / 3500, rel=0.2)
    assert pace_after(np.where(np.arange(3000) % 7 == 3, np.nan, noisy)).numpy() == pytest.approx(500 / 3500, rel=0.2)
    assert pace_after(np.ones(9000)).numpy() == pytest.approx(0.1)  # and no further
