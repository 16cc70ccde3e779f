"""The kernel of several blocks of rows in one call, against NumPy in float64."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tests.ops.factors import Problem, tolerance
from tests.ops.ways import ways_in_turn
from tfjac import ops
from tfjac.ops import _library

# name -> (factors, blocks): (g, i, o, layout) of each factor, and (n, m, t of each factor) of each block
CASES = {
    "equation_and_border": ([(1, 5, 4, "gio"), (1, 1, 4, "gio")], [(9, 1, (3, 1)), (4, 1, (1, 1))]),
    "once": ([(1, 5, 4, "gio"), (1, 3, 2, "gio"), (1, 1, 9, "gio")], [(7, 2, (1, 1, 1)), (5, 3, (1, 1, 1))]),
    "absent": ([(1, 3, 2, "gio"), (1, 4, 3, "gio")], [(5, 1, (1, 0)), (4, 2, (0, 3)), (3, 1, (2, 1))]),
    "nothing_in_common": ([(1, 3, 2, "gio"), (1, 4, 3, "gio")], [(5, 1, (1, 0)), (4, 2, (0, 1))]),
    "many_positions": ([(1, 19, 18, "gio")], [(3, 2, (2,)), (4, 1, (3,)), (2, 1, (1,))]),
    "few_columns": ([(1, 2, 2, "gio")], [(6, 1, (9,)), (5, 4, (2,))]),
    "groups": ([(2, 3, 2, "igo"), (3, 2, 4, "ogi")], [(5, 2, (3, 1)), (2, 1, (1, 1))]),
    "beyond_a_tile": ([(1, 3, 2, "gio"), (1, 30, 20, "gio")], [(210, 1, (1, 2)), (3, 1, (1, 1)), (65, 3, (1, 4))]),
    "no_examples": ([(1, 3, 2, "gio")], [(0, 2, (1,)), (3, 1, (1,)), (2, 0, (4,))]),
    "no_rows": ([(1, 3, 2, "gio")], [(0, 2, (1,)), (0, 1, (3,))]),
    "no_columns": ([(1, 0, 2, "gio")], [(2, 2, (1,)), (3, 1, (3,))]),
    "one_block": ([(1, 3, 2, "gio")], [(4, 2, (3,))]),
}


class Stack:
    """Blocks of rows of one Jacobian, with random values."""

    def __init__(self, rng, factors, blocks):
        self.blocks = [
            Problem(rng, n, m, [(t, *sizes) for t, sizes in zip(positions, factors)]) for n, m, positions in blocks
        ]

    def tensors(self, dtype):
        """Give (a, d), the factors of one block after those of the other."""
        parts = [block.tensors(dtype) for block in self.blocks]
        return [x for a, _ in parts for x in a], [x for _, d in parts for x in d]

    def rows(self):
        """Give J, `[rows, p]`."""
        return np.concatenate([block.rows() for block in self.blocks])

    def kernel(self):
        """Give J Jᵀ."""
        return self.rows() @ self.rows().T


def kernel_of(stack):
    return lambda a, d: ops.jacobian_kernel(a, d, blocks=len(stack.blocks))


@pytest.mark.by_day("values")
@ways_in_turn(CASES)
def test_values(case, implementation, compiled, dtype, rng):
    stack = Stack(rng, *CASES[case])
    found = compiled(kernel_of(stack))(*stack.tensors(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, stack.kernel(), **tolerance(dtype))


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("case", CASES)
def test_values_in_plain_hlo(case, need_native, monkeypatch, rng):
    monkeypatch.setenv("TFJAC_XLA", "hlo")
    stack = Stack(rng, *CASES[case])
    found = tf.function(kernel_of(stack), jit_compile=True)(*stack.tensors(tf.float64))
    np.testing.assert_allclose(found, stack.kernel(), **tolerance(tf.float64))


@pytest.mark.parametrize("case", ["beyond_a_tile", "few_columns"])
def test_symmetric_and_the_same_bits_under_xla(case, need_native, dtype, rng):
    stack = Stack(rng, *CASES[case])
    outside, inside = (tf.function(kernel_of(stack), jit_compile=jit)(*stack.tensors(dtype)) for jit in (False, True))
    np.testing.assert_array_equal(outside, np.transpose(outside))
    np.testing.assert_array_equal(outside, inside)


SHARED = {  # pairs of factors of which the second has the a, or the d, of the first
    "d in one block": ([], [(0, 1)]),
    "d in both": ([], [(0, 1), (3, 4)]),
    "a in both": ([(0, 1), (3, 4)], []),
    "all a": ([(0, 1), (3, 4), (0, 2), (3, 5)], []),
    "a in one block, d in the other": ([(0, 1)], [(3, 4)]),
    "first d, then a": ([(1, 2), (4, 5)], [(0, 1), (3, 4)]),
    "first a, then d": ([(0, 1), (3, 4)], [(1, 2), (4, 5)]),
    "everything": ([(0, 1), (3, 4)], [(0, 1), (3, 4)]),
}


@pytest.mark.parametrize("case", SHARED)
def test_factors_that_share_memory(case, need_native, rng):
    stack = Stack(rng, [(2, 3, 2, "gio")] * 3, [(5, 2, (1, 1, 1)), (4, 1, (1, 1, 1))])
    a, d = stack.tensors(tf.float64)
    for tensors, arrays, pairs in zip((a, d), ("a", "d"), SHARED[case]):
        for k, other in pairs:
            tensors[other] = tensors[k]
            values = getattr(stack.blocks[k // 3], arrays)
            values[other % 3] = values[k % 3]
    np.testing.assert_allclose(ops.jacobian_kernel(a, d, 2), stack.kernel())


@pytest.mark.parametrize("decades", [20, 160])
def test_factors_of_very_different_sizes(decades, implementation, rng):
    """In one block a is large and d small, in the other the other way round: J is of moderate size in both."""
    dtype = tf.float32 if decades == 20 else tf.float64
    stack = Stack(rng, [(1, 5, 4, "gio"), (1, 3, 2, "gio")], [(9, 1, (1, 2)), (4, 2, (1, 1))])
    a, d = stack.tensors(dtype)
    for k, sign in enumerate((1, -1, -1, 1)):
        scale = 10.0 ** (sign * decades)
        a[k], d[k] = a[k] * scale, d[k] / scale
    np.testing.assert_allclose(ops.jacobian_kernel(a, d, 2), stack.kernel(), **tolerance(dtype))


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("open_sizes", ["examples", "all"])
def test_open_sizes(open_sizes, implementation, rng):
    stack = Stack(rng, *CASES["absent"])
    a, d = stack.tensors(tf.float64)
    specs = [
        [tf.TensorSpec([None] * x.shape.rank if open_sizes == "all" else [None, *x.shape[1:]], x.dtype) for x in xs]
        for xs in (a, d)
    ]
    function = tf.function(kernel_of(stack), input_signature=specs)
    np.testing.assert_allclose(function(a, d), stack.kernel())


def test_known_shape(need_native, rng):
    stack = Stack(rng, *CASES["absent"])
    function = tf.function(kernel_of(stack)).get_concrete_function(*stack.tensors(tf.float32))
    assert function.output_shapes.as_list() == [16, 16]


sizes = st.integers(0, 7)
factors = st.lists(st.tuples(st.integers(1, 3), sizes, sizes, st.sampled_from(["gio", "oig"])), min_size=1, max_size=3)


@pytest.mark.by_day(None)
@hypothesis.settings(max_examples=120)
@hypothesis.given(data=st.data(), factors=factors, seed=st.integers(0, 2**32 - 1))
def test_shapes_that_fit(data, factors, seed):
    implementation = data.draw(st.sampled_from(["native", "twin"] if ops.load_ops() else ["twin"]))
    positions = st.tuples(*(st.integers(0, 5) for _ in factors))
    blocks = data.draw(st.lists(st.tuples(sizes, st.integers(0, 3), positions), min_size=1, max_size=4))
    stack = Stack(np.random.default_rng(seed), factors, blocks)
    with ops.implementation(implementation):
        found = kernel_of(stack)(*stack.tensors(tf.float64))
    np.testing.assert_allclose(found, stack.kernel(), rtol=1e-11, atol=1e-11)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("compiled", ["eager", "jit"], indirect=True)
def test_gradient_against_finite_differences(compiled, implementation, rng):
    stack = Stack(rng, *CASES["absent"])
    weights = rng.standard_normal(stack.kernel().shape)

    @compiled
    def gradients(a, d):
        with tf.GradientTape() as tape:
            tape.watch([a, d])
            loss = tf.reduce_sum(kernel_of(stack)(a, d) * weights)
        return tape.gradient(loss, [*a, *d])

    found = gradients(*stack.tensors(tf.float64))
    arrays = [x for block in stack.blocks for x in block.a] + [x for block in stack.blocks for x in block.d]
    for array, gradient in zip(arrays, found, strict=True):
        direction = rng.standard_normal(array.shape)
        values = []
        for step in (1e-6, -2e-6):
            array += step * direction
            values.append(np.sum(weights * stack.kernel()))
        array += 1e-6 * direction
        np.testing.assert_allclose(np.sum(gradient * direction), (values[0] - values[1]) / 2e-6, rtol=1e-6, atol=1e-6)


A, D = tf.ones([3, 1, 1, 2]), tf.ones([3, 2, 1, 1, 4])
WRONG = {
    "zero": (ValueError, "positive integer. Received: 0", lambda: ops.jacobian_kernel([A], [D], 0)),
    "float": (ValueError, "positive integer. Received: 2.0", lambda: ops.jacobian_kernel([A, A], [D, D], 2.0)),
    "uneven": (ValueError, "as many factors. Received: 3 factors, blocks=2",
               lambda: ops.jacobian_kernel([A] * 3, [D] * 3, 2)),
    "i": (ValueError, r"agree in g, i and o.*factor 0 of block 0.*of block 1 \(3, 1, 1, 1\)",
          lambda: ops.jacobian_kernel([A, A[..., :1]], [D, D], 2)),
    "o": (ValueError, r"of block 1 \(3, 1, 1, 2\) and \(3, 2, 1, 1, 1\)",
          lambda: ops.jacobian_kernel([A, A], [D, D[..., :1]], 2)),
    "n": (ValueError, "agree in t and g, and all factors in n",
          lambda: ops.jacobian_kernel([A, A, A[:2], A], [D, D, D[:2], D], 2)),
    "dtypes": (TypeError, r"\['float32', 'float64'\]",
               lambda: ops.jacobian_kernel([A, tf.cast(A, tf.float64)], [D, tf.cast(D, tf.float64)], 2)),
    "no_list": (TypeError, "must be a list", lambda: ops.jacobian_kernel(A, [D], 2)),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case, implementation):
    error, message, call = WRONG[case]
    with pytest.raises(error, match=f"(?s){message}"):
        call()


UNLIKE = {  # what broadcasts must not pass
    "g": (tf.ones([3, 1, 2, 2]), tf.ones([3, 2, 1, 2, 4])),
    "i": (A[..., :1], D),
    "o": (A, D[..., :1]),
    "n": (A[:2], D),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_shapes_found_wrong_at_run_time(jit_compile, implementation):
    specs = [tf.TensorSpec([None] * 4), tf.TensorSpec([None] * 5)] * 2

    @tf.function(jit_compile=jit_compile, input_signature=specs)
    def kernel(a, d, a_too, d_too):
        return ops.jacobian_kernel([a, a_too], [d, d_too], 2)

    kernel(A, D, A[:2], D[:2, :1])
    for what, factors in UNLIKE.items():
        with pytest.raises(tf.errors.InvalidArgumentError):
            kernel(A, D, *factors)
            pytest.fail(f"factors passed that differ in {what}")
        with pytest.raises(tf.errors.InvalidArgumentError):
            kernel(*factors, A, D)
            pytest.fail(f"factors passed that differ in {what}")


def test_native_op_checks_for_itself(need_native):
    raw = _library.load().module.tfjac_jacobian_kernel
    for message, a, d, blocks in (
        (r"same number of factors. Received: 3 factors in all, blocks = 2", [A] * 3, [D] * 3, 2),
        (r"same g, i and o.*factor 1: a \[3,1,1,1\]", [A, A[..., :1]], [D, D], 2),
        (r"blocks", [A], [D], 0),
    ):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=f"(?s){message}"):
            raw(a=a, d=d, blocks=blocks)
