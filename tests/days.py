"""Which cases run by day, in `make test`, and which are left to `make nightly`.

A test, or a case of one, says so by a marker: `by_day(None)` keeps no case, `by_day("values")` keeps as many as it
takes to have each value of each parameter in one, `by_day(one_in=3)` keeps the first of each three. Of what is left to
the night, each commit has another twentieth by day: what broke shows within days.
"""

import pathlib
import subprocess
import zlib

SHARE = 20
"""One in so many cases of the night runs by day."""


def values(params):
    """Return the places of as many cases as it takes to have each value of each parameter in one, a set."""
    rest = {place: {(name, id(value)) for name, value in each.items()} for place, each in enumerate(params)}
    missing, kept = set().union(*rest.values()), set()
    while missing:
        best = max(rest, key=lambda place: len(rest[place] & missing))
        missing -= rest.pop(best)
        kept.add(best)
    return kept


def kept_by_day(params, kept=None, one_in=None):
    """Return the places of those cases that a `by_day` of these arguments keeps; `params`: a dict of each case."""
    if one_in is not None:
        return set(range(0, len(params), one_in))
    if kept not in (None, "values"):
        raise ValueError(f"by_day takes None, 'values' or one_in=. Received: {kept!r}")
    return set() if kept is None else values(params)


def left_to_the_night(items):
    """Yield those of pytest's items that `make test` does not run."""
    cases, commit = {}, _commit()
    for item in items:
        marker = item.get_closest_marker("by_day")
        if marker:
            key = item.path, getattr(item, "originalname", item.name), str(marker)
            cases.setdefault(key, (marker, []))[1].append(item)
    for marker, alike in cases.values():
        params = [item.callspec.params if hasattr(item, "callspec") else {} for item in alike]
        kept = kept_by_day(params, *marker.args, **marker.kwargs)
        yield from (item for k, item in enumerate(alike) if k not in kept and not is_drawn(item.nodeid, commit))


def is_drawn(nodeid, commit):
    """Return whether a case of the night runs by day with this commit, a string; none does without one."""
    return bool(commit) and zlib.crc32(f"{commit} {nodeid}".encode()) % SHARE == 0


def _commit():
    """Return what the commit is called, empty where there is none."""
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
