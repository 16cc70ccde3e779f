"""Copying part of a graph: the one copier, and replaying tensors with other values for some of their ancestors."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying import cudnn
from tfjac.graph.copying.rebuilding import is_rebuilt, rebuilt
from tfjac.graph.facts import facts_of, is_branching, is_call, is_conditional, is_constant, is_identities, is_loop
from tfjac.graph.gradients import custom_gradients, grouped_convolution, mending
from tfjac.graph.reading import statefulness
from tfjac.graph.reading.static_values import static_value
from tfjac.graph.reading.traversal import ancestors, between, carries_gradient, references
from tfjac.graph.reading.variables import handle_here, handle_in
from tfjac.ops._library import register_gradient
from tfjac.types import Copies, OpEdit, Tensor, TensorPairs, Variable

_COPIED_LOOP, _UNTRACED = "TfjacCopiedLoop", "TfjacUntracedGradient"
"""Gradients of copies: of loops, and of ops whose custom gradient cannot be traced."""

custom_gradients.OWN.add(_COPIED_LOOP)


_SMALL = 128
"""Elements of a constant that is copied rather than captured: one that may stand for shapes, axes and the like."""


def replay(
    targets: Sequence[Tensor],
    substitutions: Sequence[tuple[Tensor, Tensor]] = (),
    reread: Sequence[Variable] = (),
    constant: Callable[[tf.Operation], bool] = statefulness.draws,
    differentiated: Sequence[Tensor] = (),
) -> list[Tensor]:
    """Evaluate `targets` again, in the current default graph, with other values for some of their ancestors.

    Only ops that depend on what changed are copied; every other tensor is used as it is. So are random numbers and
    what else an op draws from a state: it is drawn once, and what is evaluated again is the same function. The current
    graph may be the graph of `targets` or a loop body or branch nested in it.

    Args:
        targets: list of tensors of one graph.
        substitutions: pairs `(old, new)` of tensors of the same shape and dtype; `new` stands for `old`.
        reread: variables that are read afresh at this point of the program, after earlier assignments. Variables on
        which the targets do not depend are allowed.
        constant: function from an op to whether its outputs are used as they are, whatever its inputs.
        differentiated: tensors that the targets are derivatives of. What these are computed from, a constant too, may
            be what another derivative is taken by: in a loop it is captured, not copied.

    Returns:
        A list of tensors like `targets`. A target that depends on nothing that changed comes back as it is.

    Raises:
        ValueError: where a loop or branch that must run again draws random numbers inside, or assigns.
    """
    if not targets:
        return []
    handles = [handle_in(targets[0].graph, variable) for variable in reread]
    mapping = {old.ref(): new for old, new in substitutions}
    for handle, variable in zip(handles, reread):
        if handle is not None:
            mapping[handle.ref()] = handle_here(variable)
    changed = [old for old, _ in substitutions] + [handle for handle in handles if handle is not None]
    ops = between(changed, targets, custom_gradients.inputs_read, constant=constant)
    for op in ops:
        statefulness.check_runs_again(op)
    if tf.compat.v1.get_default_graph() is not targets[0].graph:
        ops = _small_constants(ops, mapping, differentiated) + ops
    copy_ops(ops, mapping)
    return [mapping.get(target.ref(), target) for target in targets]


def _small_constants(
    ops: Sequence[tf.Operation], mapping: Copies, differentiated: Sequence[Tensor]
) -> list[tf.Operation]:
    """List the ops by which what `ops` read is computed from small constants alone.

    A loop body would capture it, and nothing that reads its graph could tell what it is, such as the width of Huber's
    loss. Not of it is what `differentiated` are computed from by numbers, and what a user's eager tensors became: a
    gradient could reach it. Constants of derivatives themselves are copied: of `tf.where(..., 0, x)` in a loop that
    captures the zero TensorFlow 2.21 loses the result, which has shape (0,) then.
    """
    graph, fixed = ops[0].graph if ops else None, {}
    sources = _private.captured_constants(graph) if differentiated else set()
    sources |= {op.name for op in ancestors(differentiated) if is_constant(op)}

    def is_source(op: tf.Operation) -> bool:
        return op.name in sources and carries_gradient(op.outputs[0].dtype)

    def is_fixed(tensor: Tensor) -> bool:
        if tensor.ref() not in fixed:
            op, size = tensor.op, tensor.shape.num_elements()
            small = size is not None and size <= _SMALL and tensor.ref() not in mapping
            computed = len(op.inputs) > 0 and not op.op_def.is_stateful and not holds_bodies(op)
            fixed[tensor.ref()] = small and (
                (is_constant(op) and not is_source(op)) or (computed and all(map(is_fixed, op.inputs)))
            )
        return fixed[tensor.ref()]

    read = {tensor.ref(): tensor for op in ops for tensor in op.inputs if is_fixed(tensor)}
    for reference, tensor in read.items():
        value = static_value(tensor) if tensor.dtype.is_integer and not is_constant(tensor.op) else None
        if value is not None:  # one op, in place of those that compute shapes
            mapping[reference] = tf.constant(value, tensor.dtype, tensor.shape)
    return ancestors([tensor for reference, tensor in read.items() if reference not in mapping])


def transplant(targets: Sequence[Tensor], values: TensorPairs, edit: OpEdit | None = None) -> Copies:
    """Copy all that `targets` are computed from, constants too, into the current graph, calls inlined.

    Args:
        targets: list of tensors of one graph, usually of the body of a function, loop or branch.
        values: pairs `(old, new)`: tensors of that graph at which the copy begins, and what stands for them here.
        edit: as in `copy_ops`.
    """
    mapping = {old.ref(): new for old, new in values}
    given = set(mapping)
    begins = [reference.deref() for reference in given]
    path = ancestors(targets, begins, custom_gradients.inputs_read)
    copy_ops([op for op in path if not references(op.outputs) & given], mapping, edit)
    return mapping


def place_all(graph: tf.Graph, targets: Sequence[Tensor], values: TensorPairs, edit: OpEdit | None = None) -> Copies:
    """Copy a whole function into the current graph: what `targets` are computed from, and what the function does.

    Assignments, prints and checks are copied in the order in which they were made.

    Args:
        targets: list of its tensors.
        values: as in `transplant`.
        edit: as in `copy_ops`.
    """
    mapping = {old.ref(): new for old, new in values}
    given, ops = set(mapping), needed_ops(graph, targets)
    copy_ops([op for op in ops if not op.outputs or not references(op.outputs) <= given], mapping, edit)
    return mapping


def needed_ops(graph: tf.Graph, targets: Iterable[Tensor]) -> list[tf.Operation]:
    """List the ops of a function that `targets` are computed from, or that it runs for what they do, in their order."""
    found, stack = set(), [*(target.op for target in targets), *_private.acting_ops(graph)]
    while stack:
        op = stack.pop()
        if op.name not in found:
            found.add(op.name)
            stack.extend(tensor.op for tensor in custom_gradients.inputs_read(op))
            stack.extend(op.control_inputs)
    return [op for op in graph.get_operations() if op.name in found]


def copy_inside(
    op: tf.Operation, inputs: Sequence[Tensor], edit_of: Callable[[str, int], OpEdit | None]
) -> list[Tensor]:
    """Return the outputs of a call, loop or branch like `op`, its bodies copied with edits of their own.

    Args:
        op: an op that `holds_bodies`.
        inputs: list of tensors that it reads here.
        edit_of: function from an attribute of `op` and the index of a body that it names to the `edit` of its ops.
    """
    names = {
        id(body): (attribute, index)
        for attribute in facts_of(op).bodies
        for index, body in enumerate(_private.function_bodies(op, attribute))
    }

    def copied(targets: Sequence[Tensor], values: TensorPairs) -> Copies:
        body = targets[0].graph
        return place_all(body, targets, values, edit_of(*names[id(body)]) if id(body) in names else None)

    if is_call(op):
        (body,) = _private.function_bodies(op, "f")
        with tf.name_scope(_scope_of(op)):
            mapping = copied(body.outputs, zip(body.inputs, inputs))
        return [mapping[output.ref()] for output in body.outputs]
    return rebuilt(op, inputs, copied)


def holds_bodies(op: tf.Operation) -> bool:
    """Return whether `op` is a call, loop or branch."""
    return bool(facts_of(op).bodies)


def passes_to_bodies(op: tf.Operation) -> bool:
    """Return whether a copy of `op` reaches into its bodies: those of calls, and what `is_rebuilt`."""
    return is_call(op) or is_rebuilt(op)


def copy_ops(ops: Iterable[tf.Operation], mapping: Copies, edit: OpEdit | None = None) -> None:
    """Copy `ops` (in topological order) into the current graph, extending `mapping` from old to new tensors.

    Args:
        mapping: dict from the `ref()` of old tensors to the tensors that stand for them; others stand for themselves.
        edit: function `(op, inputs, copied)` that returns the outputs that stand for those of `op`; `copied()` returns
            those of a copy. It is asked inside of calls, and of loops and branches that are written again, too.
    """
    for op in ops:
        inputs = [mapping[x.ref()] if x.ref() in mapping else _read_here(x) for x in op.inputs]
        copied = functools.partial(_copied, op, inputs, mapping, edit)
        for old, new in zip(op.outputs, copied() if edit is None else edit(op, inputs, copied)):
            mapping.setdefault(old.ref(), new)


def _read_here(tensor: Tensor) -> Tensor:
    """Return a tensor, or a copy of a small integer: shapes are told from it, and what is captured tells none."""
    small = is_constant(tensor.op) and tensor.dtype.is_integer and (tensor.shape.num_elements() or 0) <= _SMALL
    if not small or tensor.graph is tf.compat.v1.get_default_graph():
        return tensor
    return _private.copy_op(tensor.op, []).outputs[0]


def _copied(op: tf.Operation, inputs: Sequence[Tensor], mapping: Copies, edit: OpEdit | None) -> list[Tensor]:
    """Return the outputs of a copy of `op`: calls inlined, custom gradients closed, branches written again.

    Of a choice that the graph fixes the branch that is taken is inlined: `tf.image.rot90` is made of such.
    """
    body = function_run(op, inputs)
    if body is not None:
        with tf.name_scope(_scope_of(op)):
            copies = transplant(body.outputs, zip(body.inputs, inputs[len(inputs) - len(body.inputs) :]), edit)
        return [copies[output.ref()] for output in body.outputs]
    if cudnn.is_layer_of_cudnn(op):
        with tf.name_scope(_scope_of(op)):
            return cudnn.by_time_steps(op, inputs)
    if op.graph is not tf.compat.v1.get_default_graph() and is_rebuilt(op):
        return rebuilt(op, inputs, lambda targets, values: transplant(targets, values, edit))
    if grouped_convolution.is_grouped(op) and not grouped_convolution.runs_in_groups(op):
        return [grouped_convolution.convolve_by_groups(op, *inputs)]
    if custom_gradients.is_open(op):
        reads = [mapping.get(tensor.ref(), tensor) for tensor in custom_gradients.captured(op)]
        values = inputs if is_identities(op) else _private.copy_op(op, inputs).outputs
        return custom_gradients.close(op, values, inputs, reads)
    copy = _private.copy_op(op, inputs)
    if is_loop(op):
        _private.set_gradient(copy, _COPIED_LOOP)
    elif custom_gradients.is_custom(op) and not custom_gradients.is_closed(op):
        _private.set_gradient(copy, _UNTRACED)
    mending.mend([copy])
    tell_shapes(op, copy.outputs)
    return grouped_convolution.convolved_alone(copy) if grouped_convolution.is_grouped(copy) else copy.outputs


def function_run(op: tf.Operation, inputs: Sequence[Tensor]) -> tf.Graph | None:
    """Return the one function that `op` runs whatever it is given: a call's, or the branch that the graph fixes.

    Args:
        op: an op of any type.
        inputs: list of tensors that it reads here.
    """
    if is_call(op):
        return _private.function_bodies(op, "f")[0]
    if not is_branching(op) or op.op_def.is_stateful:
        return None
    chosen = static_value(inputs[0])
    if chosen is None:
        return None
    if is_conditional(op):
        return _private.function_bodies(op, "then_branch" if chosen.any() else "else_branch")[0]
    branches = _private.function_bodies(op, "branches")
    return branches[int(chosen) if 0 <= chosen < len(branches) else -1]


def _scope_of(op: tf.Operation) -> str:
    """The scope of names of a copy of `op`, for what is copied out of it: so names keep saying which layer it is of."""
    around, own = tf.compat.v1.get_default_graph().get_name_scope(), op.name.rpartition("/")[0]
    return "".join(f"{part}/" for part in (around, own) if part)


@register_gradient(custom_gradients.CLOSED)
def _closed_gradient(op: tf.Operation, *cotangents: Tensor | None) -> list[Tensor | None]:
    """The backward of a closed copy, copied to where the gradient is taken."""
    backward = custom_gradients.backward_of(op)
    given = [
        (placeholder, tf.zeros_like(output) if cotangent is None else cotangent)
        for placeholder, cotangent, output in zip(backward.cotangents, cotangents, op.outputs)
        if placeholder is not None
    ]
    given += [(inner, outer) for outer, inner in backward.captures]

    def copied() -> list[Tensor | None]:
        mapping = place_all(backward.graph, backward.targets, given)
        return [None if gradient is None else mapping[gradient.ref()] for gradient in backward.gradients]

    return _private.after_effects(copied)


@register_gradient(_COPIED_LOOP)
def _gradient_of_copied_loop(op: tf.Operation, *cotangents: Tensor | None) -> Any:
    """TensorFlow names what it makes of the bodies of a loop after them, and copies of one loop have them in common."""
    _private.name_bodies_apart(op)
    return _private.gradient_of_type(op.type)(op, *cotangents)


@register_gradient(_UNTRACED)
def _untraced_gradient(op: tf.Operation, *cotangents: Tensor | None) -> NoReturn:
    """The Python function would go back through tensors of the graph that it was made in, or is not there at all."""
    raise LookupError(
        "A custom gradient was met that cannot be taken outside of the graph that it was made in. Save functions that "
        "are loaded with their custom gradients, as tf.saved_model.save does unless told otherwise. "
        f"Received: op {op.name!r} of type {op.type}, whose gradient raises {custom_gradients.reason_untraced(op)}"
    )


def tell_shapes(op: tf.Operation, copies: Sequence[Tensor]) -> None:
    """Set the static shapes of the outputs of a copy, of which TensorFlow knows not even the rank, to those of `op`.

    Such an op is a Python function, say. Of other ops the shape that a copy has is right, and that of the original may
    be too narrow: what a shape is computed from may have been replaced. Sizes along axis 0 are told only where the
    inputs still have theirs, as a copy may be of other examples.

    Args:
        op: the original.
        copies: list of the outputs of its copy.
    """
    unknown = [
        (old, new) for old, new in zip(op.outputs, copies) if new.shape.rank is None and old.shape.rank is not None
    ]
    if not unknown:
        return
    pairs = list(zip(op.inputs, copies[0].op.inputs))
    may_be_shape = facts_of(op).kind != "python" and any(x.dtype.is_integer for x in op.inputs)
    if may_be_shape or not all(_alike(old.shape, new.shape) for old, new in pairs):
        return
    same = all(old.shape.rank == 0 or (old.shape[0] is not None and old.shape[0] == new.shape[0]) for old, new in pairs)
    for old, new in unknown:
        new.set_shape(old.shape if same or not old.shape.rank else [None, *old.shape[1:]])


def _alike(old: tf.TensorShape, new: tf.TensorShape) -> bool:
    """Return whether both are known to have the same rank, and the same sizes but for axis 0."""
    return old.rank is not None and old.rank == new.rank and list(old[1:]) == list(new[1:])
