"""One walk backwards through part of a graph, stacked over the outputs m, that stops at ops which need more than
their registered gradient: loops, conditionals, lists of tensors."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import ExampleAnalysis, axes, lean_function, registering, shared_constants
from tfjac.graph.facts import is_identity
from tfjac.jacobians.factors.control_flow.stacking import of_static_columns, shaped_like, zeros_like
from tfjac.jacobians.factors.cotangents import asking_for
from tfjac.jacobians.factors.rules import factor_by_rule
from tfjac.jacobians.factors.uses import Use, find_uses
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.passes.linearise import pull_back
from tfjac.jacobians.shapes import after, check_when_run
from tfjac.linear.factors.forms import Factor
from tfjac.linear.shapes import Size, product
from tfjac.types import Tensor

_HANDLERS: dict[str, Callable] = {}


handler = registering(_HANDLERS)
"""Register a function `(op, sweep)` that takes the cotangents of the op's outputs on to its inputs."""


def has_control_flow(analysis: ExampleAnalysis) -> bool:
    """Return whether the path has ops that only a `Sweep` takes cotangents and factors through."""
    return any(_is_special(op, analysis) for op in analysis.path)


def swept_factors(
    ys: Sequence[Tensor],
    analysis: ExampleAnalysis,
    n: Size,
    outputs: Tensor | None = None,
) -> list[list[Factor]]:
    """Factor the Jacobian of `ys` where loops or conditionals are on the way.

    Args:
        ys: list of tensors `[n, ...]`; their outputs follow one another along m.
        analysis: the `ExampleAnalysis` of the graph from the sources to them.
        n: number of examples.
        outputs: `[c]` integers, the outputs whose rows are wanted; all m where left out.

    Returns:
        For each source the list of its factors.

    Cost: m backward passes, vectorised, in which each loop is run once more forwards, keeping its states.
    """
    sizes = [product(axes(y)[1:]) for y in ys]
    (outputs,) = after(check_when_run(analysis.assumed, n), [tf.range(sum(sizes)) if outputs is None else outputs])
    sweep = Sweep(analysis, n)

    def compute() -> list[Factor]:
        for k, y in enumerate(ys):
            sweep.add(y, asking_for(y, outputs - sum(sizes[:k])))
        sweep.run()
        sweep.parts = [(weight, of_static_columns(factor, weight)) for weight, factor in sweep.parts]
        return [factor for _, factor in sweep.parts]

    if isinstance(n, int) and n > 0:
        compute()
    else:
        _unless_empty(compute, sweep, axes(outputs)[0])
    return columns_of_sources(sweep.parts, analysis.dependence)


def _unless_empty(compute: Callable, sweep: "Sweep", m: Size) -> None:
    """Run `compute`, but find zeros where n = 0: `tf.vectorized_map` gets the gradients of empty slices wrong."""
    traced = lean_function(compute).get_concrete_function()

    def zeros() -> list[Factor]:
        return [zeros_like(factor, sweep.n, m) for _, factor in sweep.parts]

    results = tf.cond(sweep.n > 0, traced, shared_constants()(zeros))
    sweep.parts = [(weight, shaped_like(inside, factor)) for (weight, inside), factor in zip(sweep.parts, results)]


def _is_special(op: tf.Operation, analysis: ExampleAnalysis) -> bool:
    through = op.type in _HANDLERS or (is_identity(op) and op.outputs[0].dtype == tf.variant)
    return through and any(analysis.carries(output) for output in op.outputs)


