"""Tangents of few parameters, carried forward by rules, against central differences."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from tfjac.graph.op_types import LOOPS, SEVERAL_INPUTS, UNARY
from tfjac.jacobians.tangents import forward_factors
from tfjac.jacobians.tangents.rules import types_with_rules

raw = tf.raw_ops
STEP = 1e-5


def values_of(shapes, seed=0):
    """Values between 0.2 and 0.9, all different."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.2, 0.9, shape) for shape in shapes]


def listed(ys):
    return list(ys) if isinstance(ys, (list, tuple)) else [ys]


def rows_of(ys):
    """Elements of tensors `[n,...]` as `[n,m]`, example by example."""
    return np.concatenate([np.reshape(y, [y.shape[0], -1]) for y in ys], 1)


def by_differences(function, values):
    """∂y/∂v `[n,m,p]` by central differences."""
    flat, columns = np.concatenate([np.ravel(value) for value in values]), []
    ends = np.cumsum([value.size for value in values])[:-1]

    def rows(at):
        parts = [np.reshape(part, value.shape) for part, value in zip(np.split(at, ends), values)]
        return rows_of([y.numpy() for y in listed(function(*map(tf.constant, parts)))])

    for k in range(flat.size):
        step = STEP * np.eye(flat.size)[k]
        columns.append((rows(flat + step) - rows(flat - step)) / (2 * STEP))
    return np.stack(columns, 2)


def by_tangents(function, values, graph=lambda _: None):
    """∂y/∂v `[n,m,p]` by `forward_factors`; `graph` is called with the types of the ops of the graph before it."""
    variables = [tf.Variable(value) for value in values]

    @tf.function(autograph=False)
    def dense():
        ys = listed(function(*map(tf.convert_to_tensor, variables)))
        graph({op.type for op in ys[0].graph.get_operations()})
        factors = forward_factors(ys, variables)
        sizes = [v.shape.num_elements() for v in variables]
        parts = [tf.reshape(factor.dense(), [ys[0].shape[0], -1, p]) for factor, p in zip(factors, sizes)]
        return tf.concat(parts, 2)

    return dense().numpy()


def check(function, shapes, op_type=None):
    seen, values = set(), values_of(shapes)
    np.testing.assert_allclose(by_tangents(function, values, seen.update), by_differences(function, values), atol=1e-6)
    assert op_type is None or op_type in seen


C = tf.constant(values_of([[4, 3]], 1)[0])
"""Data."""

M = tf.constant([[True], [False], [True], [False]])

CALLS = {
    "Acosh": lambda x: raw.Acosh(x=x + 1),
    "Cast": lambda x: raw.Cast(x=x, DstT=tf.float32) * 1,
    "CheckNumerics": lambda x: raw.CheckNumerics(tensor=x, message=""),
    "CheckNumericsV2": lambda x: raw.CheckNumericsV2(tensor=x, message=""),
    "EnsureShape": lambda x: raw.EnsureShape(input=x, shape=[4]),
    "LeakyRelu": lambda x: raw.LeakyRelu(features=x - 0.5, alpha=0.2),
}
"""How an op of one input is called, where not by itself."""

COMPLEX = {"Angle", "ComplexAbs", "Conj", "Imag", "Real"}
FLAT = {"Ceil", "Floor", "Rint", "Round", "Sign", "StopGradient"}
LOW = {"Cast", "FakeQuantWithMinMaxArgs"}
"""Ops that give float32 here, which differences are too coarse for; `Cast` has other cases below."""


def unary(op_type):
    if op_type in CALLS:
        return CALLS[op_type]
    call = getattr(raw, op_type)
    (first, *_) = inspect.signature(call).parameters
    return lambda x: call(**{first: x})


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("op_type", sorted({*UNARY} - COMPLEX - FLAT - LOW))
def test_an_op_of_one_input(op_type):
    check(unary(op_type), [[4]], op_type)


