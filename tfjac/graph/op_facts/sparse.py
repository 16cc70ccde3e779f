"""Sparse matrices and dense tensors, element by element: gradients of dense tensors of any rank, scalars too.

TensorFlow's are of dense tensors of the rank of the matrix alone; that of the sum is not there.
"""

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, Wanted
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient, differentiated_as
from tfjac.types import Tensor


def _spread(indices: Tensor, dense: Tensor) -> Tensor:
    """Return the elements of a dense tensor that meet those of a sparse one at `indices[k, rank]`, `[k]`."""
    if dense.shape.rank == 0:
        return dense
    own = indices[:, tf.shape(indices)[1] - tf.rank(dense) :]
    several = tf.cast(tf.shape(dense, tf.int64) > 1, tf.int64)
    return tf.gather_nd(dense, own * several)


def _added(op: tf.Operation, indices: Tensor, values: Tensor, shape: Tensor, dense: Tensor) -> Tensor:
    return values + _spread(indices, dense)


def _multiplied(op: tf.Operation, indices: Tensor, values: Tensor, shape: Tensor, dense: Tensor) -> Tensor:
    return values * _spread(indices, dense)


def _divided(op: tf.Operation, indices: Tensor, values: Tensor, shape: Tensor, dense: Tensor) -> Tensor:
    return values / _spread(indices, dense)


def _shared_by_all(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """The elements of a sparse tensor are those of all examples; a dense one that they are added to has its own."""
    return [SHARED] * 3 + [axis if op.type == "SparseTensorDenseAdd" else SHARED]


def _filled(op: tf.Operation, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
    """By ops that are differentiated in their turn: TensorFlow's has no gradient."""
    given = tf.gather(cotangents[1], op.outputs[3])
    return None, given, None, tf.reduce_sum(cotangents[1]) - tf.reduce_sum(given)


declare("SparseDenseCwiseAdd", gradient=differentiated_as(_added))
declare("SparseDenseCwiseMul", gradient=differentiated_as(_multiplied))
declare("SparseDenseCwiseDiv", gradient=differentiated_as(_divided))
declare("SparseTensorDenseAdd SparseToDense", example_axis=_shared_by_all)
declare("RaggedFillEmptyRows SparseFillEmptyRows", gradient=Gradient(_filled))
