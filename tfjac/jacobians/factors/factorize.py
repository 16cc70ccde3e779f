"""From results and variables in a graph to one factor per variable: inline, find the uses, apply rules."""

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import (
    Dependence,
    ExamplesMix,
    analyse_examples,
    axes,
    compiled_by_xla,
    examples_mix_at,
    inline_calls,
    moves_rows,
    source_in,
)
from tfjac.jacobians.factors.control_flow import has_control_flow, swept_factors
from tfjac.jacobians.factors.cotangents import cotangents_in_chunks, stacked_cotangents
from tfjac.jacobians.factors.forms import DenseFactor, OuterFactor, joined
from tfjac.jacobians.factors.rules import factor_by_rule, has_rule
from tfjac.jacobians.factors.segments import SegmentFactors
from tfjac.jacobians.factors.shared_values import SharedValues
from tfjac.jacobians.factors.uses import find_uses
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.passes.chunks import in_chunks
from tfjac.jacobians.passes.connectedness import used_places
from tfjac.jacobians.passes.linearise import over_basis, pull_back
from tfjac.jacobians.passes.nests import check_real, like
from tfjac.jacobians.passes.random_cotangents import verify_factors
from tfjac.jacobians.shapes import after, check_when_run, product, wide_dtype

EXAMPLES_MIX = ("error", "full")

UNLESS_MIXED = "unless mixed"
"""As "full" reads a graph, but `ExamplesMix` is raised where examples mix: for those who have another way then."""


def factorize(
    ys,
    variables,
    examples_mix="error",
    chunk_size=None,
    verify=None,
    unconnected_gradients="error",
    row_by_row=None,
):
    """Factor the per-example Jacobian of `ys` with respect to `variables`.

    Args:
        ys: list of tensors `[n, ...]` of one graph with the same n; their outputs follow one another along m.
        variables: list of `tf.Variable`, `keras.Variable`, or tensors that all examples share.
        examples_mix: what to do where examples depend on one another, or this cannot be decided. "error" raises; but
            for an op that moves rows it reads the examples as segments, and checks when the graph runs that no row is
            part of two. "full" reads the examples as segments, groups of rows such as the graphs of a batch, where no
            two turn out to depend on one another when the graph runs; or it takes a backward pass for each element of
            the values that all examples share, such as the mean of a batch, where these are fewer than rows; and else
            it takes the gradient of every output of every example by itself (n·m backward passes), with a warning
            that names the op where segments are out of the question. The factors of segments, and of rows, are dense.
        chunk_size: how many backward passes, one per output m, are live at once, an integer or a scalar tensor; the
            factors are then dense. All of them where None.
        verify: True to verify the factors when the graph runs, see `verification`; None for what TFJAC_VERIFY says.
        unconnected_gradients: "error", or "zero" for factors of zeros of the variables that no y depends on.
        row_by_row: function from the `ExamplesMix` to how many passes are live at once, None for all of them; called
            before every row costs a pass, which it may refuse by raising.

    Returns:
        A list of `Factor`, one per variable, in the dtype of the variable, but in no less than single precision.

    Raises:
        ExamplesMix: see `examples_mix`.
        ValueError: for ys without a leading axis, or a variable that no y depends on.
        TypeError: for a complex variable.
    """
    _check(ys, examples_mix)

    def factors_of(ys, variables, dependence):
        try:
            analysis, uses = _analysed(ys, dependence, may_mix=examples_mix != "error")
            moved = next((use.op for use in uses if moves_rows(use.op) and not has_rule(use)), None)
            if moved is not None and examples_mix == UNLESS_MIXED:
                raise examples_mix_at(moved, "it takes rows to other places")
            if moved is not None and examples_mix == "full":
                segments = _segments(ys, dependence, chunk_size)
                if segments is not None:
                    return _by_segments(ys, variables, dependence, segments)
            return _by_rules(ys, variables, analysis, uses, chunk_size)
        except ExamplesMix as mix:
            if examples_mix == UNLESS_MIXED:
                raise
            if ys[0].shape[0] == 1:  # one example has none to mix with, and its rows cost what they cost by rules
                return _row_by_row(ys, variables, dependence, chunk_size)()
            if examples_mix == "full":
                return _in_full(ys, variables, dependence, chunk_size, mix, row_by_row)
            segments = _segments(ys, dependence, chunk_size) if moves_rows(mix.op) else None
            if segments is not None:  # rows that were picked, and put back
                return segments.factors(segments.checks())
            raise examples_mix_at(
                mix.op,
                mix.reason + ". Take the model apart there, use layers that treat examples independently (batch "
                "normalisation with training=False), or pass examples_mix='full' to pay n·m backward passes; where "
                "an example is a group of rows, such as a graph, use per_segment_jacobian",
            ) from None

    return _factorized(ys, variables, verify, unconnected_gradients, factors_of)


