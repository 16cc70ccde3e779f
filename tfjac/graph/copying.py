"""Copying part of a graph: replay it with other values, or inline the functions it calls."""

from tfjac.graph import _private, grouped_convolution
from tfjac.graph.assignments import check_not_assigned_since
from tfjac.graph.traversal import ancestors, between, references
from tfjac.graph.variables import handle_here, handle_in

CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def replay(targets, substitutions=(), reread=()):
    """Evaluate `targets` again, in the current default graph, with other values for some of their ancestors.

    Only ops that depend on what changed are copied; every other tensor is used as it is. The current graph may be the
    graph of `targets` or a loop body or branch nested in it.

    Args:
        targets: list of tensors of one graph.
        substitutions: pairs `(old, new)` of tensors of the same shape and dtype; `new` stands for `old`.
        reread: variables that are read afresh at this point of the program, after earlier assignments. Variables on
        which the targets do not depend are allowed.

    Returns:
        A list of tensors like `targets`. A target that depends on nothing that changed comes back as it is.
    """
    if not targets:
        return []
    handles = [handle_in(targets[0].graph, variable) for variable in reread]
    mapping = {old.ref(): new for old, new in substitutions}
    for handle, variable in zip(handles, reread):
        if handle is not None:
            mapping[handle.ref()] = handle_here(variable)
    changed = [old for old, _ in substitutions] + [handle for handle in handles if handle is not None]
    _copy(between(changed, targets), mapping)
    return [mapping.get(target.ref(), target) for target in targets]


def inline_calls(targets, depends_on=None):
    """Return tensors equal to `targets` whose graph calls no function on the way.

    The bodies of nested `tf.function` calls, and of reloaded SavedModels, are copied in place, recursively: left
    alone, a loaded function has no Python gradient, and nothing can be read through any of them. Loops and branches
    stay what they are. Grouped convolutions get a gradient that is right everywhere, see `grouped_convolution`.

    Args:
        targets: list of tensors of one graph.
        depends_on: where given, only calls that depend on one of these tensors are inlined.

    Returns:
        A list of tensors like `targets`; the same tensors where there is no call. Costs one copy of the ops between
        the first call and the targets; ops with side effects keep running once, in the original call.

    Raises:
        ValueError: where a variable that a call reads is assigned after it: the copy would read the new value.
    """
    path = ancestors(targets) if depends_on is None else between(depends_on, targets)
    grouped_convolution.differentiate_by_groups(path)
    calls = [op for op in path if op.type in CALLS]
    if not calls:
        return list(targets)
    for call in calls:
        check_not_assigned_since(call)
    mapping = {}
    _copy(_from_the_first_on(calls, path), mapping)
    return [mapping.get(target.ref(), target) for target in targets]


def _from_the_first_on(calls, path):
    """The ops of `path` that are calls or depend on one."""
    names, reached, ops = {op.name for op in calls}, set(), []
    for op in path:
        if op.name in names or any(tensor.ref() in reached for tensor in op.inputs):
            reached |= references(op.outputs)
            ops.append(op)
    return ops


def transplant(targets, values):
    """Copy all that `targets` are computed from, constants too, into the current graph, calls inlined.

    Args:
        targets: list of tensors of one graph, usually of the body of a function, loop or branch.
        values: pairs `(old, new)`: tensors of that graph at which the copy begins, and what stands for them here.

    Returns:
        A dict from the `ref()` of each old tensor to the new one.
    """
    mapping = {old.ref(): new for old, new in values}
    given = set(mapping)
    begins = [reference.deref() for reference in given]
    _copy([op for op in ancestors(targets, stop=begins) if not references(op.outputs) & given], mapping)
    return mapping


def _copy(ops, mapping):
    """Copy `ops` (in topological order) into the current graph, extending `mapping` from old to new tensors."""
    for op in ops:
        inputs = [mapping.get(tensor.ref(), tensor) for tensor in op.inputs]
        outputs = _copied(op, inputs)
        for old, new in zip(op.outputs, outputs):
            mapping.setdefault(old.ref(), new)


def _copied(op, inputs):
    """Return the outputs of a copy of `op`: of the body of a call, by groups where no other device than XLA's would."""
    if op.type in CALLS:
        return _inlined(op, inputs)
    if op.type == "Conv3D" and grouped_convolution.is_grouped(op):
        return [grouped_convolution.convolve_by_groups(op, *inputs)]
    copy = _private.copy_op(op, inputs)
    grouped_convolution.differentiate_by_groups([copy])
    return copy.outputs


def _inlined(call, inputs):
    """Copy the body of the function that `call` calls, fed with `inputs`; return its outputs."""
    (body,) = _private.function_bodies(call, "f")
    mapping = transplant(body.outputs, zip(body.inputs, inputs))
    return [mapping[output.ref()] for output in body.outputs]
