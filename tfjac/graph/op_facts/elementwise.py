"""Ops that act element by element, with broadcasting."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, Wanted, known_shape
from tfjac.graph.examples.index_maps import (
    AxisLabels,
    ShapeOf,
    ValueOf,
    by_labels,
    example_axes,
    from_the_right,
    in_order,
    labelled_sizes,
)
from tfjac.graph.facts import declare, facts_of
from tfjac.graph.gradients.mending import TAKEN_FOR_CONSTANT, Differentiated, Gradient, differentiated_as, times
from tfjac.graph.op_facts.reductions import MEAN
from tfjac.graph.reading.static_values import of_inputs, static_value
from tfjac.graph.reading.symbolic_sizes import Given, Size, Sizes, SymbolicSizes, of_first
from tfjac.types import Array, Tensor

EQUAL, GREATER, MINIMUM, SELECT, SELECT_V2 = "Equal", "Greater", "Minimum", "Select", "SelectV2"
"""Types of ops that rules of other families look for."""

UNARY = """
    Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0
    BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Cast Ceil CheckNumerics CheckNumericsV2 ComplexAbs Conj Cos Cosh
    Dawsn Digamma Elu Erf Erfc Erfinv Exp Expint Expm1 FakeQuantWithMinMaxArgs Floor FresnelCos
    FresnelSin Imag Inv LeakyRelu Lgamma Log Log1p Ndtri Neg Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu
    Sigmoid Sign Sin Sinh Softplus Softsign Spence Sqrt Square StopGradient Tan Tanh
"""

SEVERAL_INPUTS = """
    Add AddN AddV2 Atan2 Betainc ClipByValue Complex Div DivNoNan FakeQuantWithMinMaxVars
    FakeQuantWithMinMaxVarsPerChannel FloorDiv FloorMod Igamma Igammac Maximum Minimum Mul MulNoNan NextAfter
    Polygamma Pow RealDiv SelectV2 SquaredDifference Sub TruncateDiv Xdivy Xlog1py Xlogy Zeta
"""

DECISIONS = """
    Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd LogicalNot LogicalOr
    NotEqual OnesLike ZerosLike
"""
"""Values pass through these, gradients do not."""

_STEEP = frozenset({"Acos", "Acosh", "Asin", "Pow", "Sqrt"})
"""Types of ops whose slope may be infinite where they are not."""

_OF_COTANGENT_FIRST = "EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad"
_OF_COTANGENT_SECOND = "SigmoidGrad TanhGrad"
_OF_POWERS = "ReciprocalGrad RsqrtGrad SqrtGrad"
GRADIENTS = f"{_OF_COTANGENT_FIRST} {_OF_COTANGENT_SECOND} {_OF_POWERS} InvGrad SoftsignGrad"
"""Ops by which TensorFlow takes the gradients of some of these, each of two tensors of one shape."""


# ------------------------------------------------------------------------------------ axes, and that of the examples


def _aligned(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels:
    """From the right, with broadcasting."""
    operands = [from_the_right(len(shape(k))) for k in range(len(op.inputs))]
    return operands, max(operands, key=len)


def _bias_add(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels:
    """A bias for each channel."""
    labels = in_order(len(shape(0)))
    return [labels, [labels[1 if op.get_attr("data_format") == b"NCHW" else -1]]], labels


def _ensure_shape(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Fills in the shape of what comes without one, as from Python."""
    if wanted.shape(op.inputs[0]) is None:
        wanted.shapes[op.inputs[0].ref()] = known_shape(wanted, op.outputs[0])
    return example_axes(op, axis, wanted)


