"""A function of the user's as a graph of its own, which is read, and copied with edits."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.transplanting import place_all
from tfjac.graph.gradients.custom_gradients import forget_all_with_graph
from tfjac.graph.nodes.losses import AddedLosses
from tfjac.graph.nodes.taps import layers_tapped
from tfjac.graph.running.functions import call_converted
from tfjac.types import OpEdit, Tensor


@dataclasses.dataclass(frozen=True)
class Traced:
    """A function as a graph.

    Attributes:
        concrete: the `tf.ConcreteFunction`; it is never run.
        structure: the nest that it returned; other objects than tensors stay what they are.
        losses: the `AddedLosses` of the layers that it called. Those of its graph are outputs of it, after the nest.
    """

    concrete: Any
    structure: Any
    losses: AddedLosses

    @property
    def graph(self) -> tf.Graph:
        return self.concrete.graph

    def place(self, edit: OpEdit | None = None) -> Any:
        """Copy the graph into the current one, with its side effects, calls inlined; return what the function returns.

        The losses that layers have of the graph are replaced by their copies.

        Args:
            edit: as in `copying.copy_ops`.
        """
        capture = tf.compat.v1.get_default_graph().capture
        given = [(inner, capture(outer)) for outer, inner in _private.captures_of(self.graph)]
        flat = iter(self.graph.outputs)
        mapping = place_all(self.graph, self.graph.outputs, given, edit)
        self.losses.replace(mapping)
        return tf.nest.map_structure(
            lambda x: mapping[next(flat).ref()] if tf.is_tensor(x) else x, self.structure, expand_composites=True
        )


def trace(function: Callable, *args: Any, **kwargs: Any) -> Traced:
    """Trace `function(*args, **kwargs)` into a graph of its own, in which what Keras layers return is tapped.

    Args:
        function: callable of args and kwargs; it may use tensors of the graph around.
    """
    structure = []

    def traced() -> list[Tensor]:
        structure.append(call_converted(function, *args, **kwargs))
        returned = [x for x in tf.nest.flatten(structure[-1], expand_composites=True) if tf.is_tensor(x)]
        return returned + losses.in_graph(tf.compat.v1.get_default_graph())

    with layers_tapped() as losses:
        concrete = tf.function(traced, autograph=False).get_concrete_function()
    forget_all_with_graph(concrete.graph)
    return Traced(concrete, structure[-1], losses)
