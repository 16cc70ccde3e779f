"""Clipping of each layer by its own norm, and noise of the operating system: float64 sums over single examples."""

import keras
import numpy as np
import pytest
from scipy import stats

from tests.privacy.test_dp_optimizer import (
    N,
    compiled,
    data_of,
    gradients_of_examples,
    one_step,
)
from tfjac import privacy
from tfjac.privacy.secure_random import normals, uniforms


def layers_of(model):
    return [variable.path.rpartition("/")[0] for variable in model.trainable_variables]


def clipped_by_layer(rows, layers, bound_of):
    """Σ_n min(1, C_l / ‖g_n of layer l‖) g_n / N, and the share of norms that are above their bound."""
    sums, above = [0.0] * len(layers), []
    for row in rows:
        for layer in dict.fromkeys(layers):
            own = [k for k, each in enumerate(layers) if each == layer]
            norm = np.sqrt(sum(np.sum(np.float64(row[k]) ** 2) for k in own))
            above.append(norm > bound_of(layer))
            for k in own:
                sums[k] = sums[k] + min(1.0, bound_of(layer) / norm) * np.float64(row[k]) / N
    return sums, np.mean(above)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    ("name", "jit_compile"), [("dense", False), ("dense", True), ("recurrent", False), ("two outputs", False)]
)
def test_a_step_clips_each_layer_by_its_own_norm(name, jit_compile):
    model = compiled(name, clip=0.3, clipping="per_layer", compile_options={"jit_compile": jit_compile})
    x, y = data_of(model, np.random.default_rng(1))
    rows, of_weights = gradients_of_examples(model, x, y)
    layers = layers_of(model)
    expected, above = clipped_by_layer(rows, layers, lambda _: 0.3 / np.sqrt(len(set(layers))))
    assert above > 0.1
    found = one_step(model, x, y)
    for got, clipped, plain in zip(found, expected, of_weights):
        np.testing.assert_allclose(got, clipped + plain, rtol=2e-4, atol=2e-6)
    assert model.optimizer.clipping.bound() == pytest.approx(0.3)


def test_layers_have_the_bounds_that_are_named():
    """The parts of an attention layer are clipped together, by the name of the whole."""
    names = {"embedding": 0.02, "multi_head_attention": 0.1, "layer_normalization": 0.05, "dense": 0.3}

    def model_of(clip):
        keras.backend.clear_session()
        return compiled("attention", clip=clip, clipping="per_layer")

    model = model_of(names)
    x, y = data_of(model, np.random.default_rng(1))
    rows, of_weights = gradients_of_examples(model, x, y)
    layers = [next(name for name in names if name in path.split("/")) for path in layers_of(model)]
    expected, above = clipped_by_layer(rows, layers, names.get)
    assert above > 0.1
    for got, clipped, plain in zip(one_step(model, x, y), expected, of_weights):
        np.testing.assert_allclose(got, clipped + plain, rtol=2e-4, atol=2e-6)
    again = privacy.DPOptimizer.from_config(model.optimizer.get_config())
    assert again.clip_norm == names and type(again.clipping) is privacy.PerLayerClipping
    with pytest.raises(ValueError, match=r"names what is no layer.*There are embedding, .*Received: 'dens'"):
        one_step(model_of({**names, "dens": 1.0}), x, y)
    del names["dense"]
    with pytest.raises(ValueError, match=r"name each layer.*once. Received: no name for dense"):
        one_step(model_of(names), x, y)


@pytest.mark.by_day(None)
def test_an_example_that_is_not_finite_in_one_layer_adds_nothing_to_any():
    model = compiled("dense", clip=0.3, clipping="per_layer", batch_size=N)
    x, y = data_of(model, np.random.default_rng(12))
    rows, of_weights = gradients_of_examples(model, x, y)
    layers = layers_of(model)
    expected, _ = clipped_by_layer(rows[:3] + rows[4:], layers, lambda _: 0.3 / np.sqrt(2))
    x[3] = np.inf
    for got, clipped, plain in zip(one_step(model, x, y), expected, of_weights):
        np.testing.assert_allclose(got, clipped + plain, rtol=2e-4, atol=2e-6)