def _select(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """No broadcasting: a condition of rank 1 chooses whole rows, along axis 0."""
    by_row = op.inputs[0].shape.rank == 1 != op.inputs[1].shape.rank
    condition = SHARED if op.inputs[0].shape.rank == 0 or (by_row and axis.axis != 0) else axis
    return [condition, axis, axis]


# -------------------------------------------------------------------------------------------------------- sizes, values


def _quotients(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """What is left over in no division is there whatever the open sizes."""
    if None in given or len(given[0]) != len(given[1]):
        return None
    found = [one.over(other) for one, other in zip(*given)]
    return None if None in found else found


def _products(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    if None in given or len(given[0]) != len(given[1]):
        return None
    return [one * other for one, other in zip(*given)]


def _ones(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    return [Size()] * output.shape.num_elements() if output.shape.is_fully_defined() else None


def _where_not_positive(limit: Array | None) -> bool:
    return limit is not None and bool((limit <= 0).all())


def _where_not_negative(limit: Array | None) -> bool:
    return limit is not None and bool((limit >= 0).all())


def _cast(output: Tensor, value_of: ValueOf) -> Array | None:
    value = value_of(output.op.inputs[0])
    return None if value is None else np.asarray(value).astype(output.dtype.as_numpy_dtype)


# -------------------------------------------------------------------------------- gradients, conversions to many slices


def _is_mean_in_a_gradient(op: tf.Operation, ops: Differentiated) -> bool:
    """Whether `op` stops the gradient of the mean of a variance, and `ops` hold the gradient of that variance.

    `tf.nn.moments` computes the variance as the mean of (x − stop_gradient(mean))². That is right in first derivatives,
    as the variance does not change with that mean to first order. In the gradient, 2(x − mean)·u/n, the mean counts,
    and TensorFlow leaves it out: second derivatives through the normalisation of layers and batches would be wrong.
    """
    mean, users = op.inputs[0].op, op.outputs[0].consumers()
    if mean.type != MEAN or not any(user.type == "SquaredDifference" for user in users):
        return False
    differences = [user for user in users if facts_of(user).arithmetic == "difference"]
    return any(other is user for other in ops for user in differences)


def _passed_on(op: tf.Operation, cotangent: Tensor) -> Tensor:
    return cotangent


def _meets_steep_ones(op: tf.Operation, ops: Differentiated) -> bool:
    """Whether slopes, or what flows back, may be infinite. Where one of them is zero, the other changes nothing.

    (x / c)^b is zero at x = 0 for all c. TensorFlow's gradient by c is ∞ · 0 there if b is less than one, and so NaN.
    """
    return op.inputs[0].dtype.is_floating and not ops.types.isdisjoint(_STEEP)


def _gradient_by_slope(op: tf.Operation, cotangent: Tensor) -> Tensor:
    return times(cotangent, _private.gradient_of_type(op.type)(op, tf.ones_like(cotangent)))


def _gradient_by_finite_slope(op: tf.Operation, cotangent: Tensor) -> Tensor:
    """XLA and TensorFlow's kernels multiply infinity by the slope of a rectifier at zero in ways that differ."""
    return tf.math.multiply_no_nan(cotangent, _private.gradient_of_type(op.type)(op, tf.ones_like(cotangent)))


def _gradient_of_angle(op: tf.Operation, cotangent: Tensor) -> list[Tensor]:
    """Undetermined at the origin, and of no effect there on the gradients of what does not depend on it."""
    y, x = op.inputs
    square = x * x + y * y
    return _summed_over_repeats(op, [times(cotangent, slope) for slope in (x / square, -y / square)])


def _gradient_of_power(op: tf.Operation, cotangent: Tensor) -> list[Tensor]:
    (x, y), power = op.inputs, op.outputs[0]
    logarithm = tf.math.log(tf.where(x > 0, x, tf.ones([], x.dtype)))
    slopes = [tf.math.multiply_no_nan(x ** (y - 1), y), power * logarithm]
    return _summed_over_repeats(op, [times(cotangent, slope) for slope in slopes])


def _gradient_of_product(op: tf.Operation, cotangent: Tensor) -> list[Tensor]:
    x, y = op.inputs
    return _summed_over_repeats(op, [tf.math.multiply_no_nan(cotangent, slope) for slope in (y, x)])


def _gradient_of_quotient(op: tf.Operation, cotangent: Tensor) -> list[Tensor]:
    x, y = op.inputs
    return _summed_over_repeats(op, [cotangent / y, tf.math.multiply_no_nan(cotangent, -x / y / y)])


def _summed_over_repeats(op: tf.Operation, gradients: list[Tensor]) -> list[Tensor]:
    """Return the gradients by both inputs, each summed where the input is repeated."""
    if op.inputs[0].shape.is_fully_defined() and op.inputs[0].shape == op.inputs[1].shape:
        return gradients
    sizes = [tf.shape(each) for each in op.inputs]
    repeated = tf.raw_ops.BroadcastGradientArgs(s0=sizes[0], s1=sizes[1])
    if op.inputs[0].shape.is_fully_defined() and op.inputs[1].shape.is_fully_defined():
        repeated = map(static_value, repeated)  # XLA asks for it, of a gradient of this in a loop
    return [tf.reshape(tf.reduce_sum(each, axis), size) for each, axis, size in zip(gradients, repeated, sizes)]


def _is_complex(op: tf.Operation, ops: Differentiated) -> bool:
    return op.outputs[0].dtype.is_complex


def _is_of_stopped_mean(op: tf.Operation) -> bool:
    """Whether a squared difference is that from the mean, behind a stop of the gradient, as in `tf.nn.moments`."""
    stop = op.inputs[1].op
    mean = stop.inputs[0].op if facts_of(stop).kind == "stop" else stop
    return mean is not stop and mean.type == MEAN and mean.inputs[0] is op.inputs[0]


def _is_otherwise(op: tf.Operation, ops: Differentiated) -> bool:
    return _is_complex(op, ops) or _is_of_stopped_mean(op)


def _squared_difference(op: tf.Operation, x: Tensor, y: Tensor) -> Tensor:
    """|x − y|²; TensorFlow forgets the conjugates, and the mean where it is differentiated again, by any tape."""
    difference = x - _unstopped(op, y)
    return tf.math.conj(difference) * difference


def _steep_squared_difference(op: tf.Operation, x: Tensor, y: Tensor) -> Tensor:
    difference = x - _unstopped(op, y)
    return times(difference, difference)


def _unstopped(op: tf.Operation, y: Tensor) -> Tensor:
    """The mean is of no effect on the gradient, but on that of the gradient."""
    return op.inputs[1].op.inputs[0] if _is_of_stopped_mean(op) else y


def _xlogy(op: tf.Operation, x: Tensor, y: Tensor) -> Tensor:
    safe = tf.where(tf.equal(x, 0), tf.ones_like(y), y)
    return x * tf.math.log(safe)


_ZERO = "it is zero with respect to this argument, which is not implemented"


def _by_slope(at: int, product: Callable = tf.multiply) -> Callable:
    """A shortcut of the vectoriser's for an op of two tensors of one shape, of which the one at `at` is the cotangent.

    A slope, the same for all slices, times the cotangents `[c, ...]`; `product` multiplies them.
    """

    def convert(op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]) -> Sequence[Tensor] | None:
        if stacked[1 - at] or op.inputs[1 - at].shape.rank is None:
            return None
        given = list(inputs)
        given[at] = tf.ones_like(inputs[1 - at])
        (slope,) = _private.op_like(op, given)
        return [product(slope, inputs[at])]

    return convert


def _bias_add_grad(op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]) -> Sequence[Tensor] | None:
    """TensorFlow believes that images whose channels come first have two more axes."""
    return None if op.get_attr("data_format") == b"NCHW" and op.inputs[0].shape.rank != 4 else inputs


# ---------------------------------------------------------------------------------------------------------------- facts

# A type is in one of the lists above. What is said of it alone comes further down.
declare(UNARY, elementwise="unary", **by_labels(_aligned))
declare("EnsureShape", elementwise="unary", labels=_aligned, example_axis=_ensure_shape, sizes=labelled_sizes)
declare(SEVERAL_INPUTS, elementwise="several inputs", **by_labels(_aligned))
declare(DECISIONS, elementwise="decision", **by_labels(_aligned))
declare(GRADIENTS, elementwise="gradient", labels=_aligned, example_axis=example_axes, sizes=of_first)
declare(_OF_COTANGENT_FIRST, shortcut=_by_slope(0))
declare(_OF_COTANGENT_SECOND, shortcut=_by_slope(1))
declare(_OF_POWERS, shortcut=_by_slope(1, tf.math.multiply_no_nan))  # as their kernels: no cotangent, no infinite slope
declare(SELECT, elementwise="as it is", example_axis=_select)
declare("BiasAdd", arithmetic="sum", affine=(0, 1), maps="kept", vanishes="where all do", **by_labels(_bias_add))
declare("BiasAddGrad", conversion=_bias_add_grad)

declare("Add AddV2", arithmetic="sum", linear="in all", vanishes="where all do", shifts=True, value=of_inputs(np.add))
declare("AddN", linear="in all", vanishes="where all do")
declare(
    "Sub",
    arithmetic="difference",
    linear="in all",
    vanishes="where all do",
    shifts=True,
    value=of_inputs(np.subtract),
)
declare("Neg", arithmetic="negative", linear="in the first", value=of_inputs(np.negative))
declare(
    "Mul",
    arithmetic="product",
    linear="in each",
    multiplies=True,
    entries=_products,
    value=of_inputs(np.multiply),
)
declare("MulNoNan", linear="in each", multiplies=True)
declare("Mul", gradient=Gradient(_gradient_of_product, when=_meets_steep_ones))
declare("Pow", gradient=Gradient(_gradient_of_power, when=_meets_steep_ones))
declare("Acos Acosh Asin Cosh Sqrt", gradient=Gradient(_gradient_by_slope, when=_meets_steep_ones))
declare(
    "Abs Cos Elu Erf Erfc Exp Expm1 LeakyRelu Relu Relu6 Selu Sigmoid Softplus Square Tanh",
    gradient=Gradient(_gradient_by_finite_slope, when=_meets_steep_ones),
)
declare("Atan2", gradient=Gradient(_gradient_of_angle))
declare("Div RealDiv", arithmetic="quotient", linear="in the first")
declare("Div RealDiv", gradient=Gradient(_gradient_of_quotient, when=_meets_steep_ones))
declare("DivNoNan", linear="in the first")
declare("CheckNumerics CheckNumericsV2", linear="in the first", repeatable=True)
declare(f"{SELECT} {SELECT_V2}", linear="in all", vanishes="where all do", value=of_inputs(np.where))
declare(
    "Cast",
    first_column=lambda op: op.inputs[0],
    kind="cast",
    columns="the same",
    linear="in the first",
    shifts=True,
    entries=of_first,
    value=_cast,
)
declare("Real", columns="the same")
declare("Conj", columns="conjugated")
declare("Complex", columns="of one part")
declare("EnsureShape", elements="in order", columns="the same", linear="in the first")
declare("StopGradient", kind="stop", affine=(0,), gradient=Gradient(_passed_on, when=_is_mean_in_a_gradient))
declare("Maximum", vanishes=_where_not_positive, shifts=True, value=of_inputs(np.maximum))
declare(MINIMUM, vanishes=_where_not_negative, shifts=True, value=of_inputs(np.minimum))
declare("ClipByValue", shifts=True)
declare("Cos Cosh Erfc Exp Log Rsqrt Sigmoid Softplus", vanishes="never")

declare("Elu Erf Expm1 LeakyRelu Relu Relu6 Selu Softsign Tanh", activation="at zero")
declare("Erfc Sigmoid Softplus", activation="elsewhere")
declare("Elu LeakyRelu Maximum Minimum Relu Selu Softplus", linear="far from zero")

declare("Ceil Floor FloorDiv Rint Round TruncateDiv", steps="rounding")
declare("Sign", steps="sign")
declare("FloorDiv", entries=_quotients, value=of_inputs(np.floor_divide))
declare("FloorMod", value=of_inputs(np.mod))
declare(EQUAL, looks_at="differences", value=of_inputs(np.equal))
declare("ApproximateEqual", labels=_aligned)
declare("NotEqual", value=of_inputs(np.not_equal))
declare(GREATER, value=of_inputs(np.greater))
declare("GreaterEqual", value=of_inputs(np.greater_equal))
declare("Less", value=of_inputs(np.less))
declare("LessEqual", value=of_inputs(np.less_equal))
declare("LogicalAnd", value=of_inputs(np.logical_and))
declare("OnesLike", looks_at="shapes", vanishes="never", entries=_ones)
declare("ZerosLike", looks_at="shapes", vanishes="always", value=of_inputs(np.zeros_like))

declare(
    "SquaredDifference",
    vanishes="where all do",
    gradient=differentiated_as(
        _steep_squared_difference,
        when=_meets_steep_ones,
        name="TfjacSteepSquaredDifference",
        otherwise=differentiated_as(_squared_difference, when=_is_otherwise),
    ),
)
declare("Xdivy", gradient=differentiated_as(lambda op, x, y: tf.math.divide_no_nan(x, y), when=_is_complex))
declare("Xlogy", gradient=differentiated_as(_xlogy, when=_is_complex))
declare("SoftsignGrad", gradient=differentiated_as(lambda op, cotangent, x: cotangent / tf.square(1 + tf.abs(x))))
declare("Zeta Polygamma", refused_inputs=(_ZERO, [0]))
declare("Betainc", refused_inputs=(_ZERO, [0, 1]))
declare(
    "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient FakeQuantWithMinMaxArgsGradient",
    gradient=TAKEN_FOR_CONSTANT,
)
declare("SparseAddGrad", gradient=TAKEN_FOR_CONSTANT)
