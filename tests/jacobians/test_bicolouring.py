"""Sparse Jacobians with full rows and full columns, by products of both kinds, against NumPy."""

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import tfjac


def values(rng, *shape):
    return rng.uniform(0.5, 1.5, shape)


def arrow(x):
    """One full row, one full column, and a diagonal."""
    return tf.concat([tf.reduce_sum(x**3, keepdims=True), x[1:] ** 2 * x[0]], 0)


def jacobian_of_arrow(x):
    return np.block([[3 * x[None] ** 2], [x[1:, None] ** 2, np.diag(2 * x[1:] * x[0])]])


def bordered(matrix, blocks):
    """Three borders on both sides of a diagonal of blocks: y = x ∘ (A x), A with those entries."""
    size = 3 + blocks * 4
    pattern = scipy.linalg.block_diag(np.ones((3, 3)), *[np.ones((4, 4))] * blocks)
    pattern[:3], pattern[:, :3] = 1, 1
    matrix = matrix[:size, :size] * pattern
    return matrix, lambda x: x * tf.linalg.matvec(tf.constant(matrix), x)


def traced(function, **options):
    made = {}

    @tf.function(jit_compile=options.pop("jit_compile", False))
    def jacobian(x):
        y = function(x)
        made["pattern"] = tfjac.sparsity(y, x)
        return tfjac.sparse_jacobian(y, x, **options).values

    return jacobian, made


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize(
    "options", [{}, {"jit_compile": True}, {"chunk_size": 1}, {"memory_budget": 10}, {"verify": True}], ids=str
)
def test_an_arrow_takes_three_products(options, rng):
    x = values(rng, 40)
    jacobian, made = traced(arrow, **options)
    entries, pattern = jacobian(x), made["pattern"]
    assert (pattern.mode, pattern.num_colours, pattern.num_entries) == ("bidirectional", 3, 40 + 2 * 39)
    np.testing.assert_allclose(pattern.csr(entries.numpy()).toarray(), jacobian_of_arrow(x), rtol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_one_kind_may_be_asked_for(mode, rng):
    x = values(rng, 20)
    jacobian, made = traced(arrow, mode=mode)
    entries = jacobian(x).numpy()
    np.testing.assert_allclose(made["pattern"].csr(entries).toarray(), jacobian_of_arrow(x), rtol=1e-12)
    assert made["pattern"].colours(mode).max() == 19
    with pytest.raises(ValueError, match="Colours are those of one mode"):
        made["pattern"].colours("bidirectional")


def test_borders_around_blocks(rng):
    """3 products for the full rows, 3 for the full columns, and 4 for the blocks, however many these are."""
    x = values(rng, 203)
    matrix, function = bordered(values(rng, 203, 203), 50)
    jacobian, made = traced(function)
    entries, pattern = jacobian(x).numpy(), made["pattern"]
    assert (pattern.mode, pattern.num_colours) == ("bidirectional", 10)
    expected = x[:, None] * matrix + np.diag(matrix @ x)
    np.testing.assert_allclose(pattern.csr(entries).toarray(), expected, rtol=1e-12)


@pytest.mark.parametrize("tall", [False, True])
def test_more_rows_than_columns_and_fewer(tall, rng):
    matrix = np.diag(values(rng, 60))
    matrix[:2], matrix[:, 7] = values(rng, 2, 60), values(rng, 60)
    matrix = np.concatenate([matrix, np.diag(values(rng, 60))[:40]])
    matrix = matrix if tall else matrix.T
    x = values(rng, matrix.shape[1])
    jacobian, made = traced(lambda x: tf.linalg.matvec(tf.constant(matrix), tf.sin(x)))
    entries, pattern = jacobian(x).numpy(), made["pattern"]
    assert (pattern.mode, pattern.num_colours) == ("bidirectional", 4)  # two full ones, one across them, the rest
    np.testing.assert_allclose(pattern.csr(entries).toarray(), matrix * np.cos(x), rtol=1e-12)


def test_several_tensors_on_both_sides(rng):
    """A scalar that all depend on, and a sum of all: full column and full row are tensors apart."""
    scale, table = tf.Variable(1.5, dtype=tf.float64), tf.Variable(values(rng, 6, 5))

    @tf.function
    def jacobian():
        ys = [table * scale, tf.reduce_sum(table**2) * scale]
        return tfjac.sparse_jacobian(ys, [table, scale])

    t, s = table.numpy().ravel(), 1.5
    expected = np.block([[s * np.eye(30), t[:, None]], [2 * t * s, np.sum(t**2)]])
    np.testing.assert_allclose(tf.sparse.to_dense(jacobian()), expected, rtol=1e-12)


def test_where_there_is_no_forward_mode_rows_serve_alone(rng):
    @tf.custom_gradient
    def cubes(x):
        return x**3, lambda dy: dy * 3 * x**2 + tf.stop_gradient(0 * dy + 0.0)

    x = values(rng, 12)
    with pytest.raises(LookupError):
        tf.function(lambda x: tfjac.sparse_jacobian(arrow(cubes(x)), x, mode="forward"))(tf.constant(x))
    entries = tf.function(lambda x: tfjac.sparse_jacobian(arrow(cubes(x)), x))(tf.constant(x))
    expected = jacobian_of_arrow(x**3) * 3 * x**2
    np.testing.assert_allclose(tf.sparse.to_dense(entries), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_each_entry_stands_alone_where_it_is_read(seed):
    """Products of random matrices with full rows and columns, by NumPy."""
    rng = np.random.default_rng(seed)
    matrix = scipy.sparse.random_array((70, 60), density=0.01, rng=rng).toarray()
    matrix[rng.integers(0, 70, 3)] = values(rng, 60)
    matrix[:, rng.integers(0, 60, 2)] = values(rng, 70, 1)
    matrix[rng.random(matrix.shape) < 0.1] = 0
    pattern = tfjac.SparsityPattern(matrix)
    assert pattern.mode == "bidirectional"
    colouring = pattern.colouring("bidirectional")
    assert colouring.num_forward + colouring.num_reverse == pattern.num_colours
    assert 2 * pattern.num_colours <= min(np.count_nonzero(matrix, axis=axis).max() for axis in (0, 1))
    forward = matrix @ (colouring.columns[:, None] == np.arange(colouring.num_forward))
    reverse = matrix.T @ (colouring.rows[:, None] == np.arange(colouring.num_reverse))
    by_column = forward[pattern.rows, colouring.columns[pattern.indices]]
    by_row = reverse[pattern.indices, colouring.rows[pattern.rows]]
    read = np.where(colouring.by_row, by_row, by_column)
    np.testing.assert_allclose(pattern.csr(read).toarray(), matrix, rtol=1e-12)


def test_what_one_kind_does_as_well_takes_one_kind():
    """A full row alone, a full column alone, few entries everywhere, none at all."""
    full = np.eye(30)
    full[4] = 1
    for matrix, mode in [
        (full, "reverse"),
        (full.T, "forward"),
        (np.eye(30), "reverse"),
        (np.zeros((3, 4)), "reverse"),
    ]:
        assert tfjac.SparsityPattern(matrix).mode == mode
