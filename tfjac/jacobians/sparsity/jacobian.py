"""A sparse Jacobian from few products, one for each colour of its columns or rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import in_graph
from tfjac.jacobians.passes.chunks import Limits, bytes_of_pass, passes_at_once, stacked
from tfjac.jacobians.passes.linearise import LinearMap, NoForwardMode, pull_back, push_forward
from tfjac.jacobians.passes.nests import like
from tfjac.jacobians.passes.random_cotangents import verify_jacobian
from tfjac.jacobians.sparsity.analysis import Ends
from tfjac.jacobians.sparsity.pattern import MODES, SparsityPattern
from tfjac.types import Array, JacobianMode, NestLike, Sources, Tensor, Tensors, Variable


def sparse_jacobian(
    ys: Tensors,
    xs: Sources,
    pattern: Any = None,
    mode: JacobianMode = "auto",
    chunk_size: int | None = None,
    memory_budget: int | None = None,
    verify: bool | None = None,
) -> tf.SparseTensor:
    """Return the Jacobian ∂ys/∂xs as a sparse matrix, from as many products as it has colours.

    Columns that have no row in common get one colour. One product J·v with the sum of their unit vectors holds all of
    their entries, each in a place of its own ("forward"); likewise rows with Jᵀ·u ("reverse"). A tridiagonal matrix
    needs three products, the five-point stencil of a grid five, whatever their size. Where neither way is short, as
    for a matrix with both a full row and a full column, products of both kinds share the entries among them: three for
    that matrix with a diagonal.

    Args:
        ys: tensor of the `tf.function` being traced, of any shape, or a nest of them, whose elements then follow one
            another; or a callable without arguments that returns it.
        xs: a variable, a tensor of that `tf.function`, or a nest of them, whose elements then follow one another. With
            a callable, an eager tensor that it uses. Or selectors of nodes, see `tfjac.nodes`.
        pattern: a `SparsityPattern`, or a matrix `[elements of ys, elements of xs]` with entries where the Jacobian
            may differ from zero, where they are known beforehand; found with `sparsity` where left out. One that
            lacks entries gives wrong values, which only `verify` notices.
        mode: "forward", "reverse", or "auto" for the one that needs fewer products, or for both where that takes at
            most half as many.
        chunk_size: how many products are live at once; all where None. Smaller is slower; the result is the same.
        memory_budget: in place of `chunk_size`: bytes that the products may take at once, by the sizes of the tensors
            between xs and ys.
        verify: as in `tfjac.per_example_jacobian`.

    Returns:
        A `tf.SparseTensor` `[elements of ys, elements of xs]` in row-major order, in the dtype of xs, with all entries
        of the pattern, zero or not. `SparsityPattern.csr(result.values)` makes it a SciPy matrix.

    Raises:
        ValueError: for a pattern of another shape, an unknown mode, or a wrong chunk size; and as `sparsity`.
        TypeError: for xs of several dtypes; and as `sparsity`.
        LookupError: with mode="forward", where an op's gradient has no gradient itself.

    Cost: the number of colours times a backward pass ("reverse") or about two ("forward"), vectorised; memory, that
    number times the activations of ys.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES}. Received: {mode!r}")
    passes_at_once(chunk_size, memory_budget, lambda: 1)
    made = {}

    def compute(ys: NestLike, xs: NestLike) -> Tensor:
        dtype = _dtype(xs)
        ends = Ends.of(ys, xs)
        made["pattern"] = found = ends.pattern() if pattern is None else _checked(pattern, ends.sized())
        if found.num_entries == 0:
            values = tf.zeros([0], dtype)
        else:
            values = values_of(found, mode, ends.with_static_ys(), dtype, (chunk_size, memory_budget))
        _verify(verify, tf.nest.flatten(ys), ends, found, values, tf.nest.flatten(xs))
        return values

    values = in_graph(compute, ys, xs=xs)
    found = made["pattern"]
    return tf.SparseTensor(held(np.stack([found.rows, found.indices], 1).astype(np.int64)), values, found.shape)


