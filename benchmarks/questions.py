"""The register of benchmark questions.

A question is a generator of cases, one function in the module of its theme:

    @question("mlp-jacobian")
    def mlp_jacobian(quick):
        '''Per-example Jacobian of a multilayer perceptron, with respect to its weights.'''
        yield Case("8-50-50-1, 1,000 examples", {"tfjac": ..., "tape.jacobian": ...}, Floor(bytes_written=...))

The first candidate is the one in question: ratios are the others' time over its time.
"""

import dataclasses
import importlib.util
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.floors import Floor

THEMES = (
    "jacobians",
    "recurrent",
    "norms",
    "products",
    "tracing",
    "interception",
    "least_squares",
    "many_fits",
    "named_parameters",
    "bundle",
    "classification",
    "language",
    "physics",
)


@dataclasses.dataclass(frozen=True)
class Case:
    """One line-up of candidates.

    Attributes:
        title: sizes, in words.
        candidates: name → callable without arguments; the first is the one in question.
        floor: the least work any of them must do, or None where nothing simple bounds it.
        targets: candidate → the ratio of its time to the first's that is aimed at, at least.
        tolerance: largest difference allowed between the candidates' answers, relative to the largest entry of the
            first one's; None where answers are not comparable (a step of two different algorithms).
        unlike: names of candidates that compute something else on purpose, as a yardstick.
    """

    title: str
    candidates: Mapping[str, Callable[[], Any]]
    floor: Floor | None = None
    targets: Mapping[str, float] = dataclasses.field(default_factory=dict)
    tolerance: float | None = 1e-3
    unlike: tuple[str, ...] = ()


Question = Callable[[bool], Iterator[Case]]
_questions: dict[str, Question] = {}


def question(name: str) -> Callable[[Question], Question]:
    """Register a generator of cases, called with `quick`: true asks for small sizes that take seconds."""

    def register(function: Question) -> Question:
        if name in _questions:
            raise ValueError(f"There are two benchmark questions of this name. Received: name={name!r}")
        _questions[name] = function
        return function

    return register


def all_questions() -> dict[str, Question]:
    """Import every theme that is there and return name → question."""
    for theme in THEMES:
        if importlib.util.find_spec(f"benchmarks.{theme}") is not None:
            importlib.import_module(f"benchmarks.{theme}")
    return dict(_questions)


def disagreement(answer: Any, other: Any) -> float:
    """Return the largest difference between two nests of arrays, relative to the first's largest entry."""
    answer = [np.asarray(part, np.float64) for part in tf.nest.flatten(answer)]
    other = [np.asarray(part, np.float64) for part in tf.nest.flatten(other)]
    scale = max((float(np.abs(part).max(initial=0.0)) for part in answer), default=0.0) or 1.0
    if [part.shape for part in answer] != [part.shape for part in other]:
        return float("inf")
    return max((float(np.abs(a - b).max(initial=0.0)) for a, b in zip(answer, other, strict=True)), default=0.0) / scale


def wrong_answers(case: Case, failed: Collection[str] = ()) -> dict[str, float]:
    """Return the candidates (but the `failed`) whose answer is not the first one's, with their relative difference."""
    if case.tolerance is None:
        return {}
    (first, *others) = case.candidates
    if first in failed:
        return {}
    answer = case.candidates[first]()
    skipped = {*failed, *case.unlike}
    differences = {name: disagreement(answer, case.candidates[name]()) for name in others if name not in skipped}
    return {name: difference for name, difference in differences.items() if not difference <= case.tolerance}
