"""Functions of arrays: TensorFlow's for tensors, NumPy's for NumPy arrays and numbers.

The formulas of a step are written once. Where the numbers are known, as in calls outside of a `tf.function`, NumPy
computes them at once, which takes about a microsecond for each. Where they are tensors, they become ops of a graph,
each of which costs about a millisecond when it is traced and first run.

A scalar that is returned is one of NumPy's, never Python's: `~` of a Python bool is a number. Whoever computes by NumPy
does so in `quiet()`: what is not finite is no reason for a warning in a step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import cond
from tfjac.graph import while_loop as loop_in_graph
from tfjac.ops import damped_solve as damped_solve_of_ops
from tfjac.types import T

_KNOWN = (np.ndarray, np.generic, bool, int, float)


def quiet() -> Any:
    """Return a context in which NumPy says nothing of what is not finite."""
    return np.errstate(all="ignore")


def are_known(*arrays: Any) -> bool:
    """Return whether all `arrays` are NumPy arrays or numbers."""
    return all(isinstance(each, _KNOWN) for each in arrays)


def _of_one(by_numpy: Callable, by_ops: Callable) -> Callable:
    """Return a function of an array that is `by_numpy`, or `by_ops` if the array is a tensor."""

    def function(array: Any, **options: Any) -> Any:
        return (by_numpy if isinstance(array, _KNOWN) else by_ops)(array, **options)

    return function


def _of_two(by_numpy: Callable, by_ops: Callable) -> Callable:
    """Return a function of two arrays that is `by_numpy`, or `by_ops` if one of them is a tensor."""

    def function(one: Any, other: Any) -> Any:
        return (by_numpy if isinstance(one, _KNOWN) and isinstance(other, _KNOWN) else by_ops)(one, other)

    return function


# ------------------------------------------------------------------ elementwise


def where(condition: Any, one: Any, other: Any) -> Any:
    """Return the elements of `one` where `condition` holds, else those of `other`."""
    if not (isinstance(condition, _KNOWN) and isinstance(one, _KNOWN) and isinstance(other, _KNOWN)):
        return tf.where(condition, one, other)
    if isinstance(condition, np.ndarray) and condition.ndim:
        return np.where(condition, one, other)
    value = one if condition else other
    if type(one) is type(other) and isinstance(value, np.generic):
        return value
    return np.where(condition, one, other)[()]


def _quotient(one: Any, other: Any) -> Any:
    zero = np.equal(other, 0)
    return np.where(zero, 0, np.divide(one, np.where(zero, 1, other)))[()].astype(np.result_type(one, other))


absolute = _of_one(np.abs, tf.abs)


def clip(array: Any, low: Any, high: Any) -> Any:
    """Return `array`, no lower than `low` and no higher than `high`."""
    if are_known(array, low, high):
        return np.minimum(np.maximum(array, low), high)
    return tf.clip_by_value(array, low, high)


divide_no_nan = _of_two(_quotient, tf.math.divide_no_nan)
equal, not_equal = _of_two(np.equal, tf.equal), _of_two(np.not_equal, tf.not_equal)
is_finite = _of_one(np.isfinite, tf.math.is_finite)
log, log1p, power, round_even = (
    _of_one(np.log, tf.math.log),
    _of_one(np.log1p, tf.math.log1p),
    _of_two(np.power, tf.pow),
    _of_one(np.round, tf.round),
)
maximum, minimum = _of_two(np.maximum, tf.maximum), _of_two(np.minimum, tf.minimum)
sqrt, square = _of_one(np.sqrt, tf.sqrt), _of_one(np.square, tf.square)
sign = _of_one(np.sign, tf.sign)
ones_like = _of_one(np.ones_like, tf.ones_like)


def zeros_like(array: Any, dtype: tf.DType | None = None) -> Any:
    """Return zeros of the shape of `array`, and of its dtype, or another of TensorFlow's."""
    if not isinstance(array, _KNOWN):
        return tf.zeros_like(array, dtype)
    return np.zeros_like(array, None if dtype is None else dtype.as_numpy_dtype)[()]


