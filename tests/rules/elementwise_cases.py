"""Cases for ops that act element by element: every op of the table, with each of its inputs as the examples."""

import inspect

import numpy as np
import tensorflow as tf

from tests.rules.case import Case, behind
from tfjac.graph.op_types import GRADIENTS, SEVERAL_INPUTS, UNARY


def inside(x):
    """Numbers in (-0.9, 0.9)."""
    return 0.9 * tf.tanh(x)


def positive(x):
    return 0.5 + tf.square(x)


def complex_of(x):
    return tf.complex(x, 1.0 + tf.sin(x))


UNIT = """Acos Asin Atanh Erfinv"""
POSITIVE = """
    BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Digamma Expint Inv Lgamma Log Log1p Reciprocal Rsqrt Spence
    Sqrt
"""
DOMAINS = {
    **dict.fromkeys(UNIT.split(), inside),
    **dict.fromkeys(POSITIVE.split(), positive),
    "Acosh": lambda x: 1.5 + tf.square(x),
    "Ndtri": lambda x: 0.1 + 0.8 * tf.sigmoid(x),
}
SPECIAL = {
    "Angle": lambda x: tf.math.angle(complex_of(x)),
    "Cast": lambda x: tf.math.real(tf.cast(x, tf.complex128) ** 2),
    "CheckNumerics": lambda x: tf.debugging.check_numerics(x, "a message"),
    "CheckNumericsV2": lambda x: tf.raw_ops.CheckNumericsV2(tensor=x, message="a message"),
    "ComplexAbs": lambda x: tf.abs(complex_of(x)),
    "Conj": lambda x: tf.math.imag(tf.math.conj(complex_of(x)) * complex_of(x) ** 2),
    "EnsureShape": lambda x: tf.ensure_shape(x, x.shape),
    "Imag": lambda x: tf.math.imag(complex_of(x) ** 2),
    "LeakyRelu": lambda x: tf.raw_ops.LeakyRelu(features=x, alpha=0.3),
    "Real": lambda x: tf.math.real(complex_of(x) ** 2),
}


def unary(name):
    """The op of one input, added to what has a gradient."""
    if name in SPECIAL:
        return SPECIAL[name]
    op, domain = getattr(tf.raw_ops, name), DOMAINS.get(name, tf.identity)
    argument = next(iter(inspect.signature(op).parameters))
    return lambda x: x + tf.cast(op(**{argument: domain(x)}), x.dtype)


ROW = np.linspace(0.7, 1.9, 4)


def both(function, domain=positive):
    """Two inputs of the examples, and each with one that all share, broadcast in three ways."""

    def paired(x):
        y, row = domain(x), tf.constant(ROW, x.dtype)
        return function(y, domain(tf.sin(x))) + function(y, row) + function(row, y) * function(y, row[:1])

    return paired


def raw(name, first="x", second="y"):
    return lambda a, b: getattr(tf.raw_ops, name)(**{first: a, second: b})


def quantised(x):
    bounds = {"min": tf.constant(-1.0), "max": tf.constant(1.0)}
    return tf.raw_ops.FakeQuantWithMinMaxVars(inputs=x, **bounds)


def quantised_by_channel(x):
    bounds = {"min": tf.constant([-1.0, -2.0, -0.5, -1.0]), "max": tf.constant([1.0, 0.5, 2.0, 1.0])}
    return tf.raw_ops.FakeQuantWithMinMaxVarsPerChannel(inputs=x, **bounds)


def with_order(function):
    """A function whose gradient is with respect to its second input alone."""
    return lambda x: function(tf.constant(ROW + np.zeros(x.shape)), positive(x))


LOW, HIGH = np.float64(-0.4), np.float64(0.5)
SEVERAL = {
    "AddN": lambda x: tf.raw_ops.AddN(inputs=[x, tf.sin(x), x * x]),
    "Betainc": lambda x: tf.math.betainc(tf.constant(2.0, x.dtype), tf.constant(1.5, x.dtype), tf.sigmoid(x)),
    "ClipByValue": lambda x: tf.raw_ops.ClipByValue(t=x, clip_value_min=LOW, clip_value_max=HIGH),
    "Complex": both(lambda a, b: tf.math.real(tf.complex(a, b) ** 3)),
    "FakeQuantWithMinMaxVars": quantised,
    "FakeQuantWithMinMaxVarsPerChannel": quantised_by_channel,
    "Igamma": with_order(tf.math.igamma),
    "Igammac": with_order(tf.math.igammac),
    "NextAfter": lambda x: tf.raw_ops.NextAfter(x1=x, x2=tf.constant(ROW, x.dtype)),
    "Polygamma": lambda x: tf.math.polygamma(tf.constant(1.0, x.dtype), positive(x)),
    "SelectV2": lambda x: tf.where(x > 0.1, x, tf.constant(ROW)) + tf.where(ROW > 1.0, tf.sin(x), x),
    "Zeta": lambda x: tf.math.zeta(tf.constant(ROW + 1.5), positive(x)),
}


