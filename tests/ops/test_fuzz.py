"""Any shapes at all: right results where they fit together, InvalidArgumentError where they do not."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tests.ops.factors import Problem
from tfjac import ops
from tfjac.ops import _library

pytestmark = pytest.mark.usefixtures("need_native")

size = st.integers(0, 6)
block = st.tuples(
    st.integers(0, 4),
    st.integers(0, 3),
    size,
    st.integers(0, 40),
    st.sampled_from(["gio", "goi", "igo", "iog", "ogi", "oig"]),
)


problems = {
    "n": st.integers(0, 9),
    "m": size,
    "blocks": st.lists(block, min_size=1, max_size=4),
    "seed": st.integers(0, 2**32 - 1),
}


@pytest.mark.by_day(None)
@hypothesis.settings(max_examples=150)
@hypothesis.given(**problems)
def test_shapes_that_fit(n, m, blocks, seed):
    check("native", n, m, blocks, seed)


@pytest.mark.by_day(None)
@hypothesis.settings(max_examples=25)
@hypothesis.given(**problems)
def test_shapes_that_fit_the_twins(n, m, blocks, seed):
    check("twin", n, m, blocks, seed)


def check(name, n, m, blocks, seed):
    problem = Problem(np.random.default_rng(seed), n, m, blocks)
    a, d = problem.tensors(tf.float64)
    rows = problem.rows()
    tolerance = {"rtol": 1e-11, "atol": 1e-11}
    with ops.implementation(name):
        np.testing.assert_allclose(ops.jacobian_rows(a, d, problem.layouts), problem.jacobian(), **tolerance)
        gram, gradient = ops.jacobian_gram(a, d, problem.layouts, problem.residual)
        np.testing.assert_allclose(gram, rows.T @ rows, **tolerance)
        np.testing.assert_allclose(gradient, rows.T @ problem.residual.ravel(), **tolerance)
        np.testing.assert_allclose(ops.jacobian_gram(a, d, problem.layouts)[1], np.zeros(len(gradient)))
        np.testing.assert_allclose(ops.jacobian_kernel(a, d), rows @ rows.T, **tolerance)
        np.testing.assert_allclose(ops.jacobian_row_norms(a, d), (problem.jacobian() ** 2).sum(-1), **tolerance)


shape = st.lists(st.integers(0, 3), max_size=6)


@pytest.mark.by_day(None)
@hypothesis.settings(max_examples=300)
@hypothesis.given(
    a=st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=5), min_size=1, max_size=2),
    d=st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=6), min_size=2, max_size=2),
    residual=shape,
)
def test_shapes_that_do_not_fit(a, d, residual):
    module = _library.load().module
    d = d[: len(a)]
    fits = all(
        len(x) == 4 and len(y) == 5 and x[1:3] == y[2:4] and x[0] == y[0] == d[0][0] and y[1] == d[0][1]
        for x, y in zip(a, d)
    )
    factors = {"a": [tf.ones(x) for x in a], "d": [tf.ones(y) for y in d]}
    layouts = ["gio"] * len(a)
    calls = [
        (fits, lambda: module.tfjac_jacobian_rows(**factors, layouts=layouts)),
        (fits, lambda: module.tfjac_jacobian_kernel(**factors)),
        (fits, lambda: module.tfjac_jacobian_row_norms(**factors)),
        (
            fits and residual == d[0][:2],
            lambda: module.tfjac_jacobian_gram(**factors, residual=[tf.ones(residual)], layouts=layouts),
        ),
    ]
    for right, call in calls:
        if right:
            call()
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="Received"):
                call()


@hypothesis.settings(max_examples=200)
@hypothesis.given(shapes=st.tuples(shape, shape, shape, st.lists(st.integers(0, 3), max_size=2)))
def test_damped_solve(shapes):
    matrix, rhs, scaling, damping = shapes
    one = len(rhs) == 1 and matrix == rhs * 2 and len(damping) <= 1
    many = len(rhs) == 2 and matrix == rhs + rhs[1:] and damping == rhs[:1]
    right = (one or many) and scaling == rhs
    inputs = dict(zip(("matrix", "rhs", "scaling", "damping"), (tf.ones(x) for x in shapes)))
    if right:
        _library.load().module.tfjac_damped_solve(**inputs)
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Received"):
            _library.load().module.tfjac_damped_solve(**inputs)