# ------------------------------------------------------------------ along axes

reduce_all, reduce_any = _of_one(np.all, tf.reduce_all), _of_one(np.any, tf.reduce_any)
reduce_max, reduce_min = _of_one(np.max, tf.reduce_max), _of_one(np.min, tf.reduce_min)
reduce_sum = _of_one(np.sum, tf.reduce_sum)
argmax = _of_one(np.argmax, tf.argmax)


def argsort(flags: Any) -> Any:
    """Return the places of flags `[n]`, int32: first of those that do not hold, in their order."""
    if isinstance(flags, _KNOWN):
        return np.argsort(flags, kind="stable").astype(np.int32)
    return tf.argsort(tf.cast(flags, tf.int32), stable=True)


def count_nonzero(array: Any, axis: int | None = None) -> Any:
    """Return how many elements are not zero, along an axis, int32."""
    if isinstance(array, _KNOWN):
        return np.asarray(np.count_nonzero(array, axis), np.int32)[()]
    return tf.math.count_nonzero(array, axis, dtype=tf.int32)


def element(vector: Any, place: Any) -> Any:
    """Return what stands at a place of a vector.

    XLA takes a tensor in brackets for known when it compiles, with the variables that it is computed by, even if they
    change: what is read of them afterwards would be what they held before.
    """
    return vector[place] if are_known(vector, place) else tf.gather(vector, place)