def several(name):
    """The op of several inputs."""
    if name in SEVERAL:
        return SEVERAL[name]
    return both(raw(name))


def gradient_of(name):
    """Gradients of activations are ops of the cotangent and of what the activation took or gave."""
    op = getattr(tf.raw_ops, name)
    first, second = list(inspect.signature(op).parameters)[:2]
    arguments = (lambda x: {first: tf.sin(x) + 1.2, second: inside(x)}) if name in SELF_GIVEN else None
    if name == "LeakyReluGrad":
        return lambda x: op(gradients=x * x, features=x, alpha=0.3)
    if name == "SoftsignGrad":  # it has no gradient of its own, and is met in the backward of a custom gradient
        return tf.recompute_grad(tf.nn.softsign)
    return lambda x: op(**(arguments(x) if arguments else {first: tf.sin(x) + 1.2, second: positive(x)}))


SELF_GIVEN = ("EluGrad", "SeluGrad", "SigmoidGrad", "TanhGrad", "ReluGrad", "Relu6Grad", "SoftplusGrad")

STEPS = "Ceil Floor FloorDiv Rint Round Sign StopGradient TruncateDiv"
"""These pass on values, but no gradient: they matter in the backward of a custom gradient, and are among its cases."""

EACH = [(name, unary(name)) for name in sorted(UNARY) if name not in STEPS.split()]
EACH += [(name, several(name)) for name in sorted(SEVERAL_INPUTS) if name not in STEPS.split()]
EACH += [(name, gradient_of(name)) for name in sorted(GRADIENTS)]


def broadcast_from_the_left(x):
    """What has fewer axes than the result has no axis of the examples, wherever they are."""
    return x[:, None] * tf.constant(np.arange(1.0, 9.0).reshape(2, 4)) - tf.reduce_sum(x, -1)[:, None, None]


def _select(x):
    whole_rows = tf.raw_ops.Select(condition=tf.constant([True, False, True]), x=x, y=tf.sin(x))
    return whole_rows + tf.raw_ops.Select(condition=x > 0.0, x=x * x, y=x)


def row_of_data(x, w):
    """A weight that meets a row of numbers `[1, 1]` that are no constants, though all examples share them."""
    return x * (w * tf.cast(tf.shape(x)[None, :1], x.dtype))


OTHERS = [
    Case("broadcasting", broadcast_from_the_left),
    Case("broadcasting behind", behind(lambda x: x * tf.sin(x[0])), (2, 4)),
    Case("broadcasting of a row", row_of_data, variables=((4,),), open=True),
    Case("Select", _select),
    Case("Select by rows, behind", behind(lambda x: tf.raw_ops.Select(condition=[True, False], x=x, y=x * x)), (2, 4)),
    Case("Select of a scalar", lambda x: tf.raw_ops.Select(condition=tf.constant(True), x=x, y=x * x)),
    Case("BroadcastTo", lambda x: tf.broadcast_to(x[:, None], [x.shape[0], 2, 4]) * [[1.0], [3.0]]),
    Case("BroadcastTo of what all share", lambda x, w: tf.broadcast_to(w, x.shape) * x, variables=((1, 4),)),
    Case("BroadcastTo behind", behind(lambda x: tf.broadcast_to(x[:1], x.shape) * x), (2, 4)),
    Case("Identity", lambda x: tf.raw_ops.Identity(input=x)),
    Case("IdentityN", lambda x: tf.raw_ops.IdentityN(input=[x, x * x])[1] + tf.raw_ops.IdentityN(input=[x])[0]),
    *(
        Case(name, lambda x, name=name: x * getattr(tf.raw_ops, name)(x=tf.sin(x)) + x, open=True)
        for name in ("OnesLike", "ZerosLike")
    ),
    Case("BiasAdd", lambda x, b: tf.nn.bias_add(x, b) ** 2, variables=((4,),)),
    Case("BiasAdd behind", behind(lambda x, b: tf.nn.bias_add(x, b) ** 2), (2, 4), ((4,),)),
]

APART = [
    *(Case(name, behind(function), (2, 4), single=name.startswith("FakeQuant")) for name, function in EACH),
    *OTHERS,
]
