"""What no rule covers, read off the gradient of the op: it is linear in the cotangents, and made of simpler ops."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfjac.graph import calls_functions, custom_ops, inline_calls, is_affine
from tfjac.jacobians.sparsity.index_sets import composed, each_its_own, empty, union
from tfjac.jacobians.sparsity.known import Known
from tfjac.jacobians.sparsity.rules import NoIndexSets, has_cotangents
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step
from tfjac.types import Tensor


def index_sets_by_gradient(step: Step) -> Patterns:
    """Return the index sets of the outputs of `step.op`, from those of its inputs.

    The op's own gradient (or the custom one that a user gave it) is traced for it alone. What its result depends on in
    the cotangents of the outputs is, transposed, what the outputs depend on in the inputs. There is no telling what an
    op depends on that has no gradient, so where one is met inside a gradient, nothing is known.

    Raises:
        NoIndexSets: where the op has no gradient, or one with ops that are not known either.
    """
    op, walk = step.op, step.walk
    kind = op.type, op.node_def.attr["_gradient_op_type"].s if "_gradient_op_type" in op.node_def.attr else None
    inputs = list({op.inputs[k].ref(): op.inputs[k] for k in step.carriers}.values())
    outputs = [op.outputs[k] for k in sorted(step.wanted)]
    tensors = inputs + outputs
    if kind in walk.reading or calls_functions(op) or not all(has_cotangents(tensor.dtype) for tensor in tensors):
        raise NoIndexSets("its gradient cannot be read")
    if any(is_affine(each) for each in custom_ops([op])):
        raise NoIndexSets("its custom gradient adds something of its own to what flows back")
    graph, cotangents, gradients = _pull_back(outputs, inputs, [walk.shape(output) for output in outputs])
    if walk.by_value and any(gradient is None for gradient in gradients):
        raise NoIndexSets("it has no gradient")
    inside = walk.through_gradient(Known(graph, xs=cotangents, enclosing=walk.known), kind)
    sizes = [walk.size(output) for output in outputs]
    found = iter(inside.carry(each_its_own(cotangents, sizes), [each for each in gradients if each is not None]))
    if inside.opaque:
        raise NoIndexSets("its gradient has ops that are not known either")
    local = [None if gradient is None else next(found) for gradient in gradients]
    patterns = {op.inputs[k].ref(): step.patterns[k] for k in step.carriers}
    parts = [composed(sets.T.tocsr(), patterns[each.ref()]) for each, sets in zip(inputs, local) if sets is not None]
    columns = next(iter(patterns.values())).shape[1]
    total = union(parts) if parts else empty(sum(sizes), columns)
    blocks = iter(np.split(np.arange(total.shape[0]), np.cumsum(sizes)[:-1]))
    return [total[next(blocks)] if k in step.wanted else None for k in range(len(op.outputs))]


def _pull_back(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], shapes: Sequence[Sequence[int]]
) -> tuple[tf.Graph, Sequence[Tensor], list[Tensor | None]]:
    """Trace the gradient in a graph of its own; return this, the cotangents, and the gradients, None for no path."""
    traced = []

    def pull_back(*cotangents: Tensor) -> None:
        gradients = tf.gradients(outputs, inputs, list(cotangents), stop_gradients=inputs)
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
        present = iter(inline_calls(dense, depends_on=cotangents))
        traced.extend([cotangents, [None if gradient is None else next(present) for gradient in gradients]])

    specs = [tf.TensorSpec(shape, output.dtype) for output, shape in zip(outputs, shapes)]
    with outputs[0].graph.as_default():
        try:
            function = tf.function(pull_back, autograph=False).get_concrete_function(*specs)
        except Exception as error:  # whatever a gradient that a user wrote may raise
            raise NoIndexSets("it has no gradient") from error
    return function.graph, *traced
