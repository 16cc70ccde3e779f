"""`memory="auto"` of large networks: the last rows of J. Steps are held to normal equations that NumPy adds up."""

import keras
import numpy as np
import pytest

from tests.optimizers.test_auto_memory import (
    LOSSES,
    Recursion,
    cross_entropy,
    network,
    streams,
    trained_at_once_and_with_a_pause,
    weights,
)
from tests.precision import floating
from tfjac.drive.streamed import rows as rows_module
from tfjac.drive.streamed.rows import RowModel
from tfjac.keras import memory
from tfjac.optimizers import LevenbergMarquardt

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = np.sin(X @ RNG.normal(size=(4, 2)))
WINDOW = 90


@pytest.fixture(autouse=True)
def rows_for_all(monkeypatch):
    """Keep rows of networks of any size, and few of them."""
    monkeypatch.setattr(memory, "MOST_WITH_GRAM", 0)
    monkeypatch.setattr(memory, "WINDOW", WINDOW)
    monkeypatch.setattr(memory, "_wants_factors", lambda *_: False)


class WindowOfExamples(Recursion):
    """The method for z = xW with a penalty c‖W‖²: every example is kept as its own gram matrix and gradient."""

    most = 1.0

    def __init__(self, loss, w, penalty=0.0):
        super().__init__(loss, w)
        self.penalty, self.kept = penalty, []

    def total(self, x, y, w):
        return self.loss(x @ w, y)[0] + self.penalty * np.sum(w**2)

    def step(self, x, y):
        value, slope, gram = self.parts(x, y)
        value, slope = self.total(x, y, self.w), slope + 2 * self.penalty * self.w.ravel()
        weight = y.size if self.loss is not cross_entropy else len(y)
        self.look(x, y)
        if self.damping is None:
            self.damping = 1e-3 * gram.diagonal().max()
        remembered, pull, others = 0 * self.gram, 0 * self.gradient, 0.0
        if not self.plain:
            examples = (WINDOW - y.size) // y.shape[1]
            self.kept = self.kept[-examples:] if examples else []
            for own_gram, own_pull, counts in self.kept:
                remembered, pull = remembered + own_gram / weight, pull + own_pull / weight
                others += counts / weight
            remembered = remembered + 2 * self.penalty * others * np.eye(self.size)
            pull = pull + 2 * self.penalty * others * self.w.ravel()
            self.damping = max(self.damping, np.trace(gram) / len(y) * self.share())
        both, slopes = gram + 2 * self.penalty * np.eye(self.size) + remembered, slope + pull
        own = [self.parts(x[row : row + 1], y[row : row + 1]) for row in range(len(y))]
        step = self.lower(value, both, slopes, remembered, pull, lambda w: self.total(x, y, w))
        if not self.plain:
            one = weight / len(y)
            self.kept += [(one * own_gram, one * own_slope, one) for _, own_slope, own_gram in own]
            self.kept = [(each, own + each @ step, counts) for each, own, counts in self.kept]
        self.plain = False


def linear(loss="mse", penalty=0.0, **options):
    keras.utils.set_random_seed(1)
    regularizer = keras.regularizers.L2(penalty) if penalty else None
    model = keras.Sequential([layers.Input((4,)), layers.Dense(2, use_bias=False, kernel_regularizer=regularizer)])
    model.compile(LevenbergMarquardt(acceleration=None, **options), loss=loss, jit_compile=False)
    return model


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("name", "penalty"), [*[(name, 0.0) for name in LOSSES], ("mse", 0.05)])
def test_steps_are_those_of_a_window_of_examples(name, penalty):
    """Batches of 20 examples, with a ragged last one, and a window of 45; the parts of the window are no batches."""
    oracle_loss, loss, y = LOSSES[name]
    with floating("float64"):
        model = linear(loss(), penalty)
        oracle = WindowOfExamples(oracle_loss, model.get_weights()[0], penalty)
        for _ in range(3):
            order = RNG.permutation(150)
            for rows in np.split(order, range(20, 150, 20)):
                model.train_on_batch(X[rows], y[rows])
                oracle.step(X[rows], y[rows])
                np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-7, atol=1e-9)
    assert isinstance(model.optimizer._memory.model, RowModel)
    np.testing.assert_allclose(model.optimizer.current_damping, oracle.damping, rtol=1e-6)


