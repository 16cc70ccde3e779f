"""Whether two tensors are one and the same, also where it was written twice."""


def same(one, other):
    """Return whether two tensors are one, or the same written twice, as the factors of (y − p) * (y − p) are."""
    pending, seen = [(one, other)], set()
    while pending:
        left, right = pending.pop()
        if left is right or (left.ref(), right.ref()) in seen:
            continue
        seen.add((left.ref(), right.ref()))
        if not _alike(left, right):
            return False
        pending += zip(left.op.inputs, right.op.inputs)
    return True


def _alike(one, other):
    """Return whether two tensors are the same if the inputs of their ops are."""
    left, right = one.op, other.op
    if left.type != right.type or one.value_index != other.value_index or len(left.inputs) != len(right.inputs):
        return False
    repeatable = left.type == "Const" or (
        left.inputs and (left.type == "ReadVariableOp" or not left.op_def.is_stateful)
    )
    return repeatable and dict(left.node_def.attr) == dict(right.node_def.attr)
