"""What a square looks like: u² by whichever op, and the guises in which a sum of squares goes.

A norm that is squared, a contraction of u with itself, |z|² of a complex z: taken for what they seem to be, they have a
Jacobian of one row where the sum has many, or are no square at all.
"""

import functools

import tensorflow as tf

from tfjac.graph import Dependence, bodies_of, check_not_assigned_since, copy_op, culprit_in, transplant
from tfjac.graph.op_types import CHOICES, PERMUTING, SAME_ORDER
from tfjac.objective.contractions import contraction_with_itself, same
from tfjac.types import Tensor

ROOTS = ("Abs", "ComplexAbs", "EuclideanNorm", "Pow", "Sqrt")
"""Ops that may be roots of what is a sum of squares."""

POWERS = {"Inv": -1.0, "Reciprocal": -1.0, "Rsqrt": -0.5, "Sqrt": 0.5, "Square": 2.0}
"""Ops that raise their input to a fixed power, and which."""

FACTORS = ("Div", "Mul", "Neg", "RealDiv")
"""Ops that multiply their first input, or one of two, by something."""


def square_root(op: tf.Operation) -> Tensor | None:
    """Return u where `op` computes u² (or ½Σu², for L2Loss), else None."""
    if op.type in ("Square", "L2Loss"):
        return op.inputs[0]
    if op.type == "Mul" and same(*op.inputs):
        return op.inputs[0]
    if op.type == "SquaredDifference":
        return op.inputs[0] - op.inputs[1]
    return op.inputs[0] if op.type == "Pow" and _has_exponent(op, 2) else None


def undisguised(tensor: Tensor, root: Tensor, dependence: Dependence) -> Tensor | None:
    """Return a tensor equal to `tensor`, with squares that stand open where it hides them; None where it hides none.

    Args:
        tensor: any tensor.
        root: `square_root` of its op.
        dependence: `Dependence` on the variables.
    """
    op = tensor.op
    if root is not None:
        square = _square_of_root(root, dependence)
        if square is None:
            return _undone(tensor, dependence)
        return tf.reduce_sum(square) / 2 if op.type == "L2Loss" else square
    if op.type == "Mul":
        return _square_of_common_part(op.inputs[0], op.inputs[1], dependence)
    if op.type == "Real" or (op.type == "Cast" and op.inputs[0].dtype.is_complex):
        return _real_part(op.inputs[0])
    if op.type in CHOICES:
        return chosen(op, branches(tensor))
    return _undone(tensor, dependence) if is_power(op) else contraction_with_itself(op)


def is_power(op: tf.Operation) -> bool:
    """Return whether `op` raises one tensor to a fixed power."""
    return _power(op) is not None


def _power(op: tf.Operation) -> tuple | None:
    """Return x and c where `op` computes x^c, else None."""
    if op.type in POWERS:
        return op.inputs[0], POWERS[op.type]
    if op.type in ("Div", "RealDiv") and op.inputs[0].shape.rank == 0 and _is_constant(op.inputs[0], 1):
        return op.inputs[1], -1.0
    exponent = tf.get_static_value(op.inputs[1]) if op.type == "Pow" and op.inputs[1].shape.rank == 0 else None
    return None if exponent is None else (op.inputs[0], float(exponent))


def _undone(tensor: Tensor, dependence: Dependence, total: float = 1.0) -> Tensor | None:
    """Return s where `tensor` is s after moves and powers that undo one another, as (1/√s)⁻², or None.

    The first of them is a root: s is not negative, so that no sign is lost.
    """
    op = tensor.op
    if op.type in PERMUTING:
        inside = _undone(op.inputs[0], dependence, total)
        return None if inside is None else copy_op(op, [inside, *op.inputs[1:]]).outputs[0]
    if (power := _power(op)) is None:
        return None
    base, exponent = power
    total *= exponent
    is_whole = exponent % 1 and abs(total - 1) < 1e-6
    return _floored(base, dependence) if is_whole else _undone(base, dependence, total)