TWO = ["Atan2", "DivNoNan", "Maximum", "Minimum", "MulNoNan", "Pow", "SquaredDifference", "Xdivy", "Xlog1py", "Xlogy"]


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("op_type", TWO)
def test_an_op_of_two_inputs(op_type):
    first, second, *_ = inspect.signature(getattr(raw, op_type)).parameters

    def call(a, b):
        return getattr(raw, op_type)(**{first: a, second: b})

    check(lambda a, b: call(a, b * b), [[4], [4]], op_type)
    check(lambda a: call(a, C[:, 0]), [[4]], op_type)
    check(lambda a: call(C, a * C), [[3]], op_type)
    check(lambda a: call(a * C, tf.constant(0.5, tf.float64)), [[4, 1]], op_type)
    if op_type != "SquaredDifference":
        check(lambda a: call(a, a), [[4]], op_type)


ELEMENT_BY_ELEMENT = [
    ("AddV2", lambda a, b: a + b, [[4, 1], [3]]),
    ("AddV2", lambda a, b: a + b, [[], [4, 2]]),
    ("AddV2", lambda a: a + C, [[3]]),
    ("AddV2", lambda a: C + a, [[4, 1]]),
    ("Add", lambda a, b: raw.Add(x=a, y=b), [[1, 3], [4, 1]]),
    ("Sub", lambda a, b: a - b, [[4, 1], [3]]),
    ("Sub", lambda a: C - a, [[3]]),
    ("Sub", lambda a: a - C, [[]]),
    ("Sub", lambda a: tf.reshape(a - a, [4]) + a, [[4]]),
    ("Neg", lambda a: -a, [[4]]),
    ("Mul", lambda a, b: a * b, [[4, 1], [3]]),
    ("Mul", lambda a, b: b * a, [[1, 4, 1], [2, 1, 3]]),
    ("Mul", lambda a: a * C, [[3]]),
    ("Mul", lambda a: C * a, [[]]),
    ("Mul", lambda a: a * a, [[4]]),
    ("Mul", lambda a: (a * C) * tf.reduce_sum(a), [[3]]),
    ("RealDiv", lambda a, b: a / b, [[4, 1], [3]]),
    ("RealDiv", lambda a, b: a / b, [[3], [4, 1]]),
    ("RealDiv", lambda a: a / C, [[3]]),
    ("RealDiv", lambda a: C / a, [[4, 1]]),
    ("RealDiv", lambda a: a / a + a, [[4]]),
    ("Div", lambda a, b: raw.Div(x=a, y=b), [[4, 1], [3]]),
    ("AddN", lambda a: tf.add_n([a, a * a, tf.sin(a), tf.ones_like(a)]), [[4]]),
    ("AddN", lambda a: tf.add_n([tf.broadcast_to(a, [4, 3]), C * a, C]), [[3]]),
    ("SelectV2", lambda a, b: tf.where(M, a, b), [[4, 3], [4, 3]]),
    ("SelectV2", lambda a, b: tf.where(M, a, b), [[], [3]]),
    ("SelectV2", lambda a: tf.where(M, a, C), [[4, 1]]),
    ("SelectV2", lambda a: tf.where(M, tf.zeros([], tf.float64), a), [[3]]),
    ("SelectV2", lambda a: tf.where(a > 0.5, a * a, -a), [[4]]),
    ("SelectV2", lambda a: tf.where(tf.constant([True, False, True]), a, C), [[4, 1]]),
    ("SelectV2", lambda a: tf.where(True, a, C), [[3]]),
    ("Cast", lambda a: raw.Cast(x=a, DstT=tf.float64) * C[:, 0], [[4]]),
    ("Identity", lambda a: tf.identity(a), [[4]]),
    ("EnsureShape", lambda a: tf.ensure_shape(a, [4]), [[4]]),
    ("Snapshot", lambda a: raw.Snapshot(input=a), [[4]]),
    ("ReadVariableOp", lambda a: a * 2, [[4]]),
]

