"""What is refused, by name: the one table of it, from which `docs/combinations.md` is printed.

`python -m tests.contract.refusals` prints the page. A combination of the axes works, or it is here: `test_contract.py`
runs the one, `test_refusals.py` holds the other against the words of the error.
"""

import functools
import itertools
from typing import NamedTuple

from tests.contract.axes import AXES, IN_FIT, IN_LEAST_SQUARES, Case, is_meaningful

SOLVERS = AXES["solver"]


class Refusal(NamedTuple):
    """Combinations that are refused.

    Attributes:
        when: dict from axes to tuples of values: refused is what has one of each.
        reason: a sentence for users: why, and what to do.
        words: part of the error.
    """

    when: dict
    reason: str
    words: str

    def covers(self, case):
        """Return whether a case is refused by this."""
        return case.has(**self.when)


REFUSALS = [
    Refusal(
        {"loss": ("convex",), "execution": IN_LEAST_SQUARES},
        "`least_squares` takes residuals, and a cross-entropy has none. Use `LevenbergMarquardt` in `fit`.",
        "Unknown loss",
    ),
    Refusal(
        {"condition": ("equality", "manifold"), "execution": IN_FIT},
        "The optimizer of `fit` has no equations and no manifolds. Use `least_squares`.",
        "LevenbergMarquardt has no argument",
    ),
    Refusal(
        {"solver": ("schur", "schur_cg"), "problem": ("wide", "tall")},
        "A Schur complement eliminates the rows of a table that examples read by index. Dense layers have no such "
        'table: use `"auto"`.',
        "eliminates a variable of which each example reads one row",
    ),
    Refusal(
        {"solver": ("schur", "schur_cg"), "condition": ("equality",)},
        'Equations couple the rows of a table, so that none can be eliminated. Use `"auto"`.',
        "that no equality couples",
    ),
    Refusal(
        {"solver": ("sparse",), "condition": ("equality",)},
        'Equations couple what the sparse factorisation keeps apart. Use `"auto"`.',
        "equality couples the rows that it keeps apart",
    ),
    Refusal(
        {"solver": ("sparse",), "execution": ("xla",)},
        'SuperLU runs in Python, which XLA does not compile. Leave `jit_compile` out, or use `"cg"`.',
        "runs in Python, which XLA does not compile",
    ),
    Refusal(
        {"solver": ("svd",), "execution": ("xla",)},
        'The singular values of XLA have six digits. Use `"qr"`, or leave `jit_compile` out.',
        "is not for functions compiled by XLA",
    ),
    Refusal(
        {
            "solver": tuple(name for name in SOLVERS if name not in ("auto", "cholesky")),
            "execution": ("summed_batches",),
        },
        'What is kept of the batches is the sum of JᵀJ, from which `"cholesky"` alone solves.',
        "which only solver='cholesky' works with",
    ),
    Refusal(
        {"acceleration": ("geodesic",), "execution": ("summed_batches",)},
        "Geodesic acceleration needs the residuals of all examples at once. Leave it out.",
        "goes without acceleration",
    ),
    Refusal(
        {"condition": ("bounds",), "execution": ("summed_batches",)},
        "The sums over batches know no bounds. Train on full batches, or leave the constraint out.",
        "memory takes steps that know no constraints",
    ),
    Refusal(
        {"condition": ("prior", "equality"), "execution": ("many_fits",)},
        "Many fits have bounds and fixed parameters, and no other condition. Write a prior as residuals.",
        "does not go together with batch_dims=1",
    ),
    Refusal(
        {"acceleration": ("geodesic",), "execution": ("many_fits",)},
        "Many fits take steps of first order. Leave the acceleration out.",
        "acceleration does not go together with batch_dims=1",
    ),
    Refusal(
        {"solver": tuple(name for name in SOLVERS if name not in ("auto", "cholesky")), "execution": ("many_fits",)},
        'The normal equations of each fit are small. Leave the solver to `"auto"`.',
        "With batch_dims=1 the normal equations of each fit are solved",
    ),
]


