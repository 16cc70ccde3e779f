"""What one step of `DPOptimizer` does to the weights, against one tape for each example."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import tfjac
from tests.fixtures import ON_GPU
from tfjac import privacy

N, CLIP = 12, 0.05
CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LAYERS = keras.layers


def _dense():
    inputs = keras.Input((6,))
    hidden = LAYERS.Dense(8, "tanh", kernel_regularizer=keras.regularizers.L2(0.1))(inputs)
    return (
        keras.Model(inputs, LAYERS.Dense(3)(hidden)),
        {},
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )


def _convolution():
    inputs = keras.Input((8, 8, 2))
    x = LAYERS.Conv2D(4, 3, strides=2, activation="relu")(inputs)
    x = LAYERS.GroupNormalization(2)(x)
    x = LAYERS.DepthwiseConv2D(2, padding="same", activation="tanh")(x)
    x = LAYERS.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, LAYERS.Dense(3)(x)), {}, CROSS_ENTROPY


def _recurrent():
    inputs = keras.Input((5,), dtype="int32")
    x = LAYERS.Embedding(7, 4)(inputs)
    x = LAYERS.LSTM(5)(x)
    return keras.Model(inputs, LAYERS.Dense(3)(x)), {}, CROSS_ENTROPY


def _attention():
    inputs = keras.Input((5,), dtype="int32")
    x = LAYERS.Embedding(7, 8)(inputs)
    x = LAYERS.LayerNormalization()(x + LAYERS.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    return keras.Model(inputs, LAYERS.Dense(7)(x)), {}, CROSS_ENTROPY


def _two_outputs():
    first, second = keras.Input((6,), name="first"), keras.Input((4,), name="second")
    x = LAYERS.Dense(5, "tanh", activity_regularizer=keras.regularizers.L2(0.3))(first)
    y = LAYERS.Dense(5, "gelu")(LAYERS.Concatenate()([x, second]))
    outputs = {"a": LAYERS.Dense(1, name="a")(y), "b": LAYERS.Dense(2, name="b", activation="sigmoid")(x)}
    model = keras.Model([first, second], outputs)
    return model, {"loss_weights": {"a": 2.0, "b": 0.5}}, {"a": "mae", "b": "binary_crossentropy"}


MODELS = {
    "dense": _dense,
    "convolution": _convolution,
    "recurrent": _recurrent,
    "attention": _attention,
    "two outputs": _two_outputs,
}


def data_of(model, rng):
    """Return inputs and targets for a model of `MODELS`, N examples."""

    def inputs(tensor):
        shape = (N, *tensor.shape[1:])
        return rng.integers(0, 7, shape) if "int" in tensor.dtype else rng.normal(size=shape).astype("float32")

    x = [inputs(tensor) for tensor in model.inputs]
    if isinstance(model.output, dict):
        y = {"a": rng.normal(size=(N, 1)).astype("float32"), "b": rng.integers(0, 2, (N, 2)).astype("float32")}
    else:
        y = rng.integers(0, model.output.shape[-1], (N, *model.output.shape[1:-1]))
    return x if len(x) > 1 else x[0], y


def gradients_of_examples(model, x, y, weights=None):
    """Return the gradient of each example's loss, without regularisers of weights, and of these regularisers."""
    variables, rows = model.trainable_variables, []
    for i in range(N):
        one = tf.nest.map_structure(lambda array, i=i: array[i : i + 1], (x, y))
        with tf.GradientTape() as tape:
            loss = model.compute_loss(y=one[1], y_pred=model(one[0], training=True), x=one[0])
            loss -= sum(_of_weights(model))
        scale = 1.0 if weights is None else weights[i]
        rows.append([scale * tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, variables)])
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.constant(0.0), *_of_weights(model)])
    return rows, [0.0 if g is None else g.numpy() for g in tape.gradient(loss, variables)]


def _of_weights(model):
    return [
        layer.kernel_regularizer(layer.kernel)
        for layer in model.layers
        if getattr(layer, "kernel_regularizer", None) is not None
    ]


def clipped_mean(rows, clip, factor=None):
    """Return Σ min(1, clip / norm) g / N, and the norms."""
    norms = np.array([np.sqrt(sum(np.sum(np.float64(g) ** 2) for g in row)) for row in rows])
    factors = np.minimum(1, clip / norms) if factor is None else factor(norms)
    return [sum(f * g for f, g in zip(factors, column)) / N for column in zip(*rows)], norms