def factorize_segments(ys, variables, max_rows=None, verify=None, unconnected_gradients="error"):
    """Factor the Jacobian of `ys`, one row group per segment, with respect to `variables`.

    Args:
        ys: list of tensors `[segments, ...]` of one graph; their outputs follow one another along m.
        variables: list of `tf.Variable`, `keras.Variable`, or tensors that all segments share.
        max_rows, verify, unconnected_gradients: see `per_segment_jacobian`.

    Returns:
        A list of `Factor`, one per variable, in the dtype of the variable, with the segments as examples.

    Raises:
        ExamplesMix, ValueError: as `per_segment_jacobian`.
    """
    if not variables:
        raise ValueError("variables must hold at least one variable; build the model first. Received: an empty nest")

    def factors_of(ys, _, dependence):
        segments = SegmentFactors(ys, dependence)
        return segments.factors(segments.checks(), max_rows)

    return _factorized(ys, variables, verify, unconnected_gradients, factors_of)


def _factorized(ys, variables, verify, unconnected_gradients, factors_of):
    """What `factors_of(ys, variables, dependence)` gives for ys with calls inlined and the variables that they use.

    The factors are verified, and in the dtypes of the variables.
    """
    sources = [real_source_in(ys[0].graph, variable) for variable in variables]
    given, ys = ys, inline_calls(ys, depends_on=[source for source in sources if source is not None])
    dependence = Dependence(sources)
    used = used_places(ys, variables, dependence, unconnected_gradients)
    if len(used) == len(variables):
        return _verified(verify, given, ys, variables, dependence, factors_of)
    some = [variables[k] for k in used]
    found = iter(_verified(verify, given, ys, some, Dependence([sources[k] for k in used]), factors_of) if used else ())
    return [next(found) if k in used else _no_uses(ys, variable) for k, variable in enumerate(variables)]


def _verified(verify, given, ys, variables, dependence, factors_of):
    factors = factors_of(ys, variables, dependence)
    factors = [in_dtype_of(factor, variable) for factor, variable in zip(factors, variables)]
    verify_factors(verify, given, ys, dependence.sources, factors, variables)
    return factors


def _no_uses(ys, variable):
    """The factor of a variable that ys are not computed from: zeros, held as no position of use at all."""
    x, n, m = like(variable), axes(ys[0])[0], sum(product(axes(y)[1:]) for y in ys)
    a, d = [n, 0, 1, 1], [n, m, 0, 1, product(axes(x))]
    return OuterFactor(tf.zeros(a, x.dtype), tf.zeros(d, x.dtype))


def factors_by_rules(ys, variables, dependence, chunk_size=None):
    """`factorize` for ys without function calls on the way, each variable connected; without a way out.

    Args:
        dependence: the `Dependence` on what stands for the variables in the graph.

    Raises:
        ExamplesMix: where examples depend on one another, or this cannot be decided.
    """
    factors = _by_rules(ys, variables, *_analysed(ys, dependence), chunk_size)
    return [in_dtype_of(factor, variable) for factor, variable in zip(factors, variables)]


