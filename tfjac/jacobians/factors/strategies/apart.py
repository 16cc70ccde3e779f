"""Examples that do not depend on one another: by the rule of each op at which a weight meets the data, or by a sweep.

The rule is given the input there, and the cotangents of the output. Where loops or branches are on the way, one walk
backwards has both, or one for each chunk of the outputs.
"""

import tensorflow as tf

from tfjac.graph import axes, examples_mix_at
from tfjac.jacobians.factors.control_flow import has_control_flow, swept_factors
from tfjac.jacobians.factors.cotangents import cotangents_in_chunks, stacked_cotangents
from tfjac.jacobians.factors.rules import factor_by_rule
from tfjac.jacobians.factors.strategies.problem import AS_IF_APART, UNLESS_MIXED, Problem
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.passes.chunks import in_chunks
from tfjac.jacobians.passes.nests import like
from tfjac.jacobians.shapes import after, check_when_run
from tfjac.linear.factors.forms import DenseFactor, Factor, joined
from tfjac.linear.shapes import product
from tfjac.types import Tensor


def by_rules(problem: Problem) -> list[Factor] | None:
    """The `Strategy` of examples that are apart, where no loop or branch is on the way."""
    if problem.mix is not None:
        return None
    analysis, uses = problem.reading
    if problem.examples_mix == UNLESS_MIXED and problem.row_mover is not None:
        raise examples_mix_at(problem.row_mover, "it takes rows to other places")
    if has_control_flow(analysis):
        if problem.examples_mix == AS_IF_APART:
            raise examples_mix_at(problem.ys[0].op, "loops or branches are on the way")
        return None
    ys, checks = problem.ys, check_when_run(analysis.assumed, axes(problem.ys[0])[0])
    outputs = list({use.output.ref(): use.output for use in uses}.values())

    def factors(cotangents: list[Tensor]) -> list[Factor]:
        """One for each source, given the cotangents `[m, *z.shape]` of the outputs z of the uses."""
        of_output = dict(zip((output.ref() for output in outputs), after(checks, cotangents)))
        for use in uses:
            use.d = of_output[use.output.ref()]
        parts = [(use.weight, factor_by_rule(use)) for use in uses]
        return [joined(each) for each in columns_of_sources(parts, analysis.dependence)]

    if problem.chunk_size is None:
        return factors(stacked_cotangents(ys, outputs))

    def rows(cotangents: list[Tensor]) -> list[Tensor]:
        return problem.dense(factors(cotangents))

    parts = [cotangents_in_chunks(y, outputs, rows, problem.specs(), problem.chunk_size) for y in ys]
    return [DenseFactor(blocks[0] if len(ys) == 1 else tf.concat(blocks, 1)) for blocks in zip(*parts)]


def by_sweep(problem: Problem) -> list[Factor] | None:
    """The `Strategy` of examples that are apart, where a loop or branch is on the way."""
    if problem.mix is not None:
        return None
    analysis, n, m = problem.reading[0], axes(problem.ys[0])[0], problem.num_outputs

    def factors(outputs: Tensor | None = None) -> list[Factor]:
        parts = swept_factors(problem.ys, analysis, n, outputs)
        rows = m if outputs is None else axes(outputs)[0]
        return [
            joined(each) if each or analysis.axis(source) is not None else _zeros(n, rows, like(variable))
            for each, source, variable in zip(parts, problem.dependence.sources, problem.variables)
        ]

    if problem.chunk_size is None:
        return factors()
    blocks = in_chunks(lambda outputs: problem.dense(factors(outputs)), m, problem.specs(), problem.chunk_size, axis=1)
    return [DenseFactor(block) for block in blocks]


def _zeros(n: int | Tensor, m: int | Tensor, x: Tensor) -> Factor:
    """The factor of a variable that only such results of a loop or branch depend on as ys are not computed from."""
    return DenseFactor(tf.zeros([n, m, product(axes(x))], x.dtype))


APART = (by_rules, by_sweep)
"""The strategies for examples that do not depend on one another."""
