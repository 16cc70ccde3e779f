"""Loops and branches: index sets are carried through the bodies, step by step where the graph fixes their number."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import bodies_of
from tfjac.graph.copying.bodies import Body
from tfjac.graph.copying.constants import Value
from tfjac.graph.op_types import CONDITIONALS, LOOPS
from tfjac.jacobians.sparsity.index_sets import union
from tfjac.jacobians.sparsity.lists import ListSets
from tfjac.jacobians.sparsity.rules.index_set_rules import NoIndexSets, Patterns, Step, list_rule

# Loops of more steps are taken for such of any number of steps.
MAX_STEPS = 1000
# How often a loop of any number of steps is gone through, before the hope is given up that its index sets stop growing.
MAX_ROUNDS = 100


@list_rule(*CONDITIONALS)
def _if(step: Step) -> Patterns:
    """Input 0 chooses; where it is open, either branch may run."""
    chosen = step.fixed(0)
    if chosen is None:
        names: tuple[str, ...] = ("then_branch", "else_branch")
    else:
        names = ("then_branch",) if chosen else ("else_branch",)
    return _either(step, [branch for name in names for branch in bodies_of(step.op, name)])


@list_rule("Case", "StatelessCase")
def _case(step: Step) -> Patterns:
    """Input 0 numbers the branch; a number out of range means the last one."""
    branches, chosen = bodies_of(step.op, "branches"), step.fixed(0)
    if chosen is not None:
        branches = [branches[chosen if 0 <= chosen < len(branches) else -1]]
    return _either(step, branches)


def _either(step: Step, branches: Sequence[Body]) -> Patterns:
    """The outputs of whichever of the branches runs."""
    given = _State.of_inputs(step, 1)
    results = [_Body(branch, step).run(given) for branch in branches]
    first = results[0]
    if len(results) > 1:
        same = [all(shape == each[0] for shape in each) for each in zip(*(result.shapes for result in results))]
        if not all(same[k] for k in step.wanted):
            raise NoIndexSets("its branches have results of different shapes")
        shapes = [shape if agreed else None for shape, agreed in zip(first.shapes, same)]
        first = dataclasses.replace(first, values=[None] * len(same), shapes=shapes)
    _learn(step, first)
    return [_united(parts) for parts in zip(*(result.patterns for result in results))]


@list_rule(*LOOPS)
def _while(step: Step) -> Patterns:
    body, condition = (_Body(each, step) for name in ("body", "cond") for each in bodies_of(step.op, name))
    initial = _State.of_inputs(step, 0)
    state = _after_steps(body, condition, initial) or _after_any_number(body, initial)
    _learn(step, state)
    return state.patterns


def _after_steps(body: "_Body", condition: "_Body", state: "_State") -> "_State | None":
    """The state behind the last step; None where the graph does not fix how many there are, or they are many."""
    for _ in range(MAX_STEPS + 1):
        (again,) = condition.results(state)
        if again is None:
            return None
        if not again:
            return state
        state = body.run(state)
    return None


def _after_any_number(body: "_Body", state: "_State") -> "_State":
    """What may hold after any number of steps, none among them; what changes from one to the next is open."""
    state = body.with_changes_open(state)
    for _ in range(MAX_ROUNDS):
        after = body.run(state)
        if after.shapes != state.shapes:
            raise NoIndexSets("shapes change in its steps")
        joined = [_united(pair) for pair in zip(state.patterns, after.patterns)]
        if all(_same(*pair) for pair in zip(joined, state.patterns)):
            return state
        state = dataclasses.replace(state, patterns=joined)
    raise NoIndexSets("its index sets keep growing")


@dataclasses.dataclass
class _State:
    """What is known of the parameters, or results, of a body: index sets, values, and shapes; None where it is not."""

    patterns: Patterns
    values: list[Value | None]
    shapes: list[list[int] | None]

    @classmethod
    def of_inputs(cls, step: Step, first: int) -> "_State":
        """Those that the inputs of an op bring, from number `first` on."""
        numbers = range(first, len(step.op.inputs))
        shapes = [step.walk.known.shape(step.op.inputs[k]) for k in numbers]
        return cls(step.patterns[first:], [step.fixed(k) for k in numbers], shapes)


class _Body:
    """The body of a loop or branch, which `step` met.

    Attributes:
        inputs, outputs: the parameters and results of the body, in its graph.
    """

    def __init__(self, body: Body, step: Step) -> None:
        self.inputs, self.outputs, self._step = body.inputs, body.outputs, step
        self._paths: dict[tuple[int, ...], list[tf.Operation]] = {}

    def run(self, state: _State) -> _State:
        """Return the state that the body makes of `state`."""
        known = self._known(state)
        carriers = [k for k, pattern in enumerate(state.patterns) if pattern is not None]
        walk = self._step.walk.within(known)
        if tuple(carriers) not in self._paths:
            self._paths[tuple(carriers)] = walk.path([self.inputs[k] for k in carriers], self.outputs)
        sources = [(self.inputs[k], state.patterns[k]) for k in carriers]
        patterns = walk.carry(sources, self.outputs, self._paths[tuple(carriers)])
        values, shapes = zip(*((known(output), known.shape(output)) for output in self.outputs))
        return _State(patterns, list(values), list(shapes))

    def results(self, state: _State) -> list[Value | None]:
        """Return the values of the results, None for each that is open."""
        known = self._known(state)
        return [known(output) for output in self.outputs]

    def with_changes_open(self, state: _State) -> _State:
        """Return `state` without the values of those parameters that a step does not hand on as they are."""
        same = [output is given for output, given in zip(self.outputs, self.inputs)]
        return dataclasses.replace(state, values=[value if kept else None for value, kept in zip(state.values, same)])

    def _known(self, state: _State) -> Any:
        return self._step.walk.known.of_body(zip(self.inputs, state.values, state.shapes))


def _learn(step: Step, state: "_State") -> None:
    """Note what is known of the outputs, which cannot be had by running the op."""
    for output, value, shape in zip(step.op.outputs, state.values, state.shapes):
        step.walk.known.learn(output, value, shape)


def _united(parts: Iterable[Any]) -> Any:
    parts = [part for part in parts if part is not None]
    return union(parts) if parts else None


def _same(left: Any, right: Any) -> bool:
    """Whether index sets, one of which contain the other, are the same."""
    if isinstance(left, ListSets) and isinstance(right, ListSets):
        return left.sizes() == right.sizes()
    return left is right or (left is not None and right is not None and left.nnz == right.nnz)
