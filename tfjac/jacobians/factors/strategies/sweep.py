"""Where loops or branches are on the way: by one walk backwards, or one for each chunk of the outputs."""

import tensorflow as tf

from tfjac.graph import axes
from tfjac.jacobians.factors.control_flow import swept_factors
from tfjac.jacobians.factors.strategies.problem import Problem
from tfjac.jacobians.passes.chunks import in_chunks
from tfjac.jacobians.passes.nests import like
from tfjac.linear.factors.forms import DenseFactor, Factor, joined
from tfjac.linear.shapes import product
from tfjac.types import Tensor


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
