"""Which ops keep a Jacobian from being sparse: where examples depend on far more of a variable than they could."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import Dependence, ExamplesMix, analyse_examples, axes, inline_calls, source_in
from tfjac.graph.facts import facts_of
from tfjac.jacobians.factors.cotangents import stacked_cotangents
from tfjac.jacobians.factors.rules import factor_by_rule
from tfjac.jacobians.factors.uses import Use, find_uses
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.sparsity.index_sets import TooManyEntries, at_most, each_its_own
from tfjac.jacobians.sparsity.known import Known
from tfjac.jacobians.sparsity.propagation import Propagation
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.types import Tensor


class DenseUse(NamedTuple):
    """An op at which every example comes to depend on much of a variable.

    Attributes:
        op: the op.
        columns: how many columns of J an example touches there; None where examples mix.
    """

    op: tf.Operation
    columns: int | None


def dense_uses(ys: Sequence[Tensor], variables: Sequence, widest: float) -> "list[DenseUse]":
    """List the `DenseUse` of tensors, one for each op type, where an example touches more columns than `widest`.

    Args:
        ys: list of tensors `[n, ...]` of the graph being traced, to which ops are added.
        variables: list of variables.
        widest: an integer.
    """
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    found: dict[str, DenseUse] = {}
    for y in ys:
        for use in _of_one(inline_calls([y], depends_on=sources), sources, widest):
            found.setdefault(use.op.type, use)
    return list(found.values())


def _of_one(ys: Sequence[Tensor], sources: Sequence[Tensor], widest: float) -> "list[DenseUse]":
    dependence = Dependence(sources)
    if not dependence.sources_of_any(ys):
        return []
    try:
        analysis = analyse_examples(dependence, ys, takes_rows_of_weights=True)
        uses = find_uses(analysis, sources, axes(ys[0])[0], takes_own_rows=True)
    except ExamplesMix as mix:
        return [DenseUse(first_op_that_widens(ys, sources, widest) or mix.op, None)]
    outputs = list({use.output.ref(): use.output for use in uses}.values())
    cotangents = dict(zip((output.ref() for output in outputs), stacked_cotangents(ys, outputs)))
    found = []
    for use in uses:
        use.d = cotangents[use.output.ref()]
        factor = factor_by_rule(use)
        touched = max(map(_touched, _on_sources(use, factor, dependence)), default=0)
        if touched > widest:
            found.append((use, touched))
    op = first_op_that_widens(ys, sources, widest) if found else None
    return [DenseUse(op or _culprit(use, analysis.path, dependence), touched) for use, touched in found]


def _on_sources(use: Use, factor: Factor, dependence: Dependence) -> list[Factor]:
    """Return the factors, one for each source, that follow from that of a use."""
    parts = columns_of_sources([(use.weight, factor)], dependence)
    return [each for own in parts for each in own]


def _touched(factor: Factor) -> Any:
    """Return how many columns an example touches; zero for layers, whose factors are small, and where it is open."""
    if isinstance(factor, GatherFactor):
        _, _, t, o = factor.d.shape
        return (t or 0) * (o or 0)
    return factor.num_columns if isinstance(factor, DenseFactor) and isinstance(factor.num_columns, int) else 0


def _culprit(use: Use, path: Iterable[tf.Operation], dependence: Dependence) -> tf.Operation:
    """Return the op to name where no element depends on much, but an example of many elements does.

    That is the first that rearranges a variable before a use, else the use's own, or what takes what it reads.
    """
    before = [op for op in dependence.path([use.weight]) if not _is_passing(op)]
    takers = [op for op in path if not _is_passing(op) and any(each is use.output for each in op.inputs)]
    return next(iter([*before, *([] if _is_passing(use.op) else [use.op]), *takers]), use.op)


def _is_passing(op: tf.Operation) -> bool:
    """Whether an op reads a variable, or leaves its elements in their order: it rearranges nothing."""
    facts = facts_of(op)
    return facts.kind in ("read", "cast") or facts.elements == "in order"


_MOST = 10**7
"""Index sets with more entries are not made: the op that would make them is the one."""


class _Widens(Exception):
    """An op was met that widens."""


class _UntilItWidens(Propagation):
    """Index sets on their way up to the first op of whose output an element depends on more than `widest` elements."""

    widest: float = 0

    def _through(self, step: Step) -> Patterns:
        try:
            outputs = super()._through(step)
        except TooManyEntries:
            raise _Widens(step.op) from None
        if any(sets is not None and np.diff(sets.indptr).max(initial=0) > self.widest for sets in outputs):
            raise _Widens(step.op)
        return outputs


def first_op_that_widens(ys: Sequence[Tensor], sources: Iterable[Tensor | None], widest: float) -> tf.Operation | None:
    """Return the first op on the way to ys of whose output an element depends on many elements of the sources, or None.

    Args:
        ys: list of tensors of the graph being traced, without function calls on the way to them.
        sources: list of what stands for each variable there, or None.
        widest: an integer, how many are not many.
    """
    sources = [source for source in sources if source is not None]
    walk = _UntilItWidens(Known(ys[0].graph, xs=sources), [])
    walk.widest = widest
    try:
        with at_most(_MOST):
            walk.carry(each_its_own(sources, [walk.size(source) for source in sources]), ys)
    except _Widens as found:
        return found.args[0]
    except ValueError:  # shapes are open
        return None
    return None
