"""Ops that compute nothing: constants, parameters, variables, what passes values on, side effects."""

import numpy as np

from tfjac.graph.facts import declare
from tfjac.graph.reading.static_values import of_inputs
from tfjac.graph.reading.symbolic_sizes import of_first

declare("Const", kind="constant")
declare("Placeholder", kind="parameter", repeatable=True)
declare("NoOp", kind="nothing")
declare("VarHandleOp", kind="handle", repeatable=True)
declare("ReadVariableOp", kind="read", columns="the same", repeatable=True)
declare("VarIsInitializedOp", repeatable=True)
declare(
    "Identity",
    kind="identity",
    elementwise="as it is",
    elements="in order",
    columns="the same",
    linear="in the first",
    example_axis=lambda op, axis, wanted: [axis],
    sizes=of_first,
    entries=of_first,
    value=of_inputs(np.asarray),
)
declare(
    "IdentityN",
    kind="identities",
    linear="in all",
    vanishes="each for itself",
    axes_of_body=lambda op, outputs, wanted: [outputs.get(k) for k in range(len(op.inputs))],
    sizes=lambda known, output, given: given[output.value_index],
)
declare("Assert", kind="assertion", repeatable=True)
declare("Print PrintV2 DebugIdentityV2", repeatable=True)
declare("LookupTableSizeV2", repeatable=True)
declare("AllToAll CollectivePermute CrossReplicaSum NcclAllReduce NcclBroadcast NcclReduce", repeatable=True)
declare("Snapshot", elements="in order", columns="the same", linear="in the first")
declare("Identity", first_column=lambda op: op.inputs[0])
