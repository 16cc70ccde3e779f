"""Layers of Keras: which are within a layer, the losses that they added, and where a symbolic tensor is from."""

from typing import Any

import keras

from tfjac.types import Tensor


def flat_layers(layer: keras.Layer, include_self: bool = True) -> list[keras.Layer]:
    """Return the layers within a layer, at any depth. The public `Model.layers` has those of the first level alone."""
    return list(layer._flatten_layers(include_self=include_self))


def added_losses(layer: keras.Layer) -> list[Tensor]:
    """Return the losses that a layer added by itself when it was called; `Layer.losses` adds regularisers and more."""
    return list(layer._losses)


def loss_weights(model: keras.Model) -> Any:
    """Return `loss_weights` of `compile`, None without any; `get_compile_config` would serialize the optimizer too."""
    return getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)


def set_added_losses(layer: keras.Layer, losses: list[Tensor]) -> None:
    """Put others in their place. There is `add_loss` alone, and no public way to take one back."""
    layer._losses[:] = losses


def passed_on_as_it_is(error: ValueError) -> ValueError:
    """Mark an error as told of its arguments: else Keras puts an inner call of its own before the message."""
    error._keras_call_info_injected = True  # type: ignore[attr-defined]
    return error


def symbolic_origin(symbolic: keras.KerasTensor) -> tuple[Any, int, int]:
    """Return the layer that returned a symbolic tensor, the index of that call, and how many there were.

    `KerasTensor` says nowhere else what it comes from.
    """
    layer, index, _ = symbolic._keras_history
    return layer, index, len(layer._inbound_nodes) if hasattr(layer, "_inbound_nodes") else 1
