"""Ops along some axes: reductions, softmax, running sums, sorting."""

import math

import numpy as np
import scipy.sparse

from tfjac.jacobians.sparsity.index_sets import axis_names
from tfjac.jacobians.sparsity.rules.registry import rule


@rule("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm")
def _reduce(step):
    labels = axis_names(len(step.shape(0)))
    reduced = {int(axis) % len(labels) for axis in np.reshape(step.value(1), -1)} if labels else set()
    if step.op.get_attr("keep_dims"):
        out_labels = [f"kept{k}" if k in reduced else label for k, label in enumerate(labels)]
    else:
        out_labels = [label for k, label in enumerate(labels) if k not in reduced]
    return [step.linked(0, labels, out_labels)]


@rule("L2Loss")
def _to_scalar(step):
    return [step.linked(0, axis_names(len(step.shape(0))), [])]


@rule("Softmax", "LogSoftmax", "TopKV2", "FFT", "IFFT", "RFFT", "IRFFT")
def _along_last_axis(step):
    return _within_batch(step, 1)


@rule("FFT2D", "IFFT2D", "RFFT2D", "IRFFT2D")
def _along_last_two_axes(step):
    return _within_batch(step, 2)


def _within_batch(step, inner):
    """All of the last `inner` axes depends on all of them; leading axes are a batch."""
    labels = axis_names(len(step.shape(0)))
    batch = labels[: len(labels) - inner]
    return [step.linked(0, labels, batch + [f"new{k}" for k in range(inner)]), *[None] * (len(step.op.outputs) - 1)]


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp")
def _cumulative(step):
    shape = step.shape(0)
    along = int(step.value(1)) % len(shape)
    before, size, after = math.prod(shape[:along]), shape[along], math.prod(shape[along + 1 :])
    running = np.tri(size, k=-1 if step.op.get_attr("exclusive") else 0, dtype=bool)
    if step.op.get_attr("reverse"):
        running = running.T
    eye = scipy.sparse.eye_array
    local = scipy.sparse.kron(eye(before, dtype=bool), scipy.sparse.kron(running, eye(after, dtype=bool)), format="csr")
    return [local.astype(bool) @ step.patterns[0]]
