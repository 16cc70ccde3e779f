"""Where elements come to depend on much of the sources: the first op, by the index sets of what lies before it."""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from tfjac.jacobians.sparsity.index_sets import TooManyEntries, at_most, each_its_own
from tfjac.jacobians.sparsity.known import Known
from tfjac.jacobians.sparsity.propagation import Propagation
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step
from tfjac.types import Tensor

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