def noisy(clip_norm, clipping, **options):
    """Return what a step without gradients subtracts from two kernels of 6 × 2000: noise alone."""
    keras.backend.clear_session()
    inputs = keras.Input((6,))
    layers = [keras.layers.Dense(2000, use_bias=False, kernel_initializer="zeros", name=name) for name in "ab"]
    model = keras.Model(inputs, [layer(inputs) for layer in layers])
    optimizer = privacy.DPOptimizer(keras.optimizers.SGD(1.0), clip_norm, 2.0, clipping=clipping, **options)
    model.compile(optimizer, loss=["mse", "mse"], jit_compile=False)  # XLA has no noise of the operating system
    zeros = np.zeros((N, 2000), "float32")
    return model, lambda: one_step(model, np.zeros((N, 6), "float32"), [zeros, zeros])


@pytest.mark.by_day(None)
def test_the_noise_of_each_layer_is_that_of_the_sensitivity_of_all():
    """σ √(C_a² + C_b²): for an example that fills both bounds, the gradient moves by that much."""
    _, step = noisy({"a": 0.3, "b": 0.4}, "per_layer")
    for noise in step():
        assert np.std(noise) == pytest.approx(2.0 * 0.5 / N, rel=0.03)


def test_secure_noise_is_normal_and_never_the_same():
    _, step = noisy(0.5, "fixed", secure_noise=True)
    drawn = [np.ravel(noise) * N for _ in range(2) for noise in step()]
    for noise in drawn:
        assert np.std(noise) == pytest.approx(1.0, rel=0.03)
        assert stats.kstest(noise, "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 0.05


def test_numbers_of_the_operating_system_have_their_distributions():
    drawn = uniforms(20000)
    assert drawn.min() > 0 and drawn.max() <= 1 and stats.kstest(drawn, "uniform").pvalue > 1e-4
    numbers = normals((200, 100))
    assert numbers.shape == (200, 100) and stats.kstest(numbers.ravel(), "norm").pvalue > 1e-4
    assert normals(()).shape == ()


def test_secure_noise_is_refused_with_a_seed_and_by_xla():
    with pytest.raises(ValueError, match=r"no seed: leave it out. Received: seed=3, secure_noise=True"):
        noisy(0.5, "fixed", secure_noise=True, seed=3)
    with pytest.raises(ValueError, match=r"no seed: leave it out. Received: seed=3, secure=True"):
        privacy.poisson_batches(np.zeros((5, 1)), np.zeros(5), 2, 1, seed=3, secure=True)
    model = compiled("dense", noise=1.0, secure_noise=True, compile_options={"jit_compile": True})
    with pytest.raises(ValueError, match=r"XLA cannot call: compile the model with jit_compile=False"):
        model.fit(*data_of(model, np.random.default_rng(0)), verbose=0)


def test_secure_samples_are_poisson_samples():
    x = np.arange(300.0)[:, None]
    sizes = [np.sum(w > 0) for _, _, w in privacy.poisson_batches(x, x, 40, 200, secure=True).as_numpy_iterator()]
    assert np.mean(sizes) == pytest.approx(40, rel=0.05) and np.var(sizes) == pytest.approx(40 * 260 / 300, rel=0.4)


@pytest.mark.parametrize("name", ["noise_multiplier", "clip_norm", "batch_size", "clipping"])
def test_what_the_accounting_reads_cannot_be_changed(name):
    """Steps are traced with the first value; ε would be computed from the second."""
    optimizer = privacy.DPOptimizer(keras.optimizers.SGD(), 1.0, 1.0)
    with pytest.raises(AttributeError, match=f"{name} of a DPOptimizer cannot be changed"):
        setattr(optimizer, name, 5.0)


def test_a_dict_of_bounds_is_for_layers_alone():
    with pytest.raises(ValueError, match=r"clip_norm is one number, unless clipping='per_layer'.*'a': 1.0"):
        privacy.DPOptimizer(keras.optimizers.SGD(), {"a": 1.0}, 1.0)
    with pytest.raises(ValueError, match=r"clip_norm\['a'\] must be a finite positive number"):
        privacy.DPOptimizer(keras.optimizers.SGD(), {"a": -1.0}, 1.0, clipping="per_layer")