def refusals_of(case):
    """Return the refusals that cover a case."""
    return [refusal for refusal in REFUSALS if refusal.covers(case)]


def is_possible(case):
    """Return whether a case is to work."""
    return is_meaningful(case) and not refusals_of(case)


REFUSED_BY = ("problem", "solver", "acceleration", "loss", "condition", "execution")
"""The axes that refusals are about; all values of the others go with everything."""


@functools.cache
def possible_pairs():
    """Return the set of pairs ((axis, value), (axis, value)) that some case that is to work has."""
    pairs = set()
    for values in itertools.product(*(AXES[axis] for axis in REFUSED_BY)):
        case = Case()._replace(**dict(zip(REFUSED_BY, values)))
        if is_possible(case):
            choices = [[(axis, getattr(case, axis))] if axis in REFUSED_BY else _all(axis) for axis in AXES]
            for one, other in itertools.combinations(choices, 2):
                pairs.update(itertools.product(one, other))
    return pairs


def _all(axis):
    return [(axis, value) for value in AXES[axis]]


def pairs_of(case):
    """Return the pairs ((axis, value), (axis, value)) of a case, in the order of the axes."""
    return itertools.combinations(zip(AXES, case), 2)


def examples_of(refusal):
    """Return a case for each combination of the values of a refusal, which nothing else refuses if possible."""
    for values in itertools.product(*refusal.when.values()):
        named = dict(zip(refusal.when, values))
        yield min(_completed(named), key=lambda case: len(refusals_of(case)))


def _completed(named):
    """Return cases with the values that are named, of all problems, losses and conditions that make sense."""
    rest = [axis for axis in ("problem", "execution", "condition") if axis not in named]
    choices = [("tables", *AXES["problem"]) if axis == "problem" else AXES[axis] for axis in rest]
    for values in itertools.product(*choices):
        case = Case()._replace(**named, **dict(zip(rest, values)))
        if is_meaningful(case):
            yield case


# ------------------------------------------------------------------ for users

_NAMES = {
    "problem": "",
    "wide": "residuals that read no table by index",
    "tall": "",
    "solver": "solver",
    "none": "none",
    "convex": "a cross-entropy or another convex loss",
    "many_fits": "`batch_dims=1`",
    "eager": "`least_squares`",
    "function": "",
    "resumed": "",
    "xla": "`jit_compile=True`",
    "fit": "`fit`",
    "steps_per_batch": "",
    "summed_batches": "`memory` as a number of batches",
    "replicas": "",
    "bounds": "bounds",
    "prior": "a prior",
    "equality": "`equality`",
    "manifold": "`manifolds`",
    "geodesic": '`acceleration="geodesic"`',
}
"""Of values, for users; what is empty goes without saying, next to another value."""

_PAGE = """# What goes together

Every solver, damping, scaling, loss and condition goes with every way to run, but for what stands here. Each of these
is refused by an error in the words below. `tests/contract` compares all pairs of options with steps in NumPy, and holds
this page and the errors together.

| this | with this | why, and what to do | the error says |
| --- | --- | --- | --- |
{rows}

Two conditions at once: `bounds` and `equality` do not go together. Points on a manifold have no bounds, prior or
equality. `solver="kernel"` needs a prior that is the same for all elements of a variable. The errors say so.
"""


def page():
    """Return the text of `docs/combinations.md`."""
    return _PAGE.format(rows="\n".join(map(_row, REFUSALS)))


def _row(refusal):
    sides = [_named(axis, values) for axis, values in refusal.when.items()]
    return f"| {' | '.join(sides)} | {refusal.reason} | “… {refusal.words} …” |"


def _named(axis, values):
    if axis == "solver":
        return "solver " + ", ".join(f'`"{value}"`' for value in values)
    return ", ".join(name for name in (_NAMES.get(value, f"`{value}`") for value in values) if name)


if __name__ == "__main__":
    print(page(), end="")
