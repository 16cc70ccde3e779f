"""Walks over a graph: what a tensor depends on, and what of it depends on something else.

A set of tensors is a set of `tensor.ref()`: tensors compare by value, references by identity.
"""


# Ops that look at the shapes of their inputs alone.
SHAPE_ONLY = {
    *("OnesLike", "Rank", "Shape", "ShapeN", "Size", "VariableShape", "ZerosLike"),
    *("TensorListElementShape", "TensorListLength"),
}


def references(tensors):
    """Return the set of `ref()` of `tensors`."""
    return {tensor.ref() for tensor in tensors}


def ancestors(targets, stop=()):
    """List the ops that `targets` are computed from, inputs before consumers.

    Args:
        targets: tensors of one graph.
        stop: tensors at which the walk ends; the op that makes such a tensor is left out unless another path needs it.

    Returns:
        A list of `tf.Operation` in topological order. Control inputs are not followed.
    """
    stop = references(stop)
    ordered, opened, listed = [], set(), set()
    stack = [target.op for target in targets if target.ref() not in stop]
    while stack:
        op = stack[-1]
        if op.name not in opened:
            opened.add(op.name)
            stack.extend(tensor.op for tensor in op.inputs if tensor.ref() not in stop and tensor.op.name not in opened)
            continue
        stack.pop()
        if op.name not in listed:
            listed.add(op.name)
            ordered.append(op)
    return ordered


def between(sources, targets, by_value=False):
    """List the ops on the paths from `sources` to `targets`, inputs before consumers.

    Args:
        sources, targets: tensors of one graph.
        by_value: whether paths on which nothing but the shape of a source is looked at are left out.

    Returns:
        The ops that `targets` depend on and that depend on `sources`; ops above the sources are not followed.
    """
    reached, path = references(sources), []
    for op in ancestors(targets, stop=sources):
        if any(tensor.ref() in reached for tensor in op.inputs) and not (by_value and op.type in SHAPE_ONLY):
            path.append(op)
            reached |= references(op.outputs)
    if not by_value:
        return path
    needed, kept = references(targets), []
    for op in reversed(path):
        if references(op.outputs) & needed:
            kept.append(op)
            needed |= references(op.inputs)
    return kept[::-1]


def stands_before(op, other):
    """Return whether `op` was added to their graph before `other`."""
    names = (each.name for each in op.graph.get_operations())
    return next(name for name in names if name in (op.name, other.name)) == op.name