def real_source_in(graph, variable):
    """Return what stands for `variable` in `graph`: a handle, or the tensor itself; None where it is not used.

    Raises:
        TypeError: for a complex one, and for what is no variable.
    """
    source = source_in(graph, variable)
    check_real("variables", variable)
    return source


def _check(ys, examples_mix):
    if examples_mix not in (*EXAMPLES_MIX, UNLESS_MIXED):
        raise ValueError(f"examples_mix must be one of {EXAMPLES_MIX}. Received: {examples_mix!r}")
    for y in ys:
        if y.shape.rank in (0, None):
            raise ValueError(
                "ys must have the examples along axis 0, so its rank must be known and at least 1. Keep the examples "
                f"apart: no mean or sum over the batch. Received: {y.name} of shape {y.shape}"
            )


def _analysed(ys, dependence, may_mix=False):
    """The `ExampleAnalysis` of the graph, and the places where weights meet the data.

    If examples may mix, tensors may have a row for each example, and what is of weights alone may be used by rows and
    whole, but for loops and branches. If not, that is refused: data may stand in variables, too.
    """
    analysis = analyse_examples(dependence, ys, takes_rows_of_weights=may_mix)
    if may_mix and has_control_flow(analysis):
        return _analysed(ys, dependence)
    return analysis, find_uses(analysis, dependence.sources, axes(ys[0])[0], takes_own_rows=may_mix)


def _by_rules(ys, variables, analysis, uses, chunk_size):
    n = axes(ys[0])[0]
    if has_control_flow(analysis):
        return _by_sweep(ys, variables, analysis, n, chunk_size)
    checks = check_when_run(analysis.assumed, n)
    outputs = list({use.output.ref(): use.output for use in uses}.values())
    if chunk_size is None:
        return _factors(uses, analysis, outputs, after(checks, stacked_cotangents(ys, outputs)))

    def rows(cotangents):
        factors = _factors(uses, analysis, outputs, after(checks, cotangents))
        return [in_dtype_of(factor, variable).dense() for factor, variable in zip(factors, variables)]

    specs = _specs(ys, variables)
    parts = [cotangents_in_chunks(y, outputs, rows, specs, chunk_size) for y in ys]
    return [DenseFactor(blocks[0] if len(ys) == 1 else tf.concat(blocks, 1)) for blocks in zip(*parts)]


def _by_sweep(ys, variables, analysis, n, chunk_size):
    """Where loops or conditionals are on the way: one walk backwards, or one for each chunk of the outputs."""
    m, sources = sum(product(axes(y)[1:]) for y in ys), analysis.dependence.sources

    def factors_of(outputs=None):
        parts = swept_factors(ys, analysis, n, factor_by_rule, outputs)
        rows = m if outputs is None else axes(outputs)[0]
        return [
            joined(factors) if factors or analysis.axis(source) is not None else _zero_factor(n, rows, variable)
            for factors, source, variable in zip(parts, sources, variables)
        ]

    if chunk_size is None:
        return factors_of()

    def rows(outputs):
        return [in_dtype_of(factor, v).dense() for factor, v in zip(factors_of(outputs), variables)]

    return [DenseFactor(block) for block in in_chunks(rows, m, _specs(ys, variables), chunk_size, axis=1)]


def _zero_factor(n, m, variable):
    """The factor of a variable that only such results of a loop or branch depend on as ys are not computed from."""
    return DenseFactor(tf.zeros([n, m, product(axes(like(variable)))], like(variable).dtype))


def _specs(ys, variables):
    """What the dense rows `[n,m,q]` of some outputs look like, one `tf.TensorSpec` for each variable."""
    likes = [like(variable) for variable in variables]
    return [tf.TensorSpec([ys[0].shape[0], None, x.shape.num_elements()], wide_dtype(x.dtype)) for x in likes]


def _factors(uses, analysis, outputs, cotangents):
    """One factor per source, given the cotangents `[m, *z.shape]` of the outputs z of the uses."""
    of_output = dict(zip((output.ref() for output in outputs), cotangents))
    for use in uses:
        use.d = of_output[use.output.ref()]
    parts = [(use.weight, factor_by_rule(use)) for use in uses]
    return [joined(factors) for factors in columns_of_sources(parts, analysis.dependence)]