@pytest.mark.by_day(None)
def test_a_batch_of_more_rows_than_the_window_is_taken_alone():
    model = network()
    for _ in range(2):
        for rows in np.array_split(RNG.permutation(150), 2):
            model.train_on_batch(X[rows], Y[rows])
    assert streams(model) and model.optimizer._memory._seen.numpy() == 0
    model.train_on_batch(X[:10], Y[:10])
    assert model.optimizer._memory._seen.numpy() == 20


@pytest.mark.by_day(None)
def test_a_batch_that_says_nothing_is_not_remembered():
    """With NaN, or without weight: bits, damping and memory stay."""
    with_gap, without = network(), network()
    batches = np.array_split(RNG.permutation(150), 10)
    for rows in batches[:5]:
        for model in (with_gap, without):
            model.train_on_batch(X[rows], Y[rows])
    with_gap.train_on_batch(np.full_like(X[:9], np.nan), Y[:9])
    with_gap.train_on_batch(X[:9], Y[:9], sample_weight=np.zeros(9))
    for rows in batches[5:]:
        for model in (with_gap, without):
            model.train_on_batch(X[rows], Y[rows])
    np.testing.assert_allclose(weights(with_gap), weights(without), rtol=1e-3, atol=1e-4)


@pytest.mark.by_day(None)
def test_saved_in_the_middle_of_an_epoch_and_gone_on(tmp_path):
    whole, loaded = trained_at_once_and_with_a_pause(tmp_path)
    np.testing.assert_array_equal(weights(loaded), weights(whole))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [{"scaling": "marquardt"}, {"gram_dtype": "float64"}, {"damping": "trust_region"}])
def test_scalings_dampings_and_dtypes_go_with_it(options):
    model = network(**options)
    history = model.fit(X, Y, epochs=10, verbose=0).history
    assert streams(model) and history["loss"][-1] < 0.5 * history["loss"][0]


@pytest.mark.by_day(None)
def test_compiled_by_xla_it_is_the_same():
    models = network(), network()
    models[1].compile(LevenbergMarquardt(), loss="mse", jit_compile=True)
    for rows in np.split(RNG.permutation(150), 5):
        for model in models:
            model.train_on_batch(X[rows], Y[rows])
    np.testing.assert_allclose(weights(models[1]), weights(models[0]), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("hidden", "often", "kept"),
    [(8, False, "FadingModel"), (400, False, "KroneckerMemory"), (200, True, "FadingModel"), (600, True, "RowModel")],
)
def test_it_is_chosen_by_the_number_of_weights_and_by_how_often_they_multiply(hidden, often, kept, monkeypatch):
    monkeypatch.undo()
    shared, entry = layers.Dense(4, "tanh"), keras.Input((4,))
    first = shared(shared(shared(shared(shared(entry))))) if often else shared(entry)
    model = keras.Model(entry, layers.Dense(2)(layers.Dense(hidden, "tanh")(first)))
    model.compile(LevenbergMarquardt(), "mse", jit_compile=False)
    model.train_on_batch(X[:9], Y[:9])
    assert type(model.optimizer._memory.model).__name__ == kept


def test_rows_of_too_many_numbers_are_not_kept(monkeypatch):
    """Nothing is allocated for them, and a warning says what to do."""
    monkeypatch.setattr(rows_module, "MOST_NUMBERS", 100)
    model = network()
    with pytest.warns(UserWarning, match="batches have fewer residuals"):
        model.fit(X, Y, batch_size=5, epochs=2, verbose=0)
    assert streams(model) and model.optimizer._memory.model._rows is None
