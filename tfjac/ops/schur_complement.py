"""Normal equations of residuals that touch few parameters each, without those that come in independent groups."""

import tensorflow as tf

from tfjac._indices import as_int32
from tfjac.ops import _factors, _library, _products
from tfjac.types import Tensor, TensorLike

_ELEMENTS = 2**22
"""Of the dense rows that the twin forms at a time."""


def schur_complement(
    values: TensorLike,
    columns: TensorLike,
    block: TensorLike,
    group: TensorLike,
    matrix: TensorLike,
    vector: TensorLike,
    size: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Eliminate parameters of which every example touches one group: compute the rest's normal equations.

        complement = Σ_n values[n]ᵀ values[n] − W M⁻¹ Wᵀ,    projected = W M⁻¹ v,    W = Σ_n values[n]ᵀ block[n]

    with W's blocks put in the columns of the example and in its group. Columns named more often add up.

    Args:
        values: J of the parameters that stay, `[n,m,k]`, float32 or float64, in the columns that an example touches.
        columns: `[n,k]`, integers of any dtype in [0, size).
        block: J of the parameters that go, `[n,m,o]`.
        group: `[n]`, integers below the number of groups; negative for examples that touch none.
        matrix: M, `[groups,o,o]`, positive definite; its lower triangle is read, where any example touches the group.
        vector: v, `[groups,o]`.
        size: p, how many parameters stay, an integer.

    Returns:
        (complement, projected, success): `[p,p]`, `[p]`, and a bool that says whether all M were positive definite and
        all was finite; zeros where not.

    Raises:
        TypeError: if the dtypes are not all float32 or all float64, or columns or groups are no integers.
        ValueError: if shapes that are known while tracing do not fit together.
        tf.errors.InvalidArgumentError: if shapes or indices turn out not to fit when the op runs. In a program that XLA
            compiles the twin raises nothing for indices; there `success` is False.

    Cost: (n·m + c·o)·k²/2 multiply-adds, c the number of pairs of examples in the same group, and p² of memory.
    Has no derivatives. The native kernel runs on the CPU alone.
    Reference: B. Triggs, P. McLauchlan, R. Hartley, A. Fitzgibbon, "Bundle adjustment: a modern synthesis", 2000,
    section 6.
    """
    values, block, matrix = (_factors.tensor(x, 3) for x in (values, block, matrix))
    vector = _factors.tensor(vector, 2)
    dtypes = {x.dtype for x in (values, block, matrix, vector)}
    if len(dtypes) > 1 or values.dtype not in _factors.DTYPES:
        raise TypeError(
            "`values`, `block`, `matrix` and `vector` must all be float32, or all float64. "
            f"Received: {', '.join(sorted(dtype.name for dtype in dtypes))}"
        )
    columns, group = _indices(columns, "columns"), _indices(group, "group")
    _check_shapes(values, columns, block, group, matrix, vector)
    native = _library.native_op("schur_complement")
    return tuple((native or twin)(values, columns, block, group, matrix, vector, size=size))


def _indices(given, name):
    given = tf.convert_to_tensor(given)
    if not given.dtype.is_integer:
        raise TypeError(
            f"`{name}` must be integers; if these are whole numbers, cast them to tf.int32. Received: dtype "
            f"{given.dtype.name}"
        )
    return as_int32(given)


def _check_shapes(values, columns, block, group, matrix, vector):
    shapes = [x.shape for x in (values, columns, block, group, matrix, vector)]
    ranks = all(shape.rank in (None, rank) for shape, rank in zip(shapes, (3, 2, 3, 1, 3, 2)))
    if ranks:
        (n, m, k), (groups, o) = values.shape, vector.shape
        expected = [[n, m, k], [n, k], [n, m, o], [n], [groups, o, o], [groups, o]]
    if not ranks or not all(shape.is_compatible_with(right) for shape, right in zip(shapes, expected)):
        raise ValueError(
            "The shapes must be values [n,m,k], columns [n,k], block [n,m,o], group [n], matrix [groups,o,o] and "
            f"vector [groups,o]. Received: {', '.join(map(str, shapes))}"
        )


def twin(values, columns, block, group, matrix, vector, size):
    """Compute `schur_complement` in plain TensorFlow: rows of (W L⁻ᵀ)ᵀ dense, some groups at a time, M = L Lᵀ."""
    groups, o = _factors.axes(vector)
    in_range = tf.reduce_all((columns >= 0) & (columns < size)) & tf.reduce_all(group < groups)
    refused = f"`columns` must be in [0, {size}) and `group` below the number of groups. Received: others"
    with tf.control_dependencies([tf.debugging.Assert(in_range, [refused])]):  # which XLA leaves out
        columns, group = tf.where(in_range, columns, 0), tf.where(in_range, group, -1)
    touched = group >= 0
    used = tf.math.unsorted_segment_max(tf.cast(touched, tf.int32), group, groups) > 0
    matrix = tf.where(used[:, None, None], tf.linalg.band_part(matrix, -1, 0), tf.eye(o, dtype=matrix.dtype))
    vector = tf.where(used[:, None], vector, tf.zeros_like(vector))
    factor = tf.linalg.cholesky(matrix)
    whitened = tf.linalg.triangular_solve(factor, vector[:, :, None])[:, :, 0]
    own = tf.gather(factor, tf.maximum(group, 0))
    rows = tf.linalg.triangular_solve(own, _products.matmul(block, values, transpose_a=True))
    rows = tf.where(touched[:, None, None], rows, tf.zeros_like(rows))
    complement = _scattered_grams(values, columns, size)
    complement, projected = _eliminated(complement, rows, columns, group, whitened, size)
    complement = complement / 2 + tf.transpose(complement / 2)  # symmetric to the last bit
    looked_at = (matrix, whitened, rows, complement, projected)
    success = in_range & tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in looked_at])
    results = (tf.where(success, result, tf.zeros_like(result)) for result in (complement, projected))
    return (*results, success)


def _scattered_grams(values, columns, size):
    grams = _products.matmul(values, values, transpose_a=True)
    places = columns[:, :, None] * size + columns[:, None, :]
    summed = tf.math.unsorted_segment_sum(tf.reshape(grams, [-1]), tf.reshape(places, [-1]), size * size)
    return tf.reshape(summed, [size, size])


def _eliminated(complement, rows, columns, group, vector, size):
    """Subtract RᵀR, with R `[groups·o, size]` made of `rows[n,o,k]`, and return Rᵀ·vector too."""
    groups, o = _factors.axes(vector)
    at_once = max(1, _ELEMENTS // max(1, o * size)) if isinstance(o, int) else 1
    place = tf.range(o)[None, :, None] * size + columns[:, None, :]

    def step(first, complement, projected):
        here = (group >= first) & (group < first + at_once)
        index = tf.where(here[:, None, None], (group - first)[:, None, None] * (o * size) + place, -1)
        dense = tf.math.unsorted_segment_sum(tf.reshape(rows, [-1]), tf.reshape(index, [-1]), at_once * o * size)
        dense = tf.reshape(dense, [at_once, o, size])
        padded = tf.concat([vector[first : first + at_once], tf.zeros([at_once, o], vector.dtype)], axis=0)[:at_once]
        flat = tf.reshape(dense, [at_once * o, size])
        product = _products.matvec(flat, tf.reshape(padded, [-1]), transpose_a=True)
        return first + at_once, complement - _products.matmul(flat, flat, transpose_a=True), projected + product

    start = (tf.constant(0), complement, tf.zeros([size], complement.dtype))
    return tf.while_loop(lambda first, *_: first < groups, step, start)[1:]
