"""Ops that move elements: run once, on the numbers of the elements, they tell where each one comes from."""

import numpy as np
import scipy.sparse

from tfjac.jacobians.sparsity.fixed_values import run
from tfjac.jacobians.sparsity.index_sets import axis_names, empty, picked, union
from tfjac.jacobians.sparsity.rules.elementwise import broadcast
from tfjac.jacobians.sparsity.rules.registry import NoRule, rule

FIRST_INPUT = """
    BatchToSpaceND BroadcastTo ConjugateTranspose DepthToSpace Diag DiagPart ExpandDims GatherNd MatrixBandPart
    MirrorPad Pad Reshape ReverseSequence ReverseV2 Roll Slice SpaceToBatchND SpaceToDepth SplitV Squeeze
    StridedSlice Tile Transpose Unpack
"""
# Which inputs hold the elements that are moved; all others say how.
MOVED = {
    **dict.fromkeys(FIRST_INPUT.split(), (0,)),
    "Fill": (1,),
    "MatrixDiagPartV3": (0, 2),
    "MatrixDiagV3": (0, 4),
    "MatrixSetDiagV3": (0, 1),
    "PadV2": (0, 2),
    "Split": (1,),
    "StridedSliceGrad": (4,),
    "TensorScatterUpdate": (0, 2),
}


@rule(*MOVED)
def _moved(step):
    return moved(step, MOVED[step.op.type])


@rule("Pack", "IdentityN")
def _all_inputs(step):
    return moved(step, range(len(step.op.inputs)))


@rule("ConcatV2")
def _concat(step):
    return moved(step, range(len(step.op.inputs) - 1))


@rule("DynamicStitch", "ParallelDynamicStitch")
def _stitch(step):
    count = len(step.op.inputs) // 2
    return moved(step, range(count, 2 * count))


@rule("Select", "SelectV2")
def _select(step):
    """A fixed condition, as on the boundary of a domain, chooses now; an open one may choose either."""
    if step.fixed(step.op.inputs[0]) is not None:
        return moved(step, (1, 2))
    return [union([broadcast(step, k) for k in step.carriers])]


@rule("GatherV2")
def _gather(step):
    """Open indices may choose anything along the axis."""
    if step.fixed(step.op.inputs[1]) is not None:
        return moved(step, (0,))
    labels = axis_names(len(step.shape(0)))
    along = int(step.value(2)) % len(labels)
    batch, width = step.op.get_attr("batch_dims"), len(step.shape(1))
    new = [f"new{k}" for k in range(width - batch)]
    return [step.linked(0, labels, labels[:along] + new + labels[along + 1 :])]


@rule("ResourceGather")
def _resource_gather(step):
    if step.op.get_attr("batch_dims"):
        raise NoRule("only gathering without batch dimensions is covered")
    indices = step.value(1)
    inner = int(np.prod(step.out_shape()[indices.ndim :], dtype=np.int64))
    return [picked(step.patterns[0], indices.reshape(-1, 1) * inner + np.arange(inner))]


def moved(step, data):
    """Return the index sets of all outputs of an op that only moves the elements of its inputs `data`.

    The elements are numbered from 1 on through all of these inputs; what the op itself fills in is 0.
    """
    inputs, patterns, count = [], [], 0
    for k, tensor in enumerate(step.op.inputs):
        if k not in data:
            inputs.append(step.value(k))
            continue
        size = tensor.shape.num_elements()
        numbers = np.arange(count + 1, count + size + 1, dtype=np.float64)
        inputs.append(numbers.reshape(tensor.shape))
        patterns.append(step.patterns[k])
        count += size
    together = _stacked(step, data, patterns)
    return [picked(together, np.asarray(numbers, np.int64) - 1) for numbers in run(step.op, inputs)]


def _stacked(step, data, patterns):
    """The index sets of several inputs one below the other."""
    columns = next(pattern.shape[1] for pattern in patterns if pattern is not None)
    sizes = [step.op.inputs[k].shape.num_elements() for k in data]
    parts = [empty(size, columns) if part is None else part for part, size in zip(patterns, sizes)]
    return parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr")
