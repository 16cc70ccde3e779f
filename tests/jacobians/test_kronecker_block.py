"""JᵀJ of one variable as A ⊗ G or by its diagonal: products, traces and damped inverses, beside NumPy's matrices."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfjac.jacobians.factors.gather_factor import GatherFactor
from tfjac.jacobians.factors.kronecker_block import DiagonalBlock, KroneckerBlock, TableBlock, form_of

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
