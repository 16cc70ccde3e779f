"""Ops that compute nothing: constants, parameters, variables that are read, and what passes values on."""

import numpy as np

from tfjac.graph.facts import declare
from tfjac.graph.static_values import of_inputs


def _identity(op, axis, wanted):
    return [axis]


def _identities(op, outputs, wanted):
    return [outputs.get(k) for k in range(len(op.inputs))]


def _passed_on(known, output, given):
    return given[0]


declare("Const", kind="constant")
declare("Placeholder", kind="parameter", repeatable=True)
declare("NoOp", kind="nothing")
declare("VarHandleOp", kind="handle", repeatable=True)
declare("ReadVariableOp", kind="read", repeatable=True)
declare("VarIsInitializedOp", repeatable=True)
declare(
    "Identity",
    kind="identity",
    elementwise="as it is",
    elements="in order",
    linear="in the first",
    example_axis=_identity,
    sizes=_passed_on,
    entries=_passed_on,
    value=of_inputs(np.asarray),
)
declare(
    "IdentityN",
    kind="identities",
    linear="in all",
    vanishes="each for itself",
    axes_of_body=_identities,
    sizes=lambda known, output, given: given[output.value_index],
)
declare("Snapshot", elements="in order", linear="in the first")
