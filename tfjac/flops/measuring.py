"""Time and memory of both passes by layer, as TensorFlow's own profile of a run says (`tf.compat.v1.RunMetadata`)."""

import collections
import dataclasses
from typing import Any

import tensorflow as tf

_RUNS = 3


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What the ops of one layer took, the mean of three runs after a first one.

    Attributes:
        layer: path of the layer, "" for what runs loops, and for all that belongs to no layer that counts operations.
        forward_seconds, backward_seconds: time in the kernels of its ops, added up over ops that ran at once.
        forward_bytes, backward_bytes: memory that its ops allocated, over all steps of loops; not a peak.
    """

    layer: str
    forward_seconds: float
    backward_seconds: float
    forward_bytes: int
    backward_bytes: int


def measure(scratch, gradients, counted):
    """Run both passes and return a tuple of `Measurement`, one for each layer, the slowest first.

    Args:
        scratch: the `Scratch` that holds them.
        gradients: list of tensors.
        counted: the `OpFlops` of all ops, those of bodies too.

    Raises:
        ValueError: where the ys are computed from what has no value.
    """
    missing = scratch.without_value()
    if missing:
        raise ValueError(
            "measure=True runs both passes, so all that ys are computed from must have a value: pass a callable that "
            f"uses variables and eager tensors. Received: {[tensor.op.name for tensor in missing]} without one"
        )
    working = {each.layer for each in counted if each.flops}
    known = {each.name: (each.layer if each.layer in working else "", each.backward) for each in counted}
    seconds: Any = collections.Counter()
    allocated: Any = collections.Counter()
    for node in _profiled(scratch, [*scratch.ys, *gradients]):
        key = _layer_of(node.node_name, known)
        seconds[key] += 1e-9 * (node.op_end_rel_nanos - node.op_start_rel_nanos) / _RUNS
        allocated[key] += sum(memory.total_bytes for memory in node.memory) / _RUNS
    layers = {layer for layer, _ in seconds}
    found = [
        Measurement(
            layer,
            *(seconds[layer, backward] for backward in (False, True)),
            *(round(allocated[layer, backward]) for backward in (False, True)),
        )
        for layer in sorted(layers)
    ]
    return tuple(sorted(found, key=lambda each: -each.forward_seconds - each.backward_seconds))


def _profiled(scratch, tensors):
    """The statistics of every op in every run but the first."""
    options, nodes = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE), []
    session, feed = scratch.session()
    with session:
        session.run(tensors, feed)
        for _ in range(_RUNS):
            profile = tf.compat.v1.RunMetadata()
            session.run(tensors, feed, options, profile)
            nodes += [node for device in profile.step_stats.dev_stats for node in device.node_stats]
    return nodes


def _layer_of(name, known):
    """The layer, and whether it is of the backward pass; in a loop that is run, names have something before them."""
    parts = name.split("/")
    for begin in range(len(parts)):
        found = known.get("/".join(parts[begin:]))
        if found:
            return found
    return "", any(part.startswith("gradients") for part in parts)
