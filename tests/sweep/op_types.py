"""Which types of op a sample exercises."""

import tensorflow as tf
from tensorflow.python.framework import ops  # the table of gradients has no public reader


def op_types(maps):
    """Return the types of the ops of a sample that depend on its inputs, those inside functions too, sorted.

    Returns:
        A dict: "function" for those of the sample itself, "backward" for those between cotangents and gradients. Empty
        lists where TensorFlow raises.
    """
    try:
        return {"function": _types(*_function(maps)), "backward": _types(*_backward(maps))}
    except Exception:  # the checks say what it raises
        return {"function": [], "backward": []}


def differentiable_types():
    """Return the types of all ops for which TensorFlow has a gradient."""
    registry = ops.gradient_registry
    return sorted(name for name in registry.list() if registry.lookup(name) is not None)


def _function(maps):
    concrete = maps.values.get_concrete_function(*maps.xs)
    return concrete.graph, concrete.graph.inputs


def _backward(maps):
    cotangents = [tf.constant(u) for u in maps.like_ys()]
    concrete = maps.back.get_concrete_function(maps.xs, cotangents)
    return concrete.graph, concrete.graph.inputs[len(maps.xs) : len(maps.xs) + len(cotangents)]


def _types(graph, sources):
    reached, found = {tensor.ref() for tensor in sources}, set()
    for op in graph.get_operations():
        if any(tensor.ref() in reached for tensor in op.inputs):
            reached |= {output.ref() for output in op.outputs}
            found |= {op.type} | _inside(op)
    return sorted(found)


def _inside(op):
    """Types of the ops in the functions that `op` calls."""
    found = set()
    for value in op.node_def.attr.values():
        names = [value.func.name] if value.HasField("func") else [each.name for each in value.list.func]
        for name in names:
            body = getattr(op.graph._get_function(name), "graph", None)
            for inner in body.get_operations() if body is not None else ():
                found |= {inner.type} | _inside(inner)
    return found - {"Placeholder", "Const", "NoOp"}
