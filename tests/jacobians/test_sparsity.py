"""Sparse Jacobians against one tape.gradient per row, and patterns that are known in closed form."""

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import tfjac


def dense_jacobian(function, x):
    """∂f/∂x `[elements of f, elements of x]`, one call of `tape.gradient` per row."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        rows = tf.unstack(tf.reshape(function(x), [-1]))
    return np.stack([np.ravel(tape.gradient(row, x, unconnected_gradients="zero")) for row in rows])


def found(function, x, mode="auto", jit_compile=False):
    """The pattern of f, and its sparse Jacobian as a dense array."""
    patterns = []

    @tf.function(jit_compile=jit_compile)
    def values(x):
        y = function(x)
        patterns.append(tfjac.sparsity(y, x))
        return tfjac.sparse_jacobian(y, x, mode=mode).values

    entries = values(x)
    return patterns[0], patterns[0].csr(entries.numpy()).toarray()


def numbers(rng, *shape, dtype=np.float64):
    return tf.constant(rng.uniform(0.5, 1.5, shape).astype(dtype))


def heat(u):
    """Implicit heat equation in one dimension, by slices."""
    left, right = tf.pad(u[:-1], [[1, 0]]), tf.pad(u[1:], [[0, 1]])
    return u - 0.1 * (left - 2.0 * u + right) * tf.exp(-u)


def burgers(u):
    """Viscous Burgers' equation on a ring, by rolls."""
    forward, back = tf.roll(u, -1, 0), tf.roll(u, 1, 0)
    return u * (forward - back) / 2.0 - 0.01 * (forward - 2.0 * u + back)


def heat_on_grid(u):
    """Five-point stencil by padding and slicing; the boundary is fixed by a mask."""
    padded = tf.pad(u, [[1, 1], [1, 1]])
    around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
    return u**2 - 0.1 * (around - 4.0 * u)


def heat_by_convolution(u):
    """The same stencil as a convolution: the zeros of the kernel count."""
    kernel = tf.constant([[0, 1, 0], [1, -4, 1], [0, 1, 0]], u.dtype)
    return u**2 - 0.1 * tf.nn.conv2d(u[None, :, :, None], kernel[:, :, None, None], 1, "SAME")[0, :, :, 0]


def by_differentiation_matrix(u):
    """The one-dimensional stencil as a product with a fixed matrix."""
    size = u.shape[0]
    matrix = tf.constant(np.diag(np.full(size - 1, 1.0), 1) - np.eye(size), u.dtype)
    return tf.linalg.matvec(matrix, tf.sin(u))


STENCILS = {
    "heat 1D": (heat, (20,), 3),
    "Burgers 1D": (burgers, (21,), 3),
    "heat 2D": (heat_on_grid, (9, 10), 5),
    "heat 2D, convolution": (heat_by_convolution, (9, 10), 5),
    "differentiation matrix": (by_differentiation_matrix, (20,), 2),
}


@pytest.mark.core
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", STENCILS)
def test_stencils_need_few_products(name, mode, rng):
    function, shape, colours = STENCILS[name]
    u = numbers(rng, *shape)
    pattern, jacobian = found(function, u, mode)
    expected = dense_jacobian(function, u)
    assert pattern.num_colours == colours
    assert pattern.opaque_ops == ()
    assert pattern.num_entries == np.count_nonzero(expected)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-12, atol=1e-12)


def test_compiled_by_xla(rng):
    u = numbers(rng, 6, 7, dtype=np.float32)
    _, jacobian = found(heat_on_grid, u, jit_compile=True)
    np.testing.assert_allclose(jacobian, dense_jacobian(heat_on_grid, u), rtol=1e-5, atol=1e-6)


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("limit", [{"chunk_size": 2}, {"memory_budget": 2000}])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_chunks_equal_the_whole(mode, limit, rng):
    u = numbers(rng, 5, 6)
    values = tf.function(lambda u, **limit: tfjac.sparse_jacobian(heat_on_grid(u), u, mode=mode, **limit).values)
    np.testing.assert_allclose(values(u, **limit), values(u), rtol=1e-12)


def test_values_can_be_differentiated_again(rng):
    u = numbers(rng, 6)

    @tf.function
    def slope(u):
        with tf.GradientTape() as tape:
            tape.watch(u)
            total = tf.reduce_sum(tfjac.sparse_jacobian(u**3 + u[::-1], u).values)
        return tape.gradient(total, u)

    np.testing.assert_allclose(slope(u), 6.0 * u, rtol=1e-12)


def bundle(cameras, points, seen_by, seen):
    """Residuals of bundle adjustment in little: each observation has one camera and one point."""
    camera, point = tf.gather(cameras, seen_by), tf.gather(points, seen)
    turned = point * tf.cos(camera[:, :3]) + camera[:, 3:]
    return turned[:, :2] / turned[:, 2:]


