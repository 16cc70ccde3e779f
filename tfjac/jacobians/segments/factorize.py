"""From results per segment and variables to one factor per variable."""

from tfjac.graph import Dependence, ExamplesMix, analyse_segments, examples_mix_at, inline_calls
from tfjac.jacobians.factors.cotangents import stacked_cotangents
from tfjac.jacobians.factors.factorize import factor_by_rule, in_dtype_of, real_source_in
from tfjac.jacobians.factors.forms import joined
from tfjac.jacobians.factors.uses import find_uses
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.passes.connectedness import check_connected
from tfjac.jacobians.passes.verification import verify_factors
from tfjac.jacobians.segments.grouping import Grouping, in_segments
from tfjac.jacobians.shapes import after, axes, check_when_run


def factorize_segments(ys, variables, max_rows=None, verify=None):
    """Factor the Jacobian of `ys`, one row group per segment, with respect to `variables`.

    Args:
        ys: list of tensors `[segments, ...]` of one graph; their outputs follow one another along m.
        variables: list of `tf.Variable`, `keras.Variable`, or tensors that all segments share.
        max_rows, verify: see `per_segment_jacobian`.

    Returns:
        A list of `Factor`, one per variable, in the dtype of the variable, with the segments as examples.

    Raises:
        ExamplesMix, ValueError: as `per_segment_jacobian`.
    """
    if not variables:
        raise ValueError("variables must hold at least one variable; build the model first. Received: an empty nest")
    sources = [real_source_in(ys[0].graph, variable) for variable in variables]
    given, ys = ys, inline_calls(ys, depends_on=[source for source in sources if source is not None])
    dependence = Dependence(sources)
    check_connected(ys, variables, dependence)
    num_segments = axes(ys[0])[0]
    analysis, uses = _analysed(dependence, ys, num_segments)
    assumed = [([(tensor, axis)], analysis.rows_of(tensor).size) for tensor, axis in analysis.assumed]
    checks = [check for each in assumed for check in check_when_run(*each)]
    cotangents = after(checks, stacked_cotangents(ys, [use.output for use in uses]))
    grouped = _Groupings(num_segments, max_rows)
    parts = []
    for use, d in zip(uses, cotangents):
        rows = analysis.rows_of(use.output)
        use.n, use.d = rows.size, d
        parts.append((use.weight, grouped(factor_by_rule(use), rows)))
    factors = [joined(each) for each in columns_of_sources(parts, dependence)]
    factors = [in_dtype_of(factor, variable) for factor, variable in zip(factors, variables)]
    verify_factors(verify, given, ys, sources, factors, variables)
    return factors


def _analysed(dependence, ys, num_segments):
    """Where the rows are, and where weights meet them."""
    try:
        analysis = analyse_segments(dependence, ys, num_segments)
        return analysis, find_uses(analysis, dependence.sources, None)
    except ExamplesMix as mix:
        raise examples_mix_at(
            mix.op,
            mix.reason + ". Rows of a segment may be combined by gathers, concatenation, sums and extremes over "
            "segments, scatters and sparse matrices; take the model apart here, or write it with these",
        ) from None


class _Groupings:
    """Factors of rows to factors of segments, each set of rows sorted once."""

    def __init__(self, num_segments, max_rows):
        self.num_segments, self.max_rows, self._made = num_segments, max_rows, {}

    def __call__(self, factor, rows):
        if rows.is_segments:
            return factor
        if rows not in self._made:
            self._made[rows] = Grouping(rows, self.num_segments, self.max_rows)
        return in_segments(factor, self._made[rows])
