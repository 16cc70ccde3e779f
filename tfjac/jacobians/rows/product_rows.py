"""The Jacobian of residuals of which an example has very many, as products alone.

Factors ask for one backward pass for each residual of an example. A language model has as many of them as its text has
positions times its vocabulary: thousands of passes, where a step of conjugate gradients takes a few dozen.
"""

import contextlib
import copy
from functools import partial
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, ExamplesMix, axes, between, inline_calls, source_in
from tfjac.graph.op_types import LOOPS
from tfjac.jacobians import JacobianOperator, jacobian_operator
from tfjac.jacobians.factors.factorize import factorize
from tfjac.jacobians.factors.strategies import AS_IF_APART
from tfjac.jacobians.operator import operator_of
from tfjac.jacobians.passes.chunks import mapped
from tfjac.jacobians.passes.linearise import LinearMap, NoForwardMode, pull_back, push_forward
from tfjac.linear.contracts import MANY, JacobianBlock
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.shapes import product
from tfjac.types import Tensor

NUMBERS = 2**20
"""Numbers of J of one example from which they are: exact steps get further, where one can have them for less."""

FEW_PARAMETERS = 256
"""Parameters up to which J is formed nevertheless: exact steps pay then."""

FEW_OUTPUTS = 16
"""Residuals of an example up to which J is kept as factors where loops are on the way to them."""

FEW_NUMBERS = 2**16
"""Numbers of an example that a factor may take then: of long sequences, and wide layers, it is too many."""

PROBES = 4
"""Random combinations of the residuals of an example that stand for all of them in estimates."""

PROBES_OF_ALL = 16
"""Random combinations of all residuals that do: the estimate of an element of diag(JᵀJ) is a third off, or so."""


class ProductRows(JacobianBlock):
    """J of one block by J·v and Jᵀ·u, each a pass through the linearised graph; J is never kept.

    JᵀJ has an unbiased estimate in the Jacobian S of a few random combinations of the residuals of each example,
    √(1/s) Σ_m ±r[n,m]: the mean of SᵀS over the signs is JᵀJ. `factors` and `column_norms_squared` are those of S:
    what preconditioners and the first λ are made of. The signs are the same in every step. Products are exact.

    Args:
        forward, backward: `LinearMap` of the tangents of the variables, and of the cotangents of the residuals.
        sketch: `JacobianOperator`, S.
        shapes: list of the shapes `[n, ...]` of the tensors of residuals, of integers or scalar tensors.
        dtype: of the products.
    """

    def __init__(
        self, forward: LinearMap, backward: LinearMap, sketch: JacobianOperator, shapes: list, dtype: tf.DType
    ) -> None:
        self._forward, self._backward, self._sketch = forward, backward, sketch
        self._shapes, self.dtype = shapes, dtype

    @property
    def factors(self) -> list:
        """The factors of S, one per variable."""
        return self._sketch.factors

    @property
    def num_probes(self) -> int | None:
        """How many rows of S stand for the residuals of an example."""
        return self._sketch.examples_and_outputs[1]

    @property
    def examples_and_outputs(self) -> tuple:
        return self._shapes[0][0], sum(product(shape[1:]) for shape in self._shapes)

    def cast(self, dtype: tf.DType) -> "ProductRows":
        """Return the same with products in another dtype; the passes are in that of the graph."""
        other = copy.copy(self)
        other._sketch, other.dtype = self._sketch.cast(dtype), dtype
        return other

    def column_norms_squared(self) -> Tensor:
        """Return diag(SᵀS) `[p]`, an estimate of diag(JᵀJ)."""
        return self._sketch.column_norms_squared()

    def matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        """Return J v `[n·m]`, or Jᵀu `[p]`."""
        if not adjoint:
            parts = zip(self._sketch.split(x), self._forward.seeds)
            return self._rows(self._forward(*(tf.cast(part, seed.dtype) for part, seed in parts)))
        n, m = self.examples_and_outputs
        parts = tf.split(tf.reshape(x, [n, m]), [product(shape[1:]) for shape in self._shapes], axis=1)
        given = zip(parts, self._shapes, self._backward.seeds)
        results = self._backward(*(tf.cast(tf.reshape(part, shape), seed.dtype) for part, shape, seed in given))
        return tf.concat([tf.reshape(tf.cast(result, self.dtype), [-1]) for result in results], axis=0)

    def _rows(self, results: list[Tensor]) -> Tensor:
        """Return what was computed for each tensor of residuals in the order of the rows, `[n·m]`."""
        n, _ = self.examples_and_outputs
        flat = [tf.reshape(tf.cast(result, self.dtype), [n, -1]) for result in results]
        return tf.reshape(tf.concat(flat, axis=1), [-1])

    def to_dense(self) -> Tensor:
        """Return J, `[n·m, p]`: p products."""
        basis = tf.eye(self._sketch.num_parameters, dtype=self.dtype)
        n, m = self.examples_and_outputs
        rows = n * m if isinstance(n, int) and isinstance(m, int) else None
        spec = tf.TensorSpec([rows], self.dtype)
        (columns,) = mapped(lambda vector: [self.matvec(vector)], [basis], [spec], self._forward.vectorises())
        return tf.transpose(columns)


