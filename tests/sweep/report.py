"""What the sweep found, as a file of some hundred lines: what is not right, and how often each op was tried."""

import collections
import json
import pathlib
import textwrap

import tensorflow as tf

from tests.sweep.op_types import differentiable_types

VERSION = ".".join(tf.__version__.split(".")[:2])
PATH = pathlib.Path(__file__).parent / "findings" / f"tensorflow-{VERSION}.json"
"""The file that holds the findings on this TensorFlow."""

_COMMON = 0.05
"""The share of samples above which an op that they use says nothing about one of them."""


def condensed(results):
    """Return what is worth keeping of the outcomes, as `sweep` returns them, a dict.

    "samples": their number
    "deviations": for each sample that is not right in every check, one line for each way of not being so, with the
        checks, and the types of its ops that are not common
    "tried": for each type of op, by how many samples
    "never tried": the types of op with a gradient that no sample uses
    """
    tried = collections.Counter(op for found in results.values() for op in _ops(found))
    common = {op for op, count in tried.items() if count > _COMMON * len(results)}
    deviations = {}
    for name, found in sorted(results.items()):
        ways = _ways(found)
        if ways:
            deviations[name] = {**ways, "ops": sorted(_ops(found) - common)}
    never = [name for name in differentiable_types() if name not in tried]
    tried = dict(sorted(tried.items()))
    return {"samples": len(results), "deviations": deviations, "tried": tried, "never tried": never}


def _ops(found):
    return {op for ops in found.get("ops", {}).values() for op in ops}


def _ways(found):
    """From "wrong", "raises", "hangs" or "aborts" to the names of the checks, in one string."""
    ways = collections.defaultdict(list)
    for check, outcome in found.items():
        if check != "ops" and outcome["outcome"] not in ("right", "not asked"):
            ways[outcome["outcome"]].append(check)
    return {way: "; ".join(checks) for way, checks in sorted(ways.items())}


def keep(results):
    """Write the findings, one line for each sample that deviates."""
    found = condensed(results)
    lines = [f"{json.dumps(name)}: {json.dumps(ways)}" for name, ways in found["deviations"].items()]
    tried, never = (textwrap.fill(json.dumps(found[key]), 118) for key in ("tried", "never tried"))
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(
        f'{{"samples": {found["samples"]},\n"deviations": {{\n' + ",\n".join(lines) + f'\n}},\n"tried": {tried},\n'
        f'"never tried": {never}}}\n'
    )


def kept():
    """Return what `keep` wrote for this TensorFlow, or None where the sweep has not run on it."""
    return json.loads(PATH.read_text()) if PATH.exists() else None


def summary(results):
    """Say what is not right, with sizes and messages, a line for each."""
    lines = []
    for name, found in sorted(results.items()):
        for check, outcome in found.items():
            if check != "ops" and outcome["outcome"] not in ("right", "not asked"):
                detail = outcome.get("error", outcome.get("message", ""))
                lines.append(f"{outcome['outcome']}: {name} | {check} | {detail}")
    return "\n".join(sorted(lines))
