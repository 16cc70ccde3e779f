"""In which of two forms a twin computes a factor's part of a result: `custom_ops/common/forms.h`, for the twins.

Rows of J are formed and multiplied, or else products of a with a and of d with d. Costs are multiply-adds, per group
and per whatever both forms have in common.
"""

from typing import NamedTuple

from tfjac.ops._factors import Sizes


class FormCosts(NamedTuple):
    """What both forms cost."""

    rows: int
    pairs: int

    @property
    def pairs_pay(self) -> bool:
        """Whether products of pairs take fewer multiply-adds than rows."""
        return self.pairs < self.rows


def kernel_costs(f: Sizes, other: Sizes) -> FormCosts:
    """Compare the forms of J·Jᵀ, of two examples: (a aᵀ) ∘ (d dᵀ) for t = 1, position against position else.

    `other` is the same factor where the other example is of another block.
    """
    squares = f.m * other.m
    if f.t == other.t == 1:
        return FormCosts(squares * f.i * f.o, f.i + squares * (f.o + 1))
    return FormCosts(squares * f.i * f.o, f.t * (other.t * (f.i + other.m * f.o) + squares * f.o))


def norm_costs(f: Sizes) -> FormCosts:
    """Compare the forms of the norms of the rows of one example."""
    return FormCosts(f.m * f.i * f.o * (f.t + 1), f.t**2 * (f.i + f.m * f.o + f.m))


def gram_costs(f: Sizes, other: Sizes) -> FormCosts:
    """Compare the forms of the block of JᵀJ of two factors with t = 1, of one example, over the product of outputs.

    In pairs the residuals are summed, one a is multiplied in, then the other.
    """
    return FormCosts(f.m * f.i * other.i, f.m + f.i + f.i * other.i)
