"""What the ops on factors share: checking them, their sizes, expanding one into its columns.

Axis names: n example, m residual, t position of use, g group, i input feature, o output feature.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.ops import _products

LAYOUTS = ("gio", "goi", "igo", "iog", "ogi", "oig")
DTYPES = (tf.float32, tf.float64)
HALF = (tf.float16, tf.bfloat16)


class Sizes(NamedTuple):
    """Static sizes of one factor; None, for which `Any` stands, where the trace leaves a size open."""

    m: int | Any
    t: int | Any
    g: int | Any
    i: int | Any
    o: int | Any

    @property
    def known(self) -> bool:
        """Whether no size is open."""
        return None not in self


def sizes(a, d) -> Sizes:
    """Give the static sizes of a factor `a[n,t,g,i]`, `d[n,m,t,g,o]`."""
    _, t, g, i = a.shape
    _, m, t_, g_, o = d.shape
    return Sizes(m, t if t is not None else t_, g if g is not None else g_, i, o)


def axes(x) -> list:
    """Give the sizes of `x`: Python integers where static, scalar tensors where not."""
    dynamic: Any = tf.shape(x) if None in x.shape.as_list() else None
    return [dynamic[k] if size is None else size for k, size in enumerate(x.shape)]


def tensor(x, rank=None):
    """Convert to a tensor to compute with: half precision to float32, in which sums of products have room.

    A rank that is open is looked at when the graph runs; one that is known is left to the caller.
    """
    x = x if isinstance(x, tf.Tensor) else tf.convert_to_tensor(x)
    x = tf.cast(x, tf.float32) if x.dtype in HALF else x
    return tf.ensure_shape(x, [None] * rank) if x.shape.rank is None and rank is not None else x


def check_factors(a, d, layouts=None):
    """Convert the factors to tensors that can be computed with, and check what can be checked while tracing.

    Args:
        a: list of K tensors `[n,t,g,i]`.
        d: list of K tensors `[n,m,t,g,o]`.
        layouts: list of K permutations of "gio", or None for an op whose result does not depend on them.

    Returns:
        (a, d, layouts) as lists; layouts is all "gio" for None.

    Raises:
        TypeError: if a, d or layouts is no list, or the dtypes differ, half precision taken as float32, or are others.
        ValueError: if the lists differ in length or are empty, or a rank, size or layout is wrong.
    """
    layouts = check_lists(a, d, layouts)
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"A layout must be a permutation of 'gio', one of {LAYOUTS}. Received: {layout!r}")
    a = [tensor(x, rank=4) for x in a]
    d = [tensor(x, rank=5) for x in d]
    check_dtypes(a + d)
    _check_shapes(a, d)
    return a, d, layouts


def check_lists(a, d, layouts=None):
    """Check that a, d and layouts, if any, are lists of as many entries; give the layouts as a list, "gio" for None."""
    for name, value in (("a", a), ("d", d)) + ((("layouts", layouts),) if layouts is not None else ()):
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"`{name}` must be a list with one entry per factor. Received: {value!r}")
    layouts = ["gio"] * len(a) if layouts is None else list(layouts)
    if not a or len(a) != len(d) or len(a) != len(layouts):
        raise ValueError(
            "`a`, `d` and `layouts` must have the same number of entries, at least one. "
            f"Received: {len(a)}, {len(d)} and {len(layouts)}"
        )
    return layouts


def check_dtypes(tensors):
    """Raise TypeError unless all tensors are float32, or all float64."""
    dtypes = {x.dtype for x in tensors}
    if len(dtypes) > 1 or not dtypes.issubset(DTYPES):
        names = sorted(dtype.name for dtype in dtypes)
        raise TypeError(f"All factors must be float32, or all float64; cast them to one dtype. Received: {names}")


def check_same_columns(parts):
    """Raise ValueError where factors of the same columns seem to differ in g, i or o.

    Args:
        parts: list of pairs (a, d) of lists of tensors, one for each block of rows.
    """
    for block, part in enumerate(parts):
        for k, factors in enumerate(zip(*parts[0], *part)):
            (*_, g, i), (*_, o), (*_, other_g, other_i), (*_, other_o) = (x.shape.as_list() for x in factors)
            if not (_may_equal(g, other_g) and _may_equal(i, other_i) and _may_equal(o, other_o)):
                raise ValueError(
                    "Factors of the same columns in different blocks must agree in g, i and o of a[n,t,g,i] and "
                    f"d[n,m,t,g,o]. Received: in factor {k} of block 0 shapes {factors[0].shape} and "
                    f"{factors[1].shape}, of block {block} {factors[2].shape} and {factors[3].shape}"
                )


def _check_shapes(a, d):
    """Compare sizes as plain lists: TensorShape's own comparisons would dominate the time of a small eager call."""
    of_a, of_d = [x.shape.as_list() for x in a], [y.shape.as_list() for y in d]
    for k, (x, y) in enumerate(zip(of_a, of_d)):
        if len(x) != 4 or len(y) != 5:
            raise ValueError(
                f"Factor {k} must have a[n,t,g,i] of rank 4 and d[n,m,t,g,o] of rank 5. "
                f"Received: shapes {a[k].shape} and {d[k].shape}"
            )
        if x[:3] == [y[0], y[2], y[3]] and y[:2] == of_d[0][:2]:
            continue
        if not (_may_equal(x[0], y[0], of_d[0][0]) and _may_equal(x[1], y[2]) and _may_equal(x[2], y[3])):
            raise ValueError(
                f"a[n,t,g,i] and d[n,m,t,g,o] of factor {k} must agree in t and g, and all factors in n. "
                f"Received: shapes {a[k].shape} and {d[k].shape}, d {d[0].shape} in factor 0"
            )
        if not _may_equal(y[1], of_d[0][1]):
            raise ValueError(
                "All factors must have the same number m of residuals, the second axis of d[n,m,t,g,o]. "
                f"Received: {d[k].shape} in factor {k} and {d[0].shape} in factor 0"
            )


