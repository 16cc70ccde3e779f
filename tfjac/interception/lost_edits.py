"""Edits that do nothing, or less than they look like: said when the function is traced."""

import collections

from tfjac._warn import warn
from tfjac.graph import Dependence, is_of_gradient

_MOST_NAMED = 3


def warn_of_what_no_gradient_reaches(nodes, graph):
    """Warn of backward edits and rules that will not be asked, as inside of what has a gradient of its own.

    Args:
        nodes: list of `Node` in the function of `graph`, or in the bodies in it.
        graph: its graph.
    """
    sources = collections.defaultdict(list)
    for node in nodes:  # a gradient must leave the body, and pass the op whose body it is
        if node.place:
            sources[node.tensor.graph].append((node, node.tensor))
        outer = graph.get_operation_by_name(node.place[0][0]).outputs if node.place else [node.tensor]
        sources[graph] += [(node, tensor) for tensor in outer]
    missed = {id(node) for body, pairs in sources.items() for node in _by_value_alone(pairs, body.outputs)}
    names = list(dict.fromkeys(str(node) for node in nodes if id(node) in missed))
    if names:
        _warn(
            f"an edit or rule has no effect backwards at {_listed(names)}: no gradient reaches it. It stands before a "
            "tf.stop_gradient or the like, or inside of what has a custom gradient, as silu and tf.recompute_grad "
            "have: edit that one's result instead."
        )


def _by_value_alone(pairs, results):
    """The nodes, of pairs of one and a tensor, whose tensors reach the results by value, but none by a gradient."""
    by_gradient, by_value = (
        {
            id(pairs[index][0])
            for index in Dependence([tensor for _, tensor in pairs], by_value=by_value).sources_of_any(results)
        }
        for by_value in (False, True)
    )
    return [node for node, _ in pairs if id(node) in by_value - by_gradient]


def warn_of_gradients_inside(edited, nodes):
    """Warn where the function takes gradients itself: they are ops like others, and copied as they were traced.

    Args:
        edited: list of the nodes that are changed.
        nodes: all `Nodes`.
    """
    gradients = [node for node in nodes if is_of_gradient(node.op)]
    if gradients and any(not is_of_gradient(node.op) for node in edited):
        _warn(
            f"the function takes gradients itself, as at {gradients[0]}, and these are copied as they were traced: no "
            "edit or rule counts in them. For that, intercept what is differentiated, inside of the function."
        )


def _listed(names):
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _warn(message):
    warn(f"tfjac: {message}")
