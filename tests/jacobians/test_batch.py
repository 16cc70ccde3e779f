"""Jacobians of each example with respect to its own inputs."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians import networks
from tests.jacobians.oracles_full import assert_all_close, full_jacobian


def diagonal(model, x, **kwargs):
    """∂y[n]/∂x[n], each example in a batch of its own."""
    return np.concatenate(
        [full_jacobian(lambda n=n: model(x[n : n + 1], **kwargs)[0], [x])[0][None, :, n] for n in range(len(x))]
    )


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("build, shape", [(networks.mlp, (3,)), (networks.grouped_cnn, (4, 4, 3))])
def test_against_each_example_alone(build, shape, dtype, rng):
    model = build(dtype.name)
    x = tf.constant(rng.normal(size=(3, *shape)), dtype)
    expected = diagonal(model, x)
    tolerance = 1e-11 if dtype == tf.float64 else 1e-5
    for jit in (False, True):
        compute = tf.function(lambda x: tfjac.batch_jacobian(model(x), x), jit_compile=jit)
        assert_all_close(compute(x), expected, tolerance)
    assert_all_close(tfjac.batch_jacobian(lambda: model(x), x, chunk_size=1), expected, tolerance)


@pytest.mark.core
def test_open_and_empty_batch(rng):
    model = networks.normalised()
    x = tf.constant(rng.normal(size=(4, 3)))
    compute = tf.function(
        lambda x: tfjac.batch_jacobian(model(x), x), input_signature=[tf.TensorSpec((None, 3), tf.float64)]
    )
    assert_all_close(compute(x), diagonal(model, x), 1e-12)
    assert compute(x[:0]).shape == (0, 2, 3)


def batch_jacobian_traced(model, n, x):
    jacobian = tf.function(lambda x: tfjac.batch_jacobian(model(x), x))
    return jacobian.get_concrete_function(tf.TensorSpec([n, 3], tf.float64))(x)


MAPPED = {
    "one": lambda x: tf.vectorized_map(lambda row: tf.sin(row) * tf.reduce_sum(row), x),
    "a pair": lambda x: tf.vectorized_map(lambda rows: rows[0] * tf.reduce_sum(rows[1]), (x, tf.sin(x))),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("n", [None, 4])
@pytest.mark.parametrize("name", MAPPED)
def test_through_a_vectorised_map(name, n, rng):
    """Of an open batch it gathers the rows by their numbers."""
    model, x = MAPPED[name], tf.constant(rng.normal(size=(4, 3)))
    for part in (x, x[:1]) if n is None else (x,):
        assert_all_close(batch_jacobian_traced(model, n, part), diagonal(model, part), 1e-12)


def numbers(x):
    return tf.range(tf.shape(x)[0])


NOT_ALL_ROWS = {
    "all set to 0 by a flag": lambda x: tf.where(tf.reduce_sum(x) > 1e3, numbers(x), 0),
    "set to 0 where there are two": lambda x: tf.where(tf.shape(x)[0] > 2, numbers(x), 0),
    "set to 0 by the number of columns": lambda x: tf.where(tf.shape(x)[1] > 1, numbers(x), 0),
    "as many as something else has": lambda x: numbers(tf.boolean_mask(x, x[:, 0] < 1e3)),
    "from the second on": lambda x: tf.range(1, tf.shape(x)[0] + 1) - 1,
}


@pytest.mark.parametrize("name", NOT_ALL_ROWS)
def test_rows_by_other_numbers(name, rng):
    """Though here they come to the same, what they depend on does not say so."""
    with pytest.raises(ValueError, match="x is used by all examples at once"):
        batch_jacobian_traced(
            lambda x: tf.gather(x, NOT_ALL_ROWS[name](x)) * 2.0, None, tf.constant(rng.normal(size=(4, 3)))
        )


@pytest.mark.by_day(None)
@pytest.mark.parametrize("limits", [{}, {"chunk_size": 1}])
def test_through_a_loop(limits, rng):
    cell = tf.keras.layers.GRU(2, dtype="float64")
    x = tf.constant(rng.normal(size=(3, 4, 2)))
    expected = diagonal(cell, x)
    for jit in (False, True):
        compute = tf.function(lambda x: tfjac.batch_jacobian(cell(x), x, **limits), jit_compile=jit)
        assert_all_close(compute(x), expected, 1e-12)


GATE = tf.Variable(1.0)
# Functions of one example alone, through branches and loops; they read nothing else of its size.
OF_ONE = {
    "branches": lambda x: tf.cond(GATE > 0, lambda: tf.sin(x), lambda: 2.0 * x),
    "branches of what is computed": lambda x: tf.cond(GATE > 0, lambda: tf.sin(x), lambda: 2.0 * x) * tf.exp(x),
    "a row by index": lambda x: tf.cond(GATE > 0, lambda: tf.gather(x, [0]) ** 2, lambda: tf.gather(x, [0])),
    "a loop": lambda x: tf.while_loop(lambda k, h: k < 2, lambda k, h: (k + 1, tf.sin(h + x)), (0, tf.ones_like(x)))[1],
}


def blocks(model, x):
    """∂y[n]/∂x[n] of y of any rank."""
    (jacobian,) = full_jacobian(lambda: model(x), [x])
    return np.stack([np.take(rows, n, rows.ndim - x.shape.rank) for n, rows in enumerate(jacobian)])


def matrices(x):
    """Definite matrices, one for each row."""
    return x[:, :, None] * x[:, None, :] + 5.0 * tf.eye(3, dtype=x.dtype)


OF_MATRICES = {
    "cholesky": lambda x: tf.linalg.cholesky(matrices(x)),
    "trace": lambda x: tf.linalg.trace(matrices(x))[:, None],
    "diag_part": lambda x: tf.linalg.diag_part(matrices(x), k=(-1, 1)),
    "set_diag": lambda x: tf.linalg.cholesky(tf.linalg.set_diag(matrices(x), 9.0 + x)),
}


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", OF_MATRICES)
def test_matrices_of_an_open_batch(name, rng):
    x = tf.constant(rng.normal(size=(2, 3)))
    compute = tf.function(lambda x: tfjac.batch_jacobian(OF_MATRICES[name](x), x), autograph=False)
    found = compute.get_concrete_function(tf.TensorSpec([None, 3], tf.float64))(x)
    assert_all_close(found, blocks(OF_MATRICES[name], x), 1e-9)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("steps", [1, 2])
def test_a_scan_of_an_open_batch(steps, rng):
    """Over one step, that begins with what the sequence begins with, the loop has none."""
    x, weight = tf.constant(rng.normal(size=(2, steps, 3))), tf.Variable(rng.normal(size=(3, 3)))

    def scanned(x):
        return tf.transpose(tf.scan(lambda a, row: tf.tanh(a @ weight + row), tf.transpose(x, [1, 0, 2])), [1, 0, 2])

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None, 3], tf.float64)])
    def compute(x):
        y = scanned(x)
        return tfjac.batch_jacobian(y, x), tfjac.per_example_jacobian(y, weight)

    expected = blocks(scanned, x), full_jacobian(lambda: scanned(x), [weight])[0]
    assert_all_close(compute(x), expected, 1e-12)


@pytest.mark.core
@pytest.mark.parametrize("name, eager", [*((name, True) for name in OF_ONE), ("a row by index", False)])
def test_one_example(name, eager, rng):
    """TensorFlow captures small eager tensors as constants."""
    function, x = OF_ONE[name], tf.constant(rng.normal(size=(1, 3)))
    (expected,) = full_jacobian(lambda: function(x), [x])
    found = [
        derivative(lambda: function(x), x) if eager else tf.function(lambda x, d=derivative: d(function(x), x))(x)
        for derivative in (tfjac.jacobian, tfjac.batch_jacobian)
    ]
    assert_all_close(found, [expected, expected[:, :, 0]], 1e-12)


@pytest.mark.parametrize("features", [2, 4])
def test_outputs_of_another_precision(features, rng):
    """Forward and reverse, of a batch of open size."""
    x, w = tf.constant(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(3, features)), tf.float32)
    compute = tf.function(
        lambda x: tfjac.batch_jacobian(tf.cast(x, tf.float32) @ w, x),
        input_signature=[tf.TensorSpec((None, 3), tf.float64)],
    )
    assert compute(x).dtype == tf.float64
    assert_all_close(compute(x), np.tile(np.transpose(w), (4, 1, 1)), 1e-6)


def test_permuted_batch_permutes(rng):
    model = networks.mlp()
    x = tf.constant(rng.normal(size=(5, 3)))
    order = rng.permutation(5)
    compute = tf.function(lambda x: tfjac.batch_jacobian(model(x), x))
    assert_all_close(compute(tf.gather(x, order)), compute(x).numpy()[order], 1e-13)


@pytest.mark.core
def test_training_mode_batch_normalisation_is_refused(rng):
    """TensorFlow answers, and wrongly: its answer is not the diagonal of the full Jacobian."""
    model = networks.normalised()
    x = tf.constant(rng.normal(size=(4, 3)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = model(x, training=True)
    theirs = tape.batch_jacobian(y, x).numpy()
    full = full_jacobian(lambda: model(x, training=True), [x])[0]
    true_diagonal = np.stack([full[n, :, n] for n in range(4)])
    assert np.abs(theirs - true_diagonal).max() > 1e-3
    with pytest.raises(tfjac.ExamplesMix, match="norm"):
        tfjac.batch_jacobian(lambda: model(x, training=True), x)
    assert_all_close(tfjac.jacobian(lambda: model(x, training=True), x), full, 1e-10)


@pytest.mark.core
def test_softmax_over_the_batch_is_refused(rng):
    x = tf.constant(rng.normal(size=(4, 3)))
    with pytest.raises(tfjac.ExamplesMix, match=r"Softmax|softmax"):
        tfjac.batch_jacobian(lambda: tf.nn.softmax(x, axis=0), x)


@pytest.mark.core
def test_unconnected(rng):
    """TensorFlow gives zeros unasked."""
    x, other = tf.constant(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(4, 2)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.square(other)
    assert not tape.batch_jacobian(y, x, unconnected_gradients="zero").numpy().any()
    compute = tf.function(lambda x, z, choice: tfjac.batch_jacobian(tf.square(z), x, choice))
    assert compute(x, other, "none") is None
    assert_all_close(compute(x, other, "zero"), np.zeros((4, 2, 3)), 0)


@pytest.mark.core
def test_nests(rng):
    x, z = tf.constant(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(4, 3, 2)))
    compute = tf.function(lambda x, z: tfjac.batch_jacobian({"y": tf.sin(x)[:, None] * z[:, :1, :1]}, {"x": x, "z": z}))
    blocks = compute(x, z)["y"]
    for n in range(4):
        expected = full_jacobian(lambda n=n: tf.sin(x)[n][None] * z[n, :1, :1], [x, z])
        assert_all_close([blocks["x"][n], blocks["z"][n]], [expected[0][:, :, n], expected[1][:, :, n]], 1e-12)


@pytest.mark.core
def test_an_input_that_is_computed_from_another(rng):
    """Paths of the one go through the other, where examples may mix as anywhere."""
    x = tf.constant(rng.normal(size=(4, 3)))

    def blocks(x, between):
        h = between(x)
        return tfjac.batch_jacobian(h**2 + x, [x, h])

    of_x, of_h = tf.function(blocks)(x, lambda x: tf.cumsum(x, 1))
    for n, row in enumerate(x):
        total = np.cumsum(row)
        assert_all_close([of_x[n], of_h[n]], [2 * total[:, None] * np.tri(3) + np.eye(3), 2 * np.diag(total)], 1e-12)
    with pytest.raises(ValueError, match="ReverseV2"):
        tf.function(blocks)(x, lambda x: tf.reverse(x, [0]))


@pytest.mark.core
def test_shared_inputs_are_refused(rng):
    x = tf.constant(rng.normal(size=(3, 3)))
    with pytest.raises(tfjac.ExamplesMix, match=r"used by all examples at once.*Received"):
        tfjac.batch_jacobian(lambda: tf.matmul(tf.ones([4, 3], tf.float64), x), x)
    with pytest.raises(ValueError, match=r"examples of y along axis 0.*Received"):
        tfjac.batch_jacobian(lambda: tf.matmul(x, tf.ones([3, 2], tf.float64), transpose_a=True), x)
    with pytest.raises(ValueError, match="per_example_jacobian; for anything, jacobian"):
        tfjac.batch_jacobian(lambda: tf.square(x), tf.Variable(x))


def test_second_derivatives(rng):
    """Σ J² of y = x³/3 per element: J = diag(x²), so the gradient of Σ J² is 4x³."""
    x = tf.constant(rng.normal(size=(4, 3)))
    energy = tf.function(lambda x: tf.gradients(tf.reduce_sum(tfjac.batch_jacobian(x**3 / 3, x) ** 2), x)[0])
    assert_all_close(energy(x), 4 * x.numpy() ** 3, 1e-12)


def test_sizes_that_show_when_it_runs(rng):
    x = tf.constant(rng.normal(size=(4, 3)))

    def block(x, examples):
        return tfjac.batch_jacobian(tf.reshape(tf.sin(x), [examples, -1]), x)

    open_batch = tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64), tf.TensorSpec([], tf.int32)])(block)
    assert_all_close(open_batch(x, 4), [np.stack([np.diag(np.cos(row)) for row in x.numpy()])], 1e-12)
    with pytest.raises(tf.errors.InvalidArgumentError):  # two rows of x for each example of y
        open_batch(x, 2)
