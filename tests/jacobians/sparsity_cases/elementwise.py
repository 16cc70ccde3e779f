"""Cases of ops that act element by element."""

import numpy as np
import tensorflow as tf

from tests.jacobians.sparsity_cases.building import (
    RAW,
    Case,
    backwards,
    image,
    of_pairs,
    raw,
    row_by_row,
    single,
    together,
)

UNARY = """
    Abs Asinh Atan BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e
    BesselY0 BesselY1 Cos Cosh Dawsn Digamma Elu Erf Erfc Exp Expint Expm1 FresnelCos FresnelSin Inv LeakyRelu Lgamma
    Log Log1p Neg Reciprocal Relu Relu6 Rsqrt Selu Sigmoid Sin Sinh Softplus Softsign Spence Sqrt Square Tan Tanh
"""
BELOW_ONE = "Acos Asin Atanh Erfinv Ndtri"
STEPS = "Ceil Floor Rint Round Sign"
BINARY = """
    Add AddV2 Atan2 Div DivNoNan Igamma Igammac Mul MulNoNan Pow RealDiv SquaredDifference Sub Xdivy Xlog1py Xlogy
"""
GRADIENTS = """
    EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad SqrtGrad
    TanhGrad
"""
INEQUALITIES = "Greater GreaterEqual Less LessEqual"
EQUALITIES = "ApproximateEqual Equal NotEqual"


def passing(condition):
    """What flows back, where a condition on it, of truth values or numbers, holds."""
    return lambda dy: tf.where(tf.cast(condition(dy), tf.bool), dy, tf.zeros_like(dy))


COMPARED = {*f"{INEQUALITIES} {EQUALITIES} LogicalAnd LogicalNot LogicalOr IsFinite IsInf IsNan All Any".split()}
"""Ops whose rules no pattern shows: what they choose depends on the same elements, or the gradient is not linear."""


