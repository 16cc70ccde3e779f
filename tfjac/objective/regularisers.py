"""Squares of single parameters, such as L2 regularisers: a diagonal of the normal equations, never rows of J."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from tfjac.graph import Dependence
from tfjac.graph.op_types import ARITHMETIC
from tfjac.linear.prior import Prior
from tfjac.objective.terms import Term
from tfjac.types import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class VariablePrior:
    """What one term adds to the diagonal, for one variable of `size` elements.

    Attributes:
        index: which of the variables.
        precision: `[size]`, second derivative of the term.
        gradient: `[size]`, first derivative.
        number: scalar, the precision where it is known to be the same for all elements; else None.
    """

    index: int
    precision: tf.Tensor
    gradient: tf.Tensor
    number: tf.Tensor | None


def diagonal_prior(term: Term, dependence: Dependence) -> "VariablePrior | None":
    """Return the `VariablePrior` of c·u², or φ(u), where u = α·v + β elementwise, for one variable v; else None.

    Args:
        term: a term of the loss.
        dependence: `Dependence` on the handles of the variables.
    """
    derivatives = term.diagonal()
    if derivatives is None:
        return None
    found = _elementwise(term.root, dependence)
    if found is None:
        return None
    read, slope = found
    index = next(i for i, handle in enumerate(dependence.sources) if handle is read.op.inputs[0])
    precision, gradient = derivatives
    if slope is None:
        number = tf.reduce_max(precision) if term.uniform else None
        return VariablePrior(index, precision, gradient, number)
    return VariablePrior(index, precision * tf.square(slope), gradient * slope, None)


def _elementwise(root: Tensor, dependence: Dependence) -> tuple | None:
    """Follow `root` back to the reading of one variable; return it and α `[size]` (None for ones), or None."""
    tensor, slope = root, None
    while tensor.op.type != "ReadVariableOp":
        alive = [index for index, x in enumerate(tensor.op.inputs) if dependence.reaches(x)]
        if len(alive) != 1 or tensor.op.type not in _ELEMENTWISE:
            return None
        below = tensor.op.inputs[alive[0]]
        same_shape = below.shape == tensor.shape or tensor.op.type == "Reshape"
        if not (same_shape and below.shape.is_fully_defined()):
            return None
        factor = _factor(tensor.op, alive[0])
        if factor is not None:
            factor = tf.reshape(tf.broadcast_to(factor, tensor.shape), [-1])
            slope = factor if slope is None else slope * factor
        tensor = below
    return tensor, slope


_ELEMENTWISE = ARITHMETIC | {"Identity", "Reshape"}


def _factor(op: tf.Operation, alive: int) -> Tensor | None:
    """Return what `op` multiplies its input number `alive` by; None for one."""
    if op.type in ("Mul", "RealDiv", "Div"):
        other = op.inputs[1 - alive]
        return other if op.type == "Mul" else 1 / other
    return tf.constant(-1, op.outputs[0].dtype) if op.type == "Neg" or (op.type == "Sub" and alive == 1) else None


def combined(priors: "list[VariablePrior]", sizes: Sequence[int], dtype: tf.DType) -> Prior:
    """Return the `Prior` that a list of `VariablePrior` adds up to; `sizes` are those of all variables."""
    precision = [tf.zeros([size], dtype) for size in sizes]
    gradient = [tf.zeros([size], dtype) for size in sizes]
    numbers = [tf.zeros([], dtype) for _ in sizes]
    for prior in priors:
        precision[prior.index] += prior.precision
        gradient[prior.index] += prior.gradient
        numbers[prior.index] += 0 if prior.number is None else prior.number
    uniform = all(prior.number is not None for prior in priors)
    return Prior(tf.concat(precision, 0), tf.concat(gradient, 0), tf.stack(numbers) if uniform else None, not priors)
