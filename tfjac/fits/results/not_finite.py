"""Which op makes residuals, or their derivatives, that are not finite, and of which residual."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.fits.results.frozen import FrozenModel, FrozenPoint
from tfjac.graph import ancestors, source_line
from tfjac.steps.objective import Objective
from tfjac.types import Tensor

_MOST = 2000
"""Ops that are looked at."""


def not_finite(point: FrozenPoint) -> str:
    """Return a clause that names the op and the residual, "" where all is finite or it cannot be told.

    Cost: a trace of the residuals, and of the derivative of each op.
    """
    search = _Search(point.model)
    row, values, slopes = point.run(search)
    values, slopes, row = values.numpy(), slopes.numpy(), int(row)
    found = values if len(values) and not values.all() else slopes
    if row < 0 or found.all():
        return ""
    what = "the value" if found is values else "a derivative"
    index = int(np.argmin(values)) if found is values else len(slopes) - 1 - int(np.argmin(slopes[::-1]))
    op = search.ops[index]
    line = source_line(op)
    place = "" if line is None else f", at {line} ({line.text})"
    return f"{what} of residual {row}, by op {op.name!r} of type {op.type}{place}"


class _Search:
    """What a `FrozenModel` is to compute.

    Attributes:
        ops: list of the ops that were looked at, inputs before consumers.
    """

    def __init__(self, model: FrozenModel) -> None:
        self._model = model
        self.ops: list[tf.Operation] = []

    def __call__(self, tensors: list[Tensor], objective: Objective) -> tuple:
        """Return the first residual that is not finite, or is none in its derivatives, and a bool for each op: whether
        values, and derivatives of that residual, stay finite in it; −1 for no residual."""
        jacobian, residual, _ = self._model.dense(tensors, objective)
        bad = ~(tf.math.is_finite(residual) & tf.reduce_all(tf.math.is_finite(jacobian), axis=1))
        row = tf.where(tf.reduce_any(bad), tf.argmax(tf.cast(bad, tf.int32), output_type=tf.int32), -1)
        self.ops = [op for op in ancestors(tensors) if _floating(op.outputs)][-_MOST:]
        flat = tf.concat([tf.reshape(tf.cast(tensor, residual.dtype), [-1]) for tensor in tensors], axis=0)
        outputs = [output for op in self.ops for output in _floating(op.outputs)]
        given = tf.gradients(tf.gather(flat, tf.maximum(row, 0)), outputs)
        upstream = {output.ref(): each for output, each in zip(outputs, given)}
        values = [_finite(_floating(op.outputs)) | ~_finite(_floating(op.inputs)) for op in self.ops]
        return row, tf.stack(values), tf.stack([_passes(op, upstream) for op in self.ops])


def _passes(op: tf.Operation, upstream: Any) -> Tensor:
    """Return whether the derivatives that an op passes back are finite if those that it is given are."""
    pairs = [(output, upstream.get(output.ref())) for output in _floating(op.outputs)]
    pairs = [(output, each) for output, each in pairs if each is not None]
    inputs = _floating(op.inputs)
    if not pairs or not inputs:
        return tf.constant(True)
    outputs, given = zip(*pairs)
    passed = tf.gradients(list(outputs), inputs, grad_ys=list(given), stop_gradients=inputs)
    return _finite([each for each in passed if each is not None]) | ~_finite(given)


def _finite(tensors: Sequence[Tensor]) -> Tensor:
    tensors = [tf.convert_to_tensor(each) for each in tensors]
    return tf.reduce_all([tf.constant(True), *(tf.reduce_all(tf.math.is_finite(each)) for each in tensors)])


def _floating(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.dtype.is_floating]