@pytest.mark.by_day(None)
def test_bundle_adjustment(rng):
    cameras, points = (tf.Variable(numbers(rng, *shape)) for shape in ((4, 6), (30, 3)))
    seen_by, seen = rng.integers(0, 4, 80), rng.integers(0, 30, 80)

    def residuals():
        return bundle(cameras, points, seen_by, seen)

    pattern = tfjac.sparsity(residuals, [cameras, points])
    jacobian = tfjac.sparse_jacobian(residuals, [cameras, points])
    with tf.GradientTape(persistent=True) as tape:
        rows = tf.unstack(tf.reshape(residuals(), [-1]))
    expected = np.stack(
        [
            np.concatenate(
                [tf.reshape(g, [-1]) for g in map(tf.convert_to_tensor, tape.gradient(row, [cameras, points]))]
            )
            for row in rows
        ]
    )
    assert pattern.shape == (160, 24 + 90)
    assert np.diff(pattern.indptr).max() <= 9
    assert pattern.num_colours <= 24 + 9
    assert pattern.mode == "forward"
    np.testing.assert_allclose(tf.sparse.to_dense(jacobian), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(pattern.csr(jacobian.values).toarray(), tf.sparse.to_dense(jacobian))


@pytest.mark.core
def test_one_residual_per_block(rng):
    """Independent small systems side by side: as many products as one of them has unknowns."""
    x = numbers(rng, 12, 4)

    def solve(x):
        matrix = tf.linalg.diag(x + 2.0) + x[:, :, None] * x[:, None, :]
        return tf.linalg.solve(matrix, x[:, :, None])[..., 0]

    pattern, jacobian = found(solve, x)
    expected = scipy.sparse.block_diag([np.ones([4, 4])] * 12).toarray() != 0
    np.testing.assert_array_equal(pattern.csr().toarray(), expected)
    assert pattern.num_colours == 4
    np.testing.assert_allclose(jacobian, dense_jacobian(solve, x), rtol=1e-9, atol=1e-12)


@tf.custom_gradient
def rounded(x):
    """A staircase with the slope of its own derivative's choice: x itself, each from its neighbour."""
    return tf.round(x), lambda dy: tf.roll(dy * x, -1, 1)


def test_custom_gradient_is_followed(rng):
    """The forward ops have no gradient here at all; the custom one says what depends on what."""
    x = numbers(rng, 2, 5)

    def both(x):
        return tf.concat([rounded(x), tf.nn.silu(x)], 0)

    pattern, jacobian = found(both, x)
    assert pattern.opaque_ops == ()
    assert pattern.num_entries == 2 * 10
    np.testing.assert_allclose(
        jacobian, dense_jacobian(tf.function(lambda x: tf.concat([rounded(x), tf.nn.silu(x)], 0)), x)
    )


def test_op_without_a_rule_by_its_gradient(rng):
    x = numbers(rng, 6, 3)

    def losses(x):
        return tf.nn.sparse_softmax_cross_entropy_with_logits([0, 2, 1, 1, 0, 2], x)

    pattern, jacobian = found(losses, x)
    assert (pattern.opaque_ops, pattern.num_entries, pattern.num_colours) == ((), 18, 1)
    np.testing.assert_allclose(jacobian, dense_jacobian(losses, x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_an_input_that_is_computed_from_another(mode, rng):
    x = numbers(rng, 6)

    @tf.function(autograph=False)
    def both(x):
        h = tf.sin(x[::-1])
        return tf.sparse.to_dense(tfjac.sparse_jacobian(h**2 + x, [x, h], mode=mode))

    h = np.sin(x[::-1])
    expected = np.hstack([np.eye(6) + np.diag(2 * h * np.cos(x[::-1]))[:, ::-1], np.diag(2 * h)])
    np.testing.assert_allclose(both(x), expected, rtol=1e-12, atol=1e-12)


def test_unknown_op_depends_on_everything(rng):
    """The gradient of this one is an op that has none itself: that says nothing about what depends on what."""
    x = numbers(rng, 3, 2)

    def cropped(x):
        image = tf.reshape(tf.cast(x, tf.float32), [1, 3, 2, 1])
        return tf.image.crop_and_resize(image, [[0.0, 0.0, 0.4, 1.0]], [0], [2, 2])

    pattern, jacobian = found(cropped, x)
    assert pattern.csr().toarray().all()
    assert len(pattern.opaque_ops) == 1 and "CropAndResize" in pattern.opaque_ops[0]
    np.testing.assert_allclose(jacobian, dense_jacobian(cropped, x), rtol=1e-6, atol=1e-7)


def test_large_constants_are_read_whole(rng):
    """An eager tensor that a function captures is as fixed as a constant in it."""
    indices = tf.constant(rng.permutation(500))
    x = numbers(rng, 500)
    pattern, _ = found(lambda x: tf.gather(x, indices + 0) ** 2, x)
    assert (pattern.num_entries, pattern.num_colours) == (500, 1)
    np.testing.assert_array_equal(pattern.indices, indices)


def test_pattern_known_beforehand(rng):
    x = numbers(rng, 30)
    tridiagonal = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(30, 30))
    jacobian = tf.function(lambda x: tf.sparse.to_dense(tfjac.sparse_jacobian(heat(x), x, tridiagonal)))(x)
    np.testing.assert_allclose(jacobian, dense_jacobian(heat, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_colours_never_clash(seed):
    rng = np.random.default_rng(seed)
    matrix = scipy.sparse.random_array((40, 30), density=0.08, rng=rng)
    pattern = tfjac.SparsityPattern(matrix)
    for entries, colours in [
        (matrix.toarray() != 0, pattern.column_colours),
        (matrix.toarray().T != 0, pattern.row_colours),
    ]:
        for row in entries:
            assert len(set(colours[row])) == row.sum()


def test_order_of_columns_where_pairs_are_many(monkeypatch):
    from tfjac.jacobians.sparsity import colouring

    monkeypatch.setattr(colouring, "MOST_PAIRS", 0)
    band = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(30, 30))
    np.testing.assert_array_equal(colouring.colours_of_columns(band), np.arange(30) % 3)


def test_row_of_ones_is_taken_in_reverse(rng):
    x = numbers(rng, 40)
    pattern, jacobian = found(lambda x: tf.concat([tf.reduce_sum(x**3)[None], x[:1] * x[1:2]], 0), x)
    assert (pattern.mode, pattern.num_colours) == ("reverse", 2)
    assert np.count_nonzero(jacobian) == 42


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_values_through_a_loop(mode, rng):
    weight, x = tf.Variable(numbers(rng, 6)), tf.constant(numbers(rng, 4, 6))

    def function():
        return tf.map_fn(lambda row: tf.sin(row * weight), x)

    sparse = tfjac.sparse_jacobian(function, weight, mode=mode)
    expected = [np.diag(row * np.cos(row * weight.numpy())) for row in x.numpy()]
    np.testing.assert_allclose(tf.sparse.to_dense(sparse), np.concatenate(expected), atol=1e-12)


def resized(x):
    return tf.cast(tf.image.resize(tf.reshape(x, [1, 2, 2, 1]), [6, 6]), tf.float64)


def test_forward_mode_through_resized_images(rng):
    """TensorFlow takes the gradient of the gradient of a bilinear resize for zero, and says nothing."""
    x = numbers(rng, 2, 2)
    expected = dense_jacobian(resized, x)
    pattern, jacobian = found(resized, x)
    assert pattern.mode == "forward"
    np.testing.assert_allclose(jacobian, expected, rtol=1e-6)
    full = tf.function(lambda x: tfjac.jacobian(resized(x), x, mode="forward"))(x)
    np.testing.assert_allclose(np.reshape(full, expected.shape), expected, rtol=1e-6)
    pushed = tf.function(lambda x: tfjac.jvp(resized(x), x, x))(x)
    np.testing.assert_allclose(np.ravel(pushed), expected @ np.ravel(x), rtol=1e-6)


def test_newton_converges_on_burgers(rng):
    """Newton's method with SciPy's sparse solver, eagerly on a variable."""
    u = tf.Variable(numbers(rng, 50))
    step = tf.function(lambda: (burgers(u) + u - 1.0, tfjac.sparse_jacobian(burgers(u) + u - 1.0, u)))
    pattern = tfjac.sparsity(lambda: burgers(u) + u - 1.0, u)
    for _ in range(8):
        residual, jacobian = step()
        u.assign_sub(scipy.sparse.linalg.spsolve(pattern.csr(jacobian.values).tocsc(), residual.numpy()))
    assert np.abs(residual).max() < 1e-10


@pytest.mark.core
def test_refusals(rng):
    x = tf.Variable(numbers(rng, 4))
    with pytest.raises(ValueError, match=r"mode must be one of .* Received: 'backward'"):
        tfjac.sparse_jacobian(lambda: x**2, x, mode="backward")
    with pytest.raises(ValueError, match=r"shape \(4, 4\).*Received: a pattern of shape \(3, 4\)"):
        tfjac.sparse_jacobian(lambda: x**2, x, pattern=np.ones([3, 4]))
    with pytest.raises(ValueError, match="does not depend on this x"):
        tfjac.sparsity(lambda: tf.stop_gradient(x) * x[0], [x, tf.Variable(1.0)])
    with pytest.raises(TypeError, match="same dtype"):
        y = tf.Variable(1.0)
        tfjac.sparse_jacobian(lambda: x**2 + tf.cast(y, tf.float64), [x, y])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def open_shape(x):
        return tfjac.sparse_jacobian(x**2, x).values

    with pytest.raises(ValueError, match="xs of static shapes"):
        open_shape(tf.ones([3]))
