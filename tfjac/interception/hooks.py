"""Hooks: edits at what a layer of a plain Keras model returns, put on and taken off."""

import gc
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfjac.graph import flat_layers, is_of_keras_2
from tfjac.graph.nodes import node_of_layer, with_mask_of
from tfjac.interception.edits import Edit, edited
from tfjac.types import Handler, Tensor

_hooks: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
"""The hooks on each layer, in the order in which they were put on."""

_changes = 0
"""How often a hook was put on or taken off."""

_CALLS = ("call", "quantized_call")
"""What a layer computes by: the latter from when it is quantised."""


def hook(layer: keras.Layer, backward: Handler | None = None, forward: Callable[[Tensor], Any] | None = None) -> "Hook":
    """Change the gradients, or the values, of what a Keras layer returns, from now on until the hook is removed.

    Every call of the layer is changed, wherever it stands: a shared layer in all its places, a layer of a nested model
    in every model around it. `fit`, `evaluate`, `predict` and calls see it even where their functions were compiled
    before; a `tf.function` of your own must be traced again. The model itself is as before, and after removal
    everything is, bit for bit: weights, configuration, saved files and clones know nothing of the hook; a SavedModel,
    as `model.export` writes, is traced with it.

    Args:
        layer: a `keras.Layer`, or model, that was built. Where it returns several tensors, each is changed by itself.
        backward: handler `gradient -> gradient`, as in `Edit`: yours, or one of `tfjac.handlers`.
        forward: function `value -> value`, as in `Edit`.

    Returns:
        A `Hook`, with a method `remove()`; as a context manager it is removed on leaving.

    Raises:
        TypeError: for what is no layer, or functions that are none.
        ValueError: for a layer that was not built.

    Cost: that of the handler. Putting on and removing traces the functions of the models around again.
    """
    if not isinstance(layer, keras.Layer):
        if is_of_keras_2(layer):
            raise TypeError(
                "A hook is put on a layer of Keras 3, and this one is of tf_keras, which is Keras 2: edit what it "
                f"returns by tfjac.intercept(model, edits={{layer.name: …}}). Received: {layer!r}"
            )
        by_name = f", as model.get_layer({layer!r})" if isinstance(layer, str) else ""
        raise TypeError(f"A hook is put on a Keras layer{by_name}. Received: {layer!r} of type {type(layer).__name__}")
    if not layer.built:
        raise ValueError(
            "A hook is put on a layer that was built: call the model, or build it, before. "
            f"Received: layer {layer.name!r} of type {type(layer).__name__}, which was not"
        )
    return Hook(layer, Edit(forward, backward))


class Hook:
    """An edit on a layer, until `remove()`.

    Attributes:
        edit: the `Edit`.
    """

    def __init__(self, layer: keras.Layer, edit: Edit) -> None:
        """Put the edit on the layer."""
        self._layer, self.edit = weakref.ref(layer), edit  # weakly: a hook must not keep the layer that keeps it
        if not _hooks.get(layer):
            _hooks[layer] = []
            for name in _CALLS:
                setattr(layer, name, _hooked(layer, getattr(layer, name)))
        _hooks[layer].append(self)
        self._compiled = _uncompiled(layer) if needs_python(edit.backward) else []
        _trace_again(layer)

    @property
    def layer(self) -> keras.Layer | None:
        """The layer; None where nothing else refers to it any more."""
        return self._layer()

    def remove(self) -> None:
        """Take the edit off; nothing where it is off already."""
        layer = self.layer
        hooks = _hooks.get(layer, []) if layer is not None else []
        if self not in hooks:
            return
        hooks.remove(self)
        if not hooks:
            for name in _CALLS:
                delattr(layer, name)
        for model, setting in self._compiled:
            model.jit_compile = setting
        _trace_again(layer)

    def __enter__(self) -> "Hook":
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


def needs_python(handler):
    """Return whether a handler calls Python when it runs, which XLA cannot compile."""
    return getattr(handler, "needs_python", False)


def _hooked(layer, call):
    layer = weakref.ref(layer)

    def hooked(*args, **kwargs):
        outputs = call(*args, **kwargs)
        flat = tf.nest.flatten(outputs)
        places = [""] if len(flat) == 1 else range(len(flat))
        changed = [_changed(layer(), tensor, place) for tensor, place in zip(flat, places)]
        return tf.nest.pack_sequence_as(outputs, changed)

    hooked.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]  # no `__wrapped__`, behind which AutoGraph would look
    return hooked


def _changed(layer, tensor, output):
    if not tf.is_tensor(tensor) or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        return tensor
    changed = tensor
    for each in _hooks[layer]:
        who = f"a tfjac.hook on layer {layer.name!r}"
        changed = edited(changed, each.edit, node_of_layer(layer, tensor, output), who)
    return with_mask_of(tensor, changed)


def times_changed():
    """Return a number that is another one after each hook that is put on or taken off: what was traced is then old."""
    return _changes


def _trace_again(layer):
    """Make again what models have compiled; a `fit` that is under way goes on with it."""
    global _changes
    _changes += 1
    for model in _models_of(layer):
        for kind in ("train", "test", "predict"):
            if getattr(model, f"{kind}_function", None) is not None:
                getattr(model, f"make_{kind}_function")(force=True)


def _uncompiled(layer):
    """Have the models around run without XLA; return pairs of these and what they were set to."""
    compiled = [(model, model.jit_compile) for model in _models_of(layer) if getattr(model, "jit_compile", False)]
    for model, _ in compiled:
        model.jit_compile = False
    return compiled


def _models_of(layer):
    """List the models that a layer is part of, which it does not know itself."""
    models = (each for each in gc.get_objects() if issubclass(type(each), keras.Model))
    return [model for model in models if any(each is layer for each in flat_layers(model))]
