"""Fits shared out among devices: as many parts as there are devices, each computed on its own, put together in order.

The parts are in one graph and independent of each other, so that TensorFlow runs them side by side.
"""

from functools import partial
from typing import Any

import tensorflow as tf

from tfjac.graph import run_side_by_side
from tfjac.types import Function, Tensor

_HERE = tf.DeviceSpec(job="localhost", replica=0, task=0)


def checked_devices(devices: Any) -> tuple[str, ...] | None:
    """Return the full names of devices, a tuple; None for None.

    Args:
        devices: sequence of names or `tf.config.LogicalDevice`, or None.

    Raises:
        TypeError: for what is not a sequence of these.
        ValueError: for none at all, for one that does not exist, and for one that is named twice.
    """
    if devices is None:
        return None
    is_list = isinstance(devices, (list, tuple)) and not isinstance(devices, tf.config.LogicalDevice)
    listed: list[Any] = list(devices) if is_list else [None]
    names = [given.name if isinstance(given, tf.config.LogicalDevice) else given for given in listed]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            "devices must be a list of names, such as ['GPU:0', 'GPU:1'], or of what tf.config.list_logical_devices() "
            f"returns. Received: devices={devices!r}"
        )
    existing = {_full_name(device.name): device.name for device in tf.config.list_logical_devices()}
    full = [_full_name(name) for name in names]
    unknown = [name for name, found in zip(names, full) if found not in existing]
    if unknown or not names:
        received = f"{unknown[0]!r} in devices={devices!r}" if unknown else f"devices={devices!r}"
        raise ValueError(
            f"devices must name at least one of those that there are: {', '.join(existing.values())}. "
            f"Received: {received}"
        )
    if len(set(full)) < len(full):
        raise ValueError(f"devices must name each device once. Received: devices={devices!r}")
    return tuple(full)


def _full_name(name: str) -> str:
    """Return the name of a device with all that can be left out; the name itself where it is none."""
    try:
        return _HERE.make_merged_spec(tf.DeviceSpec.from_string(name)).to_string()
    except ValueError:
        return name


class Shards:
    """B fits in consecutive parts, whose sizes differ by one at most.

    Args:
        count: B.
        devices: what `checked_devices` returned. Of more devices than fits, the first ones have one each. None for all
            fits in one part, where TensorFlow places it.

    Attributes:
        several: whether there is more than one.
    """

    def __init__(self, count: int, devices: tuple[str, ...] | None) -> None:
        self._devices = devices and devices[: max(1, count)]
        parts = len(self._devices) if self._devices else 1
        self._starts = [count * part // parts for part in range(parts + 1)]
        self.several = parts > 1

    def mapped(self, function: Function, values: Tensor, data: Any, *others: Any) -> Any:
        """Return what `function` gives for the fits of each part, a nest of tensors `[B, ...]`.

        Args:
            function: from `values`, `data` and `others` of n fits to a nest of tensors `[n, ...]`.
            values: `[B, p]`.
            data: `FitData`.
            *others: nests of tensors `[B, ...]`.
        """
        if self._devices is None:
            return function(values, data, *others)
        traced_once, found = tf.function(function, autograph=False), []  # for all parts of a size
        for device, start, end in zip(self._devices, self._starts, self._starts[1:]):
            index = tf.range(start, end)
            values_here, others_here = tf.nest.map_structure(partial(tf.gather, indices=index), (values, others))
            with tf.device(device):
                found.append(traced_once(values_here, data.of(index), *others_here))
        run_side_by_side({tensor.op for part in found for tensor in tf.nest.flatten(part)})
        return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *found)
