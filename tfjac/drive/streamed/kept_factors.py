"""What is kept of each variable among Kronecker factors: A and G with their inverses, or a diagonal."""

import math
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from tfjac.linear.factors.kronecker_block import DiagonalBlock, FormOfTable, FormOfWeight, KroneckerBlock, TableBlock
from tfjac.types import Tensor

Form: TypeAlias = FormOfWeight | FormOfTable

REFRESHED = 5
"""After so many steps what is kept is computed again."""


def within(numbers: float, forms: list) -> list:
    """Return the forms, None for the largest until all have no more numbers."""
    kept, taken = list(forms), 0
    for k in sorted((k for k, form in enumerate(forms) if form), key=lambda k: numbers_of(forms[k])):
        taken += numbers_of(forms[k])
        kept[k] = forms[k] if taken <= numbers else None
    return kept


def numbers_of(form: Form) -> int:
    """Return of how many numbers A, G and their inverses are."""
    return 2 * sum(math.prod(shape) for shape in form.shapes)


class KeptFactors:
    """A and G of one weight, and their damped inverses: `[g,i,i]` and `[g,o,o]`, or `[rows]` and `[o,o]` of a table.

    Attributes:
        numbers: how many are kept.
        operations: multiply-adds of a product with the inverses, and of the inverses, spread over the steps.
    """

    def __init__(self, add: Callable, name: str, form: Form, dtype: tf.DType) -> None:
        self._form, self.numbers = form, numbers_of(form)
        self.operations = form.products + form.inverses / REFRESHED
        self._sides, self._inverses = (
            [add(f"{name_of}_{name}", shape, dtype) for name_of, shape in zip(names, form.shapes)]
            for names in (("inputs", "outputs"), ("inverse_inputs", "inverse_outputs"))
        )

    def averaged(self, factors: list, shares: tuple) -> KroneckerBlock | TableBlock:
        """Return the mean of the block and that of a batch, with the shares of both."""
        kept, new = shares
        pairs = zip(self.kept_sides(), self.sides(self._form.of(factors)))
        return self.block([kept * one + new * two for one, two in pairs])

    def block(self, sides: list[Tensor]) -> KroneckerBlock | TableBlock:
        """Return the block of these A and G."""
        return self._form.with_sides(*sides)

    def sides(self, block: KroneckerBlock | TableBlock) -> list[Tensor]:
        """Return A and G of a block."""
        return [block.left, block.right]

    def kept_sides(self) -> list[Tensor]:
        """Return A and G of the batches before."""
        return [side.value.value() for side in self._sides]

    def kept_inverses(self, damping: Tensor) -> list[Tensor]:
        """Return their inverses."""
        return [side.value.value() for side in self._inverses]

    def keep(self, sides: list[Tensor], inverses: list[Tensor]) -> None:
        """Assign all."""
        for variable, value in zip((*self._sides, *self._inverses), (*sides, *inverses)):
            variable.value.assign(value)


class KeptDiagonal:
    """diag(JᵀJ) of one variable, `[size]`; attributes and methods as of `KeptFactors`. Its inverse is not kept."""

    def __init__(self, add: Callable, name: str, size: int, dtype: tf.DType) -> None:
        self._diagonal, self.numbers, self.operations = add(f"diagonal_{name}", (size,), dtype), size, size

    def averaged(self, factors: list, shares: tuple) -> DiagonalBlock:
        (old,), (kept, new) = self.kept_sides(), shares
        return DiagonalBlock(kept * old + new * DiagonalBlock.of(factors).values if factors else old)

    def block(self, sides: list[Tensor]) -> DiagonalBlock:
        return DiagonalBlock(*sides)

    def sides(self, block: DiagonalBlock) -> list[Tensor]:
        return [block.values]

    def kept_sides(self) -> list[Tensor]:
        return [self._diagonal.value.value()]

    def kept_inverses(self, damping: Tensor) -> list[Tensor]:
        return self.block(self.kept_sides()).inverses(damping)

    def keep(self, sides: list[Tensor], inverses: list[Tensor]) -> None:
        self._diagonal.value.assign(sides[0])
