"""The combinations: all pairs of choices that work, each refusal, and each known mistake."""

import itertools
from typing import NamedTuple

import numpy as np

from tests.contract.jacobian_functions import FUNCTIONS, OPTIONS
from tests.contract.jacobian_models import FAMILIES
from tests.contract.jacobian_refusals import REFUSALS


class Case(NamedTuple):
    """One combination of choices."""

    function: str
    family: str
    batch: str
    execution: str
    policy: str
    option: str

    def __str__(self):
        return "-".join(value.replace(" ", "") for value in self)


AXES = Case(
    function=list(FUNCTIONS),
    family=list(FAMILIES),
    batch=["open", "static"],
    execution=["eager", "function", "xla"],
    policy=["float32", "float64", "mixed_bfloat16"],
    option=list(OPTIONS),
)


class Mistake(NamedTuple):
    """Combinations that are known to be wrong, or to crash."""

    where: dict
    reason: str
    crashes: bool = False  # the process: never tried in it


MISTAKES = [
    Mistake(
        {"family": ("loaded",), "execution": ("xla",)}, "XLA on a loaded SavedModel ends the process", crashes=True
    ),
]


def matches(where, choices):
    """Whether all that `where` names is decided in `choices`, a dict, and fits."""
    return all(choices.get(axis) in values for axis, values in where.items())


def exists(choices):
    """Whether the function has the option, as far as both are chosen."""
    return not {"function", "option"} <= set(choices) or choices["option"] in FUNCTIONS[choices["function"]].options


def refusal_of(case):
    """The first refusal in the table that the case falls under, or None."""
    return next((refusal for refusal in REFUSALS if matches(refusal.where, case._asdict())), None)


def mistake_of(case):
    """The first known mistake that the case falls under, or None."""
    return next((mistake for mistake in MISTAKES if matches(mistake.where, case._asdict())), None)


def everything():
    """All combinations that there are."""
    return [case for case in map(Case._make, itertools.product(*AXES)) if exists(case._asdict())]


def examples_of(entry):
    """One combination under the refusal or mistake, and under no earlier one, for each function and execution."""
    found = {}
    for case in everything():
        if matches(entry.where, case._asdict()) and (refusal_of(case) or mistake_of(case)) is entry:
            found.setdefault((case.function, case.execution), case)
    return list(found.values())


def working():
    """All combinations that work."""
    return [case for case in everything() if not refusal_of(case) and not mistake_of(case)]


def choose(cases, size):
    """Choose cases that hold all groups of `size` values that any case holds.

    Each is the one that holds most groups that none before it holds; among equals, most triples. That spreads
    what is free in a case. (allpairspy leaves out pairs where so much is excluded, and fills up with first values.)
    """
    groups = [_groups(cases, size), _groups(cases, 3)]
    missing = [np.ones(each.max() + 1, bool) for each in groups]
    chosen = []
    while True:
        gains = [each_missing[each].sum(1) for each, each_missing in zip(groups, missing)]
        if not gains[0].any():
            return chosen
        best = int(np.argmax(1000 * gains[0] + gains[1]))
        chosen.append(cases[best])
        for each, each_missing in zip(groups, missing):
            each_missing[each[best]] = False


def _groups(cases, size):
    """For each case, the numbers of the groups of `size` values that it holds."""
    numbers = {}
    return np.array(
        [
            [numbers.setdefault((axes, tuple(case[k] for k in axes)), len(numbers)) for axes in _AXES_OF[size]]
            for case in cases
        ]
    )


_AXES_OF = {size: list(itertools.combinations(range(len(Case._fields)), size)) for size in (2, 3)}


def working_pairs():
    """Cases that cover all pairs of choices that work together."""
    return choose(working(), 2)


def working_triples():
    """Cases that cover all triples of choices that work together."""
    return choose(working(), 3)
