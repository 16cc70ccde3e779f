"""The variables that residuals are linear in together, if all others are held: those of the last layer of a network."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, inline_calls, references, source_in
from tfjac.graph.facts import facts_of
from tfjac.graph.op_types import PRODUCTS, affine_inputs, linear_inputs
from tfjac.types import Tensor


def linear_variables(tensors: Sequence[Tensor], variables: Sequence[Any]) -> list[int]:
    """Return the indices of the variables that tensors are seen to be linear, or affine, in together.

    An activation of the outputs, such as `softplus`, is passed if it comes to a line for large inputs. Of two sides of
    a product, only one can be among them: that of fewer variables, and none if both have as many. What is read by
    index, and what goes through loops and branches, is not looked into.

    Args:
        tensors: of the graph being traced.
        variables: list of variables, or of tensors that stand for them.
    """
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    used = [source for source in sources if source is not None]
    dependence, own = Dependence(sources), references(used)
    pending = [(tensor, True) for tensor in inline_calls(tensors, depends_on=used)]
    found: set[int] = set()
    bent: set[int] = set()
    seen: set[Any] = set()
    products = []
    while pending:
        tensor, is_output = pending.pop()
        if tensor.ref() in seen or not dependence.reaches(tensor):
            continue
        seen.add(tensor.ref())
        op = tensor.op
        if tensor.ref() in own or facts_of(op).kind == "read":
            found |= set(dependence.sources_of(tensor))
            continue
        alive = [given for given in op.inputs if dependence.reaches(given)]
        linear = _linear_in(tensor, dependence)
        if linear is None and op.type in PRODUCTS and len(alive) == 2:
            products.append([set(dependence.sources_of(side)) for side in alive])
            linear, is_output = alive, False
        if linear is None and is_output and facts_of(op).linear == "far from zero" and len(alive) == 1:
            linear, is_output = alive, False
        if linear is None:
            bent |= dependence.sources_of_any(alive)
        pending += [(given, is_output) for given in linear or []]
    for sides in products:
        one, other = (side - bent for side in sides)
        if one and other:
            bent |= (one if len(one) >= len(other) else set()) | (other if len(other) >= len(one) else set())
    return sorted(found - bent)


def _linear_in(tensor: Tensor, dependence: Dependence) -> list[Tensor] | None:
    """Return the inputs that `tensor` is linear in together, None if there are others that it depends on."""
    op = tensor.op
    indices = linear_inputs(tensor, dependence.reaches)
    if indices is None:
        alive = [index for index, given in enumerate(op.inputs) if dependence.reaches(given)]
        indices = alive if alive and set(alive) <= set(affine_inputs(op)) and facts_of(op).kind != "stop" else None
    return None if indices is None else [op.inputs[index] for index in indices]
