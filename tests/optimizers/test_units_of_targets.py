"""Targets in any unit: weights that residuals are linear in are measured in it. Steps are held to NumPy's."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.memory import run_alone
from tests.optimizers.gauss_newton import flat_values, rows_of_jacobian
from tests.precision import floating
from tfjac.keras import memory
from tfjac.objective.linear_variables import linear_variables
from tfjac.optimizers import ConjugateGradientSolver, LevenbergMarquardt, NielsenDamping

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(96, 4)).astype("float32")
G = np.sin(X[:, :1]) + 0.5 * X[:, 1:2] * X[:, 2:3] + 0.3 * X[:, 3:4] + 0.1 * RNG.normal(size=(96, 1))
Y = np.float32((G - G.mean()) / G.std())


def mlp(*units, outputs=1, head=(), penalty=None):
    keras.utils.set_random_seed(0)
    hidden = [layers.Dense(each, "tanh", kernel_regularizer=penalty) for each in units or (5, 3)]
    return keras.Sequential([keras.Input((4,)), *hidden, layers.Dense(outputs, kernel_regularizer=penalty), *head])


# ------------------------------------------------------------------------ which variables


def named_linear(function, variables, *specs):
    """The names of the variables that `function` of data is found to be linear in together."""
    found = []

    def read(*data):
        found.extend(
            getattr(variables[k], "path", variables[k].name.split(":")[0])
            for k in linear_variables(tf.nest.flatten(function(*data)), variables)
        )

    tf.function(read, autograph=False).get_concrete_function(*specs)
    return found


def of_model(model, shape=(None, 4)):
    return named_linear(model, model.trainable_variables, tf.TensorSpec(shape, keras.config.floatx()))


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    "head",
    [(), (layers.Rescaling(3.0, 1.0),), (layers.Reshape((1, 1)), layers.Flatten()), (layers.Dropout(0.5),)],
    ids=["dense", "rescaled", "reshaped", "dropout"],
)
def test_the_last_layer_of_a_network_is_found(head):
    keras.backend.clear_session()
    assert [name.split("/")[-2:] for name in of_model(mlp(head=head))] == [["dense_2", "kernel"], ["dense_2", "bias"]]


@pytest.mark.parametrize("last", ["relu", "softplus", "elu", "leaky_relu"])
def test_a_last_layer_that_bends_is_found_if_it_comes_to_a_line(last):
    keras.backend.clear_session()
    found = [["dense_2", "kernel"], ["dense_2", "bias"]]
    assert [name.split("/")[-2:] for name in of_model(mlp(head=[layers.Activation(last)]))] == found
    bound = layers.Lambda(lambda z: tf.maximum(z, 0.1), output_shape=(1,))
    keras.backend.clear_session()
    assert [name.split("/")[-2:] for name in of_model(mlp(head=[bound]))] == found


@pytest.mark.parametrize("last", [["sigmoid"], ["exponential"], ["softplus", "softplus"], ["tanh"]])
def test_a_last_layer_that_bends_everywhere_or_twice_is_none(last):
    keras.backend.clear_session()
    assert of_model(mlp(head=[layers.Activation(each) for each in last])) == []


def test_activations_below_the_last_layer_are_not_passed():
    keras.backend.clear_session()
    free = {"use_bias": False}
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, "relu", **free), layers.Dense(1, **free)])
    assert [name.split("/")[-2:] for name in of_model(model)] == [["dense_1", "kernel"]]


def test_of_layers_without_activation_the_last_alone_is_found():
    keras.backend.clear_session()
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(2)])
    assert [name.split("/")[-2:] for name in of_model(model)] == [["dense_1", "kernel"], ["dense_1", "bias"]]


def test_of_several_heads_each_is_found():
    keras.backend.clear_session()
    given = keras.Input((4,))
    shared = layers.Dense(3, "tanh")(given)
    model = keras.Model(given, [layers.Dense(1, name="one")(shared), layers.Dense(2, name="two")(shared)])
    assert of_model(model) == [weight.path for weight in model.trainable_variables[2:]]


def test_of_curves_amplitudes_and_offsets_are_found():
    a, b, c, d = (tf.Variable(1.0, name=name) for name in "abcd")
    spec = tf.TensorSpec([None])
    assert named_linear(lambda x: a * tf.exp(-b * x) + c - 2 * x, [a, b, c], spec) == ["a", "c"]
    assert named_linear(lambda x: a * b * x + c, [a, b, c], spec) == ["c"]  # neither side of a product before the other
    assert named_linear(lambda x: a * x + tf.abs(a) + c / 3.0, [a, c], spec) == ["c"]
    assert named_linear(lambda x: a + c / d, [a, c, d], spec) == ["a"]
    assert named_linear(lambda x: tf.stop_gradient(a * x) * c, [a, c], spec) == ["c"]


def test_loops_and_tables_are_not_looked_into():
    table, w = tf.Variable(tf.ones([3, 2]), name="table"), tf.Variable([[1.0], [2.0]], name="w")
    spec = tf.TensorSpec([None], tf.int32)
    assert named_linear(lambda k: tf.gather(table, k) @ w, [table, w], spec) == ["w"]


# ------------------------------------------------------------------------ steps


def first_step(model, x, y, sample_weight=None, **options):
    """The first step of `fit`, `[p]`, and the optimizer."""
    options = {"damping": NielsenDamping(1e-2), "acceleration": None, "max_attempts": 1, "min_gain": 1e-9, **options}
    jit_compile = options.pop("jit_compile", False)
    model.compile(LevenbergMarquardt(**options), "mse", jit_compile=jit_compile)
    start = flat_values(model.trainable_variables)
    model.fit(x, y, sample_weight=sample_weight, batch_size=len(x), verbose=0)
    return flat_values(model.trainable_variables) - start, model.optimizer


def step_in_numpy(model, x, y, weights=None, penalty=0.0, initial=1e-2):
    """p in (JᵀJ + Λ + λD) p = −g with D = 1/u² for the last layer, λ = `initial`·max diag(D⁻¹JᵀJ), and u."""
    weights = np.ones(len(x)) if weights is None else weights
    m = np.size(y) // len(y)
    root = np.sqrt(weights / np.size(y))[:, None]
    variables = model.trainable_variables
    r, jacobian = rows_of_jacobian(lambda: root * (model(x) - y), variables)
    r, jacobian = np.sqrt(2) * r, np.sqrt(2) * jacobian  # F is the mean of squares, not half of it
    gram, w = jacobian.T @ jacobian, flat_values(variables)
    last = np.arange(len(w)) >= len(w) - sum(int(np.prod(v.shape)) for v in variables[-2:])
    to_explain = r - jacobian @ np.where(last, w, 0)
    offsets = jacobian[:, len(w) - m :]
    spread = np.square(to_explain - offsets @ np.linalg.lstsq(offsets, to_explain, rcond=None)[0]).sum()
    unit = np.sqrt(spread / np.diag(gram)[last].reshape(-1, m).sum(axis=1).max())  # of each input, and of the bias
    unit = 1.0 if 0.1 <= unit <= 2 else unit
    scale = np.where(last, unit**-2, 1.0)
    kernels = np.concatenate([np.full(int(np.prod(v.shape)), 2 * penalty * (len(v.shape) == 2)) for v in variables])
    damping = initial * (np.diag(gram) / scale).max()
    return -np.linalg.solve(gram + np.diag(damping * scale + kernels), jacobian.T @ r + kernels * w), unit


CG = ConjugateGradientSolver(tolerance=1e-12, max_iterations=500)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver", ["auto", "cholesky", "kernel", "qr", "svd", "lsmr", CG])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_step_is_that_of_numpy(solver, outputs):
    with floating("float64"):
        model, y = mlp(outputs=outputs), np.concatenate([70 * Y, -30 * Y], axis=1)[:, :outputs]
        expected, unit = step_in_numpy(model, X, y, initial=1.0)
        found, optimizer = first_step(model, X, y, solver=solver, damping=NielsenDamping(1.0))
    assert 20 < unit < 80
    np.testing.assert_allclose(optimizer._state.unit.numpy(), unit, rtol=1e-6)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [{}, {"verify": True}, {"jit_compile": True}, {"gram_dtype": "float64"}])
def test_a_step_with_weights_and_a_penalty_is_that_of_numpy(options):
    weights = RNG.uniform(0.5, 2, size=96)
    with floating("float64"):
        model, y = mlp(penalty=keras.regularizers.L2(1e-2)), 70 * Y
        expected, _ = step_in_numpy(model, X, y, weights, penalty=1e-2)
        found, _ = first_step(model, X, y, weights, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.by_day(None)
def test_targets_of_size_one_and_scaling_by_name_are_trained_with_d_of_one():
    with floating("float64"):
        steps = [first_step(mlp(), X, Y, scaling=scaling)[0] for scaling in ("outputs", "identity")]
        _, unit = step_in_numpy(mlp(), X, Y)
    assert unit == 1
    np.testing.assert_array_equal(*steps)


@pytest.mark.by_day(None)
def test_the_gradient_that_is_reported_is_that_by_the_weights():
    model = mlp()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(X) - 70 * Y) ** 2)
    expected = max(np.abs(g).max() for g in tape.gradient(loss, model.trainable_variables))
    _, optimizer = first_step(model, X, 70 * Y)
    np.testing.assert_allclose(optimizer.last_report.gradient_norm, expected, rtol=1e-4)


@pytest.mark.by_day(None)
def test_a_batch_of_one_example_and_one_without_weight():
    model = mlp()
    model.compile(LevenbergMarquardt(), "mse")
    model.fit(X[:8], 70 * Y[:8], sample_weight=np.zeros(8), batch_size=8, verbose=0)
    assert model.optimizer._state.unit.numpy() == 0
    error = abs(70 * float(Y[2, 0]))
    model.fit(X[2:3], 70 * Y[2:3], batch_size=1, verbose=0)
    np.testing.assert_allclose(model.optimizer._state.unit.numpy(), error, rtol=1e-3)
    model.fit(X, Y, batch_size=8, verbose=0)  # whatever comes later: what is remembered is in this unit
    np.testing.assert_allclose(model.optimizer._state.unit.numpy(), error, rtol=1e-3)


@pytest.mark.by_day(None)
def test_outputs_that_share_a_layer_share_a_unit():
    """As of a sequence, whose positions have one last layer, and a target each."""
    keras.utils.set_random_seed(0)
    x = RNG.normal(size=(40, 6, 3)).astype("float32")
    y = 70 * np.tanh(x[:, :, :1] + x[:, :, 1:2])
    model = keras.Sequential([keras.Input((6, 3)), layers.Dense(5, "tanh"), layers.Dense(1)])
    _, optimizer = first_step(model, x, y)
    np.testing.assert_allclose(optimizer._state.unit.numpy(), y.std(axis=0, ddof=1).mean(), rtol=0.1)


# ------------------------------------------------------------------------ whole trainings


def outputs_in(unit, monkeypatch, kind):
    """The outputs of a network after eight epochs, over the unit of its targets; its last layer is made as large."""
    if kind != "gram":
        monkeypatch.setattr(memory, "SMALL", 0)
    if kind == "rows":
        monkeypatch.setattr(memory, "MOST_WITH_GRAM", 0)
        monkeypatch.setattr(memory, "_wants_factors", lambda *_: False)
    with floating("float64"):
        model = mlp(20, 20) if kind == "rows" else mlp()
        model.layers[-1].set_weights([unit * each for each in model.layers[-1].get_weights()])
        model.compile(LevenbergMarquardt(), "mse")
        model.fit(X, unit * (3 + 5 * Y), batch_size=16, epochs=20 if kind == "factors" else 8, shuffle=False, verbose=0)
        return model.predict(X, verbose=0) / unit, model.optimizer


@pytest.mark.by_day(None)
@pytest.mark.parametrize("kind", ["gram", "rows", "factors"])
def test_a_training_does_not_depend_on_the_unit(kind, monkeypatch):
    one, optimizer = outputs_in(1.0, monkeypatch, kind)
    other, _ = outputs_in(1000.0, monkeypatch, kind)
    kept = {"gram": "FadingModel", "rows": "RowModel", "factors": "KroneckerMemory"}[kind]
    assert type(optimizer._memory.model).__name__ == kept and optimizer._state.unit.numpy() > 3
    np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3)
    assert np.mean((one - (3 + 5 * Y)) ** 2) < 0.2 * 25


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("kind", "outputs"), [("small", 1), ("large", 1), ("large", 3)])
@pytest.mark.parametrize(("offset", "size"), [(0, 78), (120, 7), (40, 1)])
def test_plain_fit_takes_targets_as_they_are(kind, outputs, offset, size):
    """Whatever their mean and deviation, what is left after 20 epochs is what is left of standardised targets.

    Of several outputs, products with J are those of random combinations of rows, but the start is exact.
    """
    x, y = np.concatenate([X] * 4), np.concatenate([Y] * 4) * np.linspace(1, 0.5, outputs, dtype="float32")
    x = np.float32(x + 0.01 * np.random.default_rng(1).normal(size=x.shape))
    model = mlp(16, 8) if kind == "small" else mlp(150, 150, outputs=outputs)
    model.compile(LevenbergMarquardt(), "mse")
    model.fit(x, offset + size * y, batch_size=32, epochs=20, verbose=0)
    assert model.evaluate(x, offset + size * y, batch_size=384, verbose=0) / size**2 < 0.05


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("kind", ["small", "large"])
@pytest.mark.parametrize("last", ["softplus", "relu"])
@pytest.mark.parametrize(("offset", "size"), [(300, 78), (20, 1)])
def test_positive_outputs_take_targets_as_they_are(kind, last, offset, size):
    """Prices, strengths, counts: of `softplus` with 45,000 weights 0.5 to 400 times the variance was left."""
    x, y = np.concatenate([X] * 4), np.concatenate([Y] * 4)
    x = np.float32(x + 0.01 * np.random.default_rng(1).normal(size=x.shape))
    head = [layers.Activation(last)]
    model = mlp(16, 8, head=head) if kind == "small" else mlp(150, 150, head=head)
    model.compile(LevenbergMarquardt(), "mse")
    model.fit(x, offset + size * y, batch_size=32, epochs=20, verbose=0)
    assert model.evaluate(x, offset + size * y, batch_size=384, verbose=0) / size**2 < 0.1


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("constraint", [keras.constraints.NonNeg, keras.constraints.MaxNorm])
@pytest.mark.filterwarnings("ignore:tfjac. the constraint")
def test_a_last_layer_with_a_constraint(constraint):
    limits = [keras.constraints.NonNeg()] if constraint is keras.constraints.NonNeg else [constraint(1e4)]
    keras.utils.set_random_seed(0)
    hidden = [layers.Dense(16, "tanh"), layers.Dense(8, "tanh")]
    model = keras.Sequential([keras.Input((4,)), *hidden, layers.Dense(1, kernel_constraint=limits[0])])
    model.compile(LevenbergMarquardt(), "mse")
    model.fit(X, 150 + 78 * Y, batch_size=len(X), epochs=60, verbose=0)
    assert model.evaluate(X, 150 + 78 * Y, batch_size=96, verbose=0) < 0.1 * 78**2
    assert constraint is not keras.constraints.NonNeg or model.layers[-1].kernel.numpy().min() >= 0


@pytest.mark.by_day(None)
def test_a_training_goes_on_from_where_it_was_saved(tmp_path):
    def fitted(epochs, model=None):
        model = model or mlp()
        if not model.compiled:
            model.compile(LevenbergMarquardt(), "mse")
        model.fit(X, 70 * Y, batch_size=16, epochs=epochs, shuffle=False, verbose=0)
        return model

    whole, half = fitted(4), fitted(2)
    half.save(tmp_path / "half.keras")
    resumed = fitted(2, keras.models.load_model(tmp_path / "half.keras"))
    for one, other in zip(whole.get_weights(), resumed.get_weights()):
        np.testing.assert_array_equal(one, other)


@pytest.mark.by_day(None)
def test_another_optimizer_goes_on_in_the_same_unit():
    """Where the last layer has grown already, the residuals are small, and what they were is not."""
    model, units = mlp(16, 8), []
    for _ in range(2):
        model.compile(LevenbergMarquardt(), "mse")
        model.fit(X, 70 * Y, batch_size=16, epochs=15, verbose=0)
        units.append(float(model.optimizer._state.unit.numpy()))
    assert model.evaluate(X, 70 * Y, verbose=0) < 0.05 * 70**2
    np.testing.assert_allclose(units, 70, rtol=0.5)


@pytest.mark.by_day(None)
def test_residuals_of_minimize_have_units_as_well():
    a, b = tf.Variable(1.0), tf.Variable(0.5)
    x = np.float32(np.linspace(0, 4, 50))
    y = np.float32(2e4 * np.exp(-1.3 * x))
    optimizer = tfjac.LevenbergMarquardt()
    for _ in range(60):
        optimizer.minimize(lambda: a * tf.exp(-b * x) - y, [a, b])
    np.testing.assert_allclose([a.numpy(), b.numpy()], [2e4, 1.3], rtol=1e-4)


REPLICAS = """
import contextlib
import json

