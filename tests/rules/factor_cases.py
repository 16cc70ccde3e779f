"""Cases for the rules that make factors: each weight at each input, examples in front, behind, and among rows."""

import functools

import tensorflow as tf

from tests.rules.case import Case, behind, last
from tests.rules.elementwise_cases import positive
from tests.rules.layer_cases import IMAGE
from tests.rules.move_cases import APART as MOVES
from tests.rules.move_cases import ROWS_OF_EXAMPLES, batched, merged, merged_inside

ROW = (4,)
FactorCase = functools.partial(Case, m=2)


def both_ways(function):
    """The weight as the first input and as the second."""
    return lambda x, w: function(w, x) + 2.0 * function(x, w)


def raw(name):
    return lambda a, b: getattr(tf.raw_ops, name)(x=a, y=b)


def positively(function):
    return lambda a, b: function(positive(a), positive(b))


BINARY = {
    **{
        name: raw(name)
        for name in ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "MulNoNan")
    },
    **{name: positively(raw(name)) for name in ("Div", "RealDiv", "DivNoNan", "Pow", "Xdivy", "Xlogy")},
    "Atan2": lambda a, b: tf.raw_ops.Atan2(y=positive(a), x=positive(b)),
    "Complex": lambda a, b: tf.math.real(tf.complex(a, b) ** 3),
    "SelectV2": lambda a, b: tf.where(tf.constant([True, False, True, False]), a, b),
}
SHAPES = ("AddV2", "Div", "Mul", "Pow", "Sub")
"""Those that are put to weights of other shapes too: the rules of the others are the same."""

CONVOLUTIONS = {
    "Conv2D": (lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"), IMAGE, (2, 3, 2, 3)),
    "Conv2D, everywhere": (lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), IMAGE, (3, 3, 2, 3)),
    "Conv2D of one place": (lambda x, k: tf.nn.conv2d(x, k, 1, "VALID"), IMAGE, (1, 1, 2, 3)),
    "Conv2D of one place, strided": (lambda x, k: tf.nn.conv2d(x, k, 2, "VALID"), IMAGE, (1, 1, 2, 3)),
    "Conv2D of two places": (lambda x, k: tf.nn.conv2d(x, k, 1, "VALID"), IMAGE, (1, 2, 2, 3)),
    "Conv2D, padded": (lambda x, k: tf.nn.conv2d(x, k, [1, 2], [[0, 0], [1, 0], [0, 1], [0, 0]]), IMAGE, (2, 2, 2, 3)),
    "Conv3D": (lambda x, k: tf.nn.conv3d(x, k, [1, 1, 2, 1, 1], "SAME"), (2, 4, 4, 2), (2, 2, 3, 2, 3)),
    "DepthwiseConv2dNative": (lambda x, k: tf.nn.depthwise_conv2d(x, k, [1, 2, 2, 1], "SAME"), IMAGE, (2, 2, 2, 3)),
    "Conv2DBackpropInput": (lambda x, k: tf.nn.conv2d_transpose(x, k, [3, 8, 8, 3], 2), IMAGE, (2, 2, 3, 2)),
    "Conv3DBackpropInputV2": (
        lambda x, k: tf.nn.conv3d_transpose(x, k, [3, 3, 5, 5, 3], 1, "VALID"),
        (2, 4, 4, 2),
        (2, 2, 2, 3, 2),
    ),
}
COMPILED = {
    "Conv2D, dilated": (lambda x, k: tf.nn.conv2d(x, k, 1, "VALID", dilations=2), IMAGE, (2, 2, 2, 3)),
    "Conv2D, dilated and padded": (lambda x, k: tf.nn.conv2d(x, k, 1, "SAME", dilations=2), IMAGE, (2, 3, 2, 3)),
    "Conv2D, grouped": (lambda x, k: tf.nn.conv2d(x, k, 1, "VALID"), (4, 4, 4), (2, 2, 2, 2)),
}
"""TensorFlow has their gradients on a CPU where XLA compiles them."""
PRODUCTS = {
    "Einsum": lambda x, w: tf.einsum("nti,io->nto", x, w),
    "Einsum, weight first": lambda x, w: tf.einsum("io,nti->not", w, x),
    "Einsum, summed data": lambda x, w: tf.einsum("nti,io->no", x, w),
    "Einsum, summed data behind": lambda x, w: tf.einsum("nit,io->no", tf.transpose(x, [0, 2, 1]), w),
    "Einsum, groups": lambda x, w: tf.einsum("nti,io->nio", x, w),
    "Einsum, in another order": lambda x, w: tf.einsum("ntg,goh->nthgo", x, tf.reshape(w, [4, 5, 1])),
    "MatMul, transposed": lambda x, w: tf.reshape(
        tf.matmul(tf.reshape(x, [-1, 4]), tf.transpose(w), False, True), [3, 2, 5]
    ),
    "MatMul, weight first": lambda x, w: tf.transpose(tf.matmul(w, x[:, 0], True, True)),
}


