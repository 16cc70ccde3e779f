"""Time several ways of computing the same thing against each other, in one run.

On a shared machine an absolute time means little. So the candidates are timed in turn, round after round and in a
new order each round, so that whatever slows the machine down for a while slows all of them; what is reported is
the median and the spread of each, and the ratios within a round.

    cases = {"tfjac": lambda: ..., "tape.jacobian": lambda: ...}
    timings = measure(cases, rounds=15)
    timings["tfjac"].median, ratio(timings["tape.jacobian"], timings["tfjac"])
"""

import dataclasses
import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

SHORTEST_SAMPLE = 2e-3  # seconds: faster calls are timed several at a time
LONGEST_MEASUREMENT = 20.0  # seconds for all rounds of one case: slow candidates get fewer rounds, never below three


@dataclasses.dataclass(frozen=True)
class Timing:
    """What one candidate took.

    Attributes:
        samples: seconds per call, one number a round; empty if the candidate failed.
        first_call: seconds of the very first call, tracing and compilation included.
        error: the last line of what it raised, or None.
    """

    samples: tuple[float, ...] = ()
    first_call: float = math.nan
    error: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples) if self.samples else math.nan

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles: half of all samples lie between them."""
        if not self.samples:
            return (math.nan, math.nan)
        low, high = np.percentile(self.samples, [25, 75])
        return (float(low), float(high))


def ratio(timing: Timing, reference: Timing) -> float:
    """Return the median over the rounds of time over reference's time in the same round; NaN where either failed."""
    if not timing.samples or not reference.samples:
        return math.nan
    return statistics.median(a / b for a, b in zip(timing.samples, reference.samples, strict=True))


def wait(result: Any) -> Any:
    """Block until asynchronous arrays (JAX, torch on a GPU) in a nest of lists, tuples and dicts are there."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        for part in result:
            wait(part)
    elif hasattr(result, "block_until_ready"):
        result.block_until_ready()
    return result


def _seconds(function: Callable[[], Any], calls: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        wait(function())
    return (time.perf_counter() - start) / calls


def _warm_up(function: Callable[[], Any]) -> tuple[Timing, float]:
    """Call until the time settles; return a Timing without samples, and the seconds of a warm call."""
    try:
        first_call = _seconds(function)
        return Timing(first_call=first_call), min(_seconds(function) for _ in range(2))
    except Exception as error:  # a peer that cannot do it is an answer, too
        message = (str(error).strip().splitlines() or [""])[-1].strip()[:200]
        return Timing(error=f"{type(error).__name__}: {message}"), math.nan


def measure(candidates: Mapping[str, Callable[[], Any]], rounds: int = 15, seed: int = 0) -> dict[str, Timing]:
    """Time callables without arguments, interleaved.

    Args:
        candidates: name → callable; what it returns is waited for and thrown away.
        rounds: samples per candidate. Fewer are taken (but at least three) where a round of all candidates is so
            slow that all rounds would take longer than `LONGEST_MEASUREMENT` seconds.
        seed: of the order in which the candidates are called in each round.

    Returns:
        name → `Timing`, in the order given. A candidate that raises has `error` set and no samples; the rest goes on.
    """
    warm = {name: _warm_up(function) for name, function in candidates.items()}
    calls = {
        name: max(1, math.ceil(SHORTEST_SAMPLE / max(seconds, 1e-9)))
        for name, (timing, seconds) in warm.items()
        if timing.error is None
    }
    one_round = sum(calls[name] * warm[name][1] for name in calls)
    rounds = min(rounds, max(3, int(LONGEST_MEASUREMENT / max(one_round, 1e-9))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = random.Random(seed)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name in order.sample(list(calls), len(calls)):
                samples[name].append(_seconds(candidates[name], calls[name]))
    finally:
        gc.enable()
    return {
        name: dataclasses.replace(timing, samples=tuple(samples.get(name, ()))) for name, (timing, _) in warm.items()
    }
