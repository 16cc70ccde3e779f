"""Finding the terms of a loss: loss = Σ c·u² + Σ c·ℓ(z) + constant, whatever reductions and weights lie between.

The walk goes back from the loss through ops that are linear in what depends on the variables (sums, means,
products with weights, divisions by counts, masks) and stops at squares. As everything after a square is linear,
c = ∂loss/∂(u²) is exact and does not depend on u. Sample weights, class weights, masks, several outputs with loss
weights and L2 regularisers are all covered by this, with no special case.

Where a sum of squares goes in another guise, a squared norm or an einsum of a tensor with itself, the walk goes on from
an equal tensor in which the squares stand open, and what it finds there is weighed by the gradient so far.

Where the way does not end in squares alone, it is looked at op by op whether what the op computes is a convex function
ℓ(z) of something, weighed by ∂loss/∂ℓ like the squares, or a sum of what is.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import Dependence, ancestors, has_custom_gradient, references, replay
from tfjac.graph.op_types import ELEMENTWISE, LINEAR_IN_FIRST, PRODUCTS, linear_inputs
from tfjac.objective.cross_entropy import cross_entropy
from tfjac.objective.declared import declared_function
from tfjac.objective.linear_terms import ADDING, Chain, joined, linear_slopes
from tfjac.objective.not_squares import KNOWN_FROM, NotASumOfSquares
from tfjac.objective.reached_variables import warn_of_lost
from tfjac.objective.separable import dead_end, separable_function
from tfjac.objective.squares import has_sum_inside, is_power, norm_in_loop, square_root, undisguised
from tfjac.objective.terms import SeparableTerm, SquaredTerm, Term
from tfjac.types import Tensor


def loss_terms(loss: Tensor, dependence: Dependence) -> list:
    """Find the terms that `loss` is a sum of.

    Args:
        loss: scalar tensor, without function calls on the way (`inline_calls`).
        dependence: `Dependence` on the handles of the variables in its graph.

    Returns:
        A list of terms (see `terms`), empty where the loss does not depend on the variables.

    Raises:
        NotASumOfSquares: naming the op through which a variable enters the loss in another way.
    """
    found: dict = {}
    slopes: dict = {}
    walk, heads = _Walk(dependence), [_Head(_with_one_of_each(loss))]
    while heads:
        leaves = walk.leaves_of(heads)
        leaves, linear = _with_linear_terms(heads, leaves, walk.chains, dependence)
        slopes.update(linear)
        gradients = _gradients(heads, leaves)
        heads = []
        for leaf, gradient in zip(leaves, gradients):
            if isinstance(leaf, _Disguise):
                heads.append(_Head(leaf.plain, gradient, leaf.uniform))
            elif leaf.output.ref() in found:
                known, before = found[leaf.output.ref()]
                found[leaf.output.ref()] = (known.also(leaf), before + gradient)
            else:
                found[leaf.output.ref()] = (leaf, gradient)
    warn_of_lost(walk.constant, dependence, "a term of the loss")
    return [_term(leaf, gradient, slopes.get(leaf.output.ref())) for leaf, gradient in found.values()]


def _with_one_of_each(loss: Tensor) -> Tensor:
    """Return a loss whose elementwise ops compute nothing twice, as an error y − z that is written twice.

    A function of an error is not seen to be one otherwise.
    """
    while again := _computed_twice(loss):
        (loss,) = replay([loss], again)
    return loss


def _computed_twice(loss: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return pairs of what ops between the loss and a model compute again, and what is the same before."""
    is_near = lambda op: op.type in _NEAR_THE_LOSS and not has_custom_gradient(op)  # noqa: E731
    ones: dict = {}
    again: dict = {}
    behind: set = set()  # what is computed from what is computed again: its turn comes when that is mended
    for op in filter(is_near, ancestors([loss], reads=lambda op: op.inputs if is_near(op) else ())):
        inputs, output = [x.ref() for x in op.inputs], op.outputs[0]
        if not behind.isdisjoint(inputs):
            behind.add(output.ref())
            continue
        one = ones.setdefault((op.type, *map(_value_or_ref, op.inputs), str(op.node_def.attr)), output)
        if one is not output:
            again[output.ref()] = one
            behind.add(output.ref())
    return [(output.deref(), one) for output, one in again.items()]


