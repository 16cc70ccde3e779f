"""What no rule covers: the op's own gradient, one example and one output at a time. Exact, and slower by a factor n."""

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import axes, handle_shape, input_gradients
from tfjac.jacobians.factors.rules.factor_rules import NoFactor, factor_of
from tfjac.jacobians.factors.uses import Use
from tfjac.jacobians.passes.linearise import LinearMap
from tfjac.jacobians.shapes import inner_size
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.linear.shapes import product
from tfjac.types import Tensor


def factor_by_rule(use: Use) -> Factor:
    """Return the factor of any `Use`: by the rule of its op, or, with a warning, by the op's own gradient."""
    try:
        return factor_of(use)
    except NoFactor as reason:
        warn(
            f"tfjac: no factor for the weight at op {use.op.name!r} of type {use.op.type} ({reason}): its gradient is "
            "taken example by example.",
        )
        return factor_by_op_gradient(use)


def factor_by_op_gradient(use: Use) -> DenseFactor:
    """Return the dense factor of any use of a weight, from the registered gradient of its op.

    Cost: n·m gradients of this one op over the whole batch, each with the cotangents of all other examples set to zero.
    """
    n, m = use.n, axes(use.d)[0]
    shape = axes(use.output)
    outer, inner = use.axis.outer, inner_size(use.output, use.axis, n)
    along = [1] * len(shape)

    mask = tf.tile(tf.eye(n, dtype=use.d.dtype)[:, None, :, None], [1, outer, 1, inner])
    mask = tf.reshape(mask, [n, 1, *along[: use.axis.axis], shape[use.axis.axis], *along[use.axis.axis + 1 :]])
    rows = _pulled(use, tf.reshape(mask * use.d, [n * m, *shape]))
    return DenseFactor(tf.reshape(rows, [n, m, product(_sizes(use.weight))]))


def pulled_through_op(use: Use) -> Tensor:
    """Return the cotangents `[m, *weight.shape]` of the weight of a `Use`, by the registered gradient of its op."""
    return _pulled(use, use.d)


def _pulled(use: Use, stack: Tensor) -> Tensor:
    seed = tf.zeros(axes(use.output), use.d.dtype)
    (rows,) = LinearMap([seed], [_gradient(use, seed)], [use.output]).on_stacks(stack)
    return rows


def _gradient(use: Use, cotangent: Tensor) -> Tensor:
    """The gradient of the weight at this input alone, which the op may read at another one too; zeros for none."""
    cotangents = [_zeros(output) for output in use.op.outputs]
    cotangents[use.output_index] = tf.cast(cotangent, use.output.dtype)
    gradient = input_gradients(use.op, cotangents)[use.weight_index]
    if gradient is None:
        return tf.zeros(_sizes(use.weight), use.d.dtype)
    gradient = tf.convert_to_tensor(gradient)
    if use.weight.dtype != tf.resource:
        gradient.set_shape(use.weight.shape)  # which Python functions do not tell
    return gradient


def _zeros(output: Tensor) -> Tensor | None:
    return tf.zeros_like(output) if output.dtype.is_floating or output.dtype.is_complex else None


def _sizes(weight: Tensor) -> list:
    """The sizes of a tensor, or of the variable that a handle stands for."""
    if weight.dtype != tf.resource:
        return axes(weight) if weight.shape.rank is not None else [tf.size(weight)]
    shape = handle_shape(weight)
    return shape.as_list() if shape.is_fully_defined() else tf.unstack(tf.raw_ops.VariableShape(input=weight))
