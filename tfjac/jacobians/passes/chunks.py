"""Many applications of one linear map: vectorised, or so many at a time as memory allows."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import Dependence, axes, cond, vectorised_map
from tfjac.linear.shapes import product
from tfjac.types import Tensor

Limits: TypeAlias = tuple[int | None, int | None]
"""A `chunk_size` and a `memory_budget`, of which one at most is given."""


def stacked(
    function: Callable[[Tensor], Sequence[Tensor]],
    count: int | Tensor,
    specs: Sequence[tf.TensorSpec],
    chunk_size: int | Tensor | None = None,
    vectorised: bool = True,
) -> list[Tensor]:
    """Stack `function(0)`, ..., `function(count - 1)`.

    Args:
        function: from a scalar integer tensor to a list of tensors.
        count: number of calls, an integer or a scalar tensor; may be 0.
        specs: list of `tf.TensorSpec`, what `function` returns.
        chunk_size: how many calls are vectorised, and live, at once; all where None.
        vectorised: as in `mapped`.

    Returns:
        A list of tensors `[count, ...]`.
    """
    stacks = [tf.TensorSpec([None, *spec.shape], spec.dtype) for spec in specs]
    at_once = chunk_size if vectorised else 1
    return in_chunks(lambda indices: mapped(function, [indices], specs, vectorised), count, stacks, at_once)


def mapped(
    function: Callable[..., Sequence[Tensor]],
    stacks: Sequence[Tensor],
    specs: Sequence[tf.TensorSpec],
    vectorised: bool = True,
) -> list[Tensor]:
    """Apply `function` to each slice of some tensors: the one place where the passes of the package are vectorised.

    Args:
        function: from a tensor for each stack to a list of tensors.
        stacks: list of tensors `[c, ...]` with the same c.
        specs: list of `tf.TensorSpec`, what `function` returns.
        vectorised: False for what is not to be, see `vectorises`: one slice after the other. So it is done, too, where
            TensorFlow raises while it vectorises, with a warning.

    Returns:
        A list of tensors `[c, ...]`.
    """
    count = stacks[0].shape[0]
    if count == 1:
        return [part[None] for part in function(*(stack[0] for stack in stacks))]
    results = _vectorised(function, stacks) if vectorised else None
    if results is None:
        results = tf.map_fn(
            lambda slices: function(*slices), list(stacks), fn_output_signature=list(specs), parallel_iterations=1
        )
    for result, spec in zip(results, specs):
        result.set_shape([count, *spec.shape])  # some conversions lose it
    return results


def _vectorised(function: Callable[..., Sequence[Tensor]], stacks: Sequence[Tensor]) -> list[Tensor] | None:
    try:
        return vectorised_map(function, stacks)
    except Exception as failure:  # whatever a conversion may raise; what is wrong with `function` is raised without it
        reason = f"{type(failure).__name__}: {failure}"
        warn(f"tfjac: TensorFlow fails to vectorise, so one pass after the other. {reason}")
        return None


def in_chunks(
    function: Callable[[Tensor], Sequence[Tensor]],
    count: int | Tensor,
    specs: Sequence[tf.TensorSpec],
    chunk_size: int | Tensor | None = None,
    axis: int = 0,
) -> list[Tensor]:
    """Concatenate what `function` gives for consecutive chunks of `range(count)`, one chunk after the other.

    Args:
        function: from an integer tensor `[c]` to a list of tensors whose axis `axis` is as long.
        count, chunk_size: as in `stacked`.
        specs: list of `tf.TensorSpec`, what `function` returns; the size along `axis` is not looked at.
        axis: the axis to concatenate along.

    Returns:
        A list of tensors with `count` entries along `axis`.
    """
    some = tf.maximum(count, 1) if tf.is_tensor(count) else max(count, 1)  # a map over nothing would not know shapes
    specs = [_resized(spec, axis, some if chunk_size is None else chunk_size) for spec in specs]
    if chunk_size is None or (isinstance(some, int) and isinstance(chunk_size, int) and chunk_size >= some):
        return [_first(part, count, some, axis) for part in function(tf.range(some))]
    offsets, last = tf.range(chunk_size), some - 1

    def one_chunk(start: Tensor) -> Sequence[Tensor]:  # the last chunk repeats the last row, which is cut off below
        return function(tf.minimum(start + offsets, last))

    parts = tf.map_fn(one_chunk, tf.range(0, some, chunk_size), fn_output_signature=specs, parallel_iterations=1)
    return [_first(_merged(part, axis), count, None, axis) for part in parts]


def unless_empty(
    y: Tensor, compute: Callable[[], list[Tensor]], shapes: Sequence[Sequence[int | Tensor]], dtypes: Sequence[tf.DType]
) -> list[Tensor]:
    """Return `compute()`, or zeros where y has no elements: `tf.vectorized_map` gets the shapes of nothing wrong.

    Args:
        y: the tensor that is differentiated.
        compute: function without arguments that returns a list of tensors.
        shapes: list of their shapes, each a list of integers and scalar tensors.
        dtypes: list of their dtypes.
    """

    def zeros() -> list[Tensor]:
        return [tf.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes)]

    size = product(axes(y))
    if isinstance(size, int):
        return compute() if size else zeros()
    results = cond(size > 0, compute, zeros)
    for result, shape in zip(results, shapes):
        result.set_shape([side if isinstance(side, int) else None for side in shape])
    return results


def _resized(spec: tf.TensorSpec, axis: int, size: int | Tensor) -> tf.TensorSpec:
    sizes = spec.shape.as_list()
    sizes[axis] = size if isinstance(size, int) else None
    return tf.TensorSpec(sizes, spec.dtype)


def _merged(part: Tensor, axis: int) -> Tensor:
    """Bring the chunks `[chunks, ..., c, ...]` together along `axis`."""
    order = [*range(1, axis + 1), 0, *range(axis + 1, part.shape.rank)]
    sizes = axes(part)
    sizes = [sizes[k] for k in order]
    return tf.reshape(
        tf.transpose(part, order) if axis else part, [*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]]
    )


def _first(part: Tensor, count: int | Tensor, length: int | Tensor | None, axis: int) -> Tensor:
    return part if length is count else part[(*[slice(None)] * axis, slice(count))]


def passes_at_once(
    chunk_size: int | None, memory_budget: int | None, bytes_per_pass: Callable[[], int | Tensor]
) -> int | Tensor | None:
    """Decide how many passes are live at once.

    Args:
        chunk_size: that number, or None.
        memory_budget: bytes that all of them may take, or None.
        bytes_per_pass: function without arguments that gives the bytes of one, an integer or a scalar tensor.

    Returns:
        None for all of them, or a number of at least 1, an integer or a scalar int32 tensor.

    Raises:
        ValueError: for a number that is no positive integer, or both given.
    """
    for name, value in (("chunk_size", chunk_size), ("memory_budget", memory_budget)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be a positive integer, or None for no limit. Received: {value!r}")
    if memory_budget is None:
        return chunk_size
    if chunk_size is not None:
        raise ValueError(
            "chunk_size and memory_budget say the same thing in two units: give one of them. "
            f"Received: chunk_size={chunk_size}, memory_budget={memory_budget}"
        )
    size = bytes_per_pass()
    if isinstance(size, int):
        return max(1, memory_budget // max(size, 1))
    return tf.cast(tf.clip_by_value(memory_budget // tf.maximum(size, 1), 1, tf.int32.max), tf.int32)


def bytes_of_pass(sources: Sequence[Tensor | Any], *ys: Tensor) -> int | Tensor:
    """Estimate what one pass between `sources` and ys takes: the bytes of the floating-point tensors on the way."""
    path = Dependence(sources).path(ys)
    numbers = (output for op in path for output in op.outputs if output.dtype.is_floating or output.dtype.is_complex)
    return _bytes_of(numbers)


def _bytes_of(tensors: Iterable[Tensor]) -> int | Tensor:
    """An integer where the shapes are static, else a scalar int64 tensor."""
    total = 0
    for tensor in tensors:
        if tensor.shape.rank is None:
            total = total + tf.size(tensor, tf.int64) * tensor.dtype.size
            continue
        sizes = axes(tensor)
        static = product(size for size in sizes if isinstance(size, int))
        open_sizes = [tf.cast(size, tf.int64) for size in sizes if not isinstance(size, int)]
        total = total + (product(open_sizes) if open_sizes else 1) * static * tensor.dtype.size
    return total
