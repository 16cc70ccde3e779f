"""The full Jacobian against one tape.gradient per element."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians import networks
from tests.jacobians.oracles_full import assert_all_close, full_jacobian

in_graph = functools.partial(tf.function, autograph=False)


@pytest.fixture
def x(rng):
    return tf.constant(rng.normal(size=(3, 3)))


def tensors_of(model):
    return [variable.value for variable in model.trainable_variables]


MODES = ("auto", "reverse", "forward")
JIT_IN_TURN = [
    (mode, dtype, (k + j) % 2 == 0) for k, mode in enumerate(MODES) for j, dtype in enumerate((tf.float32, tf.float64))
]
"""Every two of a mode, a dtype, and XLA or not."""


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("mode, dtype, jit", JIT_IN_TURN, ids=lambda value: getattr(value, "name", None))
def test_of_inputs_and_weights(mode, dtype, jit, rng):
    model = networks.mlp(dtype.name)
    x = tf.constant(rng.normal(size=(3, 3)), dtype)
    expected = full_jacobian(lambda: model(x), [x, *tensors_of(model)])
    tolerance = 1e-12 if dtype == tf.float64 else 1e-5
    compute = in_graph(lambda x: tfjac.jacobian(model(x), [x, *model.trainable_variables], mode=mode), jit_compile=jit)
    results = compute(x)
    assert all(result.dtype == dtype for result in results)
    assert_all_close(results, expected, tolerance)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_chunked_equals_whole(mode, x):
    """A chunk that divides the number of rows, one that does not, one pass at a time, and by a budget of bytes."""
    model = networks.mlp()
    expected = full_jacobian(lambda: model(x), [x, *tensors_of(model)])
    for limits in ({"chunk_size": 1}, {"chunk_size": 4}, {"chunk_size": 100}, {"memory_budget": 1000}):
        compute = in_graph(
            lambda x, limits=limits: tfjac.jacobian(model(x), [x, *model.trainable_variables], mode, **limits)
        )
        assert_all_close(compute(x), expected, 1e-12)


@pytest.mark.by_day(None)
def test_through_grouped_convolutions(rng):
    model = networks.grouped_cnn()
    x = tf.constant(rng.normal(size=(2, 4, 4, 3)))
    expected = full_jacobian(lambda: model(x), [x, *tensors_of(model)])
    for mode, jit in (("auto", False), ("reverse", False), ("reverse", True), ("forward", False), ("forward", True)):
        compute = in_graph(
            lambda x, mode=mode: tfjac.jacobian(model(x), [x, *model.trainable_variables], mode=mode), jit_compile=jit
        )
        assert_all_close(compute(x), expected, 1e-11)


def test_tensorflow_is_wrong_for_grouped_convolutions(rng):
    """tape.jacobian merges the rows into the channels and forgets the groups; on most processors without a word."""
    x = tf.constant(rng.normal(size=(2, 3, 3, 4)), tf.float32)
    kernel = tf.Variable(rng.normal(size=(2, 2, 2, 4)), dtype=tf.float32)

    def output():
        return tf.nn.conv2d(x, kernel, 1, "VALID")

    def theirs():
        with tf.GradientTape() as tape:
            y = output()
        return tape.jacobian(y, kernel)

    expected = _numeric_jacobian(output, kernel)
    for mode in ("auto", "reverse", "forward"):
        assert_all_close(tfjac.jacobian(output, kernel, mode), expected, 1e-3)
    try:
        assert np.abs(tf.function(theirs)().numpy() - expected).max() > 0.1
    except tf.errors.InvalidArgumentError as said:
        assert "filter_size does not have enough elements" in str(said)


def _numeric_jacobian(function, variable, step=1e-2):
    value, columns = variable.numpy(), []
    for index in np.ndindex(*value.shape):
        moved = []
        for sign in (1, -1):
            shifted = value.copy()
            shifted[index] += sign * step
            variable.assign(shifted)
            moved.append(function().numpy())
        columns.append((moved[0] - moved[1]) / (2 * step))
    variable.assign(value)
    return np.moveaxis(np.array(columns), 0, -1).reshape(*columns[0].shape, *value.shape)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 2)])
def test_outputs_of_any_rank(shape, x):
    weight = tf.Variable(np.linspace(-1.0, 1.0, 3))

    def y():
        total = tf.reduce_sum(tf.sin(x * weight))
        return total * tf.reshape(tf.range(1.0, 1.0 + np.prod(shape), dtype=tf.float64), shape) ** weight[0]

    assert_all_close(tfjac.jacobian(y, [weight]), full_jacobian(y, [weight]), 1e-12)


def test_eager_callable_and_eager_inputs(x):
    model = networks.mlp()
    expected = full_jacobian(lambda: model(x), [x, *tensors_of(model)])
    assert_all_close(tfjac.jacobian(lambda: model(x), [x, *model.trainable_variables]), expected, 1e-12)


@pytest.mark.core
def test_nests_in_nests_out(x):
    model = networks.mlp()
    kernel, bias = model.trainable_variables[:2]
    xs = {"weights": (kernel, bias.value)}

    def outputs():
        return {"first": model(x), "second": [tf.reduce_sum(model(x))]}

    result = in_graph(lambda: tfjac.jacobian(outputs, xs))()
    tf.nest.assert_same_structure(result, {"first": xs, "second": [xs]})
    variables = [kernel.value, bias.value]
    assert_all_close(result["first"]["weights"], full_jacobian(lambda: model(x), variables), 1e-12)
    expected = full_jacobian(lambda: tf.reduce_sum(model(x)), variables)
    assert_all_close(result["second"][0]["weights"], expected, 1e-12)


@pytest.mark.core
def test_unconnected(x):
    """Where tf.batch_jacobian gives zeros unasked, and tape.jacobian None."""
    weight, unused = tf.Variable([1.0, 2.0, 3.0], dtype=tf.float64), tf.Variable(np.ones((2, 2)))

    def y():
        return x * weight

    def stopped():
        return x * tf.stop_gradient(weight) * weight[0]

    used, none = tfjac.jacobian(y, [weight, unused])
    assert none is None and used.shape == (3, 3, 3)
    zeros = tfjac.jacobian(y, unused, unconnected_gradients="zero")
    assert_all_close(zeros, np.zeros((3, 3, 2, 2)), 0)
    assert_all_close(tfjac.jacobian(stopped, weight), full_jacobian(stopped, [weight])[0], 1e-12)
    constant = in_graph(lambda x: tfjac.jacobian(tf.stop_gradient(x), x))
    assert constant(x) is None


def test_diagonal_blocks_keep_what_is_not_finite_apart():
    """∂√x/∂x is infinite at 0, for that example alone."""
    x = tf.constant([[0.0], [4.0]], tf.float64)
    block = tfjac.jacobian(lambda: tf.sqrt(x), x)
    np.testing.assert_array_equal(block[:, 0, :, 0], [[np.inf, 0.0], [0.0, 0.25]])


DOSES, T = tf.constant([0.0, 0.5, 2.0], tf.float64), tf.constant([0.5, 1.0, 2.0], tf.float64)
ROOTS = np.sqrt([0, 0.5 / 3, 2 / 3])
POINTS = tf.constant([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], tf.float64)


def _response(p):
    """(x / c)^b and √(cx) are zero at x = 0 whatever c is."""
    return p[0] * (DOSES / p[2]) ** p[1] + tf.sqrt(p[2] * DOSES)


def _level(p):
    """Two tanks that run empty, one from the start."""
    body = lambda h: [h - p[0] * tf.sqrt(tf.maximum(h, 0.0))]  # noqa: E731
    return tf.while_loop(lambda _: True, body, [tf.constant([0.0, 1.0], tf.float64)], maximum_iterations=2)[0] + p[1]


INFINITE = {
    "dose response": (
        _response,
        [2.0, 0.5, 3.0],
        np.stack(
            [ROOTS, 2 * ROOTS * np.log(np.maximum(DOSES, 0.1) / 3), [0, *(np.sqrt(DOSES / 3) / 2 - ROOTS / 3)[1:]]], 1
        ),
    ),
    "root beside a line": (lambda p: tf.sqrt(p[0] * T) + p[1] * T, [0.0, 1.0], [[np.inf, t] for t in T]),
    "root of what is masked": (
        lambda p: tf.sqrt(tf.cast(T > 0.5, T.dtype) * p[0]) + p[1],
        [4.0, 1.0],
        [[0, 1], [1 / 4, 1], [1 / 4, 1]],
    ),
    "root in one branch": (lambda p: tf.where(p > 0, tf.sqrt(p), 0.0), [0.0, 4.0], [[0, 0], [0, 1 / 4]]),
    "power times zero": (lambda p: DOSES * (p[0] * T) ** 0.5 + p[1], [0.0, 1.0], [[0, 1], [np.inf, 1], [np.inf, 1]]),
    "arcsine times zero": (lambda p: tf.asin(p[0] * T[1:]) * [0, 0] + p[1] * T[1:], [1.0, 1.0], [[0, 1], [0, 2]]),
    "arccosine of the top": (lambda p: tf.acos(tf.cos(p)) * p, [0.0, 1.0], [[0, 0], [0, 2]]),
    "quotient of a root": (lambda p: tf.sqrt(p[0] * T) / p[1], [0.0, 1.0], [[np.inf, 0]] * 3),
    "norm": (lambda p: tf.norm(p * POINTS, axis=1), [1.0, 1.0], [[0, 0], [9 / 5, 16 / 5], [0, 0]]),
    "length": (lambda p: tf.math.reduce_euclidean_norm(p * POINTS, 1), [1.0, 1.0], [[0, 0], [9 / 5, 16 / 5], [0, 0]]),
    "distance": (
        lambda p: tf.sqrt(tf.reduce_sum((POINTS - p) ** 2, 1)),
        [0.0, 0.0],
        [[0, 0], [-3 / 5, -4 / 5], [0, 0]],
    ),
    "deviation": (lambda p: tf.math.reduce_std(p * tf.ones([2, 2], T.dtype), 1) + p, [1.0, 1.0], np.eye(2)),
    "tank": (_level, [0.5, 0.0], [[0, 1], [-1 - np.sqrt(0.5) + 0.5 / (2 * np.sqrt(0.5)), 1]]),
    "root of a loop": (
        lambda p: tf.sqrt(tf.while_loop(lambda _: True, lambda h: [h * p], [DOSES[:2]], maximum_iterations=2)[0]),
        [3.0, 2.0],
        [[0, 0], [0, np.sqrt(0.5)]],
    ),
    "root of a rectifier": (lambda p: tf.sqrt(tf.nn.relu(p)), [-1.0, 0.0, 4.0], np.diag([0, 0, 1 / 4])),
    "root of a sigmoid": (lambda p: tf.sqrt(tf.sigmoid(p)), [-800.0, 0.0], np.diag([0, np.sqrt(2) / 8])),
    "root of what saturates": (lambda p: tf.sqrt(1 - tf.tanh(p)), [40.0, 0.0], np.diag([0, -1 / 2])),
    "root of an exponential": (lambda p: tf.sqrt(tf.exp(p)), [-800.0, 0.0], np.diag([0, 1 / 2])),
}
"""Functions of parameters, their values, and J by hand: zero where a slope of zero meets an infinite one."""


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(
    "name, jit",
    [(name, jit) for name in INFINITE for jit in (False, True) if name != "length" or not jit],  # XLA has no such norm
)
def test_an_infinite_slope_of_what_does_not_change_is_zero(name, jit):
    function, start, expected = INFINITE[name]

    @in_graph(jit_compile=jit)
    def found(p):
        y = function(p)
        n, width = y.shape[0], p.shape[0]
        columns = [tfjac.jvp(y, p, each) for each in tf.unstack(tf.eye(width, dtype=p.dtype))]
        rows = [tfjac.vjp(y, p, each) for each in tf.unstack(tf.eye(n, dtype=p.dtype))]
        each = tfjac.per_example_jacobian(y[:, None], p, examples_mix="full")[:, 0]
        return [
            *(tfjac.jacobian(y, p, mode=mode) for mode in MODES),
            tf.stack(columns, 1),
            tf.stack(rows),
            each,
        ]

    for jacobian in found(tf.constant(start, tf.float64)):
        np.testing.assert_allclose(jacobian, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_an_angle_that_is_undetermined_is_so_in_its_row_alone(mode, jit):
    y, x = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 1.0])
    expected = np.zeros([3, 3, 2])
    with np.errstate(invalid="ignore"):
        expected[range(3), range(3)] = np.stack([x, -y], 1) / (x * x + y * y)[:, None]

    @in_graph(jit_compile=jit)
    def found(p):
        angle = tf.atan2(p[:, 0], p[:, 1])
        rows = tf.stack([tfjac.vjp(angle, p, each) for each in tf.unstack(tf.eye(3, dtype=p.dtype))])
        return tfjac.jacobian(angle, p, mode=mode), rows

    for jacobian in found(tf.constant(np.stack([y, x], 1))):
        np.testing.assert_allclose(jacobian, expected, rtol=1e-12)


@pytest.mark.core
def test_empty_batch(x):
    model = networks.normalised()
    xs = [None, *model.trainable_variables]
    for mode in ("auto", "reverse", "forward"):
        compute = in_graph(
            lambda x, mode=mode: tfjac.jacobian(model(x), [x, *xs[1:]], mode),
            input_signature=[tf.TensorSpec((None, 3), tf.float64)],
        )
        assert_all_close(compute(x), full_jacobian(lambda: model(x), [x, *tensors_of(model)]), 1e-12)
        shapes = [(0, 2, 0, 3), *((0, 2, *variable.shape) for variable in xs[1:])]
        assert [tuple(block.shape) for block in compute(x[:0])] == shapes


def test_a_mask_that_nothing_passes(rng):
    """Matrices of no rows behind two products: a size that TensorFlow's vectoriser cannot tell from them."""
    x, first, second = (tf.constant(rng.normal(size=size)) for size in ((4, 3), (3, 5), (5, 2)))

    @tf.function
    def compute(x, bound):
        y = tf.sin(tf.boolean_mask(x, x[:, 0] > bound) @ first) @ second
        return y, tfjac.jacobian(y, x)

    for bound in (-9.0, 9.0):
        y, block = compute(x, tf.constant(bound, tf.float64))
        assert block.shape == (*y.shape, 4, 3)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            rows = tf.reshape(tf.sin(tf.boolean_mask(x, x[:, 0] > bound) @ first) @ second, [-1])
            rows = [rows[k] for k in range(len(rows))]
        expected = [tape.gradient(row, x).numpy() for row in rows]
        np.testing.assert_allclose(tf.reshape(block, [-1, 4, 3]), np.reshape(expected, [-1, 4, 3]), atol=1e-12)


