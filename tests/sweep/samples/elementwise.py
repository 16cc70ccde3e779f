"""Functions of one element, of two, of three; what is made of complex numbers."""

import tensorflow as tf

from tests.sweep.samples.table import normal, sample, uniform

m, nn, special = tf.math, tf.nn, tf.math.special

ANYWHERE = """
    m.abs m.asinh m.atan m.cos m.cosh m.erf m.erfc m.exp m.expm1 m.negative m.sigmoid m.sign m.sin m.sinh m.softplus
    m.softsign m.square m.tanh m.log_sigmoid special.dawsn special.fresnel_cos special.fresnel_sin m.bessel_i0
    m.bessel_i0e m.bessel_i1 m.bessel_i1e special.bessel_j0 special.bessel_j1 nn.elu nn.gelu nn.leaky_relu nn.relu
    nn.selu nn.silu nn.softmax nn.log_softmax m.reciprocal m.reciprocal_no_nan m.ndtri_of_sigmoid
"""


def _named(name):
    if name == "m.ndtri_of_sigmoid":
        return lambda x: tf.math.ndtri(tf.sigmoid(x))
    room, name = name.split(".")
    return getattr({"m": m, "nn": nn, "special": special}[room], name)


for _name in ANYWHERE.split():
    sample(_name, _named(_name), normal(2, 3))

for _name, _low, _high in [
    ("m.acos", -0.8, 0.8),
    ("m.acosh", 1.2, 3),
    ("m.asin", -0.8, 0.8),
    ("m.atanh", -0.8, 0.8),
    ("m.digamma", 0.5, 3),
    ("m.erfinv", -0.8, 0.8),
    ("m.erfcinv", 0.3, 1.7),
    ("m.lgamma", 0.5, 3),
    ("m.log", 0.5, 3),
    ("m.log1p", -0.5, 3),
    ("m.ndtri", 0.2, 0.8),
    ("m.rsqrt", 0.5, 3),
    ("m.sqrt", 0.5, 3),
    ("m.tan", -1, 1),
    ("special.expint", 0.5, 3),
    ("special.spence", 0.5, 3),
    ("special.bessel_k0", 0.5, 3),
    ("special.bessel_k0e", 0.5, 3),
    ("special.bessel_k1", 0.5, 3),
    ("special.bessel_k1e", 0.5, 3),
    ("special.bessel_y0", 0.5, 3),
    ("special.bessel_y1", 0.5, 3),
    ("nn.relu6", 0.5, 5),
    ("m.ceil", 0.1, 0.9),
    ("m.floor", 0.1, 0.9),
    ("m.rint", 0.6, 0.9),
    ("m.round", 0.6, 0.9),
]:
    sample(_name, _named(_name), uniform(_low, _high, 2, 3))

sample("m.softmax over axis 0", lambda x: tf.nn.softmax(x, axis=0), normal(2, 3))
sample("keras hard_silu", lambda x: tf.keras.activations.hard_silu(x), normal(2, 3))
sample("keras mish", lambda x: tf.keras.activations.mish(x), normal(2, 3))
sample("Softmax of rank 3", tf.nn.softmax, normal(2, 2, 3))
sample("LogSoftmax of rank 1", tf.nn.log_softmax, normal(3))
sample("cast there and back", lambda x: tf.cast(tf.cast(x, tf.float32) ** 2, tf.float64), normal(3), single=True)
sample("Inv", lambda x: tf.raw_ops.Inv(x=x), normal(3))
sample("CheckNumerics", lambda x: tf.debugging.check_numerics(x * x, "here"), normal(3))
sample("nextafter", lambda x: tf.math.nextafter(x, tf.constant(9.0, tf.float64)), normal(3))

BINARY = {
    "add": tf.add,
    "Add": lambda x, y: tf.raw_ops.Add(x=x, y=y),
    "subtract": tf.subtract,
    "multiply": tf.multiply,
    "divide": tf.divide,
    "Div": lambda x, y: tf.raw_ops.Div(x=x, y=y),
    "divide_no_nan": tf.math.divide_no_nan,
    "multiply_no_nan": tf.math.multiply_no_nan,
    "squared_difference": tf.math.squared_difference,
    "pow": lambda x, y: tf.pow(1.2 + tf.sin(x), y),
    "xdivy": tf.math.xdivy,
    "xlogy": lambda x, y: tf.math.xlogy(x, 1.2 + tf.sin(y)),
    "xlog1py": lambda x, y: tf.math.xlog1py(x, 0.2 + tf.sin(y) ** 2),
    "atan2": tf.math.atan2,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "floormod": lambda x, y: tf.math.floormod(x, 2.0 + y * y),
    "floordiv": tf.math.floordiv,
    "TruncateDiv": lambda x, y: tf.cast(tf.raw_ops.TruncateDiv(x=tf.cast(x, tf.int32), y=2), tf.float64) + x * y,
    "zeta": lambda x, y: tf.math.zeta(2.0 + x * x, 1.0 + y * y),
    "igamma": lambda x, y: tf.math.igamma(1.0 + x * x, 1.0 + y * y),
    "igammac": lambda x, y: tf.math.igammac(1.0 + x * x, 1.0 + y * y),
    "polygamma": lambda x, y: tf.math.polygamma(tf.ones_like(x), 1.0 + y * y + 0 * x),
    "polygamma of broadcast orders": lambda x, y: tf.math.polygamma(tf.ones_like(x), 1.0 + y * y),
    "where": lambda x, y: tf.where(x > y, tf.sin(x), y * y),
    "Select": lambda x, y: tf.compat.v1.where(x > 0 * y, tf.sin(x) + 0 * y, y * y + 0 * x),
    "where with a scalar condition": lambda x, y: tf.where(tf.reduce_sum(x) > 100, x, y * x),
    "clip_by_value": lambda x, y: tf.clip_by_value(x, -0.5 - y * y, 0.5 + y * y),
    "betainc in x": lambda x, y: tf.math.betainc(
        tf.constant(1.5, tf.float64), tf.constant(2.0, tf.float64), tf.sigmoid(x + y)
    ),
}
for _name, _function in BINARY.items():
    sample(f"{_name}, equal shapes", _function, normal(2, 3), normal(2, 3))
    if _name not in ("TruncateDiv",):
        sample(f"{_name}, broadcast from below", _function, normal(2, 3), normal(3))
        sample(f"{_name}, broadcast both ways", _function, normal(2, 1), normal(1, 3))
        sample(f"{_name}, a scalar", _function, normal(), normal(2))

