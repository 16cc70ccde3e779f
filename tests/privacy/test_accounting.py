"""ε and noise against formulas and published figures; the callback; Poisson samples."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import optimize, stats

from tfjac import privacy


def gaussian_epsilon(mu, delta):
    """ε of a Gaussian mechanism, by its closed form (Balle & Wang, 2018)."""

    def excess(epsilon):
        cdf = stats.norm.cdf
        return cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu) - delta

    return optimize.brentq(excess, 0.0, 100.0)


@pytest.mark.parametrize("steps", [1, 60])
def test_epsilon_of_whole_batches_is_that_of_the_gaussian_mechanism(steps):
    expected = gaussian_epsilon(math.sqrt(steps) / 20.0, 1e-5)
    assert privacy.epsilon(20.0, 1.0, steps, 1e-5) == pytest.approx(expected, rel=5e-3)
    assert expected <= privacy.epsilon(20.0, 1.0, steps, 1e-5, accountant="rdp") < 1.6 * expected


def test_epsilon_of_a_published_training():
    """The MNIST tutorial of TensorFlow Privacy: 60,000 examples, batches of 250, 15 epochs, σ 1.3, δ 1e-5: ε 1.19.

    That is by Mironov's conversion from Rényi divergences; the one of Balle et al. (2020), in use since, is tighter.
    """
    by_divergences, tightest = (privacy.epsilon(1.3, 250 / 60000, 3600, 1e-5, each) for each in ("rdp", "pld"))
    assert 0.7 < tightest < by_divergences < 1.19


@pytest.mark.by_day(None)
def test_noise_for_is_the_inverse():
    noise = privacy.noise_for(2.0, 1e-5, 0.01, 500, accountant="rdp")
    assert privacy.epsilon(noise, 0.01, 500, 1e-5, accountant="rdp") == pytest.approx(2.0, rel=5e-3)
    assert privacy.epsilon(noise, 0.01, 500, 1e-5, accountant="rdp") <= 2.0


@pytest.mark.by_day(None)
def test_epsilon_is_that_of_the_accountants_called_directly():
    import dp_accounting as dp

    for noise, rate, steps, delta in [(0.6, 0.1, 50, 1e-5), (2.0, 0.5, 10, 1e-3)]:
        training = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)
        for name, accountant in ("pld", dp.pld.PLDAccountant()), ("rdp", dp.rdp.RdpAccountant()):
            expected = accountant.compose(training).get_epsilon(delta)
            assert privacy.epsilon(noise, rate, steps, delta, name) == pytest.approx(expected, rel=1e-9)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("count_noise", [0.6, 40.0])
def test_adaptive_clipping_spends_what_the_noise_multiplier_says(count_noise):
    """One example more changes the sum of gradients by C, and what is published beside it by what is found here."""
    clipping, norms = privacy.AdaptiveClipping(count_noise=count_noise), [0.0, 0.5, 1.0, 3.0, 3.0]
    clipping.build(lambda name, value: tf.Variable(value), 1.0, [])

    def published(norms):
        values = []
        clipping.update(
            tf.constant(norms), lambda value, deviation: values.append((value, deviation)) or 0.0, 8.0, True
        )
        clipping._variable.assign(1.0)
        return tuple(map(float, *values))

    (before, deviation), others = published(norms), (0.0, 0.2, 1.0, 1.5, math.inf, math.nan)
    sensitivity = max(abs(published([*norms, more])[0] - before) for more in others)
    mu = math.hypot(1 / clipping.gradient_noise(1.0, 8.0), sensitivity / deviation)
    assert gaussian_epsilon(mu, 1e-5) == pytest.approx(privacy.epsilon(1.0, 1.0, 1, 1e-5), rel=1e-3)


@pytest.mark.by_day(None)
def test_shuffled_batches_are_counted_by_the_passes():
    """Without help of chance: each pass is a Gaussian mechanism, whose ε has a closed form."""
    expected = gaussian_epsilon(math.sqrt(8) / 5.0, 1e-5)
    assert privacy.epsilon(5.0, 0.1, 71, 1e-5, sampling="shuffled") == pytest.approx(expected, rel=5e-3)
    assert privacy.epsilon(5.0, 0.1, 80, 1e-5, sampling="shuffled") == pytest.approx(expected, rel=5e-3)
    noise = privacy.noise_for(expected, 1e-5, 0.1, 80, sampling="shuffled")
    assert noise == pytest.approx(5.0, rel=5e-3)


@pytest.mark.parametrize(("n", "size", "passes"), [(1000, 260, 20), (1000, 100, 20), (1000, 600, 20), (7, 7, 20)])
def test_a_pass_may_drop_its_last_batch(n, size, passes):
    """So twenty passes are so many steps at least, and each example may be in a batch of each."""
    expected = gaussian_epsilon(math.sqrt(passes) / 8.0, 1e-5)
    found = privacy.epsilon(8.0, size / n, passes * (n // size), 1e-5, sampling="shuffled")
    assert expected <= found < 1.005 * expected


def test_a_report_says_what_a_training_would_cost():
    import dp_accounting as dp

    found = privacy.report(2.0, 0.1, 200, 1e-5, accountant="rdp")
    for steps, spent in found.epsilons.items():
        training = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)), steps)
        assert spent == pytest.approx(dp.rdp.RdpAccountant().compose(training).get_epsilon(1e-5), rel=1e-9)
    assert list(found.epsilons) == [50, 100, 150, 200] and found.epsilon == found.epsilons[200]
    assert f"200 steps, sampling rate 0.1 (poisson), σ = 2: ε = {found.epsilon:.4g} at δ = 1e-05 (rdp)" in str(found)
    assert privacy.report(0.0, 0.1, 3, 1e-5).epsilon == math.inf


@pytest.mark.by_day(None)
def test_little_noise_takes_no_more_memory():
    """A grid of one distance for all σ would take 38 GB for σ = 0.001."""
    found = [privacy.epsilon(noise, 0.1, 10, 1e-5) for noise in (0.1, 1e-3, 1e-5)]
    assert 300 < found[0] < 340 and 3e6 < found[1] < 6e6 and 1e10 < found[2] < 1e11
    assert privacy.epsilon(privacy.noise_for(1e4, 1e-5, 0.1, 10), 0.1, 10, 1e-5) == pytest.approx(1e4, rel=5e-3)


def test_a_delta_below_what_a_distribution_cuts_off():
    """The package says infinity, so that no noise would be enough; Rényi divergences bound ε as well."""
    expected = privacy.epsilon(50.0, 1.0, 10, 1e-100, "rdp")
    assert gaussian_epsilon(math.sqrt(10) / 50, 1e-12) < privacy.epsilon(50.0, 1.0, 10, 1e-100) == expected < math.inf


def test_limits():
    assert privacy.epsilon(1.0, 0.01, 0, 1e-5) == 0.0
    assert privacy.epsilon(0.0, 0.01, 1, 1e-5) == math.inf
    with pytest.raises(ValueError, match="sampling_rate is the batch size over the number"):
        privacy.epsilon(1.0, 250, 10, 1e-5)
    with pytest.raises(ValueError, match=r"noise_multiplier must be zero or a finite positive number.*nan"):
        privacy.epsilon(math.nan, 0.1, 10, 1e-5)
    with pytest.raises(ValueError, match=r"steps must be an integer of at least 0.*steps=2.5"):
        privacy.epsilon(1.0, 0.1, 2.5, 1e-5)
    with pytest.raises(ValueError, match=r"delta must lie between 0 and 1.*delta=2.0"):
        privacy.PrivacyBudget(10, 2.0)
    with pytest.raises(ValueError, match="delta must lie between 0 and 1"):
        privacy.noise_for(1.0, 0.0, 0.1, 10)


def _model(noise, batch_size=None):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(0.1), 1.0, noise, batch_size=batch_size), loss="mse")
    return model


def test_the_budget_is_not_exceeded():
    n, size = 200, 20
    x, y = np.zeros((n, 3), "float32"), np.zeros((n, 1), "float32")
    budget = privacy.PrivacyBudget(n, 1e-4, size, max_epsilon=4.0, accountant="rdp")
    model = _model(1.0)
    history = model.fit(x, y, batch_size=size, epochs=50, verbose=0, callbacks=[budget]).history
    steps = model.optimizer.steps
    assert 10 < steps < 500
    spent = [privacy.epsilon(1.0, size / n, count, 1e-4, accountant="rdp") for count in (steps, steps + 1)]
    assert spent[0] <= 4.0 < spent[1]
    assert history["epsilon"][-1] == pytest.approx(spent[0])
    with pytest.raises(ValueError, match=r"does not allow a step: one costs ε"):
        model.fit(x, y, batch_size=size, verbose=0, callbacks=[budget])


@pytest.mark.by_day(None)
def test_several_steps_in_one_call_do_not_exceed_the_budget():
    n, size = 200, 20
    x, y = np.zeros((n, 3), "float32"), np.zeros((n, 1), "float32")
    model = _model(1.0)
    model.compile(model.optimizer, "mse", steps_per_execution=5)
    budget = privacy.PrivacyBudget(n, 1e-4, size, max_epsilon=4.0, accountant="rdp")
    model.fit(x, y, batch_size=size, epochs=50, verbose=0, callbacks=[budget])
    steps = model.optimizer.steps
    assert steps % 5 == 0
    spent = [privacy.epsilon(1.0, size / n, count, 1e-4, accountant="rdp") for count in (steps, steps + 5)]
    assert spent[0] <= 4.0 < spent[1]


def test_the_budget_asks_for_what_it_needs():
    x, y = np.zeros((20, 3), "float32"), np.zeros((20, 1), "float32")
    with pytest.raises(ValueError, match="needs the expected number of examples"):
        _model(1.0).fit(x, y, verbose=0, callbacks=[privacy.PrivacyBudget(20, 1e-3)])
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    plain.compile("sgd", "mse")
    with pytest.raises(TypeError, match="Received: a model compiled with SGD"):
        plain.fit(x, y, verbose=0, callbacks=[privacy.PrivacyBudget(20, 1e-3, 10)])


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("rows", [None, 16])
def test_poisson_batches_hold_each_example_by_chance(rows):
    n, size, steps = 300, 40, 400
    x = np.arange(1, n + 1, dtype="float32")[:, None]
    data = privacy.poisson_batches(x, {"a": x, "b": 2 * x}, size, steps, rows=rows, seed=0)
    parts = 1 if rows is None else privacy.batches_per_step(n, size, rows)
    batches = list(data.as_numpy_iterator())
    assert len(batches) == steps * parts == int(data.cardinality())
    counts, sizes = np.zeros(n), np.zeros(steps)
    for index, (given, wanted, weights) in enumerate(batches):
        assert given.shape == batches[0][0].shape and set(weights) == {"a", "b"}
        present = weights["a"] > 0
        np.testing.assert_array_equal(given[~present], 0)
        np.testing.assert_array_equal(wanted["b"], 2 * given)
        chosen = given[present, 0].astype(int) - 1
        assert len(set(chosen)) == len(chosen)
        counts[chosen] += 1
        sizes[index // parts] += len(chosen)
    rate = size / n
    assert np.mean(sizes) == pytest.approx(size, rel=0.03)
    assert np.var(sizes) == pytest.approx(n * rate * (1 - rate), rel=0.25)
    assert stats.chisquare(counts, np.full(n, counts.mean())).pvalue > 1e-3


def test_poisson_batches_carry_sample_weights():
    x, factors = np.arange(1.0, 51.0), np.linspace(0.0, 2.0, 50)
    for given, wanted, weights in privacy.poisson_batches(
        x, {"a": x}, 10, 5, sample_weight=factors
    ).as_numpy_iterator():
        present = given > 0
        np.testing.assert_allclose(weights["a"][present], factors[given[present].astype(int) - 1], rtol=1e-6)
        np.testing.assert_array_equal(weights["a"][~present], 0)
        np.testing.assert_array_equal(given, wanted["a"])


@pytest.mark.by_day(None)
def test_a_training_on_poisson_batches():
    n, size, rows = 400, 50, 32
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 3)).astype("float32")
    y = x @ np.float32([[1.0], [-2.0], [0.5]])
    parts = privacy.batches_per_step(n, size, rows)
    inner = keras.optimizers.SGD(0.5, gradient_accumulation_steps=parts)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(privacy.DPOptimizer(inner, 1.0, 0.5, batch_size=size), loss="mse")
    data = privacy.poisson_batches(x, y, size, 150, rows=rows)
    history = model.fit(
        data,
        epochs=3,
        steps_per_epoch=50 * parts,
        verbose=0,
        callbacks=[privacy.PrivacyBudget(n, 1e-4, accountant="rdp")],
    ).history
    assert model.optimizer.steps == 150
    expected = [privacy.epsilon(0.5, size / n, steps, 1e-4, "rdp") for steps in (50, 100, 150)]
    np.testing.assert_allclose(history["epsilon"], expected, rtol=1e-12)
    np.testing.assert_allclose(model.layers[-1].kernel.numpy()[:, 0], [1.0, -2.0, 0.5], atol=0.1)


def test_samples_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="batch_size must be at most the number of examples"):
        privacy.poisson_batches(np.zeros((5, 1)), np.zeros(5), 6, 1)
    numbers = tf.data.Dataset.range(5)
    for given in (numbers, 3.0, [1.0, 2.0]):
        with pytest.raises(TypeError, match=r"must be arrays with the examples along the first axis.*Received"):
            privacy.poisson_batches(given, np.zeros(5), 2, 1)
    with pytest.raises(ValueError, match=r"Received: lengths \[4, 5\]"):
        privacy.poisson_batches(np.zeros((5, 1)), np.zeros(4), 2, 1)
