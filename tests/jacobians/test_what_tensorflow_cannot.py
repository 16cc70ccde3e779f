"""What TensorFlow's own gradients cannot do: branches of other shapes, sparse with dense, loops that XLA compiles.

The oracles are NumPy's: permutations of the identity, and products by hand.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

SHAPE = (2, 3, 4, 1)


def turned(x, k):
    shape = [2, 4, 3, 1] if k % 2 else [2, 3, 4, 1]
    return tf.ensure_shape(tf.image.rot90(x**2, k), shape)


def jacobian_of_turning(x, k):
    """∂(turned x²)/∂x, by the places to which NumPy turns each element."""
    size = x.size
    places = np.rot90(np.arange(size).reshape(SHAPE), k, axes=(1, 2))
    return (np.eye(size)[places.ravel()] * (2 * x.ravel())).reshape(*places.shape, *SHAPE)


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
@pytest.mark.parametrize("k", range(4))
def test_branches_of_other_shapes(k, mode, rng):
    x = rng.normal(size=SHAPE)
    source = tf.constant(x)
    found = tfjac.jacobian(lambda: turned(source, k), source, mode=mode, chunk_size=5 if k == 1 else None)
    np.testing.assert_allclose(found, jacobian_of_turning(x, k), rtol=1e-12)


def test_products_of_branches_of_other_shapes(rng):
    x, u = rng.normal(size=SHAPE), rng.normal(size=(2, 4, 3, 1))
    source, expected = tf.constant(x), jacobian_of_turning(x, 1)
    np.testing.assert_allclose(tfjac.vjp(lambda: turned(source, 1), source, u), np.tensordot(u, expected, 4))
    np.testing.assert_allclose(tfjac.jvp(lambda: turned(source, 1), source, x), np.tensordot(expected, x, 4))
    blocks = np.einsum("nabcnxyz->nabcxyz", expected)
    np.testing.assert_allclose(tfjac.batch_jacobian(lambda: turned(source, 1), source), blocks)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("positive", [True, False])
def test_a_choice_that_data_make(positive, rng):
    """One branch keeps the shape, the other one does not; which is taken shows when the graph runs."""
    x = rng.normal(size=(2, 3, 4))

    @tf.function(autograph=False)
    def derivatives(x, sign):
        y = tf.cond(sign > 0, lambda: x**2, lambda: tf.transpose(x**3, [0, 2, 1]))
        y = tf.ensure_shape(y, [2, 3, 4] if positive else [2, 4, 3])
        return tfjac.jacobian(y, x, mode="reverse"), tfjac.batch_jacobian(y, x), tfjac.vjp(y, x)

    found, blocks, summed = derivatives(tf.constant(x), tf.constant(1.0 if positive else -1.0))
    places = np.arange(24).reshape(2, 3, 4)
    places = places if positive else places.transpose(0, 2, 1)
    slopes = 2 * x if positive else 3 * x**2
    expected = (np.eye(24)[places.ravel()] * slopes.ravel()).reshape(*places.shape, 2, 3, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(blocks, np.einsum("nabnxy->nabxy", expected), rtol=1e-12)
    np.testing.assert_allclose(summed, slopes, rtol=1e-12)


def test_turning_under_xla(rng):
    x = rng.normal(size=SHAPE)

    @tf.function(autograph=False, jit_compile=True)
    def derivatives(x):
        y = tf.image.rot90(x**2, 1)
        return tfjac.jacobian(y, x), tfjac.jvp(y, x, x), tfjac.vjp(y, x)

    expected = jacobian_of_turning(x, 1)
    jacobian, forward, backward = derivatives(tf.constant(x))
    np.testing.assert_allclose(jacobian, expected, rtol=1e-12)
    np.testing.assert_allclose(forward, np.tensordot(expected, x, 4), rtol=1e-12)
    np.testing.assert_allclose(backward, expected.sum((0, 1, 2, 3)), rtol=1e-12)


MATRIX = np.array([[0.3, -0.2, 0.5], [0.1, 0.4, -0.6], [-0.7, 0.2, 0.3]])


def through_a_loop(x, steps, mapped):
    def step(i, z):
        product = tf.vectorized_map(lambda row: tf.linalg.matvec(MATRIX, row), z) if mapped else z @ MATRIX.T
        return i + 1, tf.tanh(product)

    return tf.while_loop(lambda i, z: i < 3, step, (0, x), maximum_iterations=steps)[1]


@pytest.mark.by_day(None)
def test_a_map_in_a_loop_under_xla(rng):
    x, v = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))

    @tf.function(autograph=False, jit_compile=True)
    def products(x):
        y = through_a_loop(x, 3, mapped=True)
        return tfjac.jvp(y, x, v), tfjac.vjp(y, x, v)

    z, forward, slopes = x, v, []
    for _ in range(3):
        z = np.tanh(z @ MATRIX.T)
        slopes.append(1 - z**2)
        forward = slopes[-1] * (forward @ MATRIX.T)
    backward = v
    for slope in slopes[::-1]:
        backward = (backward * slope) @ MATRIX
    found = products(tf.constant(x))
    np.testing.assert_allclose(found[0], forward, rtol=1e-10)
    np.testing.assert_allclose(found[1], backward, rtol=1e-10)


@pytest.mark.parametrize("name", ["vjp", "jvp", "hvp"])
def test_a_loop_without_end_under_xla_is_refused_by_name(name):
    ask = {
        "vjp": lambda y, x: tfjac.vjp(y, x),
        "jvp": lambda y, x: tfjac.jvp(y, x, x),
        "hvp": lambda y, x: tfjac.hvp(y, x, x),
    }
    function = tf.function(lambda x: ask[name](through_a_loop(x, None, mapped=False), x), jit_compile=True)
    with pytest.raises(ValueError, match=r"XLA must know how many steps.*maximum_iterations\. Received: loop 'while'"):
        function(tf.ones([2, 3], tf.float64))


DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
OPERATIONS = {
    "product": (lambda sparse, x: sparse * x, lambda x: DENSE * x),
    "quotient": (lambda sparse, x: sparse / x, lambda x: DENSE / x),
}


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("size", [(), (1,), (3,), (1, 3), (2, 1), (2, 3)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_sparse_with_dense(name, size, rng):
    x = rng.uniform(0.5, 2.0, size)
    source, step = tf.constant(x), 1e-5
    by_tfjac, by_numpy = OPERATIONS[name]

    def y():
        return tf.sparse.to_dense(by_tfjac(tf.sparse.from_dense(DENSE), source))

    columns = [by_numpy(x + step * e) - by_numpy(x - step * e) for e in np.eye(x.size).reshape(x.size, *size)]
    expected = (np.stack(columns, -1) / (2 * step)).reshape(2, 3, *size)
    for mode in ("reverse", "forward"):
        np.testing.assert_allclose(tfjac.jacobian(y, source, mode=mode), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(tfjac.vjp(y, source), expected.sum((0, 1)), rtol=1e-7, atol=1e-9)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("ragged", [True, False])
def test_rows_that_are_filled(ragged):
    """Rows 1 and 3 of four are empty, and get the last element of x."""
    source = tf.constant([0.3, 0.7, 0.4, 0.9], tf.float64)

    def filled():
        if ragged:
            return tf.raw_ops.RaggedFillEmptyRows(
                value_rowids=np.array([0, 0, 2]), values=source[:3], nrows=np.int64(4), default_value=source[3]
            )[1]
        places = tf.SparseTensor([[0, 0], [0, 2], [2, 1]], source[:3], [4, 3])
        return tf.sparse.fill_empty_rows(places, source[3])[0].values

    expected = np.eye(4)[[0, 1, 3, 2, 3]]
    for mode in ("reverse", "forward"):
        np.testing.assert_allclose(tfjac.jacobian(filled, source, mode=mode), expected, atol=1e-15)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT"])
def test_a_value_that_pads(align):
    """One off the three diagonals of a matrix, and one at the end of the two short ones, taken out."""
    source = tf.constant([0.3, 0.7], tf.float64)

    def padded():
        matrix = tf.linalg.diag(tf.ones([3, 4], tf.float64), k=(-1, 1), padding_value=source[0], align=align)
        return matrix, tf.linalg.diag_part(matrix * 0.5, k=(-1, 1), padding_value=source[1], align=align)

    off = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) > 1
    ends = np.zeros([3, 4])
    ends[0, 0 if align.startswith("RIGHT") else -1] = ends[2, -1 if align.endswith("LEFT") else 0] = 1
    for mode in ("reverse", "forward"):
        matrix, diagonals = tfjac.jacobian(padded, source, mode=mode)
        np.testing.assert_array_equal(matrix, np.stack([off, 0 * off], -1))
        np.testing.assert_array_equal(diagonals, np.stack([0 * ends, ends], -1))
