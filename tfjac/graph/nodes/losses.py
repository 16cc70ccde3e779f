"""Losses that Keras layers add when they are called: regularisers of activity, and `add_loss`.

A layer keeps them in a list, to be read after the call. One that was traced into a graph of its own leaves tensors of
that graph there, which are of no use elsewhere: they are put where the results of the call are put.
"""

import keras
import tensorflow as tf

from tfjac.graph import _private
from tfjac.types import Copies, Tensor


class AddedLosses:
    """What layers add to their losses from now on."""

    def __init__(self) -> None:
        """Start with no layer."""
        self._before: dict[int, tuple[keras.Layer, list[Tensor]]] = {}

    @property
    def layers(self) -> list[keras.Layer]:
        """The layers that were noted, in order."""
        return [layer for layer, _ in self._before.values()]

    def note(self, layer: keras.Layer) -> None:
        """Remember the losses of a layer, and of those in it, before it is called, which clears them."""
        if id(layer) not in self._before:
            for each in _private.flat_layers(layer):
                self._before.setdefault(id(each), (each, _private.added_losses(each)))

    def in_graph(self, graph: tf.Graph) -> list[Tensor]:
        """List the losses that are tensors of `graph`."""
        losses = (loss for layer in self.layers for loss in _private.added_losses(layer))
        return [loss for loss in losses if getattr(loss, "graph", None) is graph]

    def replace(self, mapping: Copies) -> None:
        """Put what `mapping` has for the `ref()` of a loss in its place."""
        for layer in self.layers:
            losses = [mapping.get(loss.ref(), loss) for loss in _private.added_losses(layer)]
            _private.set_added_losses(layer, losses)

    def restore(self) -> None:
        """Have the layers as they were."""
        for layer, losses in self._before.values():
            _private.set_added_losses(layer, losses)