def _value_or_ref(tensor: Tensor) -> Any:
    """Return what is equal for equal inputs: the value of a constant of one number, else the tensor itself."""
    is_number = tensor.op.type == "Const" and tensor.shape.num_elements() == 1
    return str(tensor.op.node_def.attr) if is_number else tensor.ref()


def _with_linear_terms(heads: list, leaves: list, chains: list[Chain], dependence: Dependence) -> tuple:
    """Return the leaves, those that a linear term joins as functions of its tensor; and the slopes that these add.

    The slopes are a dict from the `ref()` of the output of a leaf to a tensor.

    Raises:
        NotASumOfSquares: for a linear term without a partner.
    """
    if not chains:
        return leaves, {}
    outputs = [leaf.output for leaf in leaves]
    partners, alone = joined(chains, outputs, dependence)
    if alone:
        refusal = alone[0].refusal
        kink = next((tensor.op for tensor in alone[0].tensors if tensor.op.type in ("Select", "SelectV2")), None)
        if kink is not None:
            raise NotASumOfSquares(kink, "straight lines that are chosen from, which have no curvature") from None
        raise NotASumOfSquares(refusal.op, refusal.reason, alone[0].term) from None
    tensors, seeds = [head.tensor for head in heads], [head.gradient for head in heads]
    functions = list(partners.values())
    slopes = linear_slopes(tensors, seeds, [function.root for function in functions], outputs)
    convex = {function.output.ref(): _Convex(function.output, function) for function in functions}
    added = {function.output.ref(): slope for function, slope in zip(functions, slopes)}
    return [convex.get(leaf.output.ref(), leaf) for leaf in leaves], added


def _term(leaf: "_Square | _Convex", gradient: Tensor, slope: Tensor | None) -> Term:
    """Return the term of a leaf, with the slope of a linear term added if there is one."""
    term = leaf.term(gradient)
    if slope is None:
        return term
    assert isinstance(term, SeparableTerm)  # what a linear term joins
    return dataclasses.replace(term, slope=term.slope + slope)


def _gradients(heads: list, leaves: list) -> list[Tensor]:
    """Return ∂loss/∂(output of each leaf), where loss = Σ over heads of gradient·tensor, linear in all leaves."""
    outputs, inside = [leaf.output for leaf in leaves], [x for leaf in leaves for x in leaf.output.op.inputs]
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
    """Where a walk ends: at `output`, its weight known to be the same everywhere or not."""

    output: tf.Tensor
    uniform: bool = dataclasses.field(default=False, kw_only=True)

    def also(self, other: "_Leaf") -> "_Leaf":
        """Return this, met again on another way."""
        return dataclasses.replace(self, uniform=self.uniform and other.uniform)


@dataclasses.dataclass(frozen=True)
class _Square(_Leaf):
    """The square of `root`."""

    root: tf.Tensor

    def term(self, gradient: Tensor) -> SquaredTerm:
        """Return the `SquaredTerm`, from ∂loss/∂output."""
        if self.output.op.type == "L2Loss":
            return SquaredTerm(self.root, tf.broadcast_to(0.5 * gradient, tf.shape(self.root)), True)
        return SquaredTerm(self.root, gradient, self.uniform)


@dataclasses.dataclass(frozen=True)
class _Disguise(_Leaf):
    """What is equal to `plain`, from which another walk goes on."""

    plain: tf.Tensor


@dataclasses.dataclass(frozen=True)
class _Convex(_Leaf):
    """The output of a `function`, such as a `SeparableFunction`."""

    function: Any

    def term(self, gradient: Tensor) -> Term:
        """Return the term, from ∂loss/∂output."""
        return self.function.term(gradient)


