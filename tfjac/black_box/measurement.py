"""Calling what is not TensorFlow: in batches or point by point, in threads, again where it fails, and counted."""

import concurrent.futures
import dataclasses
import queue
import threading
from typing import Any

import numpy as np

ON_FAILURE = ("raise", "nan")


class MeasurementFailed(RuntimeError):
    """A function outside TensorFlow raised, took too long, or returned what is not finite, at every attempt."""


@dataclasses.dataclass
class Counts:
    """What has been asked of a function so far.

    Attributes:
        forward: points evaluated for values.
        gradient: points evaluated for gradients.
        calls: calls of the function, each of one point or of a batch of them, repeated ones included.
        failures: calls that raised, took too long, or gave what is not finite.
    """

    forward: int = 0
    gradient: int = 0
    calls: int = 0
    failures: int = 0


@dataclasses.dataclass(frozen=True)
class Calling:
    """How a function is called.

    Attributes:
        batched: whether one call takes many points, stacked along axis 0, or a single one without that axis.
        max_batch: at most so many points in a call, None for any number.
        workers: at most so many calls at once, in threads.
        retries: how often a point that failed is tried again.
        timeout: seconds after which a call counts as failed, None for no limit.
        on_failure: "raise", or "nan" for not-a-numbers in the place of what could not be had.
    """

    batched: bool
    max_batch: int | None = None
    workers: int = 1
    retries: int = 0
    timeout: float | None = None
    on_failure: str = "raise"


class Measurement:
    """A function from points to results, which may fail.

    Args:
        function: from a list of arrays to what the user's function returns: `[c, ...]` to `[c, ...]` where calls are
            batched, else one point to one result. All that it raises is a failure.
        unpack: from that to a list of what can become arrays; what it raises is a mistake, and no failure.
        calling: `Calling`.
        name: what errors call it.
    """

    def __init__(self, function, unpack, calling, name):
        self._function, self._unpack, self._calling, self._name = function, unpack, calling, name
        self._free, self._lock = threading.BoundedSemaphore(calling.workers), threading.Lock()
        self.counts = Counts()

    def __call__(self, arrays, specs, purpose):
        """Evaluate points.

        Args:
            arrays: list of arrays `[n, ...]`.
            specs: list of `ResultSpec`, what is expected of each result.
            purpose: "forward" or "gradient", under which the points are counted.

        Returns:
            A list of arrays `[n, ...]`, floating-point ones in the dtype that the function gave.

        Raises:
            MeasurementFailed: where a point failed at every attempt, unless `on_failure` is "nan".
            ValueError, TypeError: for results of another number, shape or kind than expected.
        """
        n = len(arrays[0])
        with self._lock:
            setattr(self.counts, purpose, getattr(self.counts, purpose) + n)
        if n == 0:
            return [spec.filled(0) for spec in specs]
        size = (self._calling.max_batch or n) if self._calling.batched else 1
        chunks = [[array[start : start + size] for array in arrays] for start in range(0, n, size)]
        parts = self._at_once([lambda chunk=chunk: self._measured(chunk, specs) for chunk in chunks])
        return [np.concatenate(part, axis=0) for part in zip(*parts)]

    def _at_once(self, jobs):
        if self._calling.workers == 1 or len(jobs) == 1:
            return [job() for job in jobs]
        with concurrent.futures.ThreadPoolExecutor(self._calling.workers) as pool:
            return list(pool.map(lambda job: job(), jobs))

    def _measured(self, chunk, specs):
        """The results of a chunk of points; those of its points that fail are tried again."""
        n, results, pending, reason = len(chunk[0]), None, np.arange(len(chunk[0])), None
        for _ in range(1 + self._calling.retries):
            replies, error = self._called([array[pending] for array in chunk])
            if error is not None:
                reason = error
                continue
            replies = [spec.checked(reply, len(pending)) for spec, reply in zip(specs, self._listed(replies, specs))]
            results = replies if results is None and len(pending) == n else _scattered(results, replies, pending, n)
            failed = ~_finite(replies)
            pending = pending[failed]
            if not failed.any():
                return results
            reason = "a result is not finite"
            self._count(failures=1)
        if self._calling.on_failure == "raise":
            self._raise(chunk, pending, reason)
        missing = [spec.filled(len(pending)) for spec in specs]
        if isinstance(reason, Exception):
            results = _scattered(results, missing, pending, n)
        return results

    def _called(self, points):
        """One call, of no more than so many at a time, and for no longer than allowed.

        Arrays are copied: a function may write into its arguments, and use the memory of its results again.

        Returns:
            A list of arrays `[c, ...]` and None; or None and the exception.
        """
        batched = self._calling.batched
        arguments = [np.array(point if batched else point[0]) for point in points]
        self._count(calls=1)
        with self._free:
            try:
                returned = _in_time(lambda: self._function(arguments), self._calling.timeout)
            except Exception as error:  # whatever the user's function or instrument raises
                self._count(failures=1)
                return None, error
            replies = [self._as_array(reply) for reply in self._unpack(returned)]
        return replies if batched else [reply[None] for reply in replies], None

    def _as_array(self, reply):
        """A copy, not-a-number where a masked array has no value."""
        if isinstance(reply, np.ma.MaskedArray) and np.ma.is_masked(reply):
            return reply.astype(np.result_type(reply.dtype, np.float16)).filled(np.nan)
        try:
            return np.array(reply)
        except ValueError as error:
            raise ValueError(
                f"{self._name}: the function must return what can become an array. Received: {reply!r} ({error})"
            ) from None

    def _listed(self, replies, specs):
        if len(replies) != len(specs):
            raise ValueError(
                f"{self._name}: the function must return {len(specs)} array(s), as output_shape says. "
                f"Received: {len(replies)}"
            )
        return replies

    def _count(self, **by):
        with self._lock:
            for key, value in by.items():
                setattr(self.counts, key, getattr(self.counts, key) + value)

    def _raise(self, chunk, pending, reason):
        attempts = 1 + self._calling.retries
        point = [array[pending[0]] for array in chunk]
        raise MeasurementFailed(
            f"{self._name}: the function failed at {attempts} attempt(s). Let it be tried again by retries=, or pass "
            "on_failure='nan' to go on with not-a-numbers, which least squares takes for a rejected step. "
            f"Received: {_described(reason)}, at {_shortened(point)}"
        ) from (reason if isinstance(reason, Exception) else None)


def _in_time(call, timeout):
    """Return `call()`, or raise after so many seconds; a thread cannot be stopped, so the call itself may go on."""
    if timeout is None:
        return call()
    outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run():
        try:
            outcome.put((call(), None))
        except BaseException as error:  # raised again below
            outcome.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        value, error = outcome.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError(f"no answer within {timeout} s") from None
    if error is not None:
        raise error
    return value


def _finite(replies):
    """Whether all floating-point results of each point are finite, `[n]`."""
    finite = [np.isfinite(reply).reshape(len(reply), -1).all(1) for reply in replies if reply.dtype.kind == "f"]
    return np.logical_and.reduce(finite) if finite else np.ones(len(replies[0]), bool)


def _scattered(results, replies, pending, n):
    """Put the results of the points that were pending in their places."""
    if results is None:
        results = [np.zeros([n, *reply.shape[1:]], reply.dtype) for reply in replies]
    for result, reply in zip(results, replies):
        result[pending] = reply
    return results


def _described(reason):
    return f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else reason


def _shortened(point):
    return ", ".join(np.array2string(array, threshold=8, edgeitems=3) for array in point)
