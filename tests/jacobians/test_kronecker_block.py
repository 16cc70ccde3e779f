"""JᵀJ of one variable as A ⊗ G or by its diagonal: products, traces and damped inverses, beside NumPy's matrices."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac.jacobians import jacobian_operator
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.factors.kronecker_block import DiagonalBlock, KroneckerBlock, TableBlock, block_of, form_of

RNG = np.random.default_rng(0)
GROUPS, INPUTS, OUTPUTS = 2, 3, 4
SIZE = 24
LAYOUTS = ["".join(order) for order in itertools.permutations("gio")]


def spelt_out(left, right, layout):
    """A ⊗ G `[size, size]`: blocks of each group, in the order of the variable."""
    inner = layout.translate(str.maketrans("gio", "hjk"))
    product = np.einsum(f"gij,gok,gh->{layout}{inner}", left, right, np.eye(GROUPS))
    return product.reshape(SIZE, -1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_with_sides_that_are_not_symmetric(layout):
    left, right, vectors = (
        RNG.normal(size=(GROUPS, INPUTS, INPUTS)),
        RNG.normal(size=(GROUPS, OUTPUTS, OUTPUTS)),
        RNG.normal(size=(SIZE, 5)),
    )
    block, matrix = KroneckerBlock(left, right, layout), spelt_out(left, right, layout)
    np.testing.assert_allclose(block.times(vectors), matrix @ vectors, rtol=1e-12)
    np.testing.assert_allclose(block.transpose_times(vectors), matrix.T @ vectors, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_traces_diagonals_and_damped_inverses(layout):
    left, right = (
        each @ each.transpose(0, 2, 1)
        for each in (RNG.normal(size=(GROUPS, INPUTS, 9)), RNG.normal(size=(GROUPS, OUTPUTS, 9)))
    )
    block, matrix = KroneckerBlock(left, right, layout), spelt_out(left, right, layout)
    np.testing.assert_allclose(block.trace(), np.trace(matrix), rtol=1e-12)
    np.testing.assert_allclose(block.diagonal(), np.diag(matrix), rtol=1e-12)
    mass, vector = RNG.uniform(1, 2, size=SIZE), RNG.normal(size=SIZE)
    share = np.sqrt(np.trace(left, axis1=1, axis2=2) / INPUTS / (np.trace(right, axis1=1, axis2=2) / OUTPUTS))[
        :, None, None
    ]
    damped = (
        left + share * np.sqrt(mass.mean()) * np.eye(INPUTS),
        right + np.sqrt(mass.mean()) / share * np.eye(OUTPUTS),
    )
    expected = np.linalg.solve(spelt_out(*damped, layout), vector)
    np.testing.assert_allclose(block.multiplied(block.inverses(mass), vector), expected, rtol=1e-10)


def test_a_diagonal_takes_a_mass_for_each_element():
    values, mass, vector = RNG.uniform(size=(3, 6))
    block = DiagonalBlock(values)
    np.testing.assert_allclose(block.trace(), values.sum())
    np.testing.assert_allclose(block.multiplied(block.inverses(mass), vector), vector / (values + mass), rtol=1e-12)


def test_the_block_of_a_table_has_the_trace_of_each_row_and_the_sum_over_all():
    """Reads that do not interact: each example reads a row once."""
    ids, d = np.array([[0, 2], [2, 1], [0, 2]]), RNG.normal(size=(3, 1, 2, 4))
    jacobian = np.zeros((3, 2, 5, 4))  # row 3 and 4 are never read; each read is a row, as if apart
    for n, t in np.ndindex(3, 2):
        jacobian[n, t, ids[n, t]] = d[n, 0, t]
    grams = np.einsum("ntvo,ntvp->vop", jacobian, jacobian)
    block = TableBlock.of([GatherFactor(tf.constant(ids), tf.constant(d), 5)])
    np.testing.assert_allclose(block.right, grams.sum(0), rtol=1e-12)
    left = np.trace(grams, axis1=1, axis2=2) / np.trace(grams.sum(0))
    np.testing.assert_allclose(block.left, left, rtol=1e-12)
    np.testing.assert_allclose(block.trace(), np.trace(grams.sum(0)), rtol=1e-12)
    np.testing.assert_allclose(block.diagonal(), np.diag(np.kron(np.diag(left), grams.sum(0))), rtol=1e-12)


def test_the_damped_inverse_of_a_table():
    left, side = RNG.uniform(size=5), RNG.normal(size=(4, 9))
    right, vector, mass = side @ side.T, RNG.normal(size=20), 0.7
    share = np.sqrt(left.mean() / (np.trace(right) / 4))
    damped = np.kron(np.diag(left + share * np.sqrt(mass)), right + np.sqrt(mass) / share * np.eye(4))
    block = TableBlock(tf.constant(left), tf.constant(right))
    applied = block.multiplied(block.inverses(tf.constant(mass, tf.float64)), tf.constant(vector))
    np.testing.assert_allclose(applied, np.linalg.solve(damped, vector), rtol=1e-10)


def test_a_table_that_is_read_in_two_layouts_has_no_block():
    one, other = (GatherFactor(tf.zeros([3, 1], tf.int32), tf.zeros([3, 1, 1, width]), 20 // width) for width in (4, 2))
    assert form_of([one]) == (5, 4) and form_of([one, other]) is None and form_of([]) is None


def windows(x, size, dilation, before):
    """What a window sees at each position of an output as large as the input, `[n, t, size**k, c]`."""
    reach = (size - 1) * dilation
    padded = np.pad(x, [(0, 0), *[(before, reach - before)] * (x.ndim - 2), (0, 0)])
    seen = np.lib.stride_tricks.sliding_window_view(padded, [reach + 1] * (x.ndim - 2), range(1, x.ndim - 1))
    seen = np.moveaxis(seen[(..., *[slice(None, None, dilation)] * (x.ndim - 2))], x.ndim - 1, -1)
    return seen.reshape(len(x), -1, size ** (x.ndim - 2), x.shape[-1])


LAYERS = keras.layers
DILATED = {
    "causal": (lambda: LAYERS.Conv1D(3, 3, dilation_rate=4, padding="causal"), 1, (3, 4, 8), 1),
    "same": (lambda: LAYERS.Conv2D(3, 3, dilation_rate=2, padding="same"), 2, (3, 2, 2), 1),
    "grouped": (lambda: LAYERS.Conv2D(4, 3, dilation_rate=2, padding="same", groups=2), 2, (3, 2, 2), 2),
    "depthwise": (lambda: LAYERS.DepthwiseConv2D(3, dilation_rate=2, padding="same"), 2, (3, 2, 2), 2),
    "volume": (lambda: LAYERS.Conv3D(2, 2, dilation_rate=2, padding="same"), 3, (2, 2, 1), 1),
}


def sides_of_kernel(layer, x, length):
    """A and G of the kernel of a layer, for the sum of its outputs; traced with known sizes and with open ones."""

    def sides(x):
        values = layer(x)
        operator = jacobian_operator(tf.reduce_sum(values, range(1, len(values.shape))), layer.trainable_variables)
        return block_of(operator.factors[0])[:2]

    return tf.function(sides)(tf.constant(x)), tf.function(sides, input_signature=[tf.TensorSpec([3, *length, 2])])(x)


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("name", DILATED)
def test_what_fills_up_a_dilated_convolution_is_no_position(name):
    """Seven places do not divide by the dilation: TensorFlow moves positions into the batch, and adds some."""
    make, spatial, (size, dilation, before), groups = DILATED[name]
    layer, x = make(), RNG.normal(size=(3, *[7] * spatial, 2)).astype("float32")
    layer.build((None, *[None] * spatial, 2))
    expected = np.stack(np.split(windows(np.float64(x), size, dilation, before), groups, axis=-1))
    expected = expected.reshape(groups, 3 * 7**spatial, -1)
    expected = np.einsum("gti,gtj->gij", expected, expected) / (3 * 7**spatial)
    open_too = name != "grouped"  # Keras compiles grouped convolutions by XLA
    for left, right in sides_of_kernel(layer, x, [None if open_too else 7] * spatial):
        np.testing.assert_allclose(left, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(right, 3 * 7**spatial * np.ones_like(right), rtol=1e-5)


def test_what_fills_up_a_transposed_convolution_is_no_position():
    x, kernel = RNG.normal(size=(3, 7, 7, 2)).astype("float32"), tf.Variable(RNG.normal(size=(3, 3, 1, 2)).astype("f"))

    @tf.function
    def left():
        image = tf.nn.atrous_conv2d_transpose(x, tf.convert_to_tensor(kernel), [3, 7, 7, 1], 2, "SAME")
        return block_of(jacobian_operator(tf.reduce_sum(image, [1, 2, 3]), [kernel]).factors[0]).left

    rows = x.reshape(-1, 2)
    np.testing.assert_allclose(left(), (rows.T @ rows / len(rows))[None], rtol=1e-5)
