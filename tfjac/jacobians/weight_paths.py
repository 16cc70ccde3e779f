"""From the tensor that meets the data back to the variable it was computed from."""

import math

import tensorflow as tf

from tfjac.graph import differentiable_path, references
from tfjac.jacobians.cotangents import gradients_or_zeros
from tfjac.jacobians.factors import DenseFactor, OuterFactor
from tfjac.jacobians.shapes import axes

# Ops that leave the row-major order of the elements as it is, so that columns keep their places. The real part of a
# complex weight is among them: its own columns are real.
ORDER_KEEPING = {"ReadVariableOp", "Identity", "Reshape", "ExpandDims", "Squeeze", "Cast", "Real"}


def columns_of_source(factor, weight, source):
    """Turn a factor with respect to `weight` into one with respect to `source`.

    Args:
        factor: the `Factor` whose columns belong to the elements of `weight`.
        weight: the tensor at the use.
        source: the handle of a variable, or a tensor, that `weight` is computed from.

    Returns:
        The factor whose columns belong to `source`; None where `weight` does not depend on it. The same tensors where
        the path only reads, casts, reshapes, makes complex, or transposes a matrix; else n·m products with the
        transposed Jacobian of the path.
    """
    if weight is source:
        return factor
    path = differentiable_path([source], [weight])
    if not path:
        return None
    reached = references([source]).union(*(references(op.outputs) for op in path))
    for op in reversed(path):
        inputs = [k for k, tensor in enumerate(op.inputs) if tensor.ref() in reached]
        factor_before = _factor_before(op, inputs[0], factor, weight) if len(inputs) == 1 else None
        if factor_before is None:
            return _pulled_back(factor, weight, source)
        factor, weight = factor_before, op.inputs[inputs[0]]
    return factor


def _factor_before(op, index, factor, weight):
    """Return the factor with respect to input `index`, of which `op` made `weight`; None where it must be computed."""
    before = op.inputs[index]
    if op.type in ORDER_KEEPING:
        return factor.real() if weight.dtype.is_complex and before.dtype.is_floating else factor
    if op.type == "Conj":
        return factor.conjugated()
    if op.type == "Complex" and before.shape.is_fully_defined() and before.shape == weight.shape:
        return factor.real() if index == 0 else factor.imag()
    if op.type in ("Transpose", "ConjugateTranspose"):
        moved = _before_transpose(op, factor, weight)
        return moved.conjugated() if moved is not None and op.type == "ConjugateTranspose" else moved
    return None


def _before_transpose(op, factor, weight):
    order = tf.get_static_value(op.inputs[1])
    if order is not None and list(order) == sorted(order):
        return factor
    swaps = order is not None and list(order) == [1, 0]
    return factor.transposed(weight.shape) if swaps and isinstance(factor, OuterFactor) else None


def _pulled_back(factor, weight, source):
    rows = factor.dense()
    n, m, q = axes(rows)

    def pull_back(row):
        return gradients_or_zeros(weight, [source], tf.cast(tf.reshape(row, tf.shape(weight)), weight.dtype))[0]

    pulled = tf.vectorized_map(pull_back, tf.reshape(rows, [n * m, q]))
    size = math.prod(pulled.shape[1:]) if pulled.shape[1:].is_fully_defined() else tf.size(pulled) // (n * m)
    return DenseFactor(tf.reshape(pulled, [n, m, size]))
