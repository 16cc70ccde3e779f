"""From results and variables in a graph to one factor per variable: the way of DESIGN section 5, step by step."""

import warnings

import tensorflow as tf

from tfjac.graph import Dependence, ExamplesMix, analyse_examples, examples_mix_at, inline_calls, source_in
from tfjac.jacobians.factors.control_flow import has_control_flow, swept_factors
from tfjac.jacobians.factors.cotangents import cotangents_in_chunks, stacked_cotangents
from tfjac.jacobians.factors.forms import DenseFactor, joined
from tfjac.jacobians.factors.rules import NoFactor, factor_by_op_gradient, factor_of
from tfjac.jacobians.factors.uses import find_uses
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.passes.chunks import in_chunks
from tfjac.jacobians.passes.connectedness import check_connected
from tfjac.jacobians.passes.linearise import over_basis, pull_back
from tfjac.jacobians.passes.nests import check_real, like
from tfjac.jacobians.passes.verification import verify_factors
from tfjac.jacobians.shapes import after, axes, check_when_run, product, wide_dtype

EXAMPLES_MIX = ("error", "full")


def factorize(ys, variables, examples_mix="error", chunk_size=None, verify=None):
    """Factor the per-example Jacobian of `ys` with respect to `variables`.

    Args:
        ys: list of tensors `[n, ...]` of one graph with the same n; their outputs follow one another along m.
        variables: list of `tf.Variable`, `keras.Variable`, or tensors that all examples share.
        examples_mix: what to do where examples depend on one another, or this cannot be decided: "error" raises;
            "full" takes the gradient of every output of every example by itself (n·m backward passes), and warns
            once, naming the op.
        chunk_size: how many backward passes, one per output m, are live at once, an integer or a scalar tensor; the
            factors are then dense. All of them where None.
        verify: True to verify the factors when the graph runs, see `verification`; None for what TFJAC_VERIFY says.

    Returns:
        A list of `Factor`, one per variable, in the dtype of the variable, but in no less than single precision.

    Raises:
        ExamplesMix: see `examples_mix`.
        ValueError: for ys without a leading axis, or a variable that no y depends on.
        TypeError: for a complex variable.
    """
    _check(ys, examples_mix)
    sources = [real_source_in(ys[0].graph, variable) for variable in variables]
    given, ys = ys, inline_calls(ys, depends_on=[source for source in sources if source is not None])
    dependence = Dependence(sources)
    check_connected(ys, variables, dependence)
    try:
        factors = _by_rules(ys, variables, dependence, chunk_size)
    except ExamplesMix as mix:
        alone = ys[0].shape[0] == 1  # one example has none to mix with, and its rows cost what they cost by rules
        if examples_mix == "error" and not alone:
            raise examples_mix_at(
                mix.op,
                mix.reason + ". Take the model apart there, use layers that treat examples independently (batch "
                "normalisation with training=False), or pass examples_mix='full' to pay n·m backward passes; where an "
                "example is a group of rows, such as a graph, use per_segment_jacobian",
            ) from None
        if not alone:
            _warn(
                f"examples mix, or may, at {describe(mix.op)} ({mix.reason}): every row costs a backward pass of its "
                "own."
            )
        factors = _row_by_row(ys, variables, dependence, chunk_size)
    factors = [in_dtype_of(factor, variable) for factor, variable in zip(factors, variables)]
    verify_factors(verify, given, ys, sources, factors, variables)
    return factors


def factors_by_rules(ys, variables, dependence, chunk_size=None):
    """`factorize` for ys without function calls on the way, each variable connected; without a way out.

    Args:
        dependence: the `Dependence` on what stands for the variables in the graph.

    Raises:
        ExamplesMix: where examples depend on one another, or this cannot be decided.
    """
    factors = _by_rules(ys, variables, dependence, chunk_size)
    return [in_dtype_of(factor, variable) for factor, variable in zip(factors, variables)]


def real_source_in(graph, variable):
    """Return what stands for `variable` in `graph`: a handle, or the tensor itself; None where it is not used.

    Raises:
        TypeError: for a complex one, and for what is no variable.
    """
    source = source_in(graph, variable)
    check_real("variables", variable)
    return source


def describe(op):
    """Name an op the way a user finds it: its type, and its name, which holds the layer's path."""
    return f"op {op.name!r} of type {op.type}"