def _may_equal(*sizes):
    known = [size for size in sizes if size is not None]
    return not known or known.count(known[0]) == len(known)


def agreeing(a, d, residual=None):
    """Have sizes that are open compared when the graph runs, for the twins: TensorFlow would broadcast a size of one.

    Args:
        a: list of K tensors `[n,t,g,i]`.
        d: list of K tensors `[n,m,t,g,o]`.
        residual: `[n,m]`, or None.

    Returns:
        (a, d), of the same values.
    """
    first = axes(d[0])[:2]
    pairs = list(zip(axes(residual), first)) if residual is not None else []
    for x, y in zip(a, d):
        (n, t, g, _), (n_, m, t_, g_, _) = axes(x), axes(y)
        pairs += zip((n, t, g, n_, m), (n_, t_, g_, *first))
    return [_with_sizes_compared(a[0], pairs), *a[1:]], d


def agreeing_columns(parts):
    """Have open sizes of factors of the same columns compared when the graph runs, for the twins.

    Args:
        parts: list of pairs (a, d) of lists of tensors, one for each block of rows.

    Returns:
        A list of such pairs, of the same values.
    """
    blocks = [[(*axes(x)[2:], axes(y)[4]) for x, y in zip(a, d)] for a, d in parts]
    pairs = [pair for block in blocks[1:] for one, other in zip(blocks[0], block) for pair in zip(one, other)]
    (first, *rest), d = parts[0]
    return [([_with_sizes_compared(first, pairs), *rest], d), *parts[1:]]


def _with_sizes_compared(x, pairs):
    """Give `x`, after the sizes of each pair, where one is open, have turned out to be the same."""
    pairs = [pair for pair in pairs if not all(isinstance(size, int) for size in pair)]
    if not pairs:
        return x
    # A stack takes no two shapes. An assertion would not be compiled by XLA, and what nothing depends on is left out.
    zeros = [tf.reduce_sum(tf.stack([tf.zeros([size], tf.int32) for size in pair])) for pair in pairs]
    n, *rest = axes(x)
    return tf.ensure_shape(tf.reshape(x, [n + tf.add_n(zeros), *rest]), x.shape)