sample(
    "ClipByValue",
    lambda x: tf.raw_ops.ClipByValue(
        t=x, clip_value_min=tf.constant(-0.5, x.dtype), clip_value_max=tf.constant(0.5, x.dtype)
    ),
    normal(2, 3),
)
sample("clip_by_norm", lambda x: tf.clip_by_norm(x, 0.5), normal(2, 3))
sample("clip_by_norm over an axis", lambda x: tf.clip_by_norm(x, 0.5, axes=[1]), normal(2, 3))
sample("clip_by_global_norm", lambda x, y: tf.clip_by_global_norm([x, y], 0.5)[0], normal(2), normal(3))
sample(
    "betainc, all", lambda a, b, x: tf.math.betainc(a, b, x), uniform(1, 2, 3), uniform(1, 2, 3), uniform(0.2, 0.8, 3)
)
sample("add_n", lambda x, y: tf.add_n([x, y, x]), normal(2, 3), normal(2, 3))
sample("accumulate_n", lambda x, y: tf.math.accumulate_n([x, y]), normal(2, 3), normal(2, 3))
sample("lerp", lambda x, y: tf.identity_n([x, y])[0] * y, normal(3), normal(3))
sample("smooth_l1 by hand", lambda x: tf.where(tf.abs(x) < 1, 0.5 * x * x, tf.abs(x) - 0.5), normal(4))

# Complex numbers: functions from real numbers to real numbers with complex ones in between.
COMPLEX = {
    "abs": tf.abs,
    "angle": tf.math.angle,
    "real": tf.math.real,
    "imag": lambda z: tf.math.imag(z * z),
    "conj": lambda z: tf.math.conj(z) * z * z,
    "exp": tf.exp,
    "log": tf.math.log,
    "sqrt": tf.sqrt,
    "rsqrt": tf.math.rsqrt,
    "square": tf.square,
    "reciprocal": tf.math.reciprocal,
    "sin": tf.sin,
    "cos": tf.cos,
    "tan": tf.tan,
    "sinh": tf.sinh,
    "cosh": tf.cosh,
    "tanh": tf.tanh,
    "asinh": tf.asinh,
    "sigmoid": tf.sigmoid,
    "sign": tf.sign,
    "pow": lambda z: tf.pow(z, z),
    "divide": lambda z: z / (z * z + 2),
    "divide_no_nan": lambda z: tf.math.divide_no_nan(z, z * z + 2),
    "squared_difference": lambda z: tf.math.squared_difference(z, z * z),
    "xdivy": lambda z: tf.math.xdivy(z, z + 3),
    "xlogy": lambda z: tf.math.xlogy(z, z + 3),
    "matmul": lambda z: tf.matmul(z, z),
    "matmul, adjoint": lambda z: tf.matmul(z, z, adjoint_a=True),
    "matmul, transposed": lambda z: tf.matmul(z, z, transpose_b=True),
    "batch matmul": lambda z: tf.matmul(z[None], z[None] * z, adjoint_b=True),
    "einsum": lambda z: tf.einsum("ij,kj->ik", z, z),
    "adjoint": lambda z: tf.linalg.adjoint(z) @ z,
    "inverse": lambda z: tf.linalg.inv(z + 4 * tf.eye(2, dtype=z.dtype)),
    "solve": lambda z: tf.linalg.solve(z + 4 * tf.eye(2, dtype=z.dtype), z),
    "cholesky": lambda z: tf.linalg.cholesky(tf.matmul(z, z, adjoint_b=True) + 4 * tf.eye(2, dtype=z.dtype)),
    "eigvalsh": lambda z: tf.linalg.eigvalsh(tf.matmul(z, z, adjoint_b=True)),
    "reduce_prod": tf.reduce_prod,
    "reduce_mean": lambda z: tf.reduce_mean(z, 0),
    "cumsum": lambda z: tf.cumsum(z, 1),
    "cumprod": lambda z: tf.math.cumprod(z, 1),
    "ConjugateTranspose": lambda z: tf.transpose(z, conjugate=True) * z,
    "trace": tf.linalg.trace,
    "where": lambda z: tf.where(tf.math.real(z) > 0, z, z * z),
}
for _name, _function in COMPLEX.items():
    sample(
        f"complex {_name}",
        lambda x, y, function=_function: _parts(function(tf.complex(x, y))),
        uniform(0.3, 1, 2, 2),
        uniform(0.3, 1, 2, 2),
    )


def _parts(z):
    return [tf.math.real(z), tf.math.imag(z)] if z.dtype.is_complex else z


sample("complex cast of reals", lambda x: tf.math.imag(tf.cast(x, tf.complex128) * (1 + 2j) ** 2), normal(3))
sample("complex Complex, broadcast", lambda x, y: tf.abs(tf.complex(x + 0 * y, y + 0 * x)), normal(2, 1), normal(3))