def _check(ys, examples_mix):
    if examples_mix not in EXAMPLES_MIX:
        raise ValueError(f"examples_mix must be one of {EXAMPLES_MIX}. Received: {examples_mix!r}")
    for y in ys:
        if y.shape.rank in (0, None):
            raise ValueError(
                "ys must have the examples along axis 0, so its rank must be known and at least 1. Keep the examples "
                f"apart: no mean or sum over the batch. Received: {y.name} of shape {y.shape}"
            )


def _by_rules(ys, variables, dependence, chunk_size):
    analysis = analyse_examples(dependence, ys)
    n = axes(ys[0])[0]
    uses = find_uses(analysis, dependence.sources, n)
    if has_control_flow(analysis):
        return _by_sweep(ys, variables, analysis, n, chunk_size)
    checks = check_when_run(analysis.assumed, n)
    outputs = list({use.output.ref(): use.output for use in uses}.values())
    if chunk_size is None:
        return _factors(uses, dependence, outputs, after(checks, stacked_cotangents(ys, outputs)))

    def rows(cotangents):
        factors = _factors(uses, dependence, outputs, after(checks, cotangents))
        return [in_dtype_of(factor, variable).dense() for factor, variable in zip(factors, variables)]

    specs = _specs(ys, variables)
    parts = [cotangents_in_chunks(y, outputs, rows, specs, chunk_size) for y in ys]
    return [DenseFactor(blocks[0] if len(ys) == 1 else tf.concat(blocks, 1)) for blocks in zip(*parts)]


def _by_sweep(ys, variables, analysis, n, chunk_size):
    """Where loops or conditionals are on the way: one walk backwards, or one for each chunk of the outputs."""

    def factors_of(outputs=None):
        parts = swept_factors(ys, analysis, n, factor_by_rule, outputs)
        return [joined(factors) for factors in parts]

    if chunk_size is None:
        return factors_of()

    def rows(outputs):
        return [in_dtype_of(factor, v).dense() for factor, v in zip(factors_of(outputs), variables)]

    m = sum(product(axes(y)[1:]) for y in ys)
    return [DenseFactor(block) for block in in_chunks(rows, m, _specs(ys, variables), chunk_size, axis=1)]


def _specs(ys, variables):
    """What the dense rows `[n,m,q]` of some outputs look like, one `tf.TensorSpec` for each variable."""
    likes = [like(variable) for variable in variables]
    return [tf.TensorSpec([ys[0].shape[0], None, x.shape.num_elements()], wide_dtype(x.dtype)) for x in likes]


def _factors(uses, dependence, outputs, cotangents):
    """One factor per source, given the cotangents `[m, *z.shape]` of the outputs z of the uses."""
    of_output = dict(zip((output.ref() for output in outputs), cotangents))
    for use in uses:
        use.d = of_output[use.output.ref()]
    parts = [(use.weight, factor_by_rule(use)) for use in uses]
    return [joined(factors) for factors in columns_of_sources(parts, dependence)]


def factor_by_rule(use):
    try:
        return factor_of(use)
    except NoFactor as reason:
        _warn(f"no factor for the weight at {describe(use.op)} ({reason}): its gradient is taken example by example.")
        return factor_by_op_gradient(use)


def _row_by_row(ys, variables, dependence, chunk_size):
    """One backward pass per output and example: exact whatever the graph does."""
    likes = [like(variable) for variable in variables]
    rows = [[] for _ in variables]
    for y in ys:
        n, *rest = axes(y)
        m = product(rest)
        connected = dependence.sources_of(y)
        backward = pull_back([y], [dependence.sources[k] for k in connected])
        blocks = over_basis(backward, y, [likes[k] for k in connected], y, chunk_size)
        blocks = dict(zip(connected, blocks))
        for k, x in enumerate(likes):
            q = product(axes(x))
            rows[k].append(tf.reshape(blocks[k], [n, m, q]) if k in blocks else tf.zeros([n, m, q], x.dtype))
    return [DenseFactor(part[0] if len(part) == 1 else tf.concat(part, 1)) for part in rows]


def in_dtype_of(factor, variable):
    return factor.cast(like(variable).dtype)


def rows_like(y, variable, factor):
    """Return the dense rows of a factor as `[*y.shape, *variable.shape]` in the dtype of the variable."""
    x = like(variable)
    return tf.cast(tf.reshape(factor.dense(), [*axes(y), *axes(x)]), x.dtype)


def _warn(message):
    warnings.warn("tfjac: " + message, UserWarning, stacklevel=2)
