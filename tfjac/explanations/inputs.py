"""The inputs of a model that is explained: checked, in rows, with a baseline for each."""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from tfjac.arguments import check_eager, described_value


class Inputs:
    """A batch of examples.

    Attributes:
        nest: what was given.
        arrays: flat list of NumPy arrays, each `[n, ...]`.
        count: n.
    """

    def __init__(self, model, x, name="x"):
        """Check that `x`, the argument `name`, is one batch of the inputs of `model`."""
        check_eager("An explanation", "Take gradients there by a tf.GradientTape.")
        self.nest, declared = x, _declared_inputs(model, x)
        self.arrays = [_as_array(each) for each in tf.nest.flatten(x)]
        if not self.arrays:
            raise ValueError(f"{name} must be an array, or a list or dict of arrays. Received: {described_value(x)}")
        _check_built(model)
        if len(declared) == len(self.arrays):
            self.arrays = [_as_declared(array, wanted) for array, wanted in zip(self.arrays, declared)]
        _check_batch_axis(self.arrays)
        counts = {len(array) for array in self.arrays}
        if len(counts) > 1:
            lengths = [len(array) for array in self.arrays]
            raise ValueError(f"The inputs must have one row for each example. Received: lengths {lengths}")
        self.count = counts.pop()
        if not self.count:
            raise ValueError(f"{name} must hold at least one example. Received: {described_value(self.arrays[0])}")

    def pack(self, values):
        """Return a nest like the inputs of a flat list."""
        if not tf.nest.is_nested(self.nest):
            return values[0]
        return tf.nest.pack_sequence_as(self.nest, values)

    def specs(self):
        """List the `tf.TensorSpec` of the inputs, for any number of rows."""
        return specs_of(self.arrays)

    def baseline(self, baseline):
        """Return a flat list of arrays like the inputs.

        Args:
            baseline: None for zeros; a number; an array like one example or like the batch; or a nest of these.
        """
        given = tf.nest.flatten(baseline) if tf.nest.is_nested(self.nest) else [baseline]
        if len(given) == 1 and (given[0] is None or np.ndim(given[0]) == 0):
            given = given * len(self.arrays)
        if len(given) != len(self.arrays):
            raise ValueError(
                "baseline must be a number, or a nest like the inputs. "
                f"Received: {len(given)} parts for {len(self.arrays)} inputs"
            )
        return [_broadcast(each, array) for each, array in zip(given, self.arrays)]


def specs_of(arrays):
    """List the `tf.TensorSpec` of arrays, for any number of rows."""
    return [tf.TensorSpec([None, *array.shape[1:]], tf.as_dtype(array.dtype)) for array in arrays]


def parts(count: int, batch_size: int) -> Iterator[slice]:
    """Yield slices of at most `batch_size` rows."""
    yield from (slice(start, min(start + batch_size, count)) for start in range(0, count, batch_size))


def repeated_parts(count: int, repeats: int, batch_size: int) -> Iterator[tuple[slice, slice]]:
    """Yield pairs (repeats, rows) of slices, whose product is at most `batch_size`: several repeats if rows are few."""
    for repeat in parts(repeats, max(1, batch_size // count)):
        yield from ((repeat, rows) for rows in parts(count, batch_size))


def _as_array(x):
    if isinstance(x, (tf.RaggedTensor, tf.SparseTensor)):
        way = "x.to_tensor()" if isinstance(x, tf.RaggedTensor) else "tf.sparse.to_dense(x)"
        raise TypeError(
            f"x must be a dense array: {way} pads it, with a mask in the model. Received: a {type(x).__name__}"
        )
    if isinstance(x, (list, tuple, int, float, str)):
        raise TypeError(f"x must be an array, or a nest of arrays. Received: {x!r} in it")
    array = np.asarray(x)
    return array.astype(str).astype(object) if array.dtype.kind == "U" else array


def _check_built(model):
    if isinstance(model, keras.Layer) and not model.built:
        raise ValueError(
            "The model is not built, so that its weights would be new, and the explanation one of noise: call it on "
            f"data, or load its weights, first. Received: {type(model).__name__} {model.name!r}"
        )


def _check_batch_axis(arrays):
    for array in arrays:
        if not array.ndim:
            raise ValueError(f"x must have a batch axis, one row for each example. Received: {described_value(array)}")


def _as_declared(array, wanted):
    """An array in the dtype that the model declares for this input; raise ValueError if it is one example alone."""
    shape = wanted.shape.as_list() if isinstance(wanted.shape, tf.TensorShape) else list(wanted.shape)
    if array.ndim == len(shape) - 1 and all(a in (b, None) for a, b in zip(shape[1:], array.shape)):
        raise ValueError(
            "x must have a batch axis, one row for each example: pass x[None] to explain one. "
            f"Received: {described_value(array)} for an input of shape {tuple(shape)}"
        )
    dtype = tf.as_dtype(wanted.dtype)
    numeric = array.dtype.kind in "iuf" and (dtype.is_floating or dtype.is_integer)
    return array.astype(dtype.as_numpy_dtype) if numeric else array


def _declared_inputs(model, nest):
    """Symbolic inputs of a Keras model, or specs of a loaded function, in the order of a flat nest; [] if unknown."""
    try:
        if isinstance(model, keras.Model):
            named = {each.name: each for each in model.inputs}
            if isinstance(nest, dict):
                return [named[name] for name in sorted(nest)]
            return model.inputs
        loaded = getattr(model, "serve", model)
        (signature,) = (each.structured_input_signature for each in _concrete_functions(loaded))
        return tf.nest.flatten(signature)
    except (AttributeError, KeyError, TypeError, ValueError):  # a subclassed model, a function, of several signatures
        return []


def _concrete_functions(function):
    """Those of a loaded function, or of a loaded object that can be called; else the function itself."""
    loaded = function if hasattr(function, "concrete_functions") else vars(function).get("__call__")
    return getattr(loaded, "concrete_functions", None) or [function]


def _broadcast(baseline, array):
    if baseline is None:
        return np.zeros_like(array)
    baseline = np.asarray(baseline)
    try:
        return np.broadcast_to(baseline.astype(array.dtype), array.shape)
    except ValueError:
        raise ValueError(
            f"baseline must be a number, or an array like one example or like the batch: {array.shape}. "
            f"Received: {described_value(baseline)}"
        ) from None