@pytest.mark.core
def test_mixing_examples(x):
    """Nothing is assumed of examples here: training-mode batch normalisation is as good as anything."""
    model = networks.normalised()
    xs = [x, *tensors_of(model)]
    expected = full_jacobian(lambda: model(x, training=True), xs)
    compute = in_graph(lambda x: tfjac.jacobian(model(x, training=True), [x, *model.trainable_variables]))
    assert_all_close(compute(x), expected, 1e-10)


@pytest.mark.by_day(None)
def test_second_derivatives(x):
    """The Jacobian of a Jacobian, by tf.gradients inside and by a tape around."""
    weight = tf.Variable([[0.3, -0.2], [0.5, 0.1], [0.2, 0.7]], dtype=tf.float64)
    expected = np.zeros((3, 2))
    for index in np.ndindex(3, 2):  # ½‖J‖² by differences
        energies = []
        for sign in (1e-5, -1e-5):
            moved = tf.constant(weight.numpy() + sign * np.eye(6)[np.ravel_multi_index(index, (3, 2))].reshape(3, 2))
            rows = full_jacobian(lambda moved=moved: tf.tanh(x @ moved), [moved])[0]
            energies.append(np.sum(rows**2) / 2)
        expected[index] = (energies[0] - energies[1]) / 2e-5

    def energy(mode):
        return tf.reduce_sum(tfjac.jacobian(lambda: tf.tanh(x @ weight), weight, mode) ** 2) / 2

    for mode in ("auto", "reverse", "forward"):
        inside = in_graph(lambda mode=mode: tf.gradients(energy(mode), weight)[0])()
        with tf.GradientTape() as tape:
            around = energy(mode)
        assert_all_close([inside, tape.gradient(around, weight)], [expected, expected], 1e-8)


