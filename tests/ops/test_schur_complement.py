"""schur_complement against dense matrices in NumPy, and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.ways import every_way
from tfjac import ops

pytestmark = pytest.mark.usefixtures("implementation")

SIZES = [(7, 2, 3, 2, 3, 10), (90, 2, 9, 3, 40, 60), (20, 1, 4, 1, 5, 130)]
SIZES += [(0, 2, 3, 2, 3, 4), (5, 2, 0, 2, 3, 4), (5, 2, 0, 2, 3, 0)]


def inputs(rng, n, m, k, o, groups, size):
    """Columns that repeat within an example and columns that follow one another, examples without a group."""
    columns = rng.integers(0, size, (n, k))
    if size > k:
        columns[::2] = rng.integers(0, size - k, n)[::2, None] + np.arange(k)
    matrix = np.stack([2 * np.eye(o) + x @ x.T for x in rng.standard_normal((groups, o, o))])
    parts = [rng.standard_normal((n, m, k)), columns, rng.standard_normal((n, m, o)), rng.integers(-1, groups, n)]
    return [*parts, matrix, rng.standard_normal((groups, o))]


def oracle(values, columns, block, group, matrix, vector, size):
    (n, m, _), (groups, o) = values.shape, vector.shape
    stays, goes = np.zeros((n, m, size)), np.zeros((n, m, groups, o))
    for i in range(n):
        np.add.at(stays[i].T, columns[i], values[i].T)
        if group[i] >= 0:
            goes[i][:, group[i]] = block[i]
    stays, goes = stays.reshape(n * m, size), goes.reshape(n * m, groups * o)
    whole = np.zeros((groups * o, groups * o))
    for j in range(groups):
        whole[j * o : (j + 1) * o, j * o : (j + 1) * o] = matrix[j]
    couples = stays.T @ goes
    return stays.T @ stays - couples @ np.linalg.solve(whole, couples.T), couples @ np.linalg.solve(
        whole, vector.ravel()
    )


def tensors(given, dtype=tf.float64):
    return [tf.constant(x, tf.int32 if x.dtype.kind == "i" else dtype) for x in given]


@pytest.mark.by_day(one_in=14)
@every_way
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values(sizes, compiled, dtype, rng):
    given = inputs(rng, *sizes)
    complement, projected, success = compiled(ops.schur_complement)(*tensors(given, dtype), size=sizes[-1])
    expected = oracle(*given, sizes[-1])
    tolerance = {"rtol": 2e-4, "atol": 2e-4} if dtype == tf.float32 else {"rtol": 1e-11, "atol": 1e-11}
    assert success
    np.testing.assert_allclose(complement, expected[0], **tolerance)
    np.testing.assert_array_equal(complement, np.transpose(complement))
    np.testing.assert_allclose(projected, expected[1], **tolerance)


@pytest.mark.parametrize("which, value", [(0, np.nan), (2, np.inf), (4, -1.0), (4, np.nan), (5, np.nan)])
def test_what_fails_is_said_and_zero(which, value, rng):
    """Also that M of a group which no example touches is not read, nor the upper triangle of any."""
    given = inputs(rng, 12, 2, 3, 2, 5, 9)
    given[3] = np.array([0, 1, 2, 3] * 3)
    given[4][4], given[4][:, 0, 1] = np.nan, np.nan
    assert ops.schur_complement(*tensors(given), size=9)[2]
    given[which][(2, 1, 1)[: given[which].ndim]] = value
    complement, projected, success = ops.schur_complement(*tensors(given), size=9)
    assert not success and not np.any(complement) and not np.any(projected)


POWERS = {  # of the largest number, as a factor of values, block, matrix and vector
    "products of J": (0.65, 0.0, 0.0, 0.0),
    "W": (0.4, 0.75, 0.0, 0.0),
    "W M⁻¹ Wᵀ": (0.3, 0.3, 0.0, 0.0),
    "M⁻¹ v": (0.0, 0.0, -0.5, 0.9),
    "W M⁻¹ v": (0.2, 0.2, 0.0, 0.75),
}


def largest(dtype):
    return float(dtype.max)


@pytest.mark.by_day(one_in=5)
@every_way
def test_what_overflows_is_said_and_zero(compiled, dtype, rng):
    solve = compiled(lambda *given: ops.schur_complement(*given, size=9))
    given = inputs(rng, 12, 2, 3, 2, 5, 9)
    cases = {name: (list(given), powers) for name, powers in POWERS.items()}
    cases["M"] = [*given[:4], given[4].copy(), given[5]], (0.0, 0.0, 0.0, 0.0)
    cases["M"][0][4][:, 1, 0] = largest(dtype) ** 0.65
    for name, (scaled, powers) in cases.items():
        for place, power in zip((0, 2, 4, 5), powers):
            scaled[place] = scaled[place] * largest(dtype) ** power
        assert all(np.isfinite(tensor).all() for tensor in tensors(scaled, dtype)), name
        complement, projected, success = solve(*tensors(scaled, dtype))
        assert not success and not np.any(complement) and not np.any(projected), name


def one_parameter(value, half, dtype, count):
    """As many examples as `count` with J = `value`, and M = 1 for a v that makes each add `half` to `projected`."""
    ones = np.ones([count, 1, 1])
    index = np.zeros(count, np.int64)
    given = [value * ones, index[:, None], ones / value, index, np.ones([1, 1, 1]), np.array([[half]])]
    return ops.schur_complement(*tensors(given, dtype), size=1)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=["float32", "float64"])
def test_sums_overflow_where_their_terms_do_not(dtype):
    top = largest(dtype)
    for value, half in (((0.6 * top) ** 0.5, 1.0), (1.0, 0.6 * top)):
        complement, projected, success = one_parameter(value, half, dtype, count=1)
        assert success and np.isfinite(complement).all() and np.isfinite(projected).all()
        complement, projected, success = one_parameter(value, half, dtype, count=2)
        assert not success and not np.any(complement) and not np.any(projected)


@pytest.mark.by_day(one_in=3)
@every_way
@pytest.mark.parametrize("place, value", [(1, 2**32), (1, -(2**32)), (3, 2**32 + 1)])
def test_indices_that_no_int32_holds_do_not_wrap(place, value, implementation, compiled, dtype, rng, request):
    given = tensors(inputs(rng, 4, 2, 3, 2, 5, 9), dtype)
    index = given[place].numpy().astype(np.int64)
    index.flat[0] = value
    given[place] = tf.constant(index)
    solve = compiled(lambda *given: ops.schur_complement(*given, size=9))
    if implementation == "twin" and request.node.callspec.params["compiled"] == "jit":
        complement, projected, success = solve(*given)  # XLA leaves assertions out
        assert not success and not np.any(complement) and not np.any(projected)
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be in"):
            solve(*given)


def test_any_integers_will_do(rng):
    given = tensors(inputs(rng, 4, 2, 3, 2, 5, 9))
    given[3] = tf.constant([0, -1, 3, -1])
    expected = ops.schur_complement(*given, size=9)
    for group in (tf.constant([0, -(2**32), 3, -(2**40) + 2], tf.int64), tf.cast(given[3], tf.int8)):
        for columns in (tf.int64, tf.uint64, tf.uint8):
            found = ops.schur_complement(given[0], tf.cast(given[1], columns), given[2], group, *given[4:], size=9)
            for x, y in zip(found, expected):
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("place, name", [(1, "columns"), (3, "group")])
def test_only_integers_are_indices(place, name, rng):
    given = tensors(inputs(rng, 4, 2, 3, 2, 5, 9))
    for dtype in (tf.float32, tf.bool):
        given[place] = tf.cast(given[place], dtype)
        with pytest.raises(TypeError, match=f"`{name}` must be integers.* Received: dtype {dtype.name}"):
            ops.schur_complement(*given, size=9)


def test_refused(rng):
    given = tensors(inputs(rng, 4, 2, 3, 2, 5, 9))
    with pytest.raises(ValueError, match=r"group \[n\], matrix \[groups,o,o\] and vector.* Received: \(4, 2, 3\)"):
        ops.schur_complement(*given[:3], given[3][:2], *given[4:], size=9)
    with pytest.raises(TypeError, match="all be float32"):
        ops.schur_complement(tf.cast(given[0], tf.float32), *given[1:], size=9)
    for place, wrong in ((1, given[1] + 9), (1, given[1] - 9), (3, given[3] + 5)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be in"):
            ops.schur_complement(*given[:place], wrong, *given[place + 1 :], size=9)