ELEMENTWISE = {
    "unary": Case(row_by_row(*raw(UNARY)), shape=(len(UNARY.split()), 2)),
    "unary below one": Case(row_by_row(*raw(BELOW_ONE)), shape=(5, 2), low=0.1, high=0.9),
    "checked": Case(lambda x: RAW.CheckNumericsV2(tensor=tf.sin(x), message="a message")),
    "unary above one": Case(tf.acosh, low=1.1),
    "binary": Case(of_pairs(BINARY), shape=(len(BINARY.split()), 2)),
    "either": Case(of_pairs("Maximum Minimum FloorMod"), shape=(3, 2), larger="either may count"),
    "gradients of activations": Case(of_pairs(GRADIENTS), shape=(12, 2), larger="some are linear where x is positive"),
    "with numbers of their own": Case(
        row_by_row(
            lambda x: tf.math.betainc(tf.ones_like(x), tf.ones_like(x), 0.5 * x),
            lambda x: tf.math.polygamma(tf.ones_like(x), x),
            lambda x: tf.math.zeta(tf.fill(x.shape, tf.constant(2.0, x.dtype)), x),
            lambda x: tf.math.nextafter(x, 2.0 * tf.ones_like(x)),
            lambda x: RAW.ClipByValue(t=x, clip_value_min=tf.zeros_like(x), clip_value_max=2.0 * tf.ones_like(x)),
            lambda x: tf.add_n([x, x**2]),
            lambda x: tf.debugging.check_numerics(x, "x"),
            lambda x: tf.ensure_shape(tf.identity(x), [2]),
        ),
        shape=(8, 2),
    ),
    "broadcast": Case(lambda x: x[:, None, :1] * tf.reshape(x, [1, 4, 6]) + 2.0 * x[:, None, :]),
    "mask": Case(lambda x: x**2 * tf.constant(np.tri(4, 6), x.dtype)),
    "mask by nan": Case(lambda x: tf.math.multiply_no_nan(x**2, tf.constant(np.tri(4, 6), x.dtype))),
    "complex": Case(
        row_by_row(
            lambda x: tf.math.angle(tf.complex(x, x**2)),
            lambda x: tf.abs(tf.complex(x, x**2)),
            lambda x: tf.math.imag(tf.math.conj(tf.complex(x, x**2)) * tf.constant([1j, 2.0], tf.complex128)),
            lambda x: tf.math.real(tf.cast(x, tf.complex128) ** 2),
        ),
        shape=(4, 2),
    ),
    "quantised": Case(
        single(
            row_by_row(
                lambda x: tf.quantization.fake_quant_with_min_max_args(x, 0.0, 1.2),
                lambda x: tf.quantization.fake_quant_with_min_max_vars(x, 0.0, 1.2),
                lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, [0.0] * 6, [1.2] * 6),
            )
        ),
        shape=(3, 6),
        by_rows=True,
    ),
    "quantised, limits": Case(
        single(lambda x: tf.quantization.fake_quant_with_min_max_vars(x[0], -x[1, 0], x[1, 1])),
        by_rows=True,
        larger="within its limits a number does not depend on them",
    ),
    "scalars and zeros": Case(
        single(lambda x: tf.constant(0.0) * x[0] + x[1] * tf.constant([2.0]) + 0.0 * x[0, 0] + 3.0 * x[1, :1]),
        by_rows=True,
    ),
    "compared, backwards": Case(
        backwards(
            row_by_row(
                *(passing(lambda dy, op=op: op(dy, 0.5 * tf.ones_like(dy))) for op in raw(INEQUALITIES)),
                *(passing(lambda dy, op=op: op(dy, tf.ones_like(dy))) for op in raw(EQUALITIES)),
                passing(lambda dy: tf.logical_not(dy > 0.5)),
                passing(lambda dy: (dy > 0.5) & tf.constant([True, True])),
                passing(lambda dy: (dy > 0.5) | tf.constant([False, False])),
                passing(lambda dy: tf.math.is_finite(tf.math.log(dy))),
                passing(lambda dy: tf.math.is_inf(dy * np.inf)),
                passing(lambda dy: tf.math.is_nan(dy * np.inf)),
                passing(lambda dy: tf.cast(3.0 * dy, tf.int32) % 2),
                passing(lambda dy: tf.reduce_all(dy > 0.5)),
                passing(lambda dy: tf.reduce_any(dy > 0.5)),
            )
        ),
        shape=(16, 2),
        by_rows=True,
        larger="a condition may let nothing pass",
    ),
    "steps, backwards": Case(
        backwards(
            row_by_row(
                *raw(STEPS),
                *(lambda dy, op=op: op(dy, 0.5 * tf.ones_like(dy)) for op in raw("FloorDiv TruncateDiv")),
            )
        ),
        shape=(7, 2),
        by_rows=True,
    ),
    "without gradients, backwards": Case(
        backwards(
            row_by_row(
                lambda dy: RAW.SoftsignGrad(gradients=dy, features=tf.ones_like(dy)),
                lambda dy: tf.stop_gradient(dy),
                lambda dy: RAW.Select(condition=dy > 0.5, x=dy, y=0.5 * dy),
                lambda dy: tf.where(dy > 0.5, dy, 0.5 * dy),
            )
        ),
        shape=(4, 2),
        by_rows=True,
    ),
    "bias_add": Case(lambda x: tf.nn.bias_add(image(x) ** 2, x[0, :2])),
    "batch_norm": Case(
        single(
            lambda x: RAW.FusedBatchNormV3(
                x=image(x), scale=x[0, :2], offset=[0.0, 1.0], mean=[0.0, 1.0], variance=[1.0, 2.0], is_training=False
            )[0]
        ),
        by_rows=True,
    ),
    "batch_norm, training": Case(
        single(
            together(
                *(
                    lambda x, op=op: op(
                        x=image(x), scale=x[0, :2], offset=x[1, :2], mean=[], variance=[], is_training=True
                    )[0]
                    for op in (RAW.FusedBatchNorm, RAW.FusedBatchNormV2, RAW.FusedBatchNormV3)
                )
            )
        ),
        by_rows=True,
    ),
}