@pytest.mark.by_day(None)
def test_recurrent_inputs(rng):
    """Where pfor loses track of the loop's lists, and XLA refuses what pfor makes of them."""
    cell = tf.keras.layers.LSTM(2, dtype="float64")
    x = tf.constant(rng.normal(size=(2, 3, 2)))
    expected = full_jacobian(lambda: cell(x), [x])[0]
    assert_all_close(tfjac.jacobian(lambda: cell(x), x), expected, 1e-12)
    assert_all_close(in_graph(lambda x: tfjac.jacobian(cell(x), x), jit_compile=True)(x), expected, 1e-12)


@pytest.mark.parametrize("shape", [(2, 2, 1, 2, 2), (2, 1, 1, 1, 1, 1, 1, 2)])
def test_more_axes_than_tensorflow_broadcasts(shape, rng):
    x = rng.normal(size=shape)
    expected = np.diag(2 * x.ravel()).reshape(*shape, *shape)
    source, none = tf.constant(x), tf.constant(x[:0])
    assert_all_close(tfjac.jacobian(lambda: source**2, source), expected, 1e-12)
    assert tfjac.jacobian(lambda: none**2, none).shape == (0, *shape[1:], 0, *shape[1:])


def test_a_slope_that_is_zero_has_a_slope():
    """Of squares at zero beside a root, whose slope may be infinite: products by which zero wins are products still."""

    @tf.function
    def product(x, vector):
        x = tf.identity(x)
        zero = x[:2]
        squares = zero**2 + tf.square(zero) + zero * zero + tf.math.squared_difference(zero, tf.zeros_like(zero))
        return tfjac.hvp(tf.reduce_sum(squares) + tf.sqrt(x[2]), x, vector)

    x = tf.constant([0.0, 0.0, 4.0], tf.float64)
    np.testing.assert_allclose(product(x, tf.ones_like(x)), [8, 8, -1 / 32])