class Sweep:
    """Cotangents on their way backwards, and the factors found so far.

    Attributes:
        analysis: the `ExampleAnalysis` of the part of the graph that is walked.
        n: number of examples.
        parts: pairs of a shared tensor of this graph and the `Factor` whose columns belong to it.
    """

    def __init__(self, analysis: ExampleAnalysis, n: Size) -> None:
        self.analysis, self.n = analysis, n
        self.parts: list[tuple[Tensor, Factor]] = []
        self._frontier: list[tuple[Tensor, Tensor]] = []
        self._lists: dict[Any, Any] = {}
        self._cotangents: dict[Any, Tensor] = {}

    @property
    def num_outputs(self) -> Size:
        """m, an integer or a scalar tensor."""
        cotangents = [cotangent for _, cotangent in self._frontier]
        cotangents += [part for cotangent in self._lists.values() for part in cotangent.tensors()]
        return axes(cotangents[0])[0]

    def add(self, tensor: Tensor, cotangent: Any) -> None:
        """Add `cotangent` (`[m, *tensor.shape]`; a `ListCotangent` for a list) to what is known of `tensor`."""
        if not self.analysis.carries(tensor):
            return
        if tensor.dtype == tf.variant:
            known = self._lists.get(tensor.ref())
            self._lists[tensor.ref()] = cotangent if known is None else known.plus(cotangent, tensor)
        else:
            self._frontier.append((tensor, cotangent))

    def cotangent(self, tensor: Tensor) -> Any:
        """Return the whole cotangent of an output of a special op, or of a carried tensor; None where it has none."""
        found = self._lists if tensor.dtype == tf.variant else self._cotangents
        return found.get(tensor.ref())

    def run(self, carried: Sequence = ()) -> None:
        """Walk back to the beginning; `carried` are tensors there whose cotangents are asked for afterwards."""
        specials = [op for op in self.analysis.path if _is_special(op, self.analysis)]
        floats = [[tensor for tensor in op.outputs if self._differentiated(tensor)] for op in specials]
        stop = [tensor for outputs in floats for tensor in outputs] + list(carried)
        pending = [use for use in find_uses(self.analysis, [], self.n) if use.op.type not in _HANDLERS]
        blocked = self._first_dependent(specials)
        for k in reversed(range(len(specials))):
            if floats[k]:
                ready = [use for use in pending if blocked.get(use.output.ref(), len(specials)) > k]
                pending = [use for use in pending if use not in ready]
                self._pull_back(floats[k], ready, stop)
            _HANDLERS.get(specials[k].type, _pass_on)(specials[k], self)
        self._pull_back(list(carried), pending, stop)

    def _differentiated(self, tensor: Tensor) -> bool:
        return tensor.dtype != tf.variant and self.analysis.carries(tensor)

    def _first_dependent(self, specials: Sequence[tf.Operation]) -> dict:
        """For each tensor on the path, the index of the first special op that depends on it."""
        first: dict = {}
        index = {op.name: k for k, op in enumerate(specials)}
        for op in reversed(self.analysis.path):
            earliest = min((first.get(output.ref(), len(specials)) for output in op.outputs), default=len(specials))
            earliest = index.get(op.name, earliest)
            for tensor in op.inputs:
                first[tensor.ref()] = min(first.get(tensor.ref(), earliest), earliest)
        return first

    def _pull_back(self, tensors: Sequence[Tensor], uses: Sequence[Use], stop: Sequence[Tensor]) -> None:
        """One vectorised backward pass from what is known to `tensors` and to the outputs of `uses`."""
        targets = list({tensor.ref(): tensor for tensor in [*tensors, *(use.output for use in uses)]}.values())
        if not targets or not self._frontier:
            return
        ends, cotangents = zip(*self._frontier)
        results = pull_back(ends, targets, stop).with_zeros(targets).on_stacks(*cotangents)
        for tensor, result in zip(targets, results):
            result.set_shape([cotangents[0].shape[0], *tensor.shape])
            self._cotangents[tensor.ref()] = result
        for use in uses:
            use.d = self._cotangents[use.output.ref()]
            self.parts.append((use.weight, factor_by_rule(use)))


def _pass_on(op: tf.Operation, sweep: "Sweep") -> None:
    """An identity of a list."""
    sweep.add(op.inputs[0], sweep.cotangent(op.outputs[0]))