def _in_full(ys, variables, dependence, chunk_size, mix, row_by_row=None):
    """Where examples mix at `mix`: by segments where there are any, by few values that all share, else row by row."""
    segments = _segments(ys, dependence, chunk_size)
    if segments is not None:
        return _by_segments(ys, variables, dependence, segments)
    factors = _by_shared_values(ys, variables, dependence, chunk_size)
    if factors is not None:
        return factors
    chunk_size = chunk_size if row_by_row is None else row_by_row(mix)
    sizes = [y.shape.num_elements() for y in ys]
    rows = "every row" if None in sizes else f"each of the {sum(sizes):,} rows"
    warn(
        f"tfjac: examples mix, or may, at op {mix.op.name!r} of type {mix.op.type} ({mix.reason}): {rows} costs a "
        "backward pass. That is exact, and slow for many rows. Layers that treat examples independently are fast: "
        "LayerNormalization, GroupNormalization, or BatchNormalization with trainable=False.",
    )
    return _row_by_row(ys, variables, dependence, chunk_size)()


def _segments(ys, dependence, chunk_size):
    """The `SegmentFactors` of ys; None where they have none, or these may not be sorted.

    XLA would have to know how long they are, and `chunk_size` bounds a memory that all of a segment's rows are not in.
    """
    if chunk_size is not None or compiled_by_xla(ys[0].graph):
        return None
    try:
        return SegmentFactors(ys, dependence)
    except ExamplesMix:
        return None


def _by_segments(ys, variables, dependence, segments):
    """The dense factors of segments that are apart when the graph runs; where they turn out not to be, row by row."""
    row_by_row = _row_by_row(ys, variables, dependence, chunk_size=None)
    apart = segments.apart()
    factors = segments.factors(wanted=apart)

    def dense(factors):
        return [in_dtype_of(factor, variable).dense() for factor, variable in zip(factors, variables)]

    rows = tf.cond(apart, lambda: dense(factors), lambda: dense(row_by_row()))
    for each, spec in zip(rows, _specs(ys, variables)):
        each.set_shape(spec.shape)
    return [DenseFactor(each) for each in rows]


def _by_shared_values(ys, variables, dependence, chunk_size):
    """The factors of examples that depend on one another through few values; None where that is not so."""
    sizes = [y.shape.num_elements() for y in ys]
    try:
        shared = SharedValues(ys, dependence)
        if shared.size is None or (None not in sizes and shared.size >= sum(sizes)):
            return None
        return shared.factors(variables, factors_by_rules, chunk_size)
    except ValueError:
        return None


def _row_by_row(ys, variables, dependence, chunk_size):
    """Return a function that takes one backward pass per output and example: exact whatever the graph does."""
    likes, passes = [like(variable) for variable in variables], []
    for y in ys:
        connected = dependence.sources_of(y)
        passes.append((y, connected, pull_back([y], [dependence.sources[k] for k in connected])))

    def compute():
        rows = [[] for _ in variables]
        for y, connected, backward in passes:
            n, *rest = axes(y)
            m = product(rest)
            blocks = over_basis(backward, y, [likes[k] for k in connected], y, chunk_size)
            blocks = dict(zip(connected, blocks))
            for k, x in enumerate(likes):
                q = product(axes(x))
                rows[k].append(tf.reshape(blocks[k], [n, m, q]) if k in blocks else tf.zeros([n, m, q], x.dtype))
        return [DenseFactor(part[0] if len(part) == 1 else tf.concat(part, 1)) for part in rows]

    return compute


def in_dtype_of(factor, variable):
    return factor.cast(like(variable).dtype)


def rows_like(y, variable, factor):
    """Return the dense rows of a factor as `[*y.shape, *variable.shape]` in the dtype of the variable."""
    x = like(variable)
    return tf.cast(tf.reshape(factor.dense(), [*axes(y), *axes(x)]), x.dtype)