def number(x):
    """A complex number of a real one."""
    return tf.complex(x, tf.sin(x) + 1.5)


def complex_batch_product(x, w):
    """With the adjoint of either, and of none."""
    data, weight = number(x), number(w)[None]
    plain = tf.matmul(data, weight)  # [n, 2, 5]
    of_weight = tf.matmul(data, tf.transpose(weight, [0, 2, 1]), adjoint_b=True)
    of_data = tf.matmul(tf.transpose(data, [0, 2, 1]), weight, adjoint_a=True)
    return tf.math.imag(plain * of_weight + of_data)


def complex_sparse_product(x, w):
    matrix = tf.SparseTensor(
        [[0, 0], [0, 3], [1, 1], [2, 3]], number(tf.constant([1.0, -2.0, 0.5, 3.0], x.dtype)), [3, 4]
    )
    return tf.math.imag(tf.sparse.sparse_dense_matmul(matrix, number(w))) * x


COMPLEX = {
    "Mul": lambda x, w: tf.math.imag(number(x) * number(w)),
    "RealDiv": lambda x, w: tf.math.imag(number(x) / number(w) + number(w) / number(x)),
    "Pow": lambda x, w: tf.math.imag(tf.pow(number(x), number(w))),
    "SquaredDifference": lambda x, w: tf.math.real(tf.math.squared_difference(number(x), number(w))),
}
"""Of squared differences the real part: the imaginary one is zero, but not TensorFlow's gradient of it."""
ELEMENTWISE_OF_ROWS = {
    "BiasAdd": tf.nn.bias_add,
    "Mul": lambda x, w: x * w,
    "Mul, one for all": lambda x, w: x * w[:1],
    "Tile": lambda x, w: x * tf.tile(w, [2])[2:6],
}


def merged_around(function):
    """The function of rows `[2 · n · 2, 4]` of examples `[2, 2, 4]`."""

    def rows(x, *v):
        y = function(tf.reshape(tf.transpose(x, [1, 0, 2, 3]), [-1, 4]), *v)
        return tf.transpose(tf.reshape(y, [2, -1, 2, 4]), [1, 0, 2, 3])

    return rows


def among_examples(function):
    """The function of `[2, 2 · n, 4]`, the examples innermost, of `[2, n, 2, 4]`."""

    def rows(x, *v):
        y = function(tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [2, -1, 4]), *v)
        return tf.transpose(tf.reshape(y, [2, 2, -1, 4]), [0, 2, 1, 3])

    return rows


def by_index_and_whole(x, w):
    table = tf.identity(w)
    return x * tf.gather(table, [4, 0, 4]) + tf.reduce_sum(x[:, None] * table, 1)


def transposed_in_an_unknown_order(x, w):
    zero = tf.cast(x[0, 0] > 1e9, tf.int32)
    return tf.ensure_shape(x @ tf.transpose(w, tf.stack([1 - zero, zero])), [3, 5])


COMPUTED = {
    "Mul, scaled by rows": (lambda x, w: x * (w * tf.range(1.0, 5.0, dtype=w.dtype)), (2, 4), (2, 4)),
    "Mul, scaled by columns": (lambda x, w: x * (w / [[2.0], [3.0]]), (2, 4), (2, 4)),
    "Mul, rows by index": (lambda x, w: x * tf.gather(w, [4, 1]), (2, 4), (5, 4)),
    "Mul, rows in a slice": (lambda x, w: x * w[1:3], (2, 4), (5, 4)),
    "MatMul, rows by index": (lambda x, w: x @ tf.gather(w, [4, 0, 2, 2]), ROW, (5, 3)),
    "Mul, rows by index and all": (by_index_and_whole, ROW, (5, 4)),
    "MatMul, rows in a slice": (lambda x, w: x @ w[1:5], ROW, (6, 3)),
    "MatMul, transposed in an unknown order": (transposed_in_an_unknown_order, ROW, (5, 4)),
    "Einsum, of a transposed weight": (
        lambda x, w: tf.einsum("nti,tio->no", x, tf.transpose(w, [1, 0, 2])),
        (2, 4),
        (4, 2, 5),
    ),
}
"""Weights that are computed."""


def open_image(x, k):
    """An image whose height is known when it runs."""
    image = tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[0] + 1, 4, 2])
    return tf.ensure_shape(tf.nn.conv2d(image, k, 2, "SAME"), [None, 2, 2, 3])