def concat(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Return arrays one after the other."""
    return np.concatenate(arrays, axis) if are_known(*arrays) else tf.concat(arrays, axis)


def all_of(flags: Sequence[Any]) -> Any:
    """Return whether all of several flags hold, elementwise."""
    known = are_known(*flags)
    return np.logical_and.reduce(flags) if known else tf.reduce_all(flags, axis=0)


# ------------------------------------------------------------------ matrices

matvec = _of_two(np.matmul, tf.linalg.matvec)
matmul = _of_two(np.matmul, tf.matmul)
transpose = _of_one(np.transpose, tf.transpose)
diag = _of_one(np.diag, tf.linalg.diag)
diag_part = _of_one(np.diagonal, tf.linalg.diag_part)
qr = _of_one(np.linalg.qr, tf.linalg.qr)


def unit_vector(place: Any, size: int, like: Any) -> Any:
    """Return a vector `[size]` of the dtype of `like`: one at a place, and zero elsewhere; all zero beyond the size."""
    if are_known(place, like):
        return (np.arange(size) == place).astype(like.dtype)
    return tf.one_hot(place, size, dtype=like.dtype)


def uniform(shape: Sequence[int], seed: Any, like: Any) -> Any:
    """Return numbers from −1 to 1, drawn by an integer, of the dtype of `like`."""
    if are_known(seed, like):
        return np.random.default_rng(int(seed)).uniform(-1, 1, shape).astype(like.dtype)
    return tf.random.stateless_uniform(shape, [0, seed], -1, 1, like.dtype)


def back_substitute(triangle: Any, target: Any) -> Any:
    """Return x `[p]` of R x = b, R `[p, p]` upper triangular and regular."""
    if are_known(triangle, target):
        return np.linalg.solve(triangle, target)  # LU of an upper triangle is that triangle, without pivoting
    return tf.linalg.triangular_solve(triangle, target[:, None], lower=False)[:, 0]


def with_diagonal(matrix: Any, diagonal: Any) -> Any:
    """Return a matrix `[p, p]` with another diagonal `[p]`."""
    if not are_known(matrix, diagonal):
        return tf.linalg.set_diag(matrix, diagonal)
    changed = matrix.copy()
    np.fill_diagonal(changed, diagonal)
    return changed


def damped_solve(matrix: Any, vector: Any, scaling: Any, damping: Any) -> tuple[Any, Any]:
    """Return x `[p]` of (A + λD) x = b, by Cholesky's factorisation, and whether there is one; see `tfjac.ops`."""
    if not are_known(matrix, vector, scaling, damping):
        return damped_solve_of_ops(matrix, vector, scaling, damping)
    damped = with_diagonal(matrix, diag_part(matrix) + damping * scaling)
    try:
        lower = np.linalg.cholesky(damped)
    except np.linalg.LinAlgError:
        return np.zeros_like(vector), np.False_
    found = np.linalg.solve(lower.T, np.linalg.solve(lower, vector))
    solved = np.isfinite(found).all()
    return np.where(solved, found, np.zeros_like(found)), solved


# ------------------------------------------------------------------ dtypes


def constant(value: Any, like: Any, dtype: tf.DType | None = None) -> Any:
    """Return a number as a scalar of the dtype of `like`, or of another: a tensor if `like` is one."""
    if isinstance(like, (np.ndarray, np.generic)):
        return np.asarray(value, like.dtype if dtype is None else tf.as_dtype(dtype).as_numpy_dtype)[()]
    return tf.constant(value, like.dtype if dtype is None else dtype)


def full_like(array: Any, value: Any) -> Any:
    """Return an array of the shape and dtype of `array` that holds one number."""
    if isinstance(array, _KNOWN):
        return np.full_like(array, value)[()]
    return tf.fill(tf.shape(array), tf.constant(value, array.dtype))


def cast(array: Any, dtype: tf.DType) -> Any:
    """Return `array` in another dtype of TensorFlow's."""
    return (
        np.asarray(array, tf.as_dtype(dtype).as_numpy_dtype)[()] if isinstance(array, _KNOWN) else tf.cast(array, dtype)
    )


def finfo(array: Any) -> Any:
    """Return NumPy's `finfo` of the dtype of `array`; a number of Python's counts as float32."""
    return np.finfo(tf.as_dtype(getattr(array, "dtype", tf.float32)).as_numpy_dtype)


def rank(array: Any) -> int | None:
    """Return how many axes `array` has; None for a tensor that leaves that open."""
    return np.ndim(array) if isinstance(array, _KNOWN) else array.shape.rank


# ------------------------------------------------------------------ what comes next


def choice(condition: Any, one: T, other: T) -> T:
    """Return a record of arrays where `condition` holds, else another like it; a condition `[n]` is that of rows."""
    if not isinstance(condition, _KNOWN):
        choose = tf.where if condition.shape.rank == 0 else tf.compat.v1.where  # the latter takes rows as they are
        return tf.nest.map_structure(lambda one, two: choose(condition, one, two), one, other)
    return one if condition else other


def choice_of(condition: Any, one: Callable[[], T], other: Callable[[], T]) -> T:
    """Return the `choice` of what two functions return, which are called if that can matter."""
    if isinstance(condition, _KNOWN):
        return one() if condition else other()
    return choice(condition, one(), other())


def branch(condition: Any, one: Callable[[], T], other: Callable[[], T]) -> T:
    """Return what one of two functions returns: the first where `condition`, a scalar bool, holds."""
    if isinstance(condition, _KNOWN):
        return one() if condition else other()
    return cond(condition, one, other)


def loop(unfinished: Callable, body: Callable, start: Sequence[Any], small: bool = False) -> Any:
    """Return what `body` makes of `start` while it is `unfinished`: a loop of Python, or of the graph that is traced.

    Args:
        unfinished: function of the loop's records to a scalar bool.
        body: function of the same to a tuple like `start`.
        start: tuple of records of arrays.
        small: as of `tfjac.graph.while_loop`.
    """
    if not tf.executing_eagerly():
        return loop_in_graph(unfinished, body, start, small=small)
    while unfinished(*start):
        start = body(*start)
    return start