def weights_of(model):
    return [variable.numpy() for variable in model.trainable_variables]


def compiled(name, seed=0, *, inner=None, clip=CLIP, noise=0.0, compile_options=(), **options):
    """Return a model that one step of SGD with the rate 1 changes by minus the private gradient."""
    keras.utils.set_random_seed(seed)
    model, given, loss = MODELS[name]()
    optimizer = privacy.DPOptimizer(inner or keras.optimizers.SGD(1.0), clip, noise, **options)
    model.compile(optimizer, loss=loss, **given, **dict(compile_options))
    return model


def one_step(model, x, y, batch_size=N, **fit):
    """Return what one epoch subtracts from the weights."""
    before = weights_of(model)
    model.fit(x, y, batch_size=batch_size, epochs=1, shuffle=False, verbose=0, **fit)
    return [a - b for a, b in zip(before, weights_of(model))]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_mean_of_the_clipped_gradients(name, jit_compile):
    model = compiled(name, compile_options={"jit_compile": jit_compile})
    x, y = data_of(model, np.random.default_rng(1))
    rows, of_weights = gradients_of_examples(model, x, y)
    expected, norms = clipped_mean(rows, CLIP)
    assert np.mean(norms > CLIP) > 0.5
    found = one_step(model, x, y)
    for got, clipped, plain in zip(found, expected, of_weights):
        np.testing.assert_allclose(got, clipped + plain, rtol=2e-4, atol=2e-6)


@pytest.mark.by_day(None)
def test_sample_weights_scale_the_loss_of_their_example():
    model = compiled("dense", clip=0.4)
    rng = np.random.default_rng(2)
    x, y = data_of(model, rng)
    weights = rng.uniform(size=N).astype("float32")
    rows, of_weights = gradients_of_examples(model, x, y, weights)
    expected, norms = clipped_mean(rows, 0.4)
    assert 0 < np.mean(norms > 0.4) < 1
    for got, clipped, plain in zip(one_step(model, x, y, sample_weight=weights), expected, of_weights):
        np.testing.assert_allclose(got, clipped + plain, rtol=1e-4, atol=1e-6)


def test_automatic_clipping_normalises():
    model = compiled("convolution", clipping="automatic")
    x, y = data_of(model, np.random.default_rng(3))
    rows, _ = gradients_of_examples(model, x, y)
    expected, _ = clipped_mean(rows, CLIP, lambda norms: CLIP / (norms + 0.01))
    for got, clipped in zip(one_step(model, x, y), expected):
        np.testing.assert_allclose(got, clipped, rtol=1e-4, atol=1e-6)