MOVES = [
    ("Reshape", lambda a: tf.reshape(a, [2, -1]) * [1.0, 2.0, 3.0], [[3, 2]]),
    ("Reshape", lambda a: tf.reshape(a * tf.ones([4, 2], tf.float64), [2, 4]), [[4, 1]]),
    ("ExpandDims", lambda a: tf.expand_dims(a, -1) * C, [[4]]),
    ("ExpandDims", lambda a: tf.expand_dims(a, 0) * C, [[3]]),
    ("Squeeze", lambda a: tf.squeeze(a, [-1]), [[4, 1]]),
    ("Squeeze", lambda a: tf.squeeze(a) * tf.ones([2, 4], tf.float64), [[1, 4, 1]]),
    ("Pack", lambda a, b: tf.stack([a, b, a * b]), [[4], [4]]),
    ("Pack", lambda a: tf.stack([C[:, 0], a], -1), [[4]]),
    ("Pack", lambda a: tf.stack([C, C * a, C], axis=1), [[3]]),
    ("Pack", lambda a: tf.stack([a[0], a[1] * a[2]]), [[3]]),
    ("Unpack", lambda a: tf.multiply(*tf.unstack(a)), [[2, 3]]),
    ("Unpack", lambda a: tf.unstack(a, axis=-1)[1] * C[:, 0], [[4, 2]]),
    ("Unpack", lambda a: tf.unstack(C * a, axis=1), [[3]]),
    ("ConcatV2", lambda a, b: tf.concat([a, C, b], 0), [[1, 3], [2, 3]]),
    ("ConcatV2", lambda a, b: tf.concat([a, C, b * b], -1), [[4, 1], [4, 2]]),
    ("ConcatV2", lambda a: tf.concat([C * a, C], 1), [[]]),
    ("Split", lambda a: tf.split(a, 2), [[4]]),
    ("Split", lambda a: tf.split(a * C, 3, axis=-1)[1:], [[4, 1]]),
    ("SplitV", lambda a: tf.concat(tf.split(a, [1, -1, 2])[::-1], 0), [[5]]),
    ("SplitV", lambda a: tf.split(a * C, [1, 2], axis=-1), [[3]]),
    ("Slice", lambda a: tf.slice(a, [1, 0], [2, -1]), [[4, 2]]),
    ("Slice", lambda a: tf.slice(a * C, [1, 1], [-1, 2]), [[4, 1]]),
    ("GatherV2", lambda a: tf.gather(a, [2, 0, 0, 1]), [[3]]),
    ("GatherV2", lambda a: tf.gather(a, [[1, 0], [1, 1]], axis=-1), [[4, 2]]),
    ("GatherV2", lambda a: tf.gather(a, 1, axis=1), [[4, 2]]),
    ("GatherV2", lambda a: tf.gather(a * C, [[0, 1], [2, 2], [1, 0], [0, 0]], axis=1, batch_dims=1), [[3]]),
    ("GatherV2", lambda a: tf.gather(a, [[0, 2], [1, 1]], axis=-1, batch_dims=1), [[2, 2, 3]]),
    ("GatherV2", lambda a: tf.gather(a, [[0, 2], [1, 1]], axis=1, batch_dims=-1), [[2, 3]]),
    ("GatherV2", lambda a: tf.gather(a, [[0, 1], [1, 1]], axis=0, batch_dims=-2), [[2, 3]]),
    ("GatherV2", lambda a: tf.gather(a, [[0, 1], [1, 1]], axis=2, batch_dims=2), [[2, 2, 2]]),
    ("Transpose", lambda a: tf.transpose(a), [[2, 3]]),
    ("Transpose", lambda a: tf.transpose(a * C[:, :, None], [2, 0, 1]), [[2]]),
    ("Transpose", lambda a: tf.transpose(a, [-1, 0, -2]), [[2, 3, 2]]),
    ("Tile", lambda a: tf.tile(a * C, [2, 3]), [[3]]),
    ("Pad", lambda a: tf.pad(a * C, [[0, 1], [2, 0]]), [[4, 1]]),
    ("BroadcastTo", lambda a: tf.broadcast_to(a, [4, 3]), [[3]]),
    ("BroadcastTo", lambda a: tf.broadcast_to(a, [4, 3]) * C, [[4, 1]]),
    ("BroadcastTo", lambda a: tf.reshape(tf.broadcast_to(a, [4, 3]), [6, 2]), [[]]),
]

A = tf.constant(values_of([[2, 4, 3]], 2)[0])