def balanced(a, d):
    """Bring the vectors `a[n,t,g,:]` and `d[n,:,t,g,:]` of each position to one size, by inverse powers of two.

    The Jacobian stays what it is, to the bit; but where its entries are of moderate size, so are now the products of a
    with a and of d with d, which else may overflow one way and vanish the other.

    Args:
        a: `[n,t,g,i]`.
        d: `[n,m,t,g,o]`.

    Returns:
        (a, d) of the same shapes.
    """
    of_a, of_d = _exponents(a, axis=3), _exponents(d, axis=(1, 4))  # [n,t,g]
    whole, mantissa, special = _FORMAT[a.dtype]
    known = (of_a > 0) & (of_a < special) & (of_d > 0) & (of_d < special)  # neither zero nor infinite
    shift = tf.where(known, tf.maximum((of_d - of_a) // 2, 1 - special // 2), tf.zeros_like(of_a))
    up, down = (tf.bitcast(tf.bitwise.left_shift(x + special // 2, whole(mantissa)), a.dtype) for x in (shift, -shift))
    return a * up[..., None], d * down[:, None, ..., None]


_FORMAT = {  # of IEEE 754 numbers: integers of their size, bits of the mantissa, the exponent of infinity
    tf.float32: (tf.int32.as_numpy_dtype, 23, 255),
    tf.float64: (tf.int64.as_numpy_dtype, 52, 2047),
}


def _exponents(x, axis):
    """The biased exponent of the largest number along the axes."""
    whole, mantissa, _ = _FORMAT[x.dtype]
    largest = tf.reduce_max(tf.abs(tf.stop_gradient(x)), axis=axis)
    largest = tf.maximum(largest, tf.zeros_like(largest))  # where there is none, it is -inf
    return tf.bitwise.right_shift(tf.bitcast(largest, whole), whole(mantissa))


def expand(a, d, layout):
    """Form the columns of one factor.

    Args:
        a: `[n,t,g,i]`.
        d: `[n,m,t,g,o]`.
        layout: order in which the axes g, i, o are flattened.

    Returns:
        `[n, m, g*i*o]`.
    """
    if sizes(a, d).t == 1:  # an outer product: a broadcast multiplication, one pass at memory speed
        order = [1 + "gio".index(axis) for axis in layout]
        left = tf.transpose(a[:, 0, :, :, None], [0, *order])[:, None]
        right = tf.transpose(d[:, :, 0, :, None, :], [0, 1, *(1 + axis for axis in order)])
        block = left * right
    else:
        block = _products.einsum(f"ntgi,nmtgo->nm{layout}", a, d)
    n, m, *rest = axes(block)
    return tf.reshape(block, [n, m, rest[0] * rest[1] * rest[2]])


def pull_back(a, d, layouts, cotangent):
    """Pull a cotangent of the dense rows back to the factors: the transpose of the derivative of `expand`.

    Args:
        a: list of K tensors `[n,t,g,i]`.
        d: list of K tensors `[n,m,t,g,o]`.
        layouts: list of K layouts.
        cotangent: `[n, m, p]`.

    Returns:
        The cotangents of a, then those of d, in one list of 2 K tensors.
    """
    n, m, _ = axes(cotangent)
    blocks = [axes(x)[2:] + axes(y)[4:] for x, y in zip(a, d)]  # [g, i, o] of each factor
    parts = tf.split(cotangent, [g * i * o for g, i, o in blocks], axis=-1) if len(a) > 1 else [cotangent]
    to_a, to_d = [], []
    for x, y, layout, block, part in zip(a, d, layouts, blocks, parts):
        by_axis = dict(zip("gio", block))
        part = tf.reshape(part, [n, m, *(by_axis[axis] for axis in layout)])
        to_a.append(_products.einsum(f"nm{layout},nmtgo->ntgi", part, y))
        to_d.append(_products.einsum(f"nm{layout},ntgi->nmtgo", part, x))
    return to_a + to_d