def test_adaptive_clipping_finds_the_median_of_the_norms():
    clipping = privacy.AdaptiveClipping(count_noise=1e-3)
    model = compiled("dense", inner=keras.optimizers.SGD(0.0), clip=30.0, clipping=clipping, batch_size=N)
    x, y = data_of(model, np.random.default_rng(4))
    _, norms = clipped_mean(gradients_of_examples(model, x, y)[0], 1.0)
    model.fit(x, y, batch_size=N, epochs=120, verbose=0)
    lower, upper = np.sort(norms)[[N // 2 - 2, N // 2 + 1]]
    assert lower < float(model.optimizer.clipping.bound()) < upper


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize(("accumulated", "batch_size"), [(1, None), (1, 40), (3, N), (3, 40)])
def test_noise_is_that_of_the_whole_step(accumulated, batch_size):
    """With a learning rate of 1 a step subtracts gradient and noise; another seed leaves the noise alone."""
    clip, sigma, size = 0.5, 3.0, N if batch_size is None else batch_size
    inner = keras.optimizers.SGD(1.0, gradient_accumulation_steps=accumulated if accumulated > 1 else None)
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    model = keras.Model(inputs, LAYERS.Dense(4000, use_bias=False, kernel_initializer="zeros")(inputs))
    model.compile(privacy.DPOptimizer(inner, clip, sigma, batch_size=batch_size), loss="mse")
    x, y = np.zeros((N, 6), "float32"), np.zeros((N, 4000), "float32")
    (noise,) = one_step(model, x, y, batch_size=N // accumulated)
    assert abs(noise.mean()) < 5 * clip * sigma / size / np.sqrt(noise.size)
    assert np.std(noise) == pytest.approx(clip * sigma / size, rel=0.02)
    assert stats.kstest(noise.ravel() / np.std(noise), "norm").pvalue > 1e-4
    (again,) = one_step(model, x, y, batch_size=N // accumulated)
    assert abs(np.corrcoef(noise.ravel(), again.ravel())[0, 1]) < 0.04
    rows = noise.reshape(6, 4000)
    assert np.abs(np.corrcoef(rows) - np.eye(6)).max() < 0.1


BETAS, EPSILON, RATE = (0.875, 0.984375), 2.0**-20, 0.125
"""What Keras' Adam rounds to float32 on its way stays as it is."""


def _by_adam(gradient, state, step):
    """Adam in NumPy, as Kingma & Ba have it at the end of their section 2; `state` is changed in place."""
    state[:] = [beta * moment + (1 - beta) * gradient**k for beta, moment, k in zip(BETAS, state, (1, 2))]
    first, second = 1 - np.power(BETAS, step)
    return RATE * np.sqrt(second) / first * state[0] / (np.sqrt(state[1]) + EPSILON)


INNER = {
    "SGD": (lambda **options: keras.optimizers.SGD(RATE, **options), lambda gradient, state, step: RATE * gradient),
    "Adam": (lambda **options: keras.optimizers.Adam(RATE, *BETAS, EPSILON, **options), _by_adam),
}


@pytest.mark.parametrize("name", INNER)
def test_batches_that_the_inner_optimizer_sums_up_are_one_batch(name):
    """Three steps, each of 5, 5 and 2 examples, in float64. The oracle clips, sums up and steps in NumPy."""
    rng, (inner, step_of) = np.random.default_rng(5), INNER[name]
    x, y = (rng.normal(size=(N, k)).astype("float32") for k in (6, 2))

    def model_of(**accumulation):
        keras.utils.set_random_seed(0)
        layers = [LAYERS.Dense(8, "tanh", dtype="float64"), LAYERS.Dense(2, dtype="float64")]
        model = keras.Sequential([keras.Input((6,), dtype="float64"), *layers])
        optimizer = privacy.DPOptimizer(inner(**accumulation), 3.5, 0.0, batch_size=N)
        model.compile(optimizer, keras.losses.MeanSquaredError(dtype="float64"))
        return model

    oracle, model, whole = model_of(), model_of(gradient_accumulation_steps=3), model_of()
    expected = weights_of(oracle)
    states = [[0.0, 0.0] for _ in expected]
    for step in (1, 2, 3):
        rows, _ = gradients_of_examples(oracle, x, y)
        gradients, norms = clipped_mean(rows, 3.5)
        assert 0 < np.mean(norms > 3.5) < 1
        expected = [w - step_of(g, state, step) for w, g, state in zip(expected, gradients, states)]
        oracle.set_weights(expected)
    for each, size in (model, 5), (whole, N):
        each.fit(x, y, batch_size=size, epochs=3, shuffle=False, verbose=0)
        assert each.optimizer.steps == 3
        for got, wanted in zip(weights_of(each), expected):
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8)


def test_adaptive_clipping_moves_once_for_the_batches_of_a_step():
    clipping = privacy.AdaptiveClipping(count_noise=1e-9)
    inner = keras.optimizers.SGD(0.0, gradient_accumulation_steps=2)
    model = compiled("dense", inner=inner, clip=0.9, clipping=clipping, batch_size=N)
    x, y = data_of(model, np.random.default_rng(4))
    bound, norms = 0.9, clipped_mean(gradients_of_examples(model, x, y)[0], 1.0)[1]
    for _ in range(2):
        above = np.sum(norms > bound)
        model.fit(x[:7], y[:7], batch_size=7, shuffle=False, verbose=0)
        assert float(model.optimizer.clipping.bound()) == pytest.approx(bound)
        model.fit(x[7:], y[7:], batch_size=7, shuffle=False, verbose=0)
        bound *= np.exp(0.2 * (above / N - 0.5))
        assert float(model.optimizer.clipping.bound()) == pytest.approx(bound) and above not in (0, N / 2)


@pytest.mark.skipif(ON_GPU, reason="a GPU that is full says so by itself")
@pytest.mark.parametrize("is_open", [True, False])
def test_a_batch_that_memory_cannot_hold_is_refused(is_open, monkeypatch):
    model = keras.Sequential([keras.Input((4,)), LAYERS.Dense(8, "tanh"), LAYERS.Dense(8)])
    rows, size = 6000, 6000 if is_open else None
    model.compile(privacy.DPOptimizer(keras.optimizers.SGD(1.0), 1.0, 0.0, batch_size=size), "mse")
    data = tf.data.Dataset.from_tensor_slices((np.zeros((rows, 4), "float32"), np.zeros((rows, 8), "float32")))
    data = data.batch(rows, drop_remainder=not is_open)
    taken = 4 * rows * (4 + 8 + 8 + 8)  # bytes that two products take in and give
    monkeypatch.setattr("tfjac.memory_budget.free_memory", lambda: 2 * taken - 2)
    monkeypatch.setattr("tfjac.memory_budget.LEAST", 0)
    with pytest.raises(tfjac.MemoryBudgetExceeded, match=r"takes 0.6 MB.*gradient_accumulation_steps.*of 6000 rows"):
        model.fit(data, shuffle=False, verbose=0)
    monkeypatch.setattr("tfjac.memory_budget.free_memory", lambda: 2 * taken)
    model.fit(data, shuffle=False, verbose=0)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "inner",
    [
        lambda: keras.optimizers.SGD(1.0, loss_scale_factor=128.0),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0)),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)),
    ],
    ids=["factor", "optimizer", "optimizer that sums up batches"],
)
def test_an_inner_scale_of_the_loss_changes_no_step(inner):
    model = compiled("dense", inner=inner(), batch_size=N)
    x, y = data_of(model, np.random.default_rng(5))
    rows, of_weights = gradients_of_examples(model, x, y)
    expected, _ = clipped_mean(rows, CLIP)
    found = one_step(model, x, y, batch_size=N // model.optimizer._parts)
    for got, clipped, plain in zip(found, expected, of_weights):
        np.testing.assert_allclose(got, clipped + plain, rtol=2e-4, atol=2e-6)
    assert model.optimizer.steps == 1


@pytest.mark.by_day(None)
def test_padding_adds_nothing():
    model, padded = (compiled("dense", batch_size=N) for _ in range(2))
    x, y = data_of(model, np.random.default_rng(6))
    mask = np.concatenate([np.ones(N), np.zeros(8)]).astype("float32")
    more = np.concatenate([x, np.zeros((8, 6), "float32")]), np.concatenate([y, np.zeros(8, y.dtype)])
    expected = one_step(model, x, y)
    for got, each in zip(one_step(padded, *more, batch_size=N + 8, sample_weight=mask), expected):
        np.testing.assert_allclose(got, each, rtol=1e-4, atol=1e-6)


@pytest.mark.by_day(None)
def test_steps_per_execution_and_data_sets():
    model, plain = compiled("dense", compile_options={"steps_per_execution": 3}), compiled("dense")
    x, y = data_of(model, np.random.default_rng(8))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    before = weights_of(model)
    model.fit(data, epochs=1, verbose=0)
    moved = [a - b for a, b in zip(before, weights_of(model))]
    for got, expected in zip(moved, one_step(plain, x, y, batch_size=4)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.by_day(None)
def test_a_saved_model_goes_on_without_the_seed(tmp_path):
    model = compiled("dense", noise=1.0, seed=3, inner=keras.optimizers.Adam(0.1), clipping="automatic")
    x, y = data_of(model, np.random.default_rng(9))
    model.fit(x, y, batch_size=N, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.optimizer.steps == 2 and again.optimizer.clip_norm == CLIP
    assert "seed" not in again.optimizer.get_config()
    again.fit(x, y, batch_size=N, epochs=1, verbose=0)
    assert again.optimizer.steps == 3


@pytest.mark.by_day(None)
@pytest.mark.parametrize("way", ["weights", "checkpoint"])
def test_noise_is_another_one_if_an_earlier_state_is_restored(tmp_path, way):
    """Else the difference of two steps from one state, on other data, would have no noise."""
    model = compiled("dense", noise=1.0)
    x, y = data_of(model, np.random.default_rng(9))
    model.train_on_batch(x, y)
    model.save_weights(tmp_path / "state.weights.h5")
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = checkpoint.save(tmp_path / "checkpoint")
    moved = [one_step(model, x, y)]
    if way == "weights":
        model.load_weights(tmp_path / "state.weights.h5")
    else:
        checkpoint.restore(path)
    assert model.optimizer.steps == 1
    moved.append(one_step(model, x, y))
    first, second = (np.concatenate([each.ravel() for each in step]) for step in moved)
    assert np.std(first - second) > 0.9 * CLIP / N
    assert copy.deepcopy(model.optimizer)._noise._seed != model.optimizer._noise._seed


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(("name", "jit_compile"), [("dense", False), ("dense", True), ("recurrent", False)])
def test_an_example_whose_gradient_is_not_finite_adds_nothing(name, jit_compile):
    model = compiled(name, batch_size=N, compile_options={"jit_compile": jit_compile})
    rng = np.random.default_rng(12)
    x, y = data_of(model, rng)
    weights = np.where(np.arange(N) == 3, 0.0, 1.0)
    rows, of_weights = gradients_of_examples(model, x, y, weights)
    expected, _ = clipped_mean(rows, CLIP, factor=lambda norms: np.minimum(1, CLIP / np.maximum(norms, 1e-9)))
    if "int" in model.inputs[0].dtype:
        weights[3] = np.nan
    else:
        x[3] = np.inf
    for got, clipped, plain in zip(one_step(model, x, y, sample_weight=weights), expected, of_weights):
        np.testing.assert_allclose(got, clipped + plain, rtol=2e-4, atol=2e-6)


def test_a_rule_of_clipping_is_saved_with_its_arguments():
    clipping = privacy.AdaptiveClipping(0.7, count_noise=2.0)
    optimizer = privacy.DPOptimizer(keras.optimizers.SGD(), 1.0, 1.0, batch_size=N, clipping=clipping)
    again = privacy.DPOptimizer.from_config(optimizer.get_config()).clipping
    assert type(again) is privacy.AdaptiveClipping
    assert (again.quantile, again.learning_rate, again.count_noise) == (0.7, 0.2, 2.0)
    assert type(again).__name__ in str(optimizer.get_config())
    fixed = privacy.DPOptimizer(keras.optimizers.SGD(), 1.0, 1.0, clipping=privacy.FixedClipping())
    assert type(privacy.DPOptimizer.from_config(fixed.get_config()).clipping) is privacy.FixedClipping


def test_schedules_set_the_inner_rate():
    model = compiled("dense")
    x, y = data_of(model, np.random.default_rng(10))
    model.fit(x, y, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch: 0.125)])
    assert float(model.optimizer.inner_optimizer.learning_rate) == 0.125


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"inner_optimizer": 0.1}, TypeError, "must be a Keras optimizer.*Received: 0.1 of type float"),
        ({"clip_norm": 0}, ValueError, "clip_norm"),
        ({"clip_norm": np.inf}, ValueError, "clip_norm must be a finite positive number. Received: clip_norm=inf"),
        ({"noise_multiplier": -1}, ValueError, "noise_multiplier must be zero or a finite positive number.*=-1"),
        ({"noise_multiplier": None}, ValueError, "noise_multiplier must be zero or.*=None"),
        ({"inner_optimizer": tfjac.LevenbergMarquardt()}, TypeError, "one that takes gradients.*LevenbergMarquardt"),
        (
            {"inner_optimizer": keras.optimizers.SGD(gradient_accumulation_steps=2)},
            ValueError,
            "several batches needs batch_size.*gradient_accumulation_steps=2",
        ),
        ({"clipping": "adaptiv"}, ValueError, "Did you mean 'adaptive'"),
        ({"clipping": "adaptive"}, ValueError, "needs batch_size"),
    ],
)
def test_arguments(arguments, error, message):
    given = {"inner_optimizer": keras.optimizers.SGD(), "clip_norm": 1.0, "noise_multiplier": 1.0, **arguments}
    with pytest.raises(error, match=message):
        privacy.DPOptimizer(**given)


def test_eager_execution_is_refused():
    model = compiled("dense", compile_options={"run_eagerly": True})
    x, y = data_of(model, np.random.default_rng(11))
    with pytest.raises(ValueError, match=r"DPOptimizer reads the graph of the loss.*run_eagerly=False"):
        model.fit(x, y, verbose=0)
    assert tfjac.privacy is privacy
