"""The combinations: all pairs of choices that work, each refusal, and each known mistake."""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from tests.contract.jacobian_functions import FUNCTIONS, OPTIONS
from tests.contract.jacobian_models import FAMILIES
from tests.contract.jacobian_refusals import MISTAKES, REFUSALS


class Case(NamedTuple):
    """One combination of choices."""

    function: str
    family: str
    batch: str
    execution: str
    given: str  # what ys are given as
    policy: str
    option: str

    def __str__(self):
        return "-".join(value.replace(" ", "") for value in self)


AXES = Case(
    function=list(FUNCTIONS),
    family=list(FAMILIES),
    batch=["open", "static"],
    execution=["eager", "function", "xla"],
    given=["callable", "tensor"],
    policy=["float32", "float64", "mixed_bfloat16"],
    option=list(OPTIONS),
)


def matches(where, choices):
    """Whether all that `where` names is decided in `choices`, a dict, and fits."""
    return all(choices.get(axis) in values for axis, values in where.items())


def exists(case):
    """Whether the function has the option, and eager ys are given as a callable."""
    return case.option in FUNCTIONS[case.function].options and (case.execution, case.given) != ("eager", "tensor")


def refusal_of(case):
    """The first refusal in the table that the case falls under, or None."""
    return next((refusal for refusal in REFUSALS if matches(refusal.where, case._asdict())), None)


def mistake_of(case):
    """The first known mistake that the case falls under, or None."""
    return next((mistake for mistake in MISTAKES if matches(mistake.where, case._asdict())), None)


@functools.cache
def everything():
    """All combinations that there are."""
    return [case for case in map(Case._make, itertools.product(*AXES)) if exists(case)]


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
    groups = [_groups(cases, each) for each in sorted({size, 3})]
    missing = [np.zeros(each.max() + 1, np.int32) for each in groups]
    for each, each_missing in zip(groups, missing):
        each_missing[each] = 1
    chosen = []
    while missing[0].any():
        gains = [each_missing[each].sum(1) for each, each_missing in zip(groups, missing)]
        best = int(np.argmax(1000 * gains[0] + gains[-1]))
        chosen.append(cases[best])
        for each, each_missing in zip(groups, missing):
            each_missing[each[best]] = 0
    return chosen


def _groups(cases, size):
    """For each case, the numbers of the groups of `size` values that it holds."""
    places = [{value: k for k, value in enumerate(values)} for values in AXES]
    codes = np.array([[place[value] for place, value in zip(places, case)] for case in cases])
    numbers, first = [], 0
    for axes in itertools.combinations(range(len(AXES)), size):
        sizes = [len(AXES[k]) for k in axes]
        numbers.append(first + np.ravel_multi_index(codes[:, axes].T, sizes))
        first += math.prod(sizes)
    return np.stack(numbers, 1)


def working_pairs():
    """Cases that cover all pairs of choices that work together."""
    return choose(working(), 2)


def working_triples():
    """Cases that cover all triples of choices that work together."""
    return choose(working(), 3)