def images_of_examples(x, k):
    """Two images for each example."""
    return tf.reshape(tf.nn.conv2d(tf.reshape(x, [-1, *IMAGE]), k, 2, "SAME"), [3, 2, -1])


def channels_first(x, k):
    return tf.nn.conv2d(tf.transpose(x, [0, 3, 1, 2]), k, 1, "VALID", data_format="NCHW")


def batch_products(name):
    op = batched(name)

    def products(x, w):
        shared = op(x, w[None])  # [n, 2, 5]
        left = op(w[None], tf.transpose(x, [0, 2, 1]), adj_x=True)  # [n, 5, 2]
        heads = op(x[:, :, None], tf.reshape(tf.transpose(w[:, :4]), [2, 2, 4]), adj_y=True)  # [n, 2, 1, 2]
        return tf.concat([tf.reshape(part, [3, -1]) for part in (shared, left, heads)], 1)

    return products


def biases(x, b):
    image = tf.reshape(x, [-1, 2, 2, 1])
    return tf.nn.bias_add(x, b)[:, None, None] * tf.nn.bias_add(image, b[:1])


def repeated(x, w):
    """Spelt out in front, along a sequence, and with an axis of its own that is longer than one."""
    token = tf.broadcast_to(w[None, :1], [3, 2, 4])
    return tf.concat([token, tf.tile(w[None], [3, 1, 1]) * x[:, 2:]], 1) * x


def from_tables(x, table):
    """Rows of examples; some rows twice; and examples along the second axis of the indices."""
    rows = tf.gather(tf.identity(table), ROWS_OF_EXAMPLES)
    behind_ids = tf.gather(tf.identity(table), tf.transpose(ROWS_OF_EXAMPLES))
    return tf.reduce_sum(rows * x[:, None], 1) + behind_ids[0] * behind_ids[1]


