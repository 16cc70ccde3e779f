"""Images made larger or smaller: linear, along height and along width apart, so that unit vectors tell all."""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse

from tfjac.graph.copying.constants import run
from tfjac.jacobians.sparsity.index_sets import IndexSets, composed
from tfjac.jacobians.sparsity.rules.index_set_rules import NoIndexSets, Patterns, Step, rule
from tfjac.types import Array


@rule("ResizeArea", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", "ResizeNearestNeighborGrad")
def _resized(step: Step) -> Patterns:
    """Images [n, h, w, c] and sizes."""
    return [_separable(step, lambda axis, units, sizes: [units, sizes])]


@rule("ResizeBicubicGrad", "ResizeBilinearGrad")
def _resized_gradient(step: Step) -> Patterns:
    """Cotangents [n, h', w', c], and images of which only the shape counts."""
    return [_separable(step, lambda axis, units, sizes: [units, _images(step, units, sizes)])]


@rule("ScaleAndTranslate")
def _scaled(step: Step) -> Patterns:
    """Images, sizes, scales and translations [height, width]."""
    return [_separable(step, lambda axis, units, sizes: [units, sizes, *_scaling(step, axis)])]


@rule("ScaleAndTranslateGrad")
def _scaled_gradient(step: Step) -> Patterns:
    """Cotangents, images of which only the shape counts, scales and translations [height, width]."""
    return [_separable(step, lambda axis, units, sizes: [units, _images(step, units, sizes), *_scaling(step, axis)])]


def _separable(step: Step, inputs: Callable[[int, Array, Array], list[Array]]) -> IndexSets:
    """The index sets of the output, where it is linear in input 0 and each axis has weights of its own.

    Args:
        inputs: function that gives the inputs of the op that resizes an image of width 1 (axis 0) or height 1 (axis 1)
            alone along its other axis. Its arguments are the axis, unit vectors in the form of images, and the sizes
            of the result.
    """
    if 0 not in step.carriers or not set(step.carriers) <= {0, 1}:
        raise NoIndexSets("its scale depends on x")
    n, *old, c = step.shape(0)
    dtype = step.op.inputs[0].dtype.as_numpy_dtype
    passed = []
    for axis, (before, after) in enumerate(zip(old, step.out_shape()[1:3])):
        units = np.eye(before, dtype=dtype).reshape([before, before, 1, 1] if axis == 0 else [before, 1, before, 1])
        sizes = np.array([after, 1] if axis == 0 else [1, after], np.int32)
        (weights,) = run(step.op, inputs(axis, units, sizes))
        passed.append(scipy.sparse.csr_array(weights.reshape(before, after).T != 0))
    n, c = (scipy.sparse.eye_array(count, dtype=bool) for count in (n, c))
    local = scipy.sparse.kron(n, scipy.sparse.kron(scipy.sparse.kron(*passed), c), format="csr")
    return composed(local.astype(bool), step.patterns[0])


def _images(step: Step, units: Array, sizes: Sequence[int]) -> Array:
    return np.zeros([len(units), *sizes, 1], step.op.inputs[1].dtype.as_numpy_dtype)


def _scaling(step: Step, axis: int) -> tuple[Array, Array]:
    own = np.arange(2) == axis
    return np.where(own, step.value(2), 1).astype(np.float32), np.where(own, step.value(3), 0).astype(np.float32)
