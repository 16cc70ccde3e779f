"""JᵀJ of one variable as A ⊗ G or by its diagonal: products, traces and damped inverses, beside NumPy's matrices."""

import itertools

import numpy as np
import pytest

from tfjac.jacobians.factors.kronecker_block import DiagonalBlock, KroneckerBlock

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
