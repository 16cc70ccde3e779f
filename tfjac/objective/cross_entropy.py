"""Cross-entropies of logits: the ops that compute them, and the logarithm of a softmax, of which they are sums."""

import dataclasses

import tensorflow as tf

from tfjac.graph import Dependence, SymbolicSizes
from tfjac.objective.terms import CrossEntropyTerm
from tfjac.types import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class CrossEntropy:
    """A tensor that is a cross-entropy of logits, or the logarithms of their softmax.

    Attributes:
        output: the tensor.
        root: the logits, `[..., classes]`.
    """

    output: tf.Tensor
    root: tf.Tensor

    def term(self, gradient: Tensor) -> CrossEntropyTerm:
        """Return the `CrossEntropyTerm` of gradient·output, given ∂loss/∂output.

        Where the op wants rows, as those of several dimensions are reshaped for it, the term is taken from before, so
        that examples stay what they are. A reshape that splits rows is a part of the network, as that of a dense layer.
        """
        labels, root = tf.stop_gradient(self._labels(gradient)), self.root
        while root.op.type == "Identity" or (keeps_last_axis(root.op) and _lowers_rank(root.op)):
            root = root.op.inputs[0]
        return CrossEntropyTerm(root, labels if root is self.root else tf.reshape(labels, tf.shape(root)))

    def _labels(self, gradient: Tensor) -> Tensor:
        """Return y of Σ −y·log softmax(root) that gradient·output is."""
        op = self.output.op
        if op.type == "LogSoftmax":
            return -gradient
        if op.type == "SoftmaxCrossEntropyWithLogits":
            return tf.broadcast_to(gradient[:, None] * op.inputs[1], tf.shape(self.root))
        return gradient[:, None] * tf.one_hot(op.inputs[1], tf.shape(self.root)[-1], dtype=self.root.dtype)


def cross_entropy(tensor: Tensor, dependence: Dependence) -> "CrossEntropy | None":
    """Return `tensor` as a `CrossEntropy`; None where it is none, or one whose labels depend on the variables."""
    op = tensor.op
    if op.type not in OPS or tensor is not op.outputs[0] or any(dependence.reaches(x) for x in op.inputs[1:]):
        return None
    alike = op.type != "SoftmaxCrossEntropyWithLogits" or not _is_one_row_for_many(*op.inputs)
    return CrossEntropy(tensor, op.inputs[0]) if alike else None


OPS = ("LogSoftmax", "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")


def _is_one_row_for_many(logits: Tensor, labels: Tensor) -> bool:
    """Return whether the op spreads its logits over the rows of the labels."""
    return logits.shape[0] == 1 != labels.shape[0]


def keeps_last_axis(reshape: tf.Operation) -> bool:
    """Whether an op is a Reshape whose input and output have the same last axis, also where the batch is open.

    With an open batch TensorFlow does not know the last size of what its cross-entropies reshape to rows.
    """
    if reshape.type != "Reshape":
        return False
    ends, known = (reshape.inputs[0], reshape.outputs[0]), SymbolicSizes()
    if any(end.shape.rank in (None, 0) for end in ends):
        return False
    one, other = (known.sizes(end)[-1] for end in ends)
    return one == other


def _lowers_rank(op: tf.Operation) -> bool:
    return op.inputs[0].shape.rank >= op.outputs[0].shape.rank
