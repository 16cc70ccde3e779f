"""How much memory steps may plan to take: what the user says, or a share of what is free."""

import math
import numbers
import os
from pathlib import Path
from typing import Any, Literal

from tfjac._warn import warn
from tfjac.types import MemoryBudget

AUTO: Literal["auto"] = "auto"

SHARE = 0.5
"""Of what is free, by default: plans count tensors, and TensorFlow keeps some of them longer than it must."""

LEAST = 2**26
"""Bytes that are always there for a plan, by default."""

UNKNOWN = 2**33
"""Bytes that count as free where the system does not say."""


class MemoryBudgetExceeded(MemoryError):
    """No plan for the steps fits the memory budget. Nothing was allocated."""


def checked_memory_budget(value: Any) -> MemoryBudget:
    """Return a `memory_budget`: "auto", None for no limit, or a number of bytes.

    Raises:
        ValueError: for anything else.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if value is None or value == AUTO or (is_number and 0 < value < math.inf):
        return value
    raise ValueError(
        "memory_budget must be a positive number of bytes, 'auto' for half of the memory that is free, or None for no "
        f"limit. Received: memory_budget={value!r}"
    )


def bytes_of(memory_budget: MemoryBudget) -> float:
    """Return how many bytes a `memory_budget` is now, infinity for no limit."""
    if memory_budget is None:
        return math.inf
    return max(LEAST, SHARE * free_memory()) if memory_budget == AUTO else float(memory_budget)


def free_memory(root: str = "/") -> float:
    """Return how many bytes this process may still take: by the system, its control groups, and its own limits.

    Args:
        root: the folder that holds `proc` and `sys`.
    """
    place = Path(root)
    found = [_available(place), *_of_groups(place), *_of_limits(place)]
    known = [each for each in found if each is not None]
    return max(0, min(known)) if known else UNKNOWN


def bytes_in_words(size: float) -> str:
    """Return a number of bytes in words."""
    if size < 2**20 / 10:
        return f"{size:,.0f} bytes"
    return f"{size / 2**30:,.1f} GB" if size >= 2**30 / 10 else f"{size / 2**20:,.1f} MB"


def tell_of_left_out(left_out: Any, budget: float, instead: str) -> None:
    """Warn of a solver that is left out, as it takes more than the budget, and name the one that is taken instead.

    Args:
        left_out: pair of its name and bytes; None where none is.
        budget: bytes.
        instead: name.
    """
    if left_out is not None:
        name, taken = left_out
        warn(
            f"tfjac: solver {name!r} would take {bytes_in_words(taken)}, more than the memory budget of "
            f"{bytes_in_words(budget)}, so that steps are solved for by {instead!r}; memory_budget= allows more."
        )


def exceeded(what: str, taken: float, budget: float, received: str) -> "MemoryBudgetExceeded":
    """Return the `MemoryBudgetExceeded` for what is over the budget."""
    return MemoryBudgetExceeded(
        f"{what} would take {bytes_in_words(taken)}, more than the memory budget of {bytes_in_words(budget)}, and "
        "nothing was allocated. Leave a solver that you named to 'auto'; have residuals that read rows of a table by "
        "index; sum up parts of the data (tfjac.fit with batch_size=, or least_squares_by_parts); or allow more by "
        f"memory_budget=. Received: {received}"
    )


def _available(root: Path) -> float | None:
    """What the system can give without swapping."""
    table = _table(root / "proc/meminfo")
    if "MemAvailable" in table:
        return table["MemAvailable"] * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _of_groups(root: Path) -> list[float | None]:
    """What is left within the limit of each control group that the process is in, of version 2 and of version 1."""
    left: list[float | None] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        names = ("memory.max", "memory.current", "inactive_file")
        names = names if not kinds else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        top = root / "sys/fs/cgroup" / kinds
        group = top / path.strip("/")
        left += [_left_in(each, *names) for each in (group, *group.parents) if each == top or top in each.parents]
    return left


def _left_in(group: Path, limit: str, used: str, cached: str) -> float | None:
    """What is left in one group; files that are cached make place."""
    limit, used = _text(group / limit).strip(), _text(group / used).strip()
    if not (limit.isdigit() and used.isdigit()):
        return None
    return int(limit) - int(used) + _table(group / "memory.stat").get(cached, 0)


def _of_limits(root: Path) -> list[float | None]:
    """What is left within the limits that the process itself has."""
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    left: list[float | None] = []
    status = _table(root / "proc/self/status")
    for kind, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        left.append(None if limit == resource.RLIM_INFINITY or used not in status else limit - 1024 * status[used])
    return left


def _table(path: Path) -> dict[str, int]:
    """Return the whole numbers that follow names in a file, as a dict."""
    words = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {each[0]: int(each[1]) for each in words if len(each) > 1 and each[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