class _Walk:
    """The walk back from a loss.

    Args:
        dependence: `Dependence` on the variables.

    Attributes:
        constant: list of the terms met to which no gradient passes from the variables.
        chains: list of the `Chain`s met by the last `leaves_of`, each the way to a term that is linear.
    """

    def __init__(self, dependence: Dependence) -> None:
        self.dependence = dependence
        self.constant: list[Tensor] = []
        self.chains: list[Chain] = []
        self._known: dict[Any, _Leaf | None] = {}

    def leaves_of(self, heads: list) -> list:
        """Return the list of leaves that the tensors of `heads` are linear in, but for the `chains`."""
        self.chains = []
        found: dict = {}
        for leaf in self._leaves([(head.tensor, head.uniform, 1) for head in heads]):
            before = found.get(leaf.output.ref())
            found[leaf.output.ref()] = leaf if before is None else before.also(leaf)
        return list(found.values())

    def _leaves(self, places: list[tuple], above: tuple = ()) -> list:
        """Return the leaves below `places`: squares where they will do, else convex functions, or sums of both.

        `above` are the tensors on the way from the loss.
        """
        try:
            return self._squares(places)
        except NotASumOfSquares as refusal:
            if len(places) > 1:
                return [leaf for place in places for leaf in self._leaves([place], above)]
            ((tensor, _, sign),) = places
            below = self._below(*places[0])
            if len(below) != 1 and square_root(tensor.op) is None:
                function = separable_function(tensor, sign, self.dependence)
                if function is not None:
                    _refuse_dead_ends(tensor, self.dependence)
                    _warn_of_one_number(tensor.op, function.root, self.dependence)
                    return [_Convex(tensor, function)]
            if not below:
                self.chains.append(Chain((*above, tensor), refusal))
                return []
            return self._leaves(below, (*above, tensor))

    def _squares(self, places: list[tuple]) -> list:
        """Return the leaves below `places`, pairs of a tensor, whether its weight is known to be uniform, and a sign.

        Raises:
            NotASumOfSquares: where some are not squares.
        """
        found: dict = {}
        seen, constant = set(), []
        pending = list(places)
        while pending:
            tensor, uniform, sign = pending.pop()
            if (tensor.ref(), uniform, sign) in seen:
                continue
            seen.add((tensor.ref(), uniform, sign))
            if not self.dependence.reaches(tensor):
                constant.append(tensor)
                continue
            uniform = uniform or tensor.shape.num_elements() == 1
            leaf = self._leaf(tensor)
            if leaf is None:
                pending += self._passed_on(tensor, uniform, sign)
                continue
            if sign < 0 and tensor.op.type != "LogSoftmax":
                raise NotASumOfSquares(
                    tensor.op, "a square, or what is convex, is subtracted, so that the loss is not convex"
                )
            leaf = dataclasses.replace(leaf, uniform=uniform)
            found[tensor.ref()] = leaf.also(found.get(tensor.ref(), leaf))
        self.constant += constant
        return list(found.values())

    def _passed_on(self, tensor: Tensor, uniform: bool, sign: Any) -> list[tuple]:
        """Return the places below `tensor` that it is linear in."""
        below = self._linear_inputs(tensor)
        return [(x, uniform and tensor.op.type in _UNIFORM, sign * own) for x, own in below]

    def _below(self, tensor: Tensor, uniform: bool, sign: Any) -> list[tuple]:
        """Return the places below `tensor` that depend on the variables, where it is linear in them; else none."""
        try:
            return [place for place in self._passed_on(tensor, uniform, sign) if self.dependence.reaches(place[0])]
        except NotASumOfSquares:
            return []

    def _leaf(self, tensor: Tensor) -> "_Leaf | None":
        """Return the leaf at `tensor`, or None where there is neither a square nor what is known to be convex."""
        if tensor.ref() not in self._known:
            root = square_root(tensor.op)
            plain = undisguised(tensor, root, self.dependence)
            if root is not None and plain is None:
                _refuse_norm_in_loop(tensor.op, root, self.dependence)
            elif (root is not None or is_power(tensor.op)) and plain is not None and not self._is_sum_of_squares(plain):
                _warn_of_a_norm(tensor.op, plain, self.dependence)
                plain = None
            function = declared_function(tensor) or cross_entropy(tensor, self.dependence)
            convex = None if function is None else _Convex(tensor, function)
            leaf = convex if root is None else _Square(tensor, root)
            self._known[tensor.ref()] = leaf if plain is None else _Disguise(tensor, plain)
        return self._known[tensor.ref()]

    def _is_sum_of_squares(self, tensor: Tensor) -> bool:
        try:
            return bool(_Walk(self.dependence)._squares([(tensor, False, 1)]))
        except NotASumOfSquares:
            return False

    def _linear_inputs(self, tensor: Tensor) -> list[tuple]:
        """Return the tensors that the walk goes on from, each with the sign with which it enters `tensor`."""
        op = tensor.op
        if tensor.dtype.is_complex:
            raise NotASumOfSquares(op, "complex numbers were met, not as |z|²")
        if has_custom_gradient(op):
            raise NotASumOfSquares(op, "a custom gradient stands between the squares and the loss")
        indices = linear_inputs(tensor, self.dependence.reaches)
        if indices is not None:
            return [(op.inputs[index], _sign(op, index)) for index in indices]
        if op.type in LINEAR_IN_FIRST:
            raise NotASumOfSquares(op, "a divisor, an index or a shape depends on the variables")
        if op.type in PRODUCTS and sum(map(self.dependence.reaches, op.inputs)) > 1:
            raise NotASumOfSquares(
                op, "two tensors that both depend on the variables are multiplied, not one by itself elementwise"
            )
        unknown = f"{op.type} is neither linear, nor a square, nor convex"
        raise NotASumOfSquares(op, KNOWN_FROM.get(op.type, unknown))


