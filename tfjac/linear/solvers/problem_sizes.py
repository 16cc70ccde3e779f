"""How large a problem is, in numbers: what the costs of solvers follow from."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.graph import compiled_by_xla
from tfjac.linear.contracts import JacobianBlock, LinearModel
from tfjac.linear.factors.forms import COPIES
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.factors.weighted_kernel import is_weighed_as_factors
from tfjac.linear.model import Elimination
from tfjac.linear.solvers.sparse_counts import SparseCounts
from tfjac.types import GramDType

SMALL = 256
"""So few parameters that JᵀJ costs next to nothing, whatever the number of residuals."""

LARGE = 2048
"""Parameters below which a dense exact step never takes so long that conjugate gradients would pay."""


class LayerSizes(NamedTuple):
    """Sizes of one factor: n examples, m outputs, t positions, g groups, i and o features.

    n and m are integers, or None where the graph leaves them open. Of a table that is read by index there are `rows`.
    Where J is there as products alone, `probes` rows stand for the m of an example in estimates.
    """

    n: Any
    m: Any
    t: Any
    g: Any
    i: Any
    o: Any
    rows: Any = None
    probes: Any = None

    @property
    def touched(self) -> Any:
        """How many columns an example touches."""
        return self.g * self.i * self.o if self.rows is None else self.t * self.o

    @property
    def product(self) -> Any:
        """The multiply-adds of J·v, by factors or by a pass through the linearised graph."""
        return self.n * self.t * self.g * self.o * (self.i + (self.m if self.probes is None else self.i))

    @property
    def held(self) -> Any:
        """The numbers that are live while the factor is made: a dense block is the sum of those of its uses."""
        numbers = self.n * self.t * self.g * self.estimated * self.o
        if self.rows is not None:
            return self.n * self.t + numbers
        return (COPIES if self.g * self.t * self.i == 1 else 1) * numbers + self.n * self.t * self.g * self.i

    @property
    def estimated(self) -> Any:
        """How many residuals of an example estimates of JᵀJ are made of."""
        return self.m if self.probes is None else self.probes

    def kernel_of_two_examples(self) -> Any:
        """Return the multiply-adds of what two examples have in J·Jᵀ, in the cheaper form."""
        pairs, rows = self.t**2 * (self.i + self.m**2 * self.o), self.m**2 * self.i * self.o
        return self.g * (pairs if self.t == 1 or self.rows is not None else min(pairs, rows))

    @property
    def is_weighed_as_it_is(self) -> bool:
        """Whether its columns are weighed, each by itself, without J being formed."""
        return is_weighed_as_factors(self.t, self.g, self.rows is not None)

    def weighted_kernel_of_two_examples(self) -> Any:
        """Return the multiply-adds of what two examples have in J·D⁻¹·Jᵀ, each counted once, not twice."""
        if self.rows is not None:
            return self.kernel_of_two_examples()
        both = (
            self.i * self.o + self.m**2 * self.o if self.is_weighed_as_it_is else self.m**2 * self.g * self.i * self.o
        )
        return 2 * both if self.is_weighed_as_it_is else both

    @classmethod
    def of(cls, factor: Any, outputs: Any = None) -> "LayerSizes":
        """Return the sizes of a factor; axes that its kind has not count as of size one.

        Args:
            factor: a `Factor`.
            outputs: m, where the factor is that of an estimate; or None.
        """
        known: dict = {}
        for sizes in factor.sizes_of_tensors():
            known.update((name, size) for name, size in sizes.items() if known.get(name) is None)
        t, g, i = (known.get(name, 1) for name in "tgi")
        rows = factor.rows if isinstance(factor, GatherFactor) else None
        m, probes = (known["m"], None) if outputs is None else (outputs, known["m"])
        return cls(known["n"], m, t, g, i, known["q" if "q" in known else "o"], rows, probes)


class ProblemSizes(NamedTuple):
    """Sizes of a linearisation.

    Attributes:
        rows: number of residuals: a number, a float64 scalar tensor, or None where the graph leaves it open.
        parameters: number of parameters, an integer.
        blocks: one tuple for each block of residuals, of the `LayerSizes` of the variables that it depends on.
        itemsize: bytes of a number.
        one_prior_per_variable: whether regularisers weigh all elements of a variable alike.
        is_double: whether the dtype is float64.
        elimination: the `Elimination` that there may be, or None.
        is_compiled: whether XLA compiles the graph.
        is_shared: whether other processes have rows as well, beside those counted here.
        one_scale: whether D is one number for all parameters.
        counts: `SparseCounts`, where all that residuals are computed from is tables that are read by index; or None.
        passes: bytes of the backward passes that factors come from, as far as the graph fixes them.
        budget: bytes that a step may plan to take.
    """

    rows: Any
    parameters: int
    blocks: tuple
    itemsize: int
    one_prior_per_variable: bool
    is_double: bool
    elimination: Any = None
    is_compiled: bool = False
    is_shared: bool = False
    one_scale: bool = True
    counts: Any = None
    passes: float = 0.0
    budget: float = math.inf

    @classmethod
    def of(
        cls,
        linearisation: LinearModel,
        gram_dtype: GramDType | None = None,
        one_scale: bool = True,
        budget: float = math.inf,
    ) -> "ProblemSizes":
        """Return the sizes of a `Linearisation`, as far as the graph fixes them, computed in `gram_dtype`."""
        dtype = tf.as_dtype(gram_dtype or linearisation.dtype)
        blocks = tuple(_layers_of(operator) for operator in linearisation.jacobian.operators)
        apart = not _by_products(blocks)
        counted = apart and linearisation.num_parameters > SMALL and _are_tables(blocks)
        return cls(
            rows=linearisation.static_num_rows,
            parameters=linearisation.num_parameters,
            blocks=blocks,
            counts=SparseCounts.of(linearisation.jacobian) if counted else None,
            itemsize=dtype.size,
            one_prior_per_variable=linearisation.prior.has_one_number_per_variable,
            is_double=dtype == tf.float64,
            elimination=Elimination.of(linearisation.jacobian) if apart else None,
            is_compiled=compiled_by_xla(tf.compat.v1.get_default_graph()),
            is_shared=linearisation.is_shared,
            one_scale=one_scale,
            passes=linearisation.jacobian.passes,
            budget=budget,
        )

    @property
    def by_products(self) -> bool:
        """Whether J is known by products, and an estimate, alone."""
        return _by_products(self.blocks)

    def with_examples(self, number: Any) -> "ProblemSizes":
        """Return the sizes for so many examples, where the graph leaves that open.

        Raises:
            ValueError: where it does not, and has another number.
        """
        blocks = tuple(
            tuple(layer._replace(n=number) if layer.n is None else layer for layer in block) for block in self.blocks
        )
        firsts = [block[0] for block in blocks if block]
        rows = sum(first.n * first.m for first in firsts) if self.rows is None else self.rows
        if number not in {first.n for first in firsts}:
            raise ValueError(
                f"The problem was traced for {' and '.join(sorted({str(first.n) for first in firsts}))} examples. "
                f"Received: batch_size={number!r}"
            )
        return self._replace(blocks=blocks, rows=rows)

    @property
    def are_tables(self) -> bool:
        """Whether all that residuals are computed from is tables that are read by index."""
        return _are_tables(self.blocks)

    @property
    def has_products_alone(self) -> bool:
        """Whether there are blocks of J that products are had of, and nothing else."""
        return _by_products(self.blocks)

    def without_tables(self) -> "ProblemSizes":
        """Return the sizes where nothing is made of tables being read by index, as more than J couples rows."""
        blocks = tuple(tuple(layer._replace(rows=None) for layer in block) for block in self.blocks)
        return self._replace(blocks=blocks, elimination=None, counts=None)

    def layers(self) -> "list[list[LayerSizes]]":
        """Return the layers of each block; examples that the graph leaves open are as many as make up the rows."""
        known = sum(layers[0].n * layers[0].m for layers in self.blocks if layers and None not in layers[0][:2])
        return [[_filled(layer, self.rows - known) for layer in layers] for layers in self.blocks]

    def held(self) -> Any:
        """Return the bytes of J as factors, and of the passes that they come from."""
        return self.passes + self.itemsize * _sum(each.held for block in self.layers() for each in block)

    def touched(self) -> list[tuple]:
        """Return (n, m, k) of each block: its examples, residuals of one, and columns of J that one touches."""
        return [(b[0].n, b[0].m, float(sum(layer.touched for layer in b))) for b in self.layers() if b]

    def reads_few(self, most: float) -> bool:
        """Return whether J is there as factors, and each example touches no more columns of it than `most`."""
        return not (self.rows is None or self.by_products) and all(columns <= most for _, _, columns in self.touched())

    def product(self) -> Any:
        """Return the multiply-adds of J·v, and as well of Jᵀ·u."""
        return _sum(each.product for block in self.layers() for each in block)

    def gram(self) -> Any:
        """Return the multiply-adds of JᵀJ."""
        counts = []
        for block in self.layers():
            columns = sum(layer.g * layer.i * layer.o for layer in block)
            folded = all(layer.t == 1 for layer in block)
            counts += [(layer.n if folded else layer.n * layer.m) * columns**2 / 2 for layer in block[:1]]
        return _sum(counts)

    def kernel(self) -> Any:
        """Return the multiply-adds of J·Jᵀ, about, where outputs are as many in all blocks."""
        blocks = [block for block in self.layers() if block]
        examples = _sum(block[0].n for block in blocks)
        pairs = "kernel_of_two_examples" if self.one_scale else "weighted_kernel_of_two_examples"
        return _sum(each.n * examples / 2 * getattr(each, pairs)() for block in blocks for each in block)

    def formed_by_kernel(self) -> Any:
        """Return how many numbers of J are formed at once on the way to J·Jᵀ: those of the largest such layer."""
        layers = [each for block in self.layers() for each in block if not (self.one_scale or each.is_weighed_as_it_is)]
        return _sum(each.n * each.m * each.g * each.i * each.o for each in layers)


def _layers_of(operator: JacobianBlock) -> "tuple[LayerSizes, ...]":
    """Return the `LayerSizes` of the variables that a block of residuals depends on."""
    outputs = None if operator.num_probes is None else operator.examples_and_outputs[1]
    return tuple(LayerSizes.of(each, outputs) for each in operator.factors if each is not None)


def _are_tables(blocks: Sequence) -> bool:
    return any(blocks) and all(layer.rows is not None for block in blocks for layer in block)


def _filled(layer: "LayerSizes", rows: Any) -> "LayerSizes":
    m = 1 if layer.m is None else layer.m
    n = rows / m if None in (layer.n, layer.m) else layer.n
    sizes = [1 if size is None else size for size in layer[2:6]]
    return LayerSizes._make([n, m, *sizes, layer.rows, layer.probes])


def _sum(numbers: Any) -> Any:
    return sum(numbers, start=0.0)


def _by_products(blocks: Sequence) -> bool:
    """Return whether the Jacobian of a block, of `LayerSizes`, is known by products and an estimate alone."""
    return any(layer.probes for layers in blocks for layer in layers)
