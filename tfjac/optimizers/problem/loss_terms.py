"""Finding the squares in a loss: loss = Σ c·u² + constant, whatever reductions and weights lie between.

The walk goes back from the loss through ops that are linear in what depends on the variables (sums, means,
products with weights, divisions by counts, masks) and stops at squares. As everything after a square is linear,
c = ∂loss/∂(u²) is exact and does not depend on u. Sample weights, class weights, masks, several outputs with loss
weights and L2 regularisers are all covered by this, with no special case.

Where a sum of squares goes in another guise, a squared norm or an einsum of a tensor with itself, the walk goes on from
an equal tensor in which the squares stand open, and what it finds there is weighed by the gradient so far.
"""

import dataclasses
import warnings

import tensorflow as tf

from tfjac.graph import has_custom_gradient, references
from tfjac.optimizers.problem.dependence import warn_of_lost
from tfjac.optimizers.problem.squares import has_sum_inside, norm_in_loop, square_root, undisguised

FIRST_INPUT = {
    "AvgPool", "AvgPool3D", "BroadcastTo", "Cast", "CheckNumerics", "Cumsum", "Div", "DivNoNan", "EnsureShape",
    "ExpandDims", "GatherNd", "GatherV2", "Identity", "Mean", "MirrorPad", "Neg", "Pad", "RealDiv", "Reshape",
    "ReverseV2", "SegmentMean", "SegmentSum", "Slice", "Snapshot", "Squeeze", "StridedSlice", "Sum", "Tile",
    "Transpose", "Unpack", "UnsortedSegmentSum",
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
    "StatelessWhile": "a loop",
    "TensorListStack": "a loop, as of tf.map_fn: tf.vectorized_map computes the same without one",
    "While": "a loop",
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

    def plus(self, other):
        """Return the sum of this and another term of the same op."""
        return SquaredTerm(self.root, self.weight + other.weight, self.uniform and other.uniform, self.op)


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


def squared_terms(loss, dependence):
    """Find the squares that `loss` is a weighted sum of.

    Args:
        loss: scalar tensor, without function calls on the way (`inline_calls`).
        dependence: `Dependence` on the handles of the variables in its graph.

    Returns:
        A list of `SquaredTerm`, empty where the loss does not depend on the variables.

    Raises:
        NotASumOfSquares: naming the op through which a variable enters the loss other than squared.
    """
    walk, heads, terms = _Walk(dependence), [_Head(loss)], {}
    while heads:
        leaves = walk.leaves_of(heads)
        gradients = _gradients(heads, leaves)
        heads = []
        for leaf, gradient in zip(leaves, gradients):
            if leaf.plain is None:
                known, term = terms.get(leaf.op.name), leaf.term(gradient)
                terms[leaf.op.name] = term if known is None else known.plus(term)
            else:
                heads.append(_Head(leaf.plain, gradient, leaf.uniform))
    warn_of_lost(walk.constant, dependence, "a term of the loss")
    return list(terms.values())


def _gradients(heads, leaves):
    """Return ∂loss/∂(output of each leaf), where loss = Σ over heads of gradient·tensor, linear in all leaves."""
    outputs, inside = [leaf.output for leaf in leaves], [x for leaf in leaves for x in leaf.op.inputs]
    _refuse_nesting(leaves, references(inside))
    tensors, seeds = [head.tensor for head in heads], [head.gradient for head in heads]
    gradients = tf.gradients(tensors, outputs, grad_ys=seeds, stop_gradients=inside) if leaves else []
    return [tf.convert_to_tensor(gradient) for gradient in gradients]  # those of gather are IndexedSlices


@dataclasses.dataclass(frozen=True)
class _Head:
    """Where a walk starts: `tensor`, and ∂loss/∂tensor (None for ones), known to be the same everywhere or not."""

    tensor: tf.Tensor
    gradient: tf.Tensor | None = None
    uniform: bool = False


@dataclasses.dataclass(frozen=True)
class _Leaf:
    """Where a walk ends: `output` is the square of `root`, or equal to `plain`, from which another walk goes on."""

    output: tf.Tensor
    root: tf.Tensor | None
    plain: tf.Tensor | None
    uniform: bool = False

    @property
    def op(self):
        return self.output.op

    def term(self, gradient):
        """Return the `SquaredTerm`, from ∂loss/∂output."""
        if self.op.type == "L2Loss":
            return SquaredTerm(self.root, tf.broadcast_to(0.5 * gradient, tf.shape(self.root)), True, self.op)
        return SquaredTerm(self.root, gradient, self.uniform, self.op)


class _Walk:
    """The walk back from a loss.

    Args:
        dependence: `Dependence` on the variables.

    Attributes:
        constant: list of the terms met to which no gradient passes from the variables.
    """

    def __init__(self, dependence):
        self.dependence, self.constant, self._known = dependence, [], {}

    def leaves_of(self, heads):
        """Return the list of `_Leaf` that the tensors of `heads` are linear in."""
        found, seen = {}, set()
        pending = [(head.tensor, head.uniform, 1) for head in heads]
        while pending:
            tensor, uniform, sign = pending.pop()
            if (tensor.ref(), uniform, sign) in seen:
                continue
            seen.add((tensor.ref(), uniform, sign))
            if not self.dependence.reaches(tensor):
                self.constant.append(tensor)
                continue
            op = tensor.op
            uniform = uniform or tensor.shape.num_elements() == 1
            leaf = self._leaf(tensor)
            if leaf is None:
                below = self._linear_inputs(tensor)
                pending += [(x, uniform and op.type in _UNIFORM, sign * own) for x, own in below]
                continue
            if sign < 0:
                raise NotASumOfSquares(op, "a square is subtracted, so that the loss has no lower bound")
            before = found.get(tensor.ref())
            found[tensor.ref()] = dataclasses.replace(leaf, uniform=uniform and (before is None or before.uniform))
        return list(found.values())

    def _leaf(self, tensor):
        """Return the `_Leaf` at `tensor`, or None where there is no square."""
        if tensor.ref() not in self._known:
            root = square_root(tensor.op)
            plain = undisguised(tensor, root, self.dependence)
            if root is not None and plain is None:
                _refuse_norm_in_loop(tensor.op, root, self.dependence)
            elif root is not None and not self._is_sum_of_squares(plain):
                _warn_of_a_norm(tensor.op, plain, self.dependence)
                plain = None
            self._known[tensor.ref()] = None if root is None and plain is None else _Leaf(tensor, root, plain)
        return self._known[tensor.ref()]

    def _is_sum_of_squares(self, tensor):
        try:
            return bool(_Walk(self.dependence).leaves_of([_Head(tensor)]))
        except NotASumOfSquares:
            return False

    def _linear_inputs(self, tensor):
        """Return the tensors that the walk goes on from, each with the sign with which it enters `tensor`."""
        op = tensor.op
        if tensor.dtype.is_complex:
            raise NotASumOfSquares(op, "complex numbers were met, not as |z|²")
        alive = [index for index, below in enumerate(op.inputs) if self.dependence.reaches(below)]
        if has_custom_gradient(op):
            raise NotASumOfSquares(op, "a custom gradient stands between the squares and the loss")
        if op.type == "IdentityN":
            return [(op.inputs[tensor.value_index], 1)]
        through_first = op.type in FIRST_INPUT and alive == [0]
        through_one = op.type in ONE_INPUT and len(alive) == 1
        if op.type in ANY_INPUT:
            alive = [index for index, below in enumerate(op.inputs) if below.dtype == tensor.dtype]
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


def _sign(op, index):
    """Return −1 where `op` is known to turn the sign of that input, else 1."""
    if op.type == "Neg" or (op.type == "Sub" and index == 1):
        return -1
    if op.type in ("Mul", "RealDiv", "Div", "DivNoNan"):
        other = tf.get_static_value(op.inputs[1 - index])
        return -1 if other is not None and (other < 0).all() and other.size else 1
    return 1


def _refuse_nesting(leaves, inside):
    """Refuse a square that is a term of the loss and also what another term squares: its weight is not a constant."""
    for leaf in leaves:
        if leaf.output.ref() in inside:
            raise NotASumOfSquares(leaf.op, "a term of the loss is itself squared in another term")


def _refuse_norm_in_loop(op, root, dependence):
    norm = norm_in_loop(root, dependence)
    if norm is not None:
        reason = f"what is squared is a norm that a loop computes, op {norm.name!r} of type {norm.type}"
        raise NotASumOfSquares(op, f"{reason} (tf.vectorized_map computes the same without one)")


def _warn_of_a_norm(op, radicand, dependence):
    if has_sum_inside(radicand, dependence):
        warnings.warn(
            f"tfjac: the square of a root is taken for one residual, op {op.name!r} of type {op.type}, shape "
            f"{op.outputs[0].shape}: its Jacobian has no more rows. Under the root is something computed from a sum of "
            "squares; if that is to be minimised, leave out the root and what stands between.",
            stacklevel=2,
        )
