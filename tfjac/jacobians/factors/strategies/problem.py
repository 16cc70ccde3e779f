"""What is to be factored, and what a strategy does with it."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, ExampleAnalysis, ExamplesMix, analyse_examples, axes, moves_rows
from tfjac.jacobians.factors.control_flow import has_control_flow
from tfjac.jacobians.factors.rules import has_rule
from tfjac.jacobians.factors.uses import Use, find_uses
from tfjac.jacobians.passes.nests import like
from tfjac.linear.factors.forms import Factor
from tfjac.linear.shapes import product, wide_dtype
from tfjac.types import Tensor

UNLESS_MIXED = "unless mixed"
"""As "full" reads a graph, but `ExamplesMix` is raised where examples mix: for those who have another way then."""


AS_IF_APART = "as if apart"
"""Examples may mix. Row n is then what use n of a weight has in the gradient of the sum of all rows.

That is no Jacobian, as d mixes through what examples share. It is what Kronecker factors are made of.
"""


@dataclasses.dataclass(eq=False)
class Problem:
    """The Jacobian of ys with respect to variables, each of which some y depends on, without function calls on the way.

    Attributes:
        ys: list of tensors `[n, ...]`; their outputs follow one another along m.
        variables: list of variables, or tensors that all examples share.
        dependence: the `Dependence` on what stands for the variables in the graph.
        examples_mix, chunk_size, passes_at_once: as of `factorize`.
        max_rows: the most rows of any one segment, or None.
        mix: the first `ExamplesMix` that a strategy met.
    """

    ys: list[Tensor]
    variables: list
    dependence: Dependence
    examples_mix: str = "error"
    chunk_size: int | Tensor | None = None
    passes_at_once: Callable[[ExamplesMix, int | None], int | None] | None = None
    max_rows: int | None = None
    mix: ExamplesMix | None = None

    @property
    def num_outputs(self) -> int | Tensor:
        """m, an integer or a scalar tensor."""
        return sum(product(axes(y)[1:]) for y in self.ys)

    @property
    def num_rows(self) -> int | None:
        """n·m; None if the graph leaves it open."""
        sizes = [y.shape.num_elements() for y in self.ys]
        return None if None in sizes else sum(sizes)

    @property
    def num_columns(self) -> int | None:
        """How many elements the variables have together; None if the graph leaves it open."""
        sizes = [like(variable).shape.num_elements() for variable in self.variables]
        return None if None in sizes else sum(sizes)

    @functools.cached_property
    def reading(self) -> tuple[ExampleAnalysis, list[Use]]:
        """The `ExampleAnalysis` of the graph, and the places where weights meet the data.

        If examples may mix, tensors may have a row for each example, and what is of weights alone may be used by rows
        and whole, but for loops and branches. If not, that is refused: data may stand in variables, too.

        Raises:
            ExamplesMix: where examples depend on one another, or this cannot be decided.
        """
        if self.examples_mix == AS_IF_APART:
            analysis = analyse_examples(self.dependence, self.ys, as_if_apart=True)
            return analysis, find_uses(analysis, self.dependence.sources, axes(self.ys[0])[0])
        may_mix = self.examples_mix != "error"
        analysis = analyse_examples(self.dependence, self.ys, takes_rows_of_weights=may_mix)
        if may_mix and has_control_flow(analysis):
            may_mix, analysis = False, analyse_examples(self.dependence, self.ys)
        return analysis, find_uses(analysis, self.dependence.sources, axes(self.ys[0])[0], takes_own_rows=may_mix)

    @property
    def row_mover(self) -> tf.Operation | None:
        """The first use of a weight that takes rows to other places, and has no rule."""
        return next((use.op for use in self.reading[1] if moves_rows(use.op) and not has_rule(use)), None)

    def specs(self) -> list[tf.TensorSpec]:
        """Return what the dense rows `[n,m,q]` of some outputs look like, one `tf.TensorSpec` for each variable."""
        likes = [like(variable) for variable in self.variables]
        return [tf.TensorSpec([self.ys[0].shape[0], None, x.shape.num_elements()], wide_dtype(x.dtype)) for x in likes]

    def in_dtypes(self, factors: Iterable[Factor]) -> list[Factor]:
        return [in_dtype_of(factor, variable) for factor, variable in zip(factors, self.variables)]

    def dense(self, factors: Iterable[Factor]) -> list[Tensor]:
        """Return the dense rows `[n,m,q]` of factors in the dtypes of the variables."""
        return [factor.dense() for factor in self.in_dtypes(factors)]


Strategy = Callable[[Problem], list[Factor] | None]
"""A function of a `Problem` that returns a `Factor` for each variable; None for a problem that is not of its kind.

It raises `ExamplesMix` where examples depend on one another. Those that come later find this as `problem.mix`.
"""


def first_of(strategies: Iterable[Strategy], problem: Problem) -> list[Factor]:
    """Return the factors by the first strategy that has any, in the dtypes of the variables.

    Raises:
        ExamplesMix: where none has; the first that was met.
    """
    for strategy in strategies:
        try:
            factors = strategy(problem)
        except ExamplesMix as mix:
            problem.mix = problem.mix or mix.with_traceback(None)  # which would hold the graph
            continue
        if factors is not None:
            return problem.in_dtypes(factors)
    assert problem.mix is not None
    raise problem.mix


def in_dtype_of(factor: Factor, variable: Any) -> Factor:
    """Return a factor in the dtype of a variable, but in no less than single precision."""
    return factor.cast(like(variable).dtype)
