"""Taps: identities that give a tensor of a graph a name of its own."""

import contextlib
import itertools
import threading
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import is_identity
from tfjac.graph.nodes.losses import AddedLosses
from tfjac.types import Config, Nest, NestLike, Tensor

TAP = "_tfjac_tap"
"""The attribute of an identity that holds the name of a tap."""

_RETURNED = "_tfjac_layer_"
"""What the attributes begin with that hold the fields of `Returned`."""


class Returned(typing.NamedTuple):
    """What is known of a tensor that a layer of Keras returned, as strings.

    Attributes:
        path: names of the layers around it, and its own.
        type: name of its class.
        id: the `id` of the layer.
        call: a number that grows from call to call.
        output: index of the tensor among what the call returned; "" where it returned one.
    """

    path: str
    type: str
    id: str
    call: str
    output: str


def tap(x: Nest[Any], name: str) -> NestLike:
    """Return x under a name by which it can be selected, in `nodes`, `node_gradients`, `intercept` and the Jacobians.

    Args:
        x: floating-point or other tensor, or nest of tensors, which are then named `name/0`, `name/1` and so on; eager,
            of a graph, or symbolic as in Keras' functional models, where the tap is a layer of that name.
        name: string.

    Returns:
        What equals x. An eager tensor comes back as it is: names belong to graphs.

    Raises:
        TypeError: for a name that is no string, or x that is no tensor.
        ValueError: for an empty name.

    Cost: nothing when it runs. It is an identity, which TensorFlow removes.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string. Received: {name!r} of type {type(name).__name__}")
    if not name:
        raise ValueError("name must not be empty. Received: ''")
    flat = tf.nest.flatten(x)
    names = [name] if len(flat) == 1 else [f"{name}/{index}" for index in range(len(flat))]
    return tf.nest.pack_sequence_as(x, [_tapped(tensor, name) for tensor, name in zip(flat, names)])


@keras.saving.register_keras_serializable(package="tfjac")
class Tap(keras.layers.Layer):
    """The layer that `tap` is in a functional model of Keras.

    Attributes:
        tap_name: the name of the tap; that of the layer must not hold a "/".
    """

    def __init__(self, tap_name: str, **options: Any) -> None:
        """Make the layer."""
        super().__init__(**{"name": tap_name.replace("/", "_"), **options})
        self.tap_name, self.supports_masking = tap_name, True

    def call(self, inputs: Nest[Tensor]) -> NestLike:
        """Return the inputs, tapped."""
        return tap(inputs, self.tap_name)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the inputs."""
        return input_shape

    def get_config(self) -> Config:
        """Return what makes the layer again."""
        return {**super().get_config(), "tap_name": self.tap_name}


def _tapped(x: Any, name: str) -> Any:
    if isinstance(x, keras.KerasTensor):
        return Tap(name)(x)
    if isinstance(x, tf.__internal__.CompositeTensor) and not isinstance(x, tf.Variable):
        raise TypeError(
            "A tensor made of several, such as a ragged or a sparse one, is tapped at the one of its values: "
            f"x.with_flat_values(tfjac.tap(x.flat_values, {name!r})). Received: {x!r}"
        )
    if not tf.is_tensor(x):
        raise TypeError(f"Only tensors can be tapped. Received: {x!r} of type {type(x).__name__}")
    return x if tf.executing_eagerly() else _marked(x, {TAP: name})


def _marked(x: Tensor, texts: Mapping[str, str]) -> Tensor:
    """Return an identity of x that has these attributes.

    In a function that `tf.vectorized_map` maps, what takes its place, for all slices at once, has them too.
    """
    marked = tf.identity(x)
    for attribute, text in texts.items():
        _private.set_text_attribute(marked.op, attribute, text)
    _private.set_conversion(marked.op, lambda op, inputs, stacked: [_marked(inputs[0], texts)])
    return with_mask_of(x, marked)


def mask_of(x: Tensor) -> Tensor | None:
    """Return the mask that Keras has put on x, None where it has not."""
    return getattr(x, "_keras_mask", None)


def with_mask_of(x: Tensor, like: Tensor) -> Tensor:
    """Return `like` with the mask that Keras has put on x, where it has."""
    if hasattr(x, "_keras_mask"):
        like._keras_mask = x._keras_mask
    return like


@contextlib.contextmanager
def layers_tapped() -> Iterator[AddedLosses]:
    """Return a context in which everything that a layer of Keras returns, in this thread, is tapped by its path.

    It is entered with the `AddedLosses` of these layers. Keras has no place to be told of the calls of all layers, so
    `Layer.__call__` is another function meanwhile.
    """
    outer = getattr(_here, "path", None), getattr(_here, "losses", None)
    _here.path, _here.losses = [], outer[1] or AddedLosses()
    _count_contexts(+1)
    try:
        yield _here.losses
    finally:
        _here.path, _here.losses = outer
        _count_contexts(-1)


def taps_layers() -> bool:
    """Return whether `layers_tapped` holds in this thread."""
    return getattr(_here, "path", None) is not None


def _count_contexts(change: int) -> None:
    """One thread may wait inside such a context for another to pass through one, as those of a strategy do."""
    global _contexts
    with _counting:
        _contexts += change
        keras.layers.Layer.__call__ = _tapping_call if _contexts else _call


def _tapping_call(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
    path = getattr(_here, "path", None)
    if path is None:
        return _call(layer, *args, **kwargs)
    path.append(layer.name)
    _here.losses.note(layer)
    try:
        outputs = _call(layer, *args, **kwargs)
        returned = Returned("/".join(path), type(layer).__name__, str(id(layer)), str(next(_calls)), "")
    finally:
        path.pop()
    flat = tf.nest.flatten(outputs, expand_composites=True)
    several = len(flat) > 1
    marked = [
        _as_returned(x, returned._replace(output=str(index) if several else "")) if _is_of_a_graph(x) else x
        for index, x in enumerate(flat)
    ]
    return tf.nest.pack_sequence_as(outputs, marked, expand_composites=True)


def _as_returned(x: Tensor, returned: Returned) -> Tensor:
    return _marked(x, {_RETURNED + field: text for field, text in returned._asdict().items()})


_call = keras.layers.Layer.__call__
_here, _counting, _contexts, _calls = threading.local(), threading.Lock(), 0, itertools.count()


def _is_of_a_graph(x: Any) -> bool:
    return isinstance(x, tf.Tensor) and tf.is_symbolic_tensor(x)


def tap_of(op: tf.Operation) -> str | None:
    """Return the name of the tap that `op` is, or None."""
    return _private.text_attribute(op, TAP) if is_identity(op) else None


def is_tap(op: tf.Operation) -> bool:
    """Return whether `op` is an identity that gives its input a name."""
    return tap_of(op) is not None or returned_by_layer(op) is not None


def returned_by_layer(op: tf.Operation) -> Returned | None:
    """Return the `Returned` of the result of a layer that `op` passes on, or None."""
    if not is_identity(op) or _private.text_attribute(op, _RETURNED + "path") is None:
        return None
    return Returned(*(_private.text_attribute(op, _RETURNED + field) or "" for field in Returned._fields))
