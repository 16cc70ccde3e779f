"""The cases of the suite: for every problem, each pair of values at least once, unless it is refused."""

import functools
import itertools

from allpairspy import AllPairs

from tests.contract.axes import AXES, IN_LEAST_SQUARES, Case
from tests.contract.refusals import REFUSALS, REFUSED_BY, is_possible, pairs_of, possible_pairs

_FAMILIES = (IN_LEAST_SQUARES[:-1], IN_LEAST_SQUARES[-1:], ("fit", "steps_per_batch", "replicas"), ("summed_batches",))
"""Ways to run that are refused much the same: pairs are made within each, as they go together there."""

_ORDER = ("execution", "solver", "condition", "loss", "acceleration", "damping", "scaling", "batch", "dtype")
"""Of the axes: those first about which there are refusals, as a row is filled from the left."""


@functools.cache
def cases():
    """Return a tuple of `Case`, each of which is to work."""
    made = [case for problem in AXES["problem"] for family in _FAMILIES for case in _of(problem, family)]
    present = {pair for case in made for pair in pairs_of(case)}
    made += [_with(pair) for pair in sorted(possible_pairs() - present)]
    return tuple(dict.fromkeys(made))


@functools.cache
def by_day():
    """Return the set of cases that are run every time: each value of each axis once, in little time.

    The others, by which each pair is there for every problem, are for the night.
    """
    rest = {case: set(case._asdict().items()) for case in cases()}
    missing, chosen = set().union(*rest.values()), set()
    while missing:
        case = max(rest, key=lambda case: len(rest[case] & missing) / _time(case))
        missing -= rest.pop(case)
        chosen.add(case)
    return chosen


def _time(case):
    """Return about how many seconds a case takes."""
    of_problem = {"wide": 5, "tall": 4, "tables": 3, "rotations": 3, "many": 2}[case.problem]
    factored = {("tall", "sparse"): 5, ("wide", "svd"): 8}.get((case.problem, case.solver), 0)
    execution = {"xla": 8, "replicas": 2}.get(case.execution, 0)
    return of_problem + factored + execution + (case.acceleration == "geodesic")


def _with(pair):
    """Return a case with a pair of values that the rows, which are filled from the left, have missed."""
    named = dict(pair)
    axes = {axis: (named.get(axis, value),) for axis, value in Case()._asdict().items()}
    axes |= {axis: AXES[axis] for axis in REFUSED_BY if axis not in named}
    combinations = (Case(*values) for values in itertools.product(*axes.values()))
    return next(case for case in combinations if is_possible(case))


def _of(problem, family):
    axes = [_possible_values(problem, family, axis) for axis in _ORDER]
    if not all(axes):
        return []
    rows = AllPairs(axes, filter_func=lambda values: _may_work(problem, values))
    return [case for values in rows for case in [_case(problem, values)] if is_possible(case)]


def _case(problem, values):
    return Case(problem)._replace(**dict(zip(_ORDER, values)))


def _possible_values(problem, family, axis):
    """Return the values of an axis that something works with, for a problem and a family."""
    values = family if axis == "execution" else AXES[axis]
    return [value for value in values if _works_with_any(problem, family, axis, value)]


@functools.cache
def _works_with_any(problem, family, axis, value):
    axes = {name: AXES[name] for name in REFUSED_BY} | {"problem": (problem,), "execution": family}
    axes = axes | {axis: (value,)} if axis in axes else axes
    return any(is_possible(Case()._replace(**dict(zip(axes, values)))) for values in itertools.product(*axes.values()))


def _may_work(problem, values):
    """Return whether nothing refuses the values of the first axes, given in their order."""
    known = {"problem": problem, **dict(zip(_ORDER, values))}
    if problem == "wide" and known.get("solver") == "sparse":
        return False
    return not any(all(known.get(axis) in these for axis, these in refusal.when.items()) for refusal in REFUSALS)
