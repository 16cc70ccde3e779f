"""Finding the squares in a loss: loss = Σ c·u² + constant, whatever reductions and weights lie between.

The walk goes back from the loss through ops that are linear in what depends on the variables (sums, means,
products with weights, divisions by counts, masks) and stops at squares. As everything after a square is linear,
c = ∂loss/∂(u²) is exact and does not depend on u. Sample weights, class weights, masks, several outputs with loss
weights and L2 regularisers are all covered by this, with no special case.
"""

import dataclasses

import tensorflow as tf

from tfjac.graph import differentiable_path, references

FIRST_INPUT = {
    "BroadcastTo", "Cast", "CheckNumerics", "Cumsum", "Div", "DivNoNan", "EnsureShape", "ExpandDims", "GatherNd",
    "GatherV2", "Identity", "Mean", "MirrorPad", "Neg", "Pad", "RealDiv", "Reshape", "ReverseV2", "SegmentMean",
    "SegmentSum", "Slice", "Snapshot", "Squeeze", "StridedSlice", "Sum", "Tile", "Transpose", "Unpack",
    "UnsortedSegmentSum",
}  # fmt: skip
"""Linear in the first input; the others (axes, shapes, indices, divisors) must not depend on the variables."""

ANY_INPUT = {"Add", "AddN", "AddV2", "ConcatV2", "IdentityN", "Pack", "PadV2", "Select", "SelectV2", "Split", "Sub"}
"""Linear in all floating-point inputs at once."""

ONE_INPUT = {"BatchMatMul", "BatchMatMulV2", "Einsum", "MatMul", "Mul", "MulNoNan"}
"""Linear in one input where the others do not depend on the variables."""

KNOWN_FROM = {
    "Abs": "an absolute value, as in 'mae', Huber, L1, L1L2 and orthogonal regularisers",
    "Log": "a logarithm, as in cross-entropies and Poisson",
    "Log1p": "a logarithm, as in cross-entropies",
    "Maximum": "a maximum, as in hinge losses",
    "SoftmaxCrossEntropyWithLogits": "a cross-entropy",
    "Softplus": "a logarithm, as in LogCosh",
    "SparseSoftmaxCrossEntropyWithLogits": "a cross-entropy",
    "Sqrt": "a root, as of a mean of squares: minimise the mean itself",
}
"""Where ops that are refused usually come from."""


@dataclasses.dataclass(frozen=True, eq=False)
class SquaredTerm:
    """One place in a loss where a square is taken.

    Attributes:
        root: u, the tensor that is squared.
        weight: c = ∂loss/∂(u²), of the shape of u.
        uniform: whether c is known to be the same for all elements: everything is summed with nothing in between.
        op: the op that squares.
    """

    root: tf.Tensor
    weight: tf.Tensor
    uniform: bool
    op: tf.Operation


class NotASumOfSquares(ValueError):
    """The loss is not a sum of squares; `op` is the op at which it stops being one."""

    def __init__(self, op, reason):
        self.op = op
        super().__init__(
            "Levenberg-Marquardt needs a loss that is a sum of squares, possibly weighted, such as 'mse', with L2 "
            f"regularisers. Going back from the loss, {reason}. Use loss='mse' or another mean or sum of squares, or "
            "call minimize(residuals, variables) with residuals of your own. "
            f"Received: op {op.name!r} of type {op.type}"
        )


def squared_terms(loss, handles):
    """Find the squares that `loss` is a weighted sum of.

    Args:
        loss: scalar tensor, without function calls on the way (`inline_calls`).
        handles: tensors in the graph of `loss`, the handles of the variables.

    Returns:
        A list of `SquaredTerm`, empty where the loss does not depend on the variables.

    Raises:
        NotASumOfSquares: naming the op through which a variable enters the loss other than squared.
    """
    live = references(handles)
    for op in differentiable_path(handles, [loss]):
        live |= references(output for output in op.outputs if output.dtype.is_floating or output.dtype == tf.variant)
    squares = list(_Walk(live).squares_of(loss).values())
    if not squares:
        return []
    inside = [tensor for square in squares for tensor in square.op.inputs]
    _refuse_nesting(squares, references(inside))
    gradients = tf.gradients(loss, [square.op.outputs[0] for square in squares], stop_gradients=inside)
    return [square.term(gradient) for square, gradient in zip(squares, gradients)]