def many_rows(tensors: list[Tensor], variables: list) -> bool:
    """Return whether an example has so many residuals, of so many parameters, that products are the better way."""
    sizes = [tensor.shape[1:].num_elements() for tensor in tensors]
    parameters = sum(variable.shape.num_elements() or 0 for variable in variables)
    if None in sizes or sum(sizes) < MANY or parameters <= FEW_PARAMETERS:
        return False
    return sum(sizes) * parameters >= NUMBERS


def product_rows(tensors: list[Tensor], variables: list) -> ProductRows | None:
    """Return the `ProductRows` of tensors `[n, ...]`, or None where factors are the only way.

    That is where examples mix, or ops on the way have no forward mode. They are the better way where `many_rows` holds:
    not for fewer than 512 residuals of an example, up to 256 parameters, or a J of an example with fewer than 2²⁰
    numbers.

    Args:
        tensors: list of tensors of the graph being traced, with the same n.
        variables: list of variables, or tensors, each of which some of them depends on.
    """
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    tensors = inline_calls(tensors, depends_on=sources)
    dependence = Dependence(sources)
    if any(len(dependence.sources_of(tensor)) == 0 for tensor in tensors):
        return None
    try:
        sketch = jacobian_operator(_probed(tensors, PROBES, [0, 0]), variables)
        return _with_sketch(tensors, variables, sources, sketch)
    except (ExamplesMix, NoForwardMode):
        return None


def drawn_rows(tensors: list[Tensor], variables: list, number: Tensor, alone: bool = False) -> JacobianBlock:
    """Return J of tensors `[n, ...]`, whose factors are of one random combination of the residuals of each example.

    Products are exact. Of one residual of an example the factors are J, but for signs. So they are where loops are on
    the way to a few: their forward mode runs them several times. Elsewhere products are those of `ProductRows`.

    Where examples depend on one another, as by a batch normalisation, row n of S is what belongs to example n in the
    gradient of the sum of all combinations. Products are exact all the same.

    Args:
        tensors, variables: as for `product_rows`.
        number: int64 scalar tensor, by which the signs are drawn.
        alone: whether the `JacobianOperator` of those combinations will do, a row for each example.

    Raises:
        ExamplesMix: where it cannot be told what belongs to which example.
        NoForwardMode: where ops on the way have none.
    """
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    tensors = inline_calls(tensors, depends_on=sources)
    seed = tf.stack([number, 0])
    with contextlib.suppress(ExamplesMix):
        if _by_factors(tensors, sources, alone):
            operator = jacobian_operator(tensors, variables)
            _, m = operator.examples_and_outputs
            if m == 1:
                return operator
            if _are_small(operator.factors):
                return DrawnRows.of(operator, seed)
    combinations = _probed(tensors, 1, seed)
    try:
        sketch = jacobian_operator(combinations, variables)
    except ExamplesMix:
        sketch = operator_of(combinations, variables, partial(factorize, examples_mix=AS_IF_APART, verify=False))
    if alone:
        return sketch
    return _with_sketch(tensors, variables, sources, sketch)


def _by_factors(tensors: list[Tensor], sources: list, only_one: bool) -> bool:
    """Return whether products with J are less work by its factors: of one residual, or of few where loops are."""
    sizes = [tensor.shape[1:].num_elements() for tensor in tensors]
    if None in sizes or sum(sizes) > (1 if only_one else FEW_OUTPUTS):
        return False
    return sum(sizes) == 1 or any(op.type in LOOPS for op in between(sources, tensors))