def _square_of_root(tensor: Tensor, dependence: Dependence) -> Tensor | None:
    """Return the square of a tensor that is a root but for moves and factors; None where it is not."""
    op = tensor.op
    if op.type in ROOTS:
        return _radicand(op, dependence)
    if op.type in PERMUTING:
        square = _square_of_root(op.inputs[0], dependence)
        return None if square is None else copy_op(op, [square, *op.inputs[1:]]).outputs[0]
    if op.type in CHOICES:
        squares = [(x, _square_of_root(x, dependence)) for x in branches(tensor)]
        hidden = any(square is not None for _, square in squares)
        return chosen(op, [tf.square(x) if square is None else square for x, square in squares]) if hidden else None
    if op.type in ("Cast", "Real"):
        square = _square_of_root(op.inputs[0], dependence)
        return _real_part(square) if square is not None and square.dtype.is_complex else None
    part, factor = _split(tensor, dependence)
    square = None if factor is None else _square_of_root(part, dependence)
    return None if square is None else square * tf.square(factor)


def _radicand(op: tf.Operation, dependence: Dependence) -> Tensor | None:
    """Return what a root is the root of, a norm's sum of squares written out; None for other powers."""
    x = op.inputs[0]
    if op.type == "ComplexAbs":
        inner = _square_of_root(x, dependence)  # |√s|² = s, where s is known to be real
        return tf.square(tf.math.real(x)) + tf.square(tf.math.imag(x)) if inner is None else _real_part(inner)
    if op.type == "EuclideanNorm":
        return tf.reduce_sum(tf.square(x), op.inputs[1], keepdims=op.get_attr("keep_dims"))
    if op.type == "Abs":
        return tf.square(x)
    return _floored(x, dependence) if op.type == "Sqrt" or _has_exponent(op, 0.5) else None


def _floored(tensor: Tensor, dependence: Dependence) -> Tensor:
    """Return max(s, c) as a selection, as under the root of a norm that is kept away from zero."""
    alive = [x for x in tensor.op.inputs if dependence.reaches(x)]
    if tensor.op.type != "Maximum" or len(alive) != 1:
        return tensor
    floor = next(x for x in tensor.op.inputs if x is not alive[0])
    return tf.where(alive[0] > floor, alive[0], floor)


def _square_of_common_part(one: Tensor, other: Tensor, dependence: Dependence) -> Tensor | None:
    """Return a·b·u² for the product of a·u and b·u, where only u depends on the variables; else None."""
    (part, factors), (other_part, other_factors) = _peeled(one, dependence), _peeled(other, dependence)
    if not same(part, other_part):
        return None
    return functools.reduce(tf.multiply, [*factors, *other_factors], tf.square(part))


def _peeled(tensor: Tensor, dependence: Dependence) -> tuple[Tensor, list[Tensor]]:
    """Return u and a list of factors whose product with it is the tensor, which do not depend on the variables."""
    factors: list[tf.Tensor] = []
    while True:
        tensor, factor = _split(tensor, dependence)
        if factor is None:
            return tensor, factors
        factors.append(factor)


def _split(tensor: Tensor, dependence: Dependence) -> tuple:
    """Return u and a of a tensor a·u; a is None where its op does not multiply by what the variables do not enter."""
    op = tensor.op
    alive = [index for index, x in enumerate(op.inputs) if dependence.reaches(x)]
    if op.type not in FACTORS or len(alive) != 1 or (op.type in ("Div", "RealDiv") and alive != [0]):
        return tensor, None
    part = op.inputs[alive[0]]
    if op.type == "Neg":
        return part, -tf.ones([], tensor.dtype)
    other = op.inputs[1 - alive[0]]
    return part, (other if op.type == "Mul" else 1 / other)


def _real_part(tensor: Tensor) -> Tensor | None:
    """Return Re of a complex tensor, as squares, where it is z·z̄, or a sum or mean of that; else None."""
    op = tensor.op
    if op.type in SAME_ORDER:
        inside = _real_part(op.inputs[0])
        return None if inside is None else tf.reshape(inside, tf.shape(tensor))
    if op.type in ("Mean", "Sum"):
        inside = _real_part(op.inputs[0])
        reduce = tf.reduce_sum if op.type == "Sum" else tf.reduce_mean
        return None if inside is None else reduce(inside, op.inputs[1], keepdims=op.get_attr("keep_dims"))
    for z, conjugate in (tuple(op.inputs), tuple(op.inputs)[::-1]) if op.type == "Mul" else ():
        if conjugate.op.type == "Conj" and same(conjugate.op.inputs[0], z):
            return tf.square(tf.math.real(z)) + tf.square(tf.math.imag(z))
    return None


