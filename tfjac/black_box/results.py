"""What a function outside TensorFlow returns: how many results, of which shapes and dtypes, said beforehand."""

import dataclasses

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class ResultSpec:
    """One result.

    Attributes:
        name: of the function, for errors.
        shape: `tf.TensorShape` of the result for one point.
        dtype: `tf.DType` that it becomes a tensor of.
    """

    name: str
    shape: tf.TensorShape
    dtype: tf.DType

    def checked(self, reply, n):
        """Return the array that the function gave for n points, `[n, ...]`; a floating-point result is made one.

        Raises:
            TypeError, ValueError: for results that cannot become the dtype, or have another shape.
        """
        if reply.dtype == tf.bfloat16.as_numpy_dtype:
            reply = reply.astype(np.float32)
        if self.dtype.is_floating and reply.dtype.kind in "biu":
            reply = reply.astype(np.float64)
        expected = "f" if self.dtype.is_floating else np.dtype(self.dtype.as_numpy_dtype).kind
        if reply.dtype.kind != expected:
            raise TypeError(
                f"{self.name}: the function must return what can become {self.dtype.name}; say what it returns by "
                f"output_shape=tf.TensorSpec(shape, dtype). Received: an array of {reply.dtype}"
            )
        if not (reply.ndim and len(reply) == n and self.shape.is_compatible_with(reply.shape[1:])):
            raise ValueError(
                f"{self.name}: the function must return results of shape {self.shape} for each point; say what shape "
                "they have by output_shape, which is that of the first input where nothing else is said. "
                f"Received: shape {reply.shape[1:]} for {reply.shape[:1] or 'no'} point(s), where there were {n}"
            )
        return reply

    def filled(self, n):
        """Return what stands for the results of n points that could not be had, `[n, ...]`.

        Raises:
            ValueError: for results that are no floating-point numbers, or of an open shape.
        """
        if n and not (self.dtype.is_floating and self.shape.is_fully_defined()):
            raise ValueError(
                f"{self.name}: on_failure='nan' needs floating-point results of a shape that output_shape gives in "
                f"full. Received: shape {self.shape}, dtype {self.dtype.name}"
            )
        sizes = [size or 0 for size in self.shape] if self.shape.rank else []
        return np.full([n, *sizes], np.nan if self.dtype.is_floating else 0, np.float64)


class Results:
    """What `output_shape` says.

    Args:
        output_shape: None, a shape, a `tf.TensorSpec`, or a list, tuple or dict of shapes and specs.
        name: of the function, for errors.
        by_row: whether the axis of examples is in front.

    Attributes:
        structure: a nest like the results of the function, or None for a single one.
        count: how many results there are.
    """

    def __init__(self, output_shape, name, by_row):
        self._name, self._by_row = name, by_row
        self.structure = None if output_shape is None or _is_entry(output_shape) else output_shape
        entries = [output_shape] if self.structure is None else _entries(output_shape)
        self._entries, self.count = [self._entry(entry) for entry in entries], len(entries)
        if self.structure is not None:
            flat = iter(range(len(entries)))
            self.structure = _mapped(output_shape, lambda entry: next(flat))

    def specs(self, inputs):
        """Return `tf.TensorSpec` of the results, for a list of tensors or specs that the function is called with.

        Raises:
            ValueError: for inputs whose rows are not the same examples, where rows are points.
        """
        first = next((x for x in inputs if x.dtype.is_floating), inputs[0])
        shapes = [inputs[0].shape if shape is None else shape for shape, _ in self._entries]
        if self._by_row:
            n = self._examples(inputs)
            shapes = [tf.TensorShape([n, *shape[1:]]) for shape in shapes]
        return [tf.TensorSpec(shape, dtype or first.dtype) for shape, (_, dtype) in zip(shapes, self._entries)]

    def _examples(self, inputs):
        """The static number of examples, or None."""
        sizes = {None if x.shape.rank == 0 else x.shape[0] for x in inputs} - {None}
        if any(x.shape.rank == 0 for x in inputs) or len(sizes) > 1:
            raise ValueError(
                f"{self._name} was declared per_example: every input must have the same examples along axis 0. Repeat "
                f"what they share by tf.broadcast_to. Received: shapes {[x.shape.as_list() for x in inputs]}"
            )
        return sizes.pop() if sizes else None

    def flatten(self, returned):
        """Return what the function returned as a list.

        Raises:
            TypeError: where it is another nest than `output_shape` says.
        """
        if self.structure is None:
            return [returned]
        try:
            tf.nest.assert_same_structure(self.structure, _tupled(returned, self.structure), check_types=False)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{self._name}: the function must return {len(self._entries)} arrays in a nest like output_shape. "
                f"Received: {type(returned).__name__} ({error})"
            ) from None
        return tf.nest.flatten(_tupled(returned, self.structure))

    def pack(self, tensors):
        """Return tensors as the function returns its arrays."""
        return tensors[0] if self.structure is None else tf.nest.pack_sequence_as(self.structure, tensors)

    def _entry(self, entry):
        if entry is None:
            return None, None
        shape, dtype = (entry.shape, entry.dtype) if isinstance(entry, tf.TensorSpec) else (tf.TensorShape(entry), None)
        if shape.rank is None or (dtype is not None and (dtype.is_complex or dtype == tf.string)):
            raise ValueError(
                "output_shape must give shapes of a known rank, of numbers that are not complex: take the real and the "
                f"imaginary part as two results. Received: {entry!r}"
            )
        if self._by_row and (shape.rank == 0 or shape[0] is not None):
            raise ValueError(
                f"With per_example=True, output_shape begins with None, for the examples. Received: {entry!r}"
            )
        return shape, dtype


def _is_entry(item):
    if isinstance(item, (tf.TensorSpec, tf.TensorShape)):
        return True
    return isinstance(item, (list, tuple)) and all(size is None or isinstance(size, int) for size in item)


def _entries(nest):
    if _is_entry(nest):
        return [nest]
    if not isinstance(nest, (list, tuple, dict)):
        raise TypeError(
            "output_shape must be a shape, a tf.TensorSpec, or a list, tuple or dict of these, one for each result. "
            f"Received: {nest!r}"
        )
    items = [nest[key] for key in sorted(nest)] if isinstance(nest, dict) else nest
    return [entry for item in items for entry in _entries(item)]


def _mapped(nest, function):
    """`function` of each entry of a nest, in the order of `_entries`."""
    if _is_entry(nest):
        return function(nest)
    if isinstance(nest, dict):
        return {key: _mapped(nest[key], function) for key in sorted(nest)}
    return type(nest)(_mapped(item, function) for item in nest)


def _tupled(returned, structure):
    """A list where a tuple is expected, or the other way round, is as good; nothing is taken into arrays."""
    if isinstance(structure, dict):
        if not isinstance(returned, dict) or set(returned) != set(structure):
            return returned
        return {key: _tupled(returned[key], structure[key]) for key in structure}
    if isinstance(structure, (list, tuple)) and isinstance(returned, (list, tuple)) and len(returned) == len(structure):
        return type(structure)(_tupled(*pair) for pair in zip(returned, structure))
    return np.asarray(returned)
