"""Attention weights, found in a graph: softmaxes of which the values of other steps are mixed.

From a softmax on, a tensor is followed as long as it keeps its layout `[n, ..., steps, steps]`: through masks, dropout,
scales, and products that mix the heads. What enters the product with the values is the attention, masks and all.
"""

import tensorflow as tf

from tfjac.explanations.program import SOFTMAX, passes_on
from tfjac.graph import Dependence, axis_labels, ops_inside
from tfjac.graph.facts import facts_of
from tfjac.graph.op_types import CONTRACTIONS, PERMUTING


class AttentionWeights:
    """The softmaxes between the inputs of a `Program` and its scores, sorted by what becomes of them.

    Attributes:
        found: list of tensors `[n, ..., steps, steps]`, the attention of all layers, the first layer first.
        others: list of the softmaxes over steps that are multiplied with no values that are known.
        hidden: list of the loops and branches with a softmax inside.
    """

    def __init__(self, program):
        path = program.path_of_inputs()
        self._on_path = set(path)
        self._depends = Dependence(program.inputs, by_value=True)
        softmaxes = [op.outputs[0] for op in path if _is_softmax(op) and (op.outputs[0].shape.rank or 0) >= 3]
        ends = [(each, self._end(each)) for each in softmaxes]
        self.found = list({end.ref(): end for _, end in ends if end is not None}.values())
        sizes = {size for end in self.found for size in end.shape[-2:]}
        self.others = [each for each, end in ends if end is None and _may_be_over(each, sizes)]
        self.hidden = [op for op in path if SOFTMAX in {each.type for each in ops_inside(op)}]

    def _end(self, softmax):
        """What of a softmax, masked and scaled, is multiplied with values; None where nothing is known to be."""
        waiting, seen = [(softmax, softmax)], set()  # a tensor, and the last on the way to it in the layout
        while waiting:
            here, weights = waiting.pop(0)
            for op in self._next(here, seen):
                if op.type in CONTRACTIONS and (here is not weights or self._mixes_steps(op, here)):
                    return weights
                if here is weights and (_keeps_layout(op) or _mixes_heads(op, here) or _scales(op, here)):
                    waiting.append((op.outputs[0], op.outputs[0]))
                elif op.type in PERMUTING or _keeps_layout(op):
                    waiting.append((op.outputs[0], weights))
        return None

    def _next(self, tensor, seen):
        found = [op for op in tensor.consumers() if op in self._on_path and op not in seen]
        seen.update(found)
        return found

    def _mixes_steps(self, op, weights):
        """Whether a product sums over the last axis of the weights, times what depends on the inputs."""
        index = next(k for k, each in enumerate(op.inputs) if each is weights)
        if not any(self._depends.reaches(each) for k, each in enumerate(op.inputs) if k != index):
            return False
        labels, output = _labels(op, index)
        return not labels or labels[-1] not in output


def _is_softmax(op):
    """Whether an op is a softmax along the last axis: TensorFlow's, or an exponential over its sum."""
    if op.type == SOFTMAX:
        return True
    if op.type not in ("RealDiv", "DivNoNan") or op.inputs[1].op.type != "Sum":
        return False
    above, below = op.inputs[0], op.inputs[1].op
    axes = tf.get_static_value(below.inputs[1])
    last = axes is not None and axes.size == 1 and int(axes.ravel()[0]) in (-1, (above.shape.rank or 0) - 1)
    return last and below.inputs[0] is above and _is_exponential(above)


def _is_exponential(tensor):
    """Whether a tensor is an exponential, or one times a mask."""
    if passes_on(tensor.op) or tensor.op.type in ("Mul", "SelectV2"):
        return any(_is_exponential(each) for each in tensor.op.inputs if each.dtype.is_floating)
    return tensor.op.type == "Exp"


def _keeps_layout(op):
    """Whether an op keeps values and layout."""
    return passes_on(op) or facts_of(op).kind == "stop"


def _scales(op, weights):
    """Whether an op masks, scales or bounds the weights, element by element, and keeps their layout."""
    return facts_of(op).elementwise in ("several inputs", "as it is") and _same(op.outputs[0], weights)


def _same(one, other):
    return one.shape.rank == other.shape.rank and one.shape[-2:].is_compatible_with(other.shape[-2:])


def _may_be_over(softmax, sizes):
    """Whether a softmax may be over steps: of the number of them that other layers have, or of a square."""
    rows, columns = softmax.shape[-2:]
    return columns is None or columns in sizes or (not sizes and rows in (None, columns))


def _labels(op, index):
    """The labels of an input of a product, and of its output; none where ranks are unknown."""
    operands, output = axis_labels(op) or ([[], []], [])
    return operands[index], output


def _mixes_heads(op, weights):
    """Whether a product leaves the last two axes of the weights where they are."""
    if op.type != "Einsum":
        return False
    index = next(k for k, each in enumerate(op.inputs) if each is weights)
    labels, output = _labels(op, index)
    return len(labels) >= 2 and output[-2:] == labels[-2:]
