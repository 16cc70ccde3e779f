"""Sets of op types that have a fact in common, for the layers above; the facts stand in `op_facts`."""

from collections.abc import Callable

import tensorflow as tf

import tfjac.graph.op_facts  # noqa: F401 (it fills the records)
from tfjac.graph import _private
from tfjac.graph.facts import facts_of, is_identities, types_where
from tfjac.graph.gradients import custom_gradients
from tfjac.types import Tensor

CALLS = types_where(lambda facts: facts.kind == "call")
LOOPS = types_where(lambda facts: facts.kind == "loop")
CONDITIONALS = types_where(lambda facts: facts.kind == "conditional")
CHOICES = types_where(lambda facts: facts.kind in ("conditional", "case"))

UNARY = types_where(lambda facts: facts.elementwise == "unary")
SEVERAL_INPUTS = types_where(lambda facts: facts.elementwise == "several inputs")
DECISIONS = types_where(lambda facts: facts.elementwise == "decision")
"""Values pass through these, gradients do not."""

GRADIENTS = types_where(lambda facts: facts.elementwise == "gradient")
"""Ops by which TensorFlow takes the gradients of some of these."""

ELEMENTWISE = types_where(lambda facts: facts.elementwise is not None)
"""All of these, and what moves nothing."""

ARITHMETIC = types_where(lambda facts: facts.arithmetic is not None)
"""Affine in the first input, whatever the other; divisions aside, in the other as well."""

SAME_ORDER = types_where(lambda facts: facts.elements == "in order")
"""Ops whose output has the elements of the first input, in row-major order."""

PERMUTING = types_where(lambda facts: facts.elements in ("in order", "permuted"))
"""Ops whose output has each element of the first input once."""

LINEAR_IN_FIRST = types_where(lambda facts: facts.linear == "in the first")
"""Linear in the first input, the others (axes, shapes, indices, divisors) fixed."""

LINEAR_IN_ALL = types_where(lambda facts: facts.linear == "in all")
"""Linear in all floating-point inputs at once."""

PRODUCTS = types_where(lambda facts: facts.linear == "in each")
"""Linear in one input, the others fixed."""

LABELLED = types_where(lambda facts: facts.labels is not None and facts.looks_at != "shapes")
"""Ops whose axes have labels, see `index_maps`, and whose values depend on values."""

CONTRACTIONS = types_where(lambda facts: facts.linear == "in each" and facts.elementwise is None)
"""Sums of products of elements of their inputs."""


def linear_inputs(tensor: Tensor, reaches: Callable[[Tensor], bool]) -> list[int] | None:
    """Return the indices of the inputs that `tensor` is linear in together; None where it is not, or may not be.

    Args:
        tensor: an output of the op.
        reaches: function from a tensor to whether it counts; the other inputs are taken as they are.
    """
    op = tensor.op
    if custom_gradients.is_custom(op):
        return None
    if is_identities(op):
        return [tensor.value_index]
    if op.type in LINEAR_IN_ALL:
        return [index for index, below in enumerate(op.inputs) if below.dtype == tensor.dtype]
    alive = [index for index, below in enumerate(op.inputs) if reaches(below)]
    through_first = op.type in LINEAR_IN_FIRST and alive == [0]
    through_one = op.type in PRODUCTS and len(alive) == 1 and _private.has_gradient(op)
    return alive if through_first or through_one else None


def affine_inputs(op: tf.Operation) -> tuple:
    """Return the indices of the inputs that `op`, whose type is not linear, is affine in together, the others fixed."""
    affine = facts_of(op).affine
    return affine(op) if callable(affine) else affine
