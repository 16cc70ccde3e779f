"""One rule per op type: the index sets of the outputs, given those of the inputs."""

from tfjac.jacobians.sparsity.rules import (
    along_axes,
    control_flow,
    convolution,
    indexing,
    labelled,
    lists,
    moves,
    resizing,
    segments,
)
from tfjac.jacobians.sparsity.rules.index_set_rules import (
    NoIndexSets,
    Step,
    all_of_all,
    carries_gradient,
    has_cotangents,
    index_sets_of,
)