@dataclasses.dataclass(frozen=True)
class _Square:
    """An op that squares `root`, times `factor`."""

    op: tf.Operation
    root: tf.Tensor
    uniform: bool
    factor: float = 1.0

    def term(self, gradient):
        weight = tf.broadcast_to(self.factor * gradient, tf.shape(self.root)) if self.factor != 1 else gradient
        return SquaredTerm(self.root, weight, self.uniform, self.op)


class _Walk:
    """The walk back from a loss; `live` are the tensors that depend on the variables."""

    def __init__(self, live):
        self.live = live

    def squares_of(self, loss):
        """Return a dict from the name of each squaring op to its `_Square`."""
        found, seen = {}, {}
        pending = [(loss, False, 1)]
        while pending:
            tensor, uniform, sign = pending.pop()
            if tensor.ref() not in self.live or (uniform, sign) in seen.setdefault(tensor.ref(), set()):
                continue
            seen[tensor.ref()].add((uniform, sign))
            op = tensor.op
            uniform = uniform or (tensor.shape.rank == 0 and op.type in ("Sum", "Mean"))
            root = square_root(op)
            if root is None:
                pending += [(below, uniform and op.type in _UNIFORM, sign * s) for below, s in self._linear_inputs(op)]
            elif sign < 0:
                raise NotASumOfSquares(op, "a square is subtracted, so that the loss has no lower bound")
            else:
                uniform = (uniform and (op.name not in found or found[op.name].uniform)) or op.type == "L2Loss"
                found[op.name] = _Square(op, root, uniform, factor=0.5 if op.type == "L2Loss" else 1.0)
        return found

    def _linear_inputs(self, op):
        """Return the inputs of `op` that the walk goes on from, each with the sign that it enters with."""
        alive = [index for index, tensor in enumerate(op.inputs) if tensor.ref() in self.live]
        through_first = op.type in FIRST_INPUT and alive == [0]
        through_one = op.type in ONE_INPUT and len(alive) == 1
        if op.type in ANY_INPUT or through_first or through_one:
            return [(op.inputs[index], _sign(op, index)) for index in alive]
        if op.type in FIRST_INPUT:
            raise NotASumOfSquares(op, "a divisor, an index or a shape depends on the variables")
        if op.type in ONE_INPUT:
            raise NotASumOfSquares(
                op, "two tensors that both depend on the variables are multiplied, not one by itself elementwise"
            )
        known = f" ({KNOWN_FROM[op.type]})" if op.type in KNOWN_FROM else ""
        raise NotASumOfSquares(op, f"something that is neither linear nor a square was met{known}")


_UNIFORM = {"Sum", "Mean", "Identity", "Reshape", "Cast", "Squeeze", "ExpandDims", "Transpose", "Neg"}
"""Ops behind which a weight that was the same for all elements still is."""


def square_root(op):
    """Return u where `op` computes u² (or ½Σu², for L2Loss), else None."""
    if op.type in ("Square", "L2Loss"):
        return op.inputs[0]
    if op.type == "Mul" and _same(*op.inputs):
        return op.inputs[0]
    if op.type == "SquaredDifference":
        return op.inputs[0] - op.inputs[1]
    exponent = tf.get_static_value(op.inputs[1]) if op.type == "Pow" else None
    return op.inputs[0] if exponent is not None and (exponent == 2).all() else None


def _same(one, other):
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


def _sign(op, index):
    """Return −1 where `op` is known to turn the sign of that input, else 1."""
    if op.type == "Neg" or (op.type == "Sub" and index == 1):
        return -1
    if op.type in ("Mul", "RealDiv", "Div", "DivNoNan"):
        other = tf.get_static_value(op.inputs[1 - index])
        return -1 if other is not None and (other < 0).all() and other.size else 1
    return 1


def _refuse_nesting(squares, inside):
    """Refuse a square that is a term of the loss and also what another term squares: its weight is not a constant."""
    for square in squares:
        if square.op.outputs[0].ref() in inside:
            raise NotASumOfSquares(square.op, "a term of the loss is itself squared in another term")
