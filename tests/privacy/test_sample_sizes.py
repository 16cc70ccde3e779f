"""The examples of the steps are counted, and held against what was declared: no ε is smaller than the true one."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfjac import privacy
from tfjac.privacy.passes import Passes
from tfjac.privacy.sample_sizes import most_examples

N = 2000
X = np.random.default_rng(0).normal(size=(N, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
REFUSED = "more examples than batch_size"


def _model(batch_size, jit_compile=False, accumulated=None):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    inner = keras.optimizers.SGD(0.1, gradient_accumulation_steps=accumulated)
    optimizer = privacy.DPOptimizer(inner, 1.0, 1.0, batch_size=batch_size)
    model.compile(optimizer, "mse", jit_compile=jit_compile)
    return model


def _budget(batch_size=None):
    return privacy.PrivacyBudget(N, 1e-4, batch_size, accountant="rdp")


@pytest.mark.parametrize("steps", [1, 20])
@pytest.mark.parametrize(("size", "n"), [(5, 2000), (50, 2000), (50, 60), (500, 2000), (50, np.inf)])
def test_no_poisson_samples_hold_more(size, n, steps):
    """Against the exact tail of the binomial distribution, or of Poisson's for any number of examples."""
    most = most_examples(size, n, steps)
    exact = stats.poisson(size * steps) if np.isinf(n) else stats.binom(n * steps, size / n)
    assert exact.sf(most) < 1e-12
    assert most < size * steps + 2.5 * (exact.isf(1e-12) - size * steps) + 20


@pytest.mark.by_day(None)
@pytest.mark.parametrize("with_budget", [False, True])
def test_samples_larger_than_declared_are_refused_when_they_run(with_budget):
    data = privacy.poisson_batches(X, Y, batch_size=500, steps=3)
    with pytest.raises(tf.errors.InvalidArgumentError, match=REFUSED):
        _model(50).fit(data, shuffle=False, verbose=0, callbacks=[_budget()] if with_budget else [])


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(
    ("declared", "real", "options"),
    [
        ((128, None), 512, {"jit_compile": True}),
        ((None, 128), 512, {}),
        ((500, 50), 500, {}),
        ((128, None), 131, {}),
        ((200, 60), 100, {"accumulated": 2}),
    ],
)
def test_the_budget_refuses_what_it_would_compute_too_small(declared, real, options):
    model = _model(declared[0], **options)
    with pytest.raises(ValueError, match=REFUSED):
        model.fit(X, Y, batch_size=real, epochs=3, verbose=0, callbacks=[_budget(declared[1])])


def test_shuffled_batches_are_said_to_be_no_poisson_samples():
    with pytest.warns(UserWarning, match="no Poisson samples"):
        _model(100).fit(X, Y, batch_size=100, verbose=0, callbacks=[_budget()])


