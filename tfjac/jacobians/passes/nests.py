"""Nests of arguments: the sources that stand for `xs` in a graph, and what is said where they are wrong."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfjac.arguments import described_value
from tfjac.graph import as_tf_variable, captured_tensor, handle_in, is_variable
from tfjac.types import Nest, NestLike, Sources, Tensor, TensorLike, Unconnected, Variable


def sources_of(xs: Sources, may_be_complex: bool = False) -> list[Tensor | Any]:
    """Return what stands for each x of the nest `xs` in the graph being traced; None where the graph does not use it.

    Args:
        xs: nest of `tf.Variable`, `keras.Variable`, tensors of the graph being traced, or eager tensors that were
            captured by it.
        may_be_complex: whether they may be complex, too.

    Raises:
        TypeError: for anything else, or what is not floating-point.
        ValueError: for an empty nest, or a tensor of another graph.
    """
    flat = tf.nest.flatten(xs)
    if not flat:
        raise ValueError("xs must hold at least one variable or tensor. Received: an empty nest")
    return [_source(x, may_be_complex) for x in flat]


def check_variables(variables: Any) -> None:
    """Check a nest of variables, or of what stands for them, before anything is traced.

    Raises:
        ValueError: for none at all.
        TypeError: for a model or layer, or a tensor, which is no variable.
    """
    flat = [variables] if isinstance(variables, keras.Layer) else tf.nest.flatten(variables)
    for x in flat:
        if isinstance(x, keras.Layer):
            as_tf_variable(x)
        if isinstance(x, tf.Tensor) and not tf.is_symbolic_tensor(x):
            raise TypeError(
                "A variable must be a tf.Variable or a keras.Variable; pass the variable itself, not its value. With "
                "respect to inputs, call tfjac.batch_jacobian(ys, x): an entry for each example, as here; or "
                f"tfjac.jacobian(ys, x): all examples with all. Received: {described_value(x)}"
            )
    if not flat:
        raise ValueError(
            "variables must hold at least one variable. A model has none before it is built: call it on an example, or "
            "model.build(input_shape), and read trainable_variables after that. Received: an empty nest"
        )


def _source(x: Any, may_be_complex: bool) -> Tensor | None:
    graph = tf.compat.v1.get_default_graph()
    if not is_variable(x) and not tf.is_tensor(x):
        raise TypeError(
            "xs must be tensors, tf.Variables or keras.Variables, or a nest of them; make x = tf.constant(array) of an "
            f"array, and compute ys from that x. Received: {described_value(x)}"
        )
    x = like(x)
    if not x.dtype.is_floating and not x.dtype.is_complex:
        raise TypeError(
            "xs must be of a floating-point dtype: there is no derivative with respect to integers. "
            f"Received: a {type(x).__name__} of shape {x.shape} and dtype {x.dtype.name}"
        )
    if not may_be_complex:
        check_real("xs", x)
    if isinstance(x, tf.Variable):
        return handle_in(graph, x)
    if not tf.is_symbolic_tensor(x):
        return captured_tensor(graph, x)
    if x.graph is not graph:
        raise ValueError(
            "xs must belong to the tf.function being traced, as ys do. "
            f"Received: {x.name} of graph {x.graph!r}, while {graph!r} is being traced"
        )
    return x


def check_real(name: str, x: Variable | Tensor) -> None:
    """Check that x, a variable or tensor that is differentiated with respect to, is not complex.

    Raises:
        TypeError: with the way out.
    """
    if like(x).dtype.is_complex:
        raise TypeError(
            f"{name} must be real: make the complex number of two real ones, tf.complex(re, im), and differentiate "
            f"with respect to these. Received: a {type(x).__name__} of shape {x.shape} and dtype {like(x).dtype.name}"
        )


def like(x: Variable | Tensor) -> tf.Variable | Tensor:
    """Return what has the shape and dtype of x: the `tf.Variable` behind a variable, or the tensor itself."""
    return as_tf_variable(x) if is_variable(x) else x


def shaped_like(xs: Nest[Variable | Tensor], sources: Iterable[Tensor | None]) -> list[tf.Variable | Tensor]:
    """Return for each x of the nest what has its shape and dtype: its tensor of the graph, or the variable."""
    flat = tf.nest.flatten(xs)
    return [like(x) if s is None or s.dtype == tf.resource else s for x, s in zip(flat, sources)]


def packed(
    structure: NestLike, results: Sequence[Tensor | None], xs: Sequence[Any], unconnected: tf.UnconnectedGradients
) -> NestLike:
    """Pack flat `results` like the nest `structure`, with zeros for None if that is wanted.

    Args:
        structure: a nest with one leaf per result.
        xs: flat list, what each result has the shape and dtype of where it is zero; or functions that make the zeros.
    """
    if unconnected == tf.UnconnectedGradients.ZERO:
        results = [_zeros(x) if result is None else result for result, x in zip(results, xs)]
    return tf.nest.pack_sequence_as(structure, results)


def _zeros(x: Any) -> Tensor:
    if callable(x):
        return x()
    x = like(x)
    return tf.zeros(x.shape, x.dtype) if isinstance(x, tf.Variable) else tf.zeros_like(x)


def unconnected_choice(unconnected_gradients: Unconnected) -> tf.UnconnectedGradients:
    """Return the `tf.UnconnectedGradients` named "none" or "zero".

    Raises:
        ValueError: for any other name.
    """
    try:
        return tf.UnconnectedGradients(unconnected_gradients)
    except ValueError:
        raise ValueError(
            'unconnected_gradients must be "none" (None where there is no path) or "zero". '
            f"Received: {unconnected_gradients!r}"
        ) from None


def matching(
    name: str, values: Nest[TensorLike], structure: NestLike, references: Iterable[Variable | Tensor], what: str
) -> list[Tensor]:
    """Convert the nest `values` to a flat list of tensors that match `references` one by one.

    Args:
        name: name of the argument, for messages.
        values: nest of array-likes.
        structure: the nest that `values` must look like.
        references: flat list of the tensors or variables whose shapes and dtypes they must have.
        what: what the references are called in messages.

    Raises:
        ValueError: where the nests or a shape differ.
        TypeError: where a value cannot be converted to the dtype.
    """
    try:
        tf.nest.assert_same_structure(structure, values)
    except (ValueError, TypeError) as difference:
        raise ValueError(
            f"{name} must be a nest like {what}, one tensor for each. Received: {_outline(values)} for "
            f"{_outline(structure)}"
        ) from difference
    return [_matching(name, value, like(x), what) for value, x in zip(tf.nest.flatten(values), references)]


def _outline(nest: NestLike) -> NestLike:
    """What to call a nest in a message: of arrays the shapes, without their elements."""
    return tf.nest.map_structure(lambda x: str(getattr(x, "shape", type(x).__name__)), nest)


def _matching(name: str, value: TensorLike, reference: tf.Variable | Tensor, what: str) -> Tensor:
    value = converted(name, value, reference.dtype, what)
    if not value.shape.is_compatible_with(reference.shape):
        raise ValueError(
            f"{name} must have the shapes of {what}: {reference.shape} here. Received: shape {value.shape}"
        )
    return value


def converted(name: str, value: TensorLike, dtype: tf.DType, what: str) -> Tensor:
    """Convert `value` to a tensor of this dtype.

    Raises:
        TypeError: where it is a tensor of another dtype, or no numbers.
    """
    try:
        tensor = tf.convert_to_tensor(value, dtype)
    except (ValueError, TypeError):
        tensor = None
    if tensor is None or tensor.dtype != dtype:  # an eager tensor captured by a graph keeps its own
        raise TypeError(
            f"{name} must be of the dtype of {what}, {dtype.name} here; cast it. "
            f"Received: {type(value).__name__} of dtype {getattr(value, 'dtype', None)}"
        )
    return tensor