APART = [
    *(FactorCase(name, both_ways(function), ROW, (ROW,)) for name, function in BINARY.items()),
    *(
        FactorCase(name + " behind", behind(both_ways(function)), (2, 4), ((2, 1, 4),))
        for name, function in BINARY.items()
        if name in SHAPES
    ),
    *(
        FactorCase(name + ", one for all", both_ways(function), (2, 4), ((2, 1),))
        for name, function in BINARY.items()
        if name in SHAPES
    ),
    *(FactorCase(name, function, shape, (kernel,)) for name, (function, shape, kernel) in CONVOLUTIONS.items()),
    *(FactorCase(name, function, shape, (kernel,), jit=True) for name, (function, shape, kernel) in COMPILED.items()),
    FactorCase("Conv2D, open", open_image, IMAGE, ((3, 3, 2, 3),), open=True),
    FactorCase("Conv2D, channels first", channels_first, IMAGE, ((2, 2, 2, 3),), jit=True, refused=True),
    FactorCase("Conv2D, rows of examples", images_of_examples, (2, *IMAGE), ((2, 3, 2, 3),)),
    *(FactorCase(name, function, (2, 4), ((4, 5),)) for name, function in PRODUCTS.items()),
    *(FactorCase(name, batch_products(name), (2, 4), ((4, 5),)) for name in ("BatchMatMulV2", "BatchMatMulV3")),
    *(
        FactorCase(name + " behind", behind(lambda x, w, name=name: batched(name)(x, w)), (2, 4), ((2, 4, 5),))
        for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
    ),
    FactorCase("MatMul", lambda x, w: x @ w, ROW, ((4, 5),)),
    FactorCase("MatMul, rows of examples", merged(lambda x, w: x @ w), (2, 4), ((4, 5),)),
    FactorCase("MatMul, rows among examples", merged_inside(lambda x, w: x @ w), (2, 4), ((4, 5),)),
    FactorCase("MatMul behind", last(lambda x, w: w @ x), ROW, ((5, 4),)),
    FactorCase("Einsum behind", behind(lambda x, w: tf.einsum("tni,io->tno", x, w)), (2, 4), ((4, 5),)),
    FactorCase("Einsum, weights of positions", lambda x, w: tf.einsum("nti,tio->no", x, w), (2, 4), ((2, 4, 5),)),
    FactorCase(
        "Einsum, features of the weight apart", lambda x, w: tf.einsum("nti,toi->no", x, w), (2, 4), ((2, 5, 4),)
    ),
    FactorCase(
        "Einsum, one for all heads", lambda x, w: tf.einsum("...ti,...io->...to", x, w), (2, 2, 4), ((1, 4, 5),)
    ),
    FactorCase("Einsum of a diagonal", lambda x, w: tf.einsum("nti,ii->nti", x, w), (2, 4), ((4, 4),), refused=True),
    FactorCase(
        "Einsum of a diagonal, rows among examples",
        merged_inside(lambda x, w: tf.einsum("ri,ii->ri", x, w)),
        (2, 4),
        ((4, 4),),
        refused=True,
    ),
    FactorCase(
        "Einsum, an axis of the weight alone",
        lambda x, w: tf.einsum("nti,io->nt", x, w),
        (2, 4),
        ((4, 5),),
        refused=True,
    ),
    FactorCase(
        "BatchMatMulV2, open",
        lambda x, w: tf.ensure_shape(tf.matmul(x, tf.tile(w[None], [tf.shape(x)[0] - 1, 1, 1])), [None, 2, 2, 5]),
        (2, 2, 4),
        ((4, 5),),
        open=True,
        refused=True,
    ),
    *(FactorCase(f"{name}, complex", function, ROW, (ROW,)) for name, function in COMPLEX.items()),
    FactorCase("BatchMatMulV2, complex", complex_batch_product, (2, 4), ((4, 5),)),
    FactorCase("SparseTensorDenseMatMul, complex", complex_sparse_product, ROW, (ROW * 2,)),
    *(
        FactorCase(f"{name}, {where}", way(function), (2, 4), (ROW,))
        for name, function in ELEMENTWISE_OF_ROWS.items()
        for where, way in {"rows of examples": merged, "rows among examples": merged_inside}.items()
    ),
    FactorCase("Mul, rows around examples", merged_around(lambda x, w: x * w), (2, 2, 4), (ROW,)),
    FactorCase("Mul, rows among examples, behind", behind(among_examples(lambda x, w: x * w)), (2, 2, 4), ((2, 1, 4),)),
    FactorCase(
        "BiasAdd of channels first",
        lambda x, b: tf.raw_ops.BiasAdd(value=tf.reshape(x, [-1, 2, 2, 1]), bias=b, data_format="NCHW"),
        variables=((2,),),
    ),
    FactorCase("BiasAdd", biases, ROW, (ROW,)),
    FactorCase("BiasAdd behind", behind(tf.nn.bias_add), (2, 4), (ROW,)),
    FactorCase("BroadcastTo, Tile", repeated, (4, 4), ((2, 4),)),
    FactorCase(
        "BroadcastTo, Tile behind",
        behind(lambda x, w: tf.broadcast_to(w, [2, 3, 4]) * tf.tile(w, [1, 3, 1]) * x),
        (2, 4),
        ((2, 1, 4),),
    ),
    FactorCase(
        "GatherV2 of columns",
        lambda x, w: tf.transpose(tf.gather(tf.identity(w), [4, 0, 2], axis=1)) * x,
        variables=((4, 5),),
        refused=True,
    ),
    FactorCase("GatherV2", from_tables, ROW, ((4, 4),)),
    FactorCase("GatherNd by tuples", lambda x, w: x * tf.gather_nd(tf.identity(w), [[4], [0], [4]]), ROW, ((5, 4),)),
    FactorCase("ResourceGatherNd", lambda x, w: x * tf.gather_nd(w, [[4], [0], [4]]), ROW, ((5, 4),)),
    FactorCase("StridedSlice of rows", lambda x, w: x * w[1:, ::-1] - x * w[:-1], ROW, ((4, 4),)),
    FactorCase("StridedSlice of columns", lambda x, w: x * w[:3, 1:2] + w[::-2, 0][:, None] * 0, ROW, ((6, 4),)),
    FactorCase("Slice", lambda x, w: x * tf.slice(w, [1, 2], [3, 1]), ROW, ((5, 4),)),
    FactorCase("Slice of whole rows", lambda x, w: x * tf.slice(w, [1, 0], [3, 4]), ROW, ((5, 4),)),
    FactorCase("StridedSlice behind", behind(lambda x, w: x * w[1:]), (2, 4), ((3, 3, 4),), refused=True),
    FactorCase("ReadVariableOp behind", behind(lambda x, w: x * w), (2, 4), ((2, 3, 4),), refused=True),
    FactorCase("ReadVariableOp", lambda x, w: x * w, ROW, ((3, 4),)),
    FactorCase("ReadVariableOp of several rows each", lambda x, w: x * tf.reshape(w, [-1, 4]), ROW, ((6, 2),)),
    FactorCase(
        "Reshape of several rows each, which are computed",
        lambda x, w: x * tf.reshape(tf.exp(w), [-1, 4]),
        ROW,
        ((6, 2),),
    ),
    FactorCase("Reshape", lambda x, w: x * tf.reshape(w, [-1, 4]), ROW, ((2, 6),)),
    *(FactorCase(name, function, shape, (weight,)) for name, (function, shape, weight) in COMPUTED.items()),
    *(case for case in MOVES if case.name.startswith(("ResourceGather", "SparseTensorDenseMatMul"))),
]
MIXING = []