_UNIFORM = {"Sum", "Mean", "Identity", "Reshape", "Cast", "Squeeze", "ExpandDims", "Transpose", "Neg"}
"""Ops behind which a weight that was the same for all elements still is."""

_NEAR_THE_LOSS = ELEMENTWISE | _UNIFORM | ADDING


def _sign(op: tf.Operation, index: int) -> int:
    """Return −1 where `op` is known to turn the sign of that input, else 1."""
    if op.type == "Neg" or (op.type == "Sub" and index == 1):
        return -1
    if op.type in ("Mul", "RealDiv", "Div", "DivNoNan"):
        other = tf.get_static_value(op.inputs[1 - index])
        return -1 if other is not None and (other < 0).all() and other.size else 1
    return 1


def _refuse_nesting(leaves: list, inside: Any) -> None:
    """Refuse a square that is a term of the loss and also what another term squares: its weight is not a constant."""
    for leaf in leaves:
        if leaf.output.ref() in inside:
            raise NotASumOfSquares(leaf.output.op, "a term of the loss is itself squared in another term")


def _refuse_norm_in_loop(op: tf.Operation, root: Tensor, dependence: Dependence) -> None:
    norm = norm_in_loop(root, dependence)
    if norm is not None:
        reason = f"what is squared is a norm that a loop computes, op {norm.name!r} of type {norm.type}"
        raise NotASumOfSquares(op, f"{reason} (tf.vectorized_map computes the same without one)")


def _refuse_dead_ends(tensor: Tensor, dependence: Dependence) -> None:
    op = dead_end(tensor, dependence)
    if op is not None:
        reason = "outputs that relu makes zero have an infinite or next to infinite loss, and no gradient out of it"
        remedy = "Let the last layer be softplus or exponential, of probabilities sigmoid or softmax"
        raise NotASumOfSquares(op, f"{reason}: they would stay there for ever", remedy=remedy)


def _warn_of_a_norm(op: tf.Operation, radicand: Tensor, dependence: Dependence) -> None:
    if has_sum_inside(radicand, dependence):
        warn(
            f"tfjac: the square of a root is taken for one residual, op {op.name!r} of type {op.type}, shape "
            f"{op.outputs[0].shape}: its Jacobian has no more rows. Under the root is something computed from a sum of "
            "squares; if that is to be minimised, leave out the root and what stands between.",
        )


def _warn_of_one_number(op: tf.Operation, number: Tensor, dependence: Dependence) -> None:
    if number.shape.num_elements() == 1 and has_sum_inside(number, dependence):
        warn(
            f"tfjac: a convex function of one number is a term of the loss, op {op.name!r} of type {op.type}: its "
            "curvature has rank one, though the number is computed from a sum of squares. If that sum is to be "
            "minimised, leave out the function.",
        )