import keras
import numpy as np
import tensorflow as tf

import tfjac
from tfjac.keras import memory

devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
keras.config.set_floatx("float64")
random = np.random.default_rng(0)
x = random.normal(size=(64, 4))
y = 40 + 7 * np.sin(x[:, :1]) + 3 * x[:, :1] * x[:, 1:2]
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
found = {}
for kind in ("gram", "factors"):
    if kind == "factors":
        memory.SMALL = memory.MOST_OUTPUTS = 0
    for name, strategy in (("one", None), ("two", two)):
        keras.utils.set_random_seed(0)
        with strategy.scope() if strategy else contextlib.nullcontext():
            layers = [keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)]
            model = keras.Sequential([keras.Input((4,)), *layers])
            model.compile(tfjac.LevenbergMarquardt(), "mse", jit_compile=False)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        model.fit(data, epochs=3, shuffle=False, verbose=0)
        kept = [type(model.optimizer._memory.model).__name__, float(model.optimizer._state.unit.numpy())]
        found[f"{kind} {name}"] = [*kept, np.concatenate([weight.ravel() for weight in model.get_weights()]).tolist()]
print(json.dumps(found))
"""


@pytest.mark.by_day(None)
def test_replicas_take_the_steps_of_one_device():
    found = run_alone(REPLICAS)
    for kind, name in (("gram", "FadingModel"), ("factors", "KroneckerMemory")):
        (one, unit, weights), (two, other_unit, other_weights) = found[f"{kind} one"], found[f"{kind} two"]
        assert one == two == name and unit > 2
        np.testing.assert_allclose(other_unit, unit, rtol=1e-9)
        np.testing.assert_allclose(other_weights, weights, rtol=1e-6, atol=1e-6)


def test_least_squares_knows_no_units_of_targets():
    w = tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match=r"Unknown scaling; choose one of 'auto', .*Received: scaling='outputs'"):
        tfjac.least_squares(lambda: w - 3.0, w, scaling="outputs")
