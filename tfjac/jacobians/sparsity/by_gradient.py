"""What no rule covers, read off the gradient of the op: it is linear in the cotangents, and made of simpler ops."""

import numpy as np
import tensorflow as tf

from tfjac.graph import references
from tfjac.jacobians.sparsity.index_sets import union
from tfjac.jacobians.sparsity.rules import NoRule


def index_sets_by_gradient(step, pattern_between):
    """Return the index sets of the outputs of `step.op`, from those of its inputs.

    The op's own gradient (or the custom one that a user gave it) is traced for it alone. What its result depends on in
    the cotangents of the outputs is, transposed, what the outputs depend on in the inputs.

    Args:
        step: the `Step`.
        pattern_between: function of sources, their sizes, and targets, that gives a `SparsityPattern`.

    Raises:
        NoRule: where the op has no gradient, or one with ops that are not known either.
    """
    op = step.op
    patterns = {op.inputs[k].ref(): step.patterns[k] for k in step.carriers}
    inputs = [key.deref() for key in patterns]
    outputs = [output for output in op.outputs if output.dtype.is_floating]
    if any(attribute.type in ("func", "list(func)") for attribute in op.op_def.attr) or not outputs:
        raise NoRule("it calls functions")
    if not all(tensor.dtype.is_floating for tensor in inputs):
        raise NoRule("it reads variables or complex numbers")
    cotangents = [tf.zeros_like(output) for output in outputs]
    gradients = _gradients(outputs, inputs, cotangents)
    sizes = [cotangent.shape.num_elements() for cotangent in cotangents]
    local = pattern_between(cotangents, sizes, gradients)
    if local.opaque_ops:
        raise NoRule("its gradient has ops that are not known either")
    ends = np.cumsum([patterns[key].shape[0] for key in patterns])
    blocks = np.split(np.arange(local.shape[0]), ends[:-1])
    matrix = local.csr()
    total = union([matrix[rows].T.tocsr() @ patterns[key] for rows, key in zip(blocks, patterns)])
    parts = iter(np.split(np.arange(total.shape[0]), np.cumsum(sizes)[:-1]))
    known = references(outputs)
    return [total[next(parts)] if output.ref() in known else None for output in op.outputs]


def _gradients(outputs, inputs, cotangents):
    try:
        found = tf.gradients(outputs, inputs, grad_ys=cotangents, stop_gradients=inputs, unconnected_gradients="zero")
    except LookupError as missing:
        raise NoRule("it has no gradient") from missing
    return [tf.convert_to_tensor(gradient) for gradient in found]