def norm_in_loop(tensor: Tensor, dependence: Dependence) -> tf.Operation | None:
    """Return the root that each step of a loop writes to what `tensor` is made of by moves and factors; or None."""
    while tensor.op.type in PERMUTING or _split(tensor, dependence)[1] is not None:
        tensor = tensor.op.inputs[0] if tensor.op.type in PERMUTING else _split(tensor, dependence)[0]
    written = tensor.op.inputs[0] if tensor.op.type == "TensorListStack" else None
    if written is None or "While" not in written.op.type:
        return None
    (body,) = bodies_of(written.op, "body")
    item = body.outputs[written.value_index].op
    found = item.inputs[2] if item.type == "TensorListSetItem" else None
    while found is not None and found.op.type in (*PERMUTING, *FACTORS):
        found = max(found.op.inputs, key=lambda x: x.op.type in ROOTS)
    return found.op if found is not None and found.op.type in ROOTS else None


def has_sum_inside(tensor: Tensor, dependence: Dependence) -> bool:
    """Return whether `tensor` is computed from a sum of squares, though it is none itself."""
    pending, seen = [(tensor, False)], set()
    while pending:
        tensor, summed = pending.pop()
        if not dependence.reaches(tensor) or (tensor.ref(), summed) in seen:
            continue
        seen.add((tensor.ref(), summed))
        op = tensor.op
        if op.type == "L2Loss" or (summed and op.type in ("Square", "SquaredDifference", "Mul", "Pow")):
            return True
        if op.type in _SHAPING:
            pending += [(x, summed or op.type in ("Mean", "Sum")) for x in op.inputs]
    return False


_SHAPING = {
    *PERMUTING, *FACTORS, "Add", "AddN", "AddV2", "Maximum", "Mean", "Minimum", "Relu", "SelectV2", "Sub", "Sum",
    "ClipByValue", "Cast",
}  # fmt: skip
"""Ops between a root and the sum of squares that may have been meant by it."""


def _has_exponent(op: tf.Operation, exponent: float) -> bool:
    return _is_constant(op.inputs[1], exponent)


def _is_constant(tensor: Tensor, number: float) -> bool:
    value = tf.get_static_value(tensor)
    return value is not None and bool((value == number).all())


def branches(tensor: Tensor) -> list[Tensor]:
    """Return what `tensor`, an output of an op of `CHOICES`, is in each branch, computed in the current graph.

    Returns:
        A list of tensors, that of the number 0, or of False, first; empty where a branch cannot be computed without
        being taken, as it assigns or draws random numbers, or where the shapes differ.
    """
    op = tensor.op
    bodies = (
        bodies_of(op, "branches") if "Case" in op.type else bodies_of(op, "else_branch") + bodies_of(op, "then_branch")
    )
    outputs = [body.outputs[tensor.value_index] for body in bodies]
    shapes = {tuple(output.shape) if output.shape.rank is not None else None for output in outputs}
    if None in shapes or len(shapes) > 1 or any(culprit_in(output.graph) is not None for output in outputs):
        return []
    check_not_assigned_since(op)
    copies = [transplant([output], zip(body.inputs, op.inputs[1:])) for output, body in zip(outputs, bodies)]
    return [mapping[output.ref()] for mapping, output in zip(copies, outputs)]


def chosen(op: tf.Operation, values: list[Tensor]) -> Tensor | None:
    """Return the one of `values`, one for each branch, that belongs to the branch that `op` takes; None of none."""
    if not values:
        return None
    number = op.inputs[0] if op.inputs[0].dtype == tf.int32 else tf.cast(op.inputs[0], tf.int32)
    result = values[-1]  # that of a number out of range, too
    for index, value in enumerate(values[:-1]):
        result = tf.where(tf.equal(number, index), value, result)
    return result
