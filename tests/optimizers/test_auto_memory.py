"""`memory="auto"`: mini-batches are remembered, data that come again are not. Steps are held to a NumPy recursion."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac import callbacks
from tfjac.keras import memory as keras_memory
from tfjac.optimizers import LevenbergMarquardt, MultiplicativeDamping, NielsenDamping, TrustRegionDamping

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
TRUTH = np.array([[1.0, -0.5], [0.3, 0.8], [-1.2, 0.1], [0.4, -0.9]])


def weights(model):
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


# ------------------------------------------------------------------------ the losses, in NumPy


def squares(z, y):
    """Mean over all elements; its first and second derivatives by z."""
    return np.mean((z - y) ** 2), 2 * (z - y) / z.size, np.stack([2 / z.size * np.eye(z.shape[1])] * len(z))


def cross_entropy(z, y):
    likely = np.exp(z - z.max(1, keepdims=True))
    likely /= likely.sum(1, keepdims=True)
    second = np.stack([np.diag(q) - np.outer(q, q) for q in likely])
    return -np.mean(np.log(likely[np.arange(len(z)), y.argmax(1)])), (likely - y) / len(z), second / len(z)


def binary_cross_entropy(z, y):
    likely = 1 / (1 + np.exp(-z))
    value = np.mean(np.logaddexp(0, z) - y * z)
    second = np.stack([np.diag(q * (1 - q)) for q in likely])
    return value, (likely - y) / z.size, second / z.size


def poisson(z, y):
    second = np.stack([np.diag(np.exp(row)) for row in z])
    return np.mean(np.exp(z) - y * z), (np.exp(z) - y) / z.size, second / z.size


def of_rate(y_true, y_pred):
    return keras.ops.mean(keras.ops.exp(y_pred) - y_true * y_pred, -1)


def with_chords(loss, z, y):
    """The same with second derivatives no less than those of chords, as batches that are remembered have them."""
    value, first, second = loss(z, y)
    if loss in (squares, cross_entropy):
        return value, first, second
    own = np.einsum("naa->na", second)
    step = np.clip(-first / own, -1 - abs(z), 1 + abs(z))
    chord = (loss(z + step, y)[1] - first) / step
    return value, first, np.stack([np.diag(row) for row in np.maximum(own, chord)])


CLASSES = np.eye(2)[(X @ TRUTH + RNG.normal(size=(150, 2))).argmax(1)]
LOSSES = {
    "mse": (squares, lambda: "mse", X @ TRUTH + 0.1 * RNG.normal(size=(150, 2))),
    "cross-entropy": (cross_entropy, lambda: keras.losses.CategoricalCrossentropy(from_logits=True), CLASSES),
    "binary": (binary_cross_entropy, lambda: keras.losses.BinaryCrossentropy(from_logits=True), CLASSES),
    "poisson": (poisson, lambda: of_rate, RNG.poisson(np.exp(0.3 * X @ TRUTH)).astype(float)),
}


class Recursion:
    """The method for z = xW in NumPy. The first step is plain, unless data are known to be new."""

    most = 0.1

    def __init__(self, loss, w, known=False):
        self.loss, self.w, self.size = loss, w.copy(), w.size
        self.gram, self.gradient, self.seen = np.zeros((w.size, w.size)), np.zeros(w.size), 0
        self.damping, self.growth, self.plain = None, 2.0, not known
        self.squares, self.variances = [], []

    def parts(self, x, y):
        value, first, second = (self.loss if self.plain else partial(with_chords, self.loss))(x @ self.w, y)
        gram = np.einsum("ni,nab,nj->iajb", x, second, x).reshape(self.size, self.size)
        return value, (x.T @ first).ravel(), gram

    def look(self, x, y):
        """Note the squares of residuals before a step, and their variance about the mean of each output."""
        self.squares.append(np.mean((x @ self.w - y) ** 2))
        self.variances.append(np.mean(np.var(x @ self.w - y, axis=0, ddof=1)))

    def share(self):
        """Return by what the least λ is multiplied: 20 times what may be noise, over what there was to explain."""
        if self.loss is not squares:
            return 6.0
        short = long = 1.0
        for number, square in enumerate(self.squares, 1):
            short *= (square / short) ** (1 / min(number, 5))
            long *= (square / long) ** (1 / min(number, 20))
        return min(self.most, 20 * short * min(1.0, short / long) ** 2 / max(self.variances[:10]))

    def step(self, x, y):
        """Take the step of a batch; what it counts for is the number of elements that its loss is the mean of."""
        value, slope, gram = self.parts(x, y)
        rows, weight = y.size, y.size if self.loss is not cross_entropy else len(y)
        self.look(x, y)
        remembered, pull = 0 * self.gram, 0 * self.gradient
        is_first = self.damping is None
        if is_first:
            self.damping = 1e-3 * gram.diagonal().max()
        if not self.plain:
            window = max(2 * self.size, 300, 0.1 * (self.seen + rows))
            decay = max(1 - rows / window, 0) if self.seen else 0
            self.seen += rows
            remembered, pull = decay / weight * self.gram, decay / weight * self.gradient
            self.damping = self.damping if is_first else max(self.damping, np.trace(gram) / len(y) * self.share())
        both, slopes = gram + remembered, slope + pull
        step = self.lower(value, both, slopes, remembered, pull, lambda w: self.loss(x @ w, y)[0])
        if not self.plain:
            self.gram, self.gradient = weight * both, weight * (slopes + both @ step)
        self.plain = False

    def lower(self, value, both, slopes, remembered, pull, loss):
        """Move w by the first step that gains, of at most five with growing damping, and return it; zero if none does.

        `both` and `slopes` are of the batch and what is remembered, `remembered` and `pull` of the latter alone.
        """
        for _ in range(5):
            step = np.linalg.solve(both + self.damping * np.eye(len(both)), -slopes)
            promise = -(slopes @ step + step @ both @ step / 2)
            after = loss(self.w + step.reshape(self.w.shape))
            ratio = (value - after - (pull @ step + step @ remembered @ step / 2)) / promise
            if ratio > 1e-3:
                self.damping, self.growth = self.damping * max(1 / 3, 1 - (2 * min(ratio, 1) - 1) ** 3), 2.0
                self.w = self.w + step.reshape(self.w.shape)
                return step
            self.damping, self.growth = self.damping * self.growth, 2 * self.growth
        return 0 * step


def linear(loss="mse", **options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(2, use_bias=False)])
    model.compile(LevenbergMarquardt(acceleration=None, **options), loss=loss, jit_compile=False)
    return model


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_steps_are_those_of_the_recursion(name, known, monkeypatch):
    """Batches of 20 in another order each time, with a ragged last one, as Keras makes them.

    If data are known to be new with each step, the first batch is remembered, too.
    """
    monkeypatch.setattr(keras_memory, "data_stream", lambda: known)
    oracle_loss, loss, y = LOSSES[name]
    with floating("float64"):
        model = linear(loss())
        oracle = Recursion(oracle_loss, model.get_weights()[0], known)
        for _ in range(3):
            order = RNG.permutation(150)
            for rows in np.split(order, range(20, 150, 20)):
                model.train_on_batch(X[rows], y[rows])
                oracle.step(X[rows], y[rows])
                np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-7, atol=1e-9)
    assert oracle.seen == 150 * 3 * 2 - 40 * (not known) and model.optimizer.num_attempts >= 24
    np.testing.assert_allclose(model.optimizer.current_damping, oracle.damping, rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_damping_is_less_without_noise_alone(noise):
    random = np.random.default_rng(3)
    model = network()
    for _ in range(60):
        x = random.normal(size=(20, 4))
        model.train_on_batch(x, np.tanh(x @ TRUTH) + noise * random.normal(size=(20, 2)))
    least = model.optimizer._memory._least
    assert (float(least.share()) == 1) == (noise > 0) and least._seen.numpy() == 60
    left = np.mean((model.predict(X, verbose=0) - np.tanh(X @ TRUTH)) ** 2)
    assert left < (0.06 if noise else 1e-4), left


def test_what_may_be_noise_begins_again_where_other_code_sets_the_weights():
    model = network()
    for _ in range(12):
        model.train_on_batch(X[:20], Y[:20])
    model.set_weights([0.5 * weight for weight in model.get_weights()])
    model.train_on_batch(X[20:40], Y[20:40])
    assert model.optimizer._memory._least._seen.numpy() == 1


# ------------------------------------------------------------------------ which data are new


def network(dropout=0.0, hidden=8, **options):
    keras.utils.set_random_seed(1)
    parts = [layers.Input((4,)), layers.Dense(hidden, "tanh"), layers.Dropout(dropout), layers.Dense(2)]
    model = keras.Sequential(parts)
    model.compile(LevenbergMarquardt(**options), loss="mse", jit_compile=False)
    return model


def streams(model):
    return bool(model.optimizer._memory._streams.numpy())


Y = np.sin(X @ TRUTH)


def take_batches(model):
    """Train on batches outside of a `fit`, which would take all later data for new."""
    for rows in np.split(RNG.permutation(150), range(32, 150, 32)):
        model.train_on_batch(X[rows], Y[rows])


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "data",
    [
        lambda: dict(x=X, y=Y, batch_size=150, epochs=8),
        lambda: dict(x=X[:20], y=Y[:20], epochs=8, shuffle=False),
        lambda: dict(x=tf.data.Dataset.from_tensors((X, Y)).repeat(4), epochs=2),
        lambda: dict(x=tf.data.Dataset.from_tensors((X[:9], Y[:9])).repeat(), steps_per_epoch=4, epochs=2),
    ],
    ids=["full batch", "fewer residuals than weights", "repeated", "steps_per_epoch"],
)
def test_the_same_data_again_changes_no_bit(data):
    models = network(), network(memory=None)
    for model in models:
        model.fit(**data(), verbose=0)
    assert not streams(models[0])
    np.testing.assert_array_equal(weights(models[0]), weights(models[1]))
    assert models[0].optimizer.last_report == models[1].optimizer.last_report


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "data",
    [
        lambda: dict(x=X, y=Y, epochs=2),
        lambda: dict(x=X, y=Y, batch_size=75, epochs=2, shuffle=False),
        lambda: dict(x=tf.data.Dataset.from_tensor_slices((X, Y)).batch(40).repeat(), steps_per_epoch=6, epochs=1),
    ],
    ids=["shuffled, ragged", "two in turn", "steps_per_epoch"],
)
def test_other_data_are_seen(data):
    model = network()
    model.fit(**data(), verbose=0)
    assert streams(model)


@pytest.mark.by_day(None)
def test_new_draws_are_new_data_and_a_full_batch_after_batches_is_the_same_again():
    dropping, model = network(dropout=0.3), network()
    dropping.fit(X, Y, batch_size=150, epochs=4, verbose=0)
    assert streams(dropping)
    take_batches(model)
    assert streams(model)
    model.fit(X, Y, batch_size=150, epochs=6, verbose=0)
    assert not streams(model) and model.optimizer._memory._seen.numpy() == 0


@pytest.mark.by_day(None)
def test_weights_that_other_code_sets_are_a_new_beginning():
    """The next step is that of a new optimizer, but for its damping; the one after that looks at the loss again."""
    model, plain = network(), network(memory=None)
    take_batches(model)
    assert streams(model)
    model.set_weights(plain.get_weights())
    for variable in model.optimizer._state._damping:
        variable.assign(tf.zeros_like(variable.value))
    for each in (model, plain):
        each.fit(X, Y, batch_size=150, epochs=3, verbose=0, shuffle=False)
    np.testing.assert_allclose(weights(model), weights(plain), rtol=1e-3, atol=1e-4)  # traced for other batches
    assert not streams(model)


@pytest.mark.by_day(None)
def test_weights_that_other_code_sets_are_a_new_beginning_within_a_fit_of_batches():
    model, new = network(), network()
    model.fit(X[::-1], Y[::-1], epochs=1, verbose=0)
    model.set_weights(new.get_weights())
    for variable in model.optimizer._state._damping:
        variable.assign(tf.zeros_like(variable.value))
    for each in (model, new):
        each.fit(X, Y, epochs=2, verbose=0, shuffle=False)
    np.testing.assert_allclose(weights(model), weights(new), rtol=1e-3, atol=1e-4)


def trained_at_once_and_with_a_pause(folder):
    """Return two models of the same batches, the second saved and loaded after five of twelve."""
    batches = np.array_split(RNG.permutation(150), 12)
    whole, half = network(), network()
    for rows in batches:
        whole.train_on_batch(X[rows], Y[rows])
    for rows in batches[:5]:
        half.train_on_batch(X[rows], Y[rows])
    half.save(folder / "half.keras")
    loaded = keras.models.load_model(folder / "half.keras")
    for rows in batches[5:]:
        loaded.train_on_batch(X[rows], Y[rows])
    return whole, loaded


@pytest.mark.by_day(None)
def test_saved_in_the_middle_of_an_epoch_and_gone_on(tmp_path):
    whole, loaded = trained_at_once_and_with_a_pause(tmp_path)
    np.testing.assert_array_equal(weights(loaded), weights(whole))
    assert loaded.optimizer.memory == "auto"


@pytest.mark.by_day(None)
def test_a_batch_that_says_nothing_is_not_remembered():
    """With NaN, or without weight: bits, damping and memory stay, and the next batches are as if it had not been."""
    with_gap, without = network(), network()
    batches = np.array_split(RNG.permutation(150), 10)
    for rows in batches[:5]:
        for model in (with_gap, without):
            model.train_on_batch(X[rows], Y[rows])
    before = weights(with_gap)
    with_gap.train_on_batch(np.full_like(X[:9], np.nan), Y[:9])
    np.testing.assert_array_equal(weights(with_gap), before)
    with_gap.train_on_batch(X[:9], Y[:9], sample_weight=np.zeros(9))
    np.testing.assert_array_equal(weights(with_gap), before)
    assert with_gap.optimizer.current_damping == without.optimizer.current_damping


# ------------------------------------------------------------------------ in company


@pytest.mark.by_day(None)
def test_plain_fit_is_better_than_without_memory_and_than_the_mean():
    x = RNG.uniform(-1, 1, size=(600, 4)).astype("float32")
    y = (np.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.2 * RNG.normal(size=(600, 1))).astype("float32")
    y = (y - y.mean()) / y.std()
    losses = {}
    for memory in ("auto", None):
        keras.utils.set_random_seed(1)
        hidden = [layers.Dense(16, "tanh"), layers.Dense(8, "tanh")]
        model = keras.Sequential([layers.Input((4,)), *hidden, layers.Dense(1)])
        model.compile(LevenbergMarquardt(memory=memory), loss="mse")
        model.fit(x, y, epochs=12, verbose=0)
        losses[memory] = model.evaluate(x, y, verbose=0)
    assert losses["auto"] < 0.15 and losses["auto"] < 0.5 * losses[None]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("last", ["sigmoid", None])
def test_rare_classes_with_weights_do_not_drive_the_others_away(last):
    """One positive in a batch of 32, which counts 16 times as much: it must not pull on where it is met already."""
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=(3000, 1)) < 0.03).astype("float32")
    centres = rng.normal(size=(4, 20))
    x = np.float32(rng.normal(size=(3000, 20)) + np.where(y > 0, centres[rng.integers(0, 4, 3000)], 0))
    keras.utils.set_random_seed(0)
    model = keras.Sequential([layers.Input((20,)), *(layers.Dense(n, "relu") for n in (64, 32)), layers.Dense(1, last)])
    model.compile(LevenbergMarquardt(), keras.losses.BinaryCrossentropy(from_logits=last is None))
    model.fit(x, y, epochs=3, verbose=0, class_weight={0: 0.5, 1: 16.0})
    weight = np.where(y > 0, 16.0, 0.5)[:, 0]
    share = np.sum(weight[y[:, 0] > 0]) / np.sum(weight)
    constant = -np.mean(weight) * (share * np.log(share) + (1 - share) * np.log(1 - share))
    assert model.evaluate(x, y, sample_weight=weight, batch_size=3000, verbose=0) < 0.8 * constant
    assert np.abs(weights(model)).max() < 10


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "options",
    [
        {"damping": MultiplicativeDamping()},
        {"damping": TrustRegionDamping()},
        {"damping": NielsenDamping(), "scaling": "marquardt"},
        {"scaling": "more"},
        {"gram_dtype": "float64"},
        {"solver": "cholesky"},
    ],
    ids=lambda options: "-".join(map(str, options)),
)
def test_every_damping_scaling_and_dtype_goes_with_it(options):
    model = network(**options)
    history = model.fit(X, Y, epochs=10, verbose=0, callbacks=[callbacks.StepMonitor()]).history
    assert streams(model) and history["loss"][-1] < 0.25 * history["loss"][0]


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "options",
    [{"solver": "qr"}, {"steps_per_batch": 2}, {"regularization": "bayesian"}, {"acceleration": "geodesic"}],
    ids=["qr", "steps_per_batch", "bayesian", "geodesic"],
)
def test_what_goes_without_memory_has_none(options):
    model = keras.Sequential([layers.Input((4,)), layers.Dense(2)])
    model.compile(LevenbergMarquardt(**options), loss="mse", jit_compile=False)
    model.fit(X, Y, verbose=0)
    assert model.optimizer._memory is None


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("kind", "options"), [("classes", {}), ("squares", {}), ("squares", {"memory": 0.98})])
def test_weights_with_bounds_are_trained_in_batches_too(kind, options):
    """Each batch alone left 0.8 of the loss of the best constant of classes, and 0.3 of that of squares."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(1500, 6)).astype("float32")
    y = x**2 @ rng.uniform(size=(6, 1))
    y, loss, units, most = (y - y.mean()) / y.std(), "mse", 16, 0.1
    if kind == "classes":
        y = (x @ rng.normal(size=(6, 5)) + 0.2 * rng.gumbel(size=(1500, 5))).argmax(axis=1)
        loss, units, most = keras.losses.SparseCategoricalCrossentropy(from_logits=True), 48, 0.7 * np.log(5)
    keras.utils.set_random_seed(0)
    hidden, last = layers.Dense(units, "tanh", kernel_constraint="non_neg"), 1 if kind == "squares" else 5
    model = keras.Sequential([layers.Input((6,)), hidden, layers.Dense(last, kernel_constraint="non_neg")])
    model.compile(LevenbergMarquardt(**options), loss)
    model.fit(x, y, epochs=4, verbose=0)
    assert model.evaluate(x, y, batch_size=1500, verbose=0) < most
    assert min(kernel.min() for kernel in model.get_weights()[::2]) >= 0
    assert streams(model)


@pytest.mark.by_day(None)
def test_compiled_by_xla_it_is_the_same():
    models = network(), network()
    models[1].compile(LevenbergMarquardt(), loss="mse", jit_compile=True)
    for rows in np.split(RNG.permutation(150), 5):
        for model in models:
            model.train_on_batch(X[rows], Y[rows])
    np.testing.assert_allclose(weights(models[1]), weights(models[0]), rtol=2e-3, atol=1e-4)
    assert streams(models[1])