def _are_small(factors: list) -> bool:
    """Return whether each tensor of `factors` is known to have few numbers of an example."""
    sizes = [tensor.shape[1:].num_elements() for factor in factors for tensor in factor.tensors()]
    return all(size is not None and size <= FEW_NUMBERS for size in sizes)


class DrawnRows(ProductRows):
    """J of one block as factors, with those of a random combination of the residuals of each example in their place.

    Args:
        operator: `JacobianOperator`, J, by which products are taken.
        sketch: `JacobianOperator` of the combinations.
    """

    def __init__(self, operator: JacobianOperator, sketch: JacobianOperator) -> None:
        self._operator, self._sketch, self.dtype = operator, sketch, operator.dtype

    @classmethod
    def of(cls, operator: JacobianOperator, seed: Tensor) -> "DrawnRows":
        """Return the same with combinations drawn by a seed, int64 `[2]`."""
        n, m = operator.examples_and_outputs
        signs = _drawn_signs(tf.stack([n, m]), seed, 1, operator.dtype)[0]
        factors = [factor.combined(signs) for factor in operator.factors]
        return cls(operator, operator.with_factors(factors, 1))

    @property
    def examples_and_outputs(self) -> tuple:
        return self._operator.examples_and_outputs

    def cast(self, dtype: tf.DType) -> "DrawnRows":
        return DrawnRows(self._operator.cast(dtype), self._sketch.cast(dtype))

    def matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return self._operator.matvec(x, adjoint)

    def to_dense(self) -> Tensor:
        return self._operator.to_dense()


def _with_sketch(tensors: list[Tensor], variables: list, sources: list, sketch: JacobianOperator) -> ProductRows:
    """Return the `ProductRows` of tensors `[n, ...]` with S."""
    forward, backward = push_forward(tensors, sources), pull_back(tensors, sources)
    forward, backward = forward.with_zeros(tensors), backward.with_zeros(sources)
    return ProductRows(forward, backward, sketch, [axes(tensor) for tensor in tensors], sketch.dtype)


def products_of_all_rows(tensors: list[Tensor], variables: list) -> ProductRows:
    """Return the `ProductRows` of tensors `[n, ...]`, whose examples may mix: probes combine all of their elements.

    Args:
        tensors, variables: as for `product_rows`.

    Raises:
        NoForwardMode: where ops on the way have none.
    """
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    tensors = inline_calls(tensors, depends_on=sources)
    forward, backward = push_forward(tensors, sources), pull_back(tensors, sources).with_zeros(sources)
    rows = backward.on_stacks(*(_signs(k, seed) / PROBES_OF_ALL**0.5 for k, seed in enumerate(backward.seeds)))
    shapes = [variable.shape for variable in variables]
    factors = [DenseFactor(tf.reshape(part, [1, PROBES_OF_ALL, -1])) for part in rows]
    sketch = JacobianOperator(factors, shapes, 1, PROBES_OF_ALL)
    sizes = [axes(tensor) for tensor in tensors]
    return ProductRows(forward.with_zeros(tensors), backward, sketch, sizes, sketch.dtype)


def _signs(number: int, like: Tensor) -> Tensor:
    """Return ±1 at random, the same in every step, `[probes, ...]` for a tensor `[...]`."""
    shape = [PROBES_OF_ALL, *axes(like)]
    bits = tf.random.stateless_uniform(shape, seed=[number, 0], minval=0, maxval=2, dtype=tf.int32)
    return tf.cast(2 * bits - 1, like.dtype)


def _probed(tensors: list[Tensor], probes: int, seed: Any) -> Tensor:
    """Return random combinations `[n, probes]` of the elements of each example of tensors `[n, ...]`, by a seed."""
    flat = [tf.reshape(tensor, [axes(tensor)[0], product(axes(tensor)[1:])]) for tensor in tensors]
    rows = flat[0] if len(flat) == 1 else tf.concat(flat, axis=1)
    signs = _drawn_signs(tf.shape(rows), seed, probes, rows.dtype)
    return tf.stack([tf.reduce_sum(rows * each, axis=1) for each in signs], axis=1) / probes**0.5


def _drawn_signs(shape: Tensor, seed: Any, probes: int, dtype: tf.DType) -> list[Tensor]:
    """Return as many tensors of a shape, of ±1 at random."""
    bits = tf.random.stateless_uniform(shape, seed=seed, minval=0, maxval=2**probes, dtype=tf.int32)
    return [tf.cast(2 * (tf.bitwise.right_shift(bits, k) & 1) - 1, dtype) for k in range(probes)]