@pytest.mark.by_day(None)
@pytest.mark.parametrize("rows", [None, 32])
def test_poisson_samples_of_the_declared_size_pass_in_silence(rows):
    parts = None if rows is None else privacy.batches_per_step(N, 50, rows)
    data = privacy.poisson_batches(X, Y, batch_size=50, steps=60, rows=rows, seed=1)
    model = _model(50, accumulated=parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit(data, shuffle=False, verbose=0, callbacks=[_budget()])
    drawn = np.random.default_rng(1)
    assert model.optimizer.examples == sum(np.sum(drawn.random(N) < 50 / N) for _ in range(60))


def test_whole_batches_are_modelled():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        _model(N).fit(X, Y, batch_size=N, epochs=12, verbose=0, callbacks=[_budget()])


def test_the_count_is_saved_with_the_model(tmp_path):
    model = _model(100)
    model.fit(X, Y, batch_size=100, verbose=0)
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").optimizer.examples == N


def _shuffled(**options):
    return privacy.PrivacyBudget(N, 1e-4, 100, accountant="rdp", sampling="shuffled", **options)


def test_shuffled_batches_are_counted_by_the_passes_of_each_fit():
    """Twenty batches are a pass. Three fits of 30, 5 and 5 steps begin 2, 1 and 1 passes."""
    model, budget, data = _model(100), _shuffled(), tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(N).batch(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for steps, passes in (30, 2), (5, 3), (5, 4):
            history = model.fit(
                data.repeat(), steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[budget]
            ).history
            assert history["epsilon"] == [privacy.epsilon(1.0, 1.0, passes, 1e-4, accountant="rdp")]
    with pytest.raises(
        ValueError, match=r"give every fit the same PrivacyBudget. Received: 40 steps, of which it saw 0"
    ):
        model.fit(data, verbose=0, callbacks=[_shuffled()])


@pytest.mark.by_day(None)
def test_a_budget_of_shuffled_batches_ends_with_a_pass():
    limit = privacy.epsilon(1.0, 1.0, 2, 1e-4, accountant="rdp")
    model = _model(100)
    model.fit(X, Y, batch_size=100, epochs=9, verbose=0, callbacks=[_shuffled(max_epsilon=limit)])
    assert model.optimizer.steps == 40
    with pytest.raises(ValueError, match=REFUSED):
        _model(None).fit(X, Y, batch_size=101, verbose=0, callbacks=[_shuffled()])


def _of_passes(passes):
    return privacy.epsilon(1.0, 1.0, passes, 1e-4, accountant="rdp")


@pytest.mark.by_day(None)
@pytest.mark.parametrize("dropped", [True, False])
@pytest.mark.parametrize("options", [{}, {"steps_per_epoch": 3}, {"steps_per_execution": 2}], ids=str)
def test_a_remainder_may_be_dropped(dropped, options):
    """The passes are counted in the data: how often the example that is drawn most often is in a batch."""
    size, drawn = 520, np.zeros(N)
    rows = tf.data.Dataset.range(N).shuffle(N, seed=0).batch(size, drop_remainder=dropped)

    def taken(index):
        np.add.at(drawn, index, 1)
        return X[index], Y[index]

    data = rows.map(lambda index: tf.numpy_function(taken, [index], [tf.float32, tf.float32]))
    data = data.map(lambda x, y: (tf.ensure_shape(x, [None, 3]), tf.ensure_shape(y, [None, 1])))
    model, budget = _model(size), privacy.PrivacyBudget(N, 1e-4, size, accountant="rdp", sampling="shuffled")
    model.compile(model.optimizer, "mse", jit_compile=False, steps_per_execution=options.get("steps_per_execution", 1))
    epochs = options.get("steps_per_epoch")
    fit = {"shuffle": False, "verbose": 0, "callbacks": [budget], "epochs": 8, "steps_per_epoch": epochs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says that steps_per_epoch is more than are left
        found = model.fit(data, **fit).history["epsilon"][-1]
    assert found == _of_passes(int(drawn.max()))


def test_passes_that_look_whole_are_counted_so_in_their_fit_alone():
    """Four steps of 500, 500, 500 and 500 examples at most; and of 600, 600, 600 and 200, or without the last."""
    passes = Passes(600, N)
    seen = []
    for steps, examples in enumerate(np.cumsum([600, 600, 600, 200] * 2 + [600, 600, 600, 600]), 1):
        passes.see(steps, examples)
        seen.append(passes.after(steps))
    assert seen == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4]
    again = Passes(600, N, passes.after(8), 8, 4000)
    assert [again.after(steps) for steps in (8, 9, 11, 12)] == [3, 4, 4, 5]
    assert Passes(500, N).after(4) == 1 and Passes(N, N).after(4) == 4 and Passes(1500, N).after(4) == 4


def test_a_step_of_two_passes_is_refused():
    """An example may be in it twice, which adds as much as four passes."""
    for size, epochs in (100, 2), (200, 2):  # ten steps of two batches; five, where Keras sums up two
        model, budget = (
            _model(200, accumulated=2),
            privacy.PrivacyBudget(N, 1e-4, 200, accountant="rdp", sampling="shuffled"),
        )
        model.fit(X, Y, batch_size=size // 2, epochs=epochs, verbose=0, callbacks=[budget])
    model, budget = (
        _model(500, accumulated=2),
        privacy.PrivacyBudget(N, 1e-4, 500, accountant="rdp", sampling="shuffled"),
    )
    with pytest.raises(ValueError, match=r"no step may reach into the next pass.*ended within step 5"):
        model.fit(X, Y, batch_size=230, epochs=2, verbose=0, callbacks=[budget])


def test_steps_before_this_budget_are_held_against_it():
    model = _model(None)
    model.fit(X, Y, batch_size=200, verbose=0)
    with pytest.raises(ValueError, match=r"more examples than batch_size=20 .*Received: 2000 examples in 10 steps"):
        model.fit(X, Y, batch_size=20, verbose=0, callbacks=[_budget(20)])


def test_a_large_delta_is_warned_of():
    with pytest.warns(UserWarning, match=r"delta should lie well below.*delta=0.01, num_examples=2000"):
        privacy.PrivacyBudget(N, 0.01)
