"""Biases, scales and every other op in which a broadcast weight acts element by element."""

import tensorflow as tf

from tfjac.graph import axes, axis_labels, copy_op, from_the_right, times
from tfjac.jacobians.factors.rules.factor_rules import NoFactor, rule
from tfjac.jacobians.factors.uses import Use
from tfjac.jacobians.shapes import split_examples
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.linear.shapes import product, widened
from tfjac.types import Tensor


@rule("Add", "AddV2", "BiasAdd")
def _add(use: Use) -> Factor:
    return _summed(use, use.d, _aligned(use))


@rule("BroadcastTo", "Tile")
def _repeated(use: Use) -> Factor:
    """A weight spelt out for every example, such as the class token of a vision transformer."""
    return _summed(use, use.d, _aligned(use))


@rule("Sub")
def _sub(use: Use) -> Factor:
    return _summed(use, use.d if use.weight_index == 0 else -use.d, _aligned(use))


@rule("Mul")
def _mul(use: Use) -> Factor:
    """J_w = Σ x̄ ⊙ d over the axes along which w is broadcast."""
    return _summed(
        use, tf.math.multiply_no_nan(use.d, tf.math.conj(use.op.inputs[1 - use.weight_index])), _aligned(use)
    )


@rule("Complex")
def _complex(use: Use) -> Factor:
    """z = w + i·x or x + i·w for real w and x."""
    part = tf.math.real if use.weight_index == 0 else tf.math.imag
    return _summed(use, part(use.d), _aligned(use))


@rule("SelectV2")
def _select(use: Use) -> Factor:
    """J_w = Σ d over the elements that were chosen."""
    chosen = use.op.inputs[0] if use.weight_index == 1 else ~use.op.inputs[0]
    return _summed(use, tf.where(chosen, use.d, tf.zeros([], use.d.dtype)), _aligned(use))


@rule(
    "RealDiv",
    "Div",
    "DivNoNan",
    "Maximum",
    "Minimum",
    "Pow",
    "SquaredDifference",
    "MulNoNan",
    "Xdivy",
    "Xlogy",
    "Atan2",
)
def _general(use: Use) -> Factor:
    """The slope ∂z/∂w, element by element, from the op's own gradient at a weight spelt out to the output's shape.

    A gradient is linear over the reals alone: for complex z it takes the slope along 1 and that along i.
    """
    spelt = tf.broadcast_to(use.weight, tf.shape(use.output))
    inputs = [spelt if k == use.weight_index else tensor for k, tensor in enumerate(use.op.inputs)]
    output = copy_op(use.op, inputs).outputs[0]

    def slope(along: complex) -> Tensor:
        return tf.gradients(output, spelt, grad_ys=tf.fill(tf.shape(output), tf.constant(along, output.dtype)))[0]

    if not output.dtype.is_complex:
        return _summed(use, times(use.d, slope(1)), _aligned(use))
    parts = (tf.cast(part(use.d), use.d.dtype) for part in (tf.math.real, tf.math.imag))
    pulled = tf.add_n([slope(along) * part for along, part in zip((1, 1j), parts)])
    return _summed(use, pulled, _aligned(use))


def _aligned(use: Use) -> dict[int, int]:
    """Map each axis of the output along which the weight varies to the weight's own axis."""
    from_the_right_all = [from_the_right(tensor.shape.rank) for tensor in (*use.op.inputs, use.output)]
    operands, output = axis_labels(use.op) or (from_the_right_all[:-1], from_the_right_all[-1])
    labels = enumerate(operands[use.weight_index])
    return {output.index(label): axis for axis, label in labels if use.weight.shape[axis] != 1}


def _summed_over_repeats(use: Use, pulled: Tensor, varying: dict) -> Tensor:
    """Sum axes that are longer than the weight's, or may be where sizes are open, over the repeats of the weight."""
    weight, output = axes(use.weight), axes(use.output)
    for j, k in varying.items():
        if use.weight.shape[k] is None or use.weight.shape[k] != use.output.shape[j]:
            sizes = axes(pulled)
            repeats = output[j] // (weight[k] if isinstance(weight[k], int) else tf.maximum(weight[k], 1))
            split = tf.reshape(pulled, [*sizes[: 1 + j], repeats, weight[k], *sizes[2 + j :]])
            pulled = tf.reduce_sum(widened(split), 1 + j)
    return pulled


def _summed(use: Use, pulled: Tensor, varying: dict) -> Factor:
    """Sum `pulled[m, *output.shape]` over positions; `varying` maps output axes to axes of the weight, in order."""
    if use.axis.axis in varying:
        raise NoFactor("the weight varies along the axis of the examples")
    pulled = widened(_summed_over_repeats(use, pulled, varying))
    example, rank = use.axis.axis, use.output.shape.rank
    apart = [k for k in range(rank) if k not in varying and k != example]
    if apart:  # before the examples are brought to the front: there is less to move
        pulled = tf.reduce_sum(pulled, [1 + k for k in apart])
    axis = use.axis.moved(example - sum(k < example for k in apart))
    j = split_examples(pulled, axis, use.n, lead=1)
    positions = [2 + axis.axis + k for k in range(sum(size != 1 for size in (axis.outer, axis.inner)))]
    j = tf.reduce_sum(j, positions) if positions else j
    n, m, *sizes = axes(j)
    return DenseFactor(j if len(sizes) == 1 else tf.reshape(j, [n, m, product(sizes)]))