def _verify(
    verify: bool | None,
    given: Sequence[Tensor],
    ends: Ends,
    pattern: SparsityPattern,
    values: Tensor,
    xs: Sequence[Variable | Tensor],
) -> None:
    """`verify_jacobian` for the entries of a pattern."""

    def products(cotangents: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        u = tf.concat([tf.cast(tf.reshape(each, [-1]), values.dtype) for each in cotangents], 0)
        columns = tf.math.unsorted_segment_sum(values * tf.gather(u, pattern.rows), pattern.indices, sum(ends.sizes))
        return [(part, tf.norm(tf.cast(values, tf.float64))) for part in tf.split(columns, ends.sizes)]

    verify_jacobian(verify, given, ends.ys, ends.sources, products, xs)


def _checked(pattern: Any, ends: Ends) -> SparsityPattern:
    pattern = pattern if isinstance(pattern, SparsityPattern) else SparsityPattern(pattern)
    shape = (sum(ends.walk.size(y) for y in ends.ys), sum(ends.sizes))
    if pattern.shape != shape:
        raise ValueError(
            f"pattern must have a row for each element of ys and a column for each of xs, shape {shape}. "
            f"Received: a pattern of shape {pattern.shape}"
        )
    return pattern


def _dtype(xs: NestLike) -> tf.DType:
    dtypes = {like(x).dtype for x in tf.nest.flatten(xs)}
    if len(dtypes) > 1:
        raise TypeError(
            "All xs of one sparse Jacobian must have the same dtype. "
            f"Received: {sorted(dtype.name for dtype in dtypes)}"
        )
    return dtypes.pop()


def values_of(pattern: SparsityPattern, mode: str, ends: Ends, dtype: tf.DType, limits: Limits) -> Tensor:
    """The entries of the pattern, row after row."""
    if mode != "auto":
        return _entries(pattern, mode, ends, dtype, limits)
    try:
        return _entries(pattern, pattern.mode, ends, dtype, limits)
    except NoForwardMode:
        return _entries(pattern, "reverse", ends, dtype, limits)


def _entries(pattern: SparsityPattern, mode: Any, ends: Ends, dtype: tf.DType, limits: Limits) -> Tensor:
    """Pick each entry out of the one product that holds it."""
    colouring = pattern.colouring(mode)
    sizes_of_ys = [y.shape.num_elements() for y in ends.ys]
    sides = [
        (push_forward, colouring.columns, sizes_of_ys, pattern.indices, pattern.rows),
        (pull_back, colouring.rows, ends.sizes, pattern.rows, pattern.indices),
    ]
    parts: list[Tensor] = []
    place, before = np.zeros(pattern.num_entries, np.int64), 0
    for (differentiate, colours, sizes, colour_of, within), here in zip(sides, (~colouring.by_row, colouring.by_row)):
        if here.any():
            products = _products(differentiate(ends.ys, ends.sources), colours, sizes, dtype, ends, limits)
            length = sum(sizes)
            place[here] = before + colours[colour_of[here]].astype(np.int64) * length + within[here]
            parts, before = [*parts, tf.reshape(products, [-1])], before + (int(colours.max()) + 1) * length
    return tf.gather(tf.concat(parts, 0), held(place))


def _products(
    product: LinearMap, colours: Array, sizes: Sequence[int], dtype: tf.DType, ends: Ends, limits: Limits
) -> Tensor:
    """Stack the products with the indicator of each colour, as many at once as the limits allow."""
    chunk_size, memory_budget = limits
    passes = passes_at_once(chunk_size, memory_budget, lambda: sum(bytes_of_pass(ends.sources, y) for y in ends.ys))
    return _for_each_colour(product, colours, sizes, dtype, passes)


def _for_each_colour(
    product: LinearMap, colours: Array, sizes: Sequence[int], dtype: tf.DType, passes: int | Tensor | None
) -> Tensor:
    """Stack the products with the indicator of each colour: `[colours, length]`.

    Args:
        colours: the colour of each element of its seeds.
        sizes: number of elements of each of its results.
        dtype: of what is returned.
        passes: how many products are live at once, or None.
    """
    indicators = tf.constant(colours)  # in the graph, as products of what is linear are then computed once

    def one(colour: Tensor) -> list[Tensor]:
        parts = product(*_like(tf.equal(indicators, colour), product.seeds))
        zeros = [tf.zeros([size], dtype) for size in sizes]
        flat = [zero if part is None else tf.cast(tf.reshape(part, [-1]), dtype) for part, zero in zip(parts, zeros)]
        return [tf.concat(flat, 0)]

    (rows,) = stacked(one, int(colours.max()) + 1, [tf.TensorSpec([sum(sizes)], dtype)], passes, product.vectorises())
    return rows


def _like(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Cut a flat vector into tensors of the shapes and dtypes of `tensors`."""
    parts = tf.split(flat, [tensor.shape.num_elements() for tensor in tensors])
    return [tf.cast(tf.reshape(part, tensor.shape), tensor.dtype) for part, tensor in zip(parts, tensors)]


def held(array: Array) -> Tensor:
    """Return an array as a tensor that the graph captures: what stands in a graph is copied whenever that is read."""
    with tf.init_scope():
        return tf.constant(array)