STRIDED = [
    (lambda a: a[1:], [4]),
    (lambda a: a[:-1], [4]),
    (lambda a: a[::-1], [4]),
    (lambda a: a[-1:0:-2], [5]),
    (lambda a: a[::2, 1], [4, 2]),
    (lambda a: a[..., 0], [2, 2, 2]),
    (lambda a: a[1, ..., ::-1], [2, 2, 2]),
    (lambda a: a[:, None], [4]),
    (lambda a: a[None, ..., None, 1:], [2, 3]),
    (lambda a: a[tf.newaxis, 1, ..., -1, :], [2, 2, 1, 3]),
    (lambda a: a[...], [2, 3]),
    (lambda a: a[-1][None] * C, [3]),
    (lambda a: (a * A)[1, 1:, ::-2], [3]),
    (lambda a: (a * A)[..., tf.newaxis, 0, :], [2, 1, 1]),
    (lambda a: tf.strided_slice(a, [1, 9], [3, 0], [1, -1], begin_mask=2, end_mask=2), [4, 2]),
    (lambda a: tf.strided_slice(a, [5], [7], [1], begin_mask=1, end_mask=1), [4, 2]),
]

SUMS = [
    ("Sum", lambda a: tf.reduce_sum(a * C, 1), [[3]]),
    ("Sum", lambda a: tf.reduce_sum(a, -1, keepdims=True), [[4, 2]]),
    ("Sum", lambda a: C * tf.reduce_sum(a), [[3]]),
    ("Sum", lambda a: tf.reduce_sum(a * A, [0, -1]), [[4, 1]]),
    ("Sum", lambda a: tf.reduce_sum(a * A, [-3, 2], keepdims=True), [[4, 1]]),
    ("Sum", lambda a: raw.Sum(input=a, axis=tf.constant([], tf.int32)), [[4]]),
    ("Sum", lambda a: C + raw.Sum(input=a, axis=tf.constant([], tf.int32)), [[]]),
    ("Mean", lambda a: tf.reduce_mean(a * C, -1), [[3]]),
    ("Mean", lambda a: tf.reduce_mean(a * A, [0, 1], keepdims=True), [[3]]),
    ("Mean", lambda a: C - tf.reduce_mean(a), [[2, 3]]),
    ("MatMul", lambda a: tf.matmul(C, a), [[3, 2]]),
    ("MatMul", lambda a: tf.matmul(a, C), [[2, 4]]),
    ("MatMul", lambda a: tf.matmul(a, a), [[2, 2]]),
    ("MatMul", lambda a, b: tf.matmul(a, b, transpose_a=True), [[3, 2], [3, 2]]),
    ("MatMul", lambda a: tf.matmul(C, a, transpose_a=True, transpose_b=True), [[2, 4]]),
    ("MatMul", lambda a: tf.linalg.matvec(C, a), [[3]]),
    ("MatMul", lambda a: tf.tensordot(A, a, 1), [[3]]),
    ("BatchMatMulV2", lambda a: tf.matmul(A, a * tf.ones([2, 3, 2], tf.float64)), [[3, 1]]),
    ("BatchMatMulV2", lambda a: tf.matmul(a, A, transpose_a=True), [[2, 4, 1]]),
    ("BatchMatMulV2", lambda a, b: tf.matmul(a, b, transpose_b=True), [[2, 1, 2], [1, 3, 2]]),
    ("BatchMatMulV2", lambda a: tf.matmul(a, C), [[2, 1, 4]]),
]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("op_type, function, shapes", [*ELEMENT_BY_ELEMENT, *MOVES, *SUMS])
def test_a_rule(op_type, function, shapes):
    check(function, shapes, op_type)


T = tf.constant([0.0, 1.0, 2.0], tf.float64)
INFINITE = {
    "sqrt": (0, tf.sqrt),
    "pow": (0, lambda u: u ** (1 / 3)),
    "acos": (1, tf.acos),
    "acosh": (1, tf.acosh),
    "atan2": (0, lambda u: tf.atan2(u, 0 * u)),
    "log": (0, lambda u: tf.exp(tf.math.log(u))),
    "reciprocal": (0, lambda u: tf.exp(-tf.math.reciprocal(u))),
    "division": (0, lambda u: 1 / (1 + 1 / u)),
    "root of a square": (0, lambda u: tf.sqrt(u * u)),
    "root below a limit": (0, lambda u: tf.maximum(tf.sqrt(u), 0.5)),
    "root times a mask": (0, lambda u: tf.sqrt(u) * tf.cast(u > 0, tf.float64)),
}
"""Functions, and where a slope in them is infinite."""


