"""Examples that are groups of rows, as the graphs of a batch are for a graph neural network: one factor per source."""

from collections.abc import Sequence

import tensorflow as tf

from tfjac.graph import Dependence, ExamplesMix, analyse_segments, axes, compiled_by_xla, examples_mix_at, moves_rows
from tfjac.jacobians.factors.cotangents import stacked_cotangents
from tfjac.jacobians.factors.rules import factor_by_rule
from tfjac.jacobians.factors.strategies.problem import Problem
from tfjac.jacobians.factors.strategies.row_by_row import rows_of
from tfjac.jacobians.factors.uses import find_uses
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.shapes import after, check_when_run, has_whole_rows
from tfjac.linear.factors.forms import DenseFactor, Factor, joined
from tfjac.linear.factors.grouping import Grouping, in_segments
from tfjac.types import Tensor


def by_segments(problem: Problem) -> list[Factor] | None:
    """The `Strategy` of rows that depend on one another within segments; where these mix when it runs, row by row.

    It is for problems where examples mix, or an op without a rule takes rows to other places. The factors are dense.
    """
    if problem.mix is None and problem.row_mover is None:
        return None
    segments = _segments_of(problem)
    if segments is None:
        return None
    row_by_row, apart = rows_of(problem, None), segments.apart()
    factors = segments.factors(wanted=apart)
    rows = tf.cond(apart, lambda: problem.dense(factors), lambda: problem.dense(row_by_row()))
    for each, spec in zip(rows, problem.specs()):
        each.set_shape(spec.shape)
    return [DenseFactor(each) for each in rows]


def of_moved_rows(problem: Problem) -> list[Factor] | None:
    """The `Strategy` of rows that were picked, and put back: a check fails when the graph runs if segments mix."""
    segments = _segments_of(problem) if problem.mix is not None and moves_rows(problem.mix.op) else None
    return None if segments is None else segments.factors(segments.checks())


def by_checked_segments(problem: Problem) -> list[Factor]:
    """The `Strategy` of examples that are segments, as the user says."""
    segments = SegmentFactors(problem.ys, problem.dependence)
    return segments.factors(segments.checks(), problem.max_rows)


def _segments_of(problem: Problem) -> "SegmentFactors | None":
    """The segments of ys; None where they have none, or these may not be sorted.

    XLA would have to know how long they are, and `chunk_size` bounds a memory that all of a segment's rows are not in.
    """
    if problem.chunk_size is not None or compiled_by_xla(problem.ys[0].graph):
        return None
    try:
        return SegmentFactors(problem.ys, problem.dependence)
    except ExamplesMix:
        return None


class SegmentFactors:
    """The factors of `ys` with the segments as examples, found by reading their graph.

    Args:
        ys: list of tensors `[segments, ...]`; their outputs follow one another along m.
        dependence: the `Dependence` on what the Jacobian is taken with respect to.

    Raises:
        ExamplesMix: where rows are combined otherwise than by gathers and segments.
    """

    def __init__(self, ys: Sequence[Tensor], dependence: Dependence) -> None:
        self._ys, self._num_segments = ys, axes(ys[0])[0]
        try:
            self._analysis = analyse_segments(dependence, ys, self._num_segments)
            self._uses = find_uses(self._analysis, dependence.sources, None)
        except ExamplesMix as mix:
            raise examples_mix_at(
                mix.op,
                mix.reason + ". Rows of a segment may be combined by gathers, concatenation, sums and extremes over "
                "segments, scatters and sparse matrices; take the model apart here, or write it with these",
            ) from None

    def apart(self) -> Tensor:
        """Return whether no segment depends on another, which shows when the graph runs: a boolean scalar tensor."""
        agreements = [agree for _, agree in self._analysis.agreements]
        return tf.reduce_all([*agreements, *(has_whole_rows(*assumed) for assumed in self._assumed())])

    def checks(self) -> list:
        """Return a list of ops that fail where `apart` is false."""
        agreements = [
            tf.debugging.Assert(
                agree, [f"tfjac: segments depend on one another: a row at {op.name} is part of more than one."]
            )
            for op, agree in self._analysis.agreements
        ]
        return agreements + [check for *pair, rows in self._assumed() for check in check_when_run([pair], rows)]

    def factors(self, checks: Sequence = (), max_rows: int | None = None, wanted: Tensor | bool = True) -> list[Factor]:
        """Return for each source its `Factor`.

        Args:
            checks: list of ops that must have run before.
            max_rows: the most rows of any one segment, or None.
            wanted: a boolean scalar tensor; where it is false, most of the work is not done, and they are wrong.
        """
        cotangents = after(list(checks), stacked_cotangents(self._ys, [use.output for use in self._uses]))
        groupings, parts = {}, []
        for use, d in zip(self._uses, cotangents):
            rows = self._analysis.rows_of(use.output)
            use.n, use.d = rows.size, d
            factor = factor_by_rule(use)
            if not rows.is_segments:
                if rows not in groupings:
                    groupings[rows] = Grouping(rows, self._num_segments, max_rows, wanted)
                factor = in_segments(factor, groupings[rows])
            parts.append((use.weight, factor))
        return [joined(each) for each in columns_of_sources(parts, self._analysis.dependence)]

    def _assumed(self) -> list:
        """What the trace left open: triples of a tensor, its `ExampleAxis`, and the number of its rows."""
        return [(tensor, axis, self._analysis.rows_of(tensor).size) for tensor, axis in self._analysis.assumed]
