"""Sets of op types that have a fact in common, for the layers above; the facts stand in `op_facts`."""

import tfjac.graph.op_facts  # noqa: F401 (it fills the records)
from tfjac.graph.facts import types_where

CALLS = types_where(lambda facts: facts.kind == "call")
LOOPS = types_where(lambda facts: facts.kind == "loop")
CONDITIONALS = types_where(lambda facts: facts.kind == "conditional")
CHOICES = types_where(lambda facts: facts.kind in ("conditional", "case"))

UNARY = types_where(lambda facts: facts.elementwise == "unary")
SEVERAL_INPUTS = types_where(lambda facts: facts.elementwise == "several inputs")
DECISIONS = types_where(lambda facts: facts.elementwise == "decision")
"""Values pass through these, gradients do not."""

GRADIENTS = types_where(lambda facts: facts.elementwise == "gradient")
"""The gradients that TensorFlow takes of some of these by ops of their own."""

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

CONTRACTIONS = types_where(lambda facts: facts.linear == "in each" and facts.elementwise is None)
"""Sums of products of elements of their inputs."""