@pytest.mark.parametrize("name", INFINITE)
def test_an_infinite_slope_is_that_of_its_own_parameter_alone(name):
    at, function = INFINITE[name]
    offsets = tf.constant([at, 0.3, 0.4], tf.float64)
    variables = [tf.Variable(0.0, dtype=tf.float64), tf.Variable(0.7, dtype=tf.float64)]

    @tf.function(autograph=False)
    def columns():
        a, b = map(tf.convert_to_tensor, variables)
        return [factor.dense() for factor in forward_factors([function(a * T + offsets) + b * T], variables)]

    first, second = (column.numpy().ravel() for column in columns())
    np.testing.assert_array_equal(second, T)
    assert first[0] == 0  # the slope meets a tangent of zero


@pytest.mark.parametrize("function, shape", STRIDED)
def test_strided_slices(function, shape):
    check(function, [shape], "StridedSlice")


def test_each_rule_has_a_case():
    cases = {op_type for op_type, *_ in (*ELEMENT_BY_ELEMENT, *MOVES, *SUMS)} | {"StridedSlice"}
    of_loops = {*LOOPS, *(op_type for op_type in types_with_rules() if op_type.startswith("TensorList"))}
    assert types_with_rules() - cases - of_loops <= {*UNARY, *SEVERAL_INPUTS} - {
        "Neg",
        "AddN",
        "Sub",
        "Mul",
        "RealDiv",
        "SelectV2",
    }


def test_several_ys_of_different_ranks():
    check(lambda a, b: [a * C, tf.reduce_sum(b * C, 1), A[0][:, None] * b, a[:, 0]], [[4, 1], [3]])
    check(lambda a, b: [a, C * b, tf.identity(C), tf.exp(a)], [[4], []])


def test_a_y_that_depends_on_some():
    check(lambda a, b: [a * 2, b * b], [[4], [4, 2]])


def test_calls_are_looked_into():
    inner = tf.function(lambda a: tf.sin(a) * C)
    check(lambda a: inner(a) + a, [[3]], "PartitionedCall")


def dense_of(function, autograph=False):
    """Return what `function` gives in a `tf.function`: factors, as dense arrays."""
    return [each.numpy() for each in tf.function(lambda: [f.dense() for f in function()], autograph=autograph)()]


def test_a_source_that_is_computed_from_another():
    """∂y/∂a goes through b, as TensorFlow's gradients do."""
    v = tf.Variable([0.3, 0.7], dtype=tf.float64)

    def factors():
        a = tf.identity(v)
        b = a * a
        return forward_factors([b * a + C[:2, 0]], [a, b])

    of_a, of_b = dense_of(factors)
    np.testing.assert_allclose(np.reshape(of_a, [2, 2]), np.diag(3 * v.numpy() ** 2))
    np.testing.assert_allclose(np.reshape(of_b, [2, 2]), np.diag(v.numpy()))


def test_a_source_may_be_a_y():
    v = tf.Variable([0.3, 0.7], dtype=tf.float64)
    (found,) = dense_of(lambda: (lambda a: forward_factors([a, a * a], [a]))(tf.identity(v)))
    expected = np.stack([np.eye(2), np.diag(2 * v.numpy())], 1)
    np.testing.assert_allclose(np.reshape(found, [2, 2, 2]), expected)


@pytest.mark.parametrize(
    "of_variable, of_y", [(tf.float32, tf.float32), (tf.float32, tf.float64), (tf.float64, tf.float32)]
)
def test_single_precision(of_variable, of_y):
    v = tf.Variable([0.5, 2.0, 1.5], dtype=of_variable)
    factors = lambda: forward_factors([tf.sin(tf.cast(v, of_y) * tf.cast(C, of_y))], [v])  # noqa: E731
    (found,) = dense_of(factors)
    assert found.dtype == of_variable.as_numpy_dtype
    x = C.numpy()
    expected = (np.cos(v.numpy() * x) * x)[:, :, None] * np.eye(3)
    np.testing.assert_allclose(np.reshape(found, [4, 3, 3]), expected, rtol=1e-5)
