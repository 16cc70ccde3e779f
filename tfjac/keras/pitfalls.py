"""What goes wrong in `fit` without an error: said once, as a warning."""

import math
import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac._warn import place_in_program, warn
from tfjac.graph import ancestors, forgotten_with_graphs, handle_in
from tfjac.keras.moving_statistics import LEFT, advice, largest_momentum
from tfjac.keras.state import REPEATED, Seen, StateVariables
from tfjac.objective.variables import variable_name
from tfjac.steps.statuses import Status
from tfjac.types import Tensor, Variable

_LARGE = 1e6
"""A loss above this is that of targets in units that are too small for a new network."""

MANY = 200
"""Steps on one batch: statistics that need more are behind for most of a training."""

_FAR_ABOVE = 1e3
"""A loss above so many times the first one, and large, is that of a training that has diverged."""


def may_differ(loss: Tensor) -> bool:
    """Return whether a loss of the graph being traced may be another each time that it is computed."""
    return any("Random" in op.type or "PyFunc" in op.type for op in ancestors([loss]))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


class Pitfalls:
    """Says what an optimizer has seen that is worth a warning, each thing once.

    The steps run in a graph: they count, and have told what they see for the first time. Where XLA compiles them, Keras
    calls the optimizer at the end of `fit`, a callback of tfjac at the end of each epoch.
    """

    def __init__(self) -> None:
        self._said: set[Any] = set()
        self._looked_at: weakref.WeakSet[tf.Graph] = weakref.WeakSet()
        self._has_squares, self._momentum = True, 0.0
        self._place: tuple | None = None

    def look(self, state: StateVariables, steps: int | None = None) -> None:
        """Warn of what `StateVariables` have counted.

        Args:
            state: the `StateVariables` of the optimizer.
            steps: how many were taken, at the end of `fit`; None before.
        """
        if steps is not None:
            self._look_at_statistics(steps)
        self._look_at_counts(state.seen, state.size)
        self._look_at_size(state)

    def tell(self, seen: Tensor, size: int, repeated: Tensor, steps: Tensor) -> bool:
        """Warn of what steps see, in the graph being traced; return True.

        Args:
            seen: `Seen` as one tensor.
            size: number of parameters.
            repeated: how many of the last steps were on the data of the step before.
            steps: how many were taken.
        """

        def look(numbers: Tensor, repeated: Tensor, steps: Tensor) -> None:
            self._look_at_counts(Seen(*map(int, numbers.numpy())), size)
            if repeated.numpy() >= REPEATED and self._momentum**MANY > LEFT:
                self._look_at_statistics(int(steps.numpy()))

        self._place = place_in_program()
        forgotten_with_graphs(tf.py_function(look, [seen, repeated, steps], []))
        return True

    def _look_at_statistics(self, steps: int) -> None:
        """Warn of moving statistics that so many steps leave behind."""
        behind = advice(self._momentum, steps)
        if behind is not None:
            self._say("moving statistics", behind)

    def _look_at_counts(self, seen: Seen, size: int) -> None:
        """Warn of what was seen, of a model of so many weights."""
        if seen.not_finite:
            self._say(
                ("not finite", seen.finite_loss > 0),
                f"the loss, or its gradient, was not finite at the start of a step (status {Status.NOT_FINITE}), and "
                "the weights stay as they are there. Look for NaN and infinity in the data, with "
                "np.isfinite(x).all(), and for logarithms and roots in the model: before a Poisson loss let the last "
                f"layer be softplus or exponential, not linear. {self._of_finite(seen)}"
                f"Received: {_counted(seen.not_finite, 'such step')}",
            )
        if seen.resized:
            self._say(
                "resized",
                "batches have several sizes, and jit_compile=True compiles the step again for each, which takes as "
                "long as the first time. Have all batches of one size: fit(..., batch_size=...) with a divisor of the "
                "number of examples, or data.batch(size, drop_remainder=True). Or leave jit_compile out. "
                f"Received: {seen.resized + 1} sizes at least",
            )
        if seen.narrow:
            self._say(
                "narrow",
                f"batches have fewer residuals than the model has weights ({size:,}), and each step fits its own "
                "batch at the expense of the others, as nothing is remembered of these with the options and the number "
                "of weights here. Take all examples as one batch, fit(..., batch_size=len(x)); or sum the batches up, "
                'LevenbergMarquardt(memory="epoch") and fit(..., callbacks=[tfjac.callbacks.StepMonitor()]); or call '
                "tfjac.fit(model, x, y), which "
                f"chooses. Received: {_counted(seen.narrow, 'step')} on such batches",
            )

    def _look_at_size(self, state: StateVariables) -> None:
        """Warn of a loss that is large: of targets, where their squares are minimised, or for it has grown so."""
        cost, first = float(state.report.cost), state.first_cost
        unit = None if state.unit is None else float(state.unit.numpy())
        if not max(_LARGE, (unit or 0.0) ** 2) < cost < math.inf:
            return
        is_linear = self._has_squares and unit != 0
        if not is_linear and cost > _FAR_ABOVE * abs(first) > 0:
            self._say(
                "diverged",
                "the loss is far above where it began: training has diverged, as on batches that say too little about "
                "the weights, or where outputs grow without bounds, as those of an exponential do. Begin again with "
                "larger batches, fit(..., batch_size=...), or with all examples as one, batch_size=len(x). "
                f"Received: a loss of {cost:.3g} after the last step, {first:.3g} before the first",
            )
        elif self._has_squares:
            way = (
                "or call tfjac.fit(model, x, y), which begins with the last layer solved as a linear model"
                if is_linear
                else "or y / y.std() where outputs are positive alone"
            )
            self._say(
                "large",
                "the loss is still large. If it is that of targets far from zero, or far apart, as prices are, the "
                "weights of a new network have to grow so far, and training may end early: standardise the targets, "
                f"(y - y.mean()) / y.std(), {way}. Received: a loss of {cost:.3g} after the last step",
            )

    def look_at_objective(self, sums_squares: bool) -> None:
        """Be told whether the loss adds up squares, and no other functions."""
        self._has_squares = sums_squares

    def look_at_graph(self, graph: tf.Graph, variables: Sequence[Variable]) -> None:
        """Look for moving statistics, and warn of weights that the model assigns, in a graph that steps are added to.

        Args:
            graph: of the loss; what steps have added to it themselves is not looked at.
            variables: list of the variables that are trained.
        """
        if graph in self._looked_at:
            return
        self._looked_at.add(graph)
        self._momentum = max(self._momentum, largest_momentum(graph))
        assigned = [op.inputs[0] for op in graph.get_operations() if op.type.startswith("Assign")]
        names = [variable_name(each) for each in variables if any(handle_in(graph, each) is one for one in assigned)]
        if names:
            self._say(
                "assigned",
                "the model assigns weights while it computes the loss, as SpectralNormalization does. A step does not "
                "foresee that: the loss is another one than the step ended with. Leave such layers out, or train with "
                f"a method of first order. Received: {', '.join(names)}",
            )

    def look_after_statistics(self) -> None:
        """Be told that a callback sets moving statistics to what they must be."""
        self._said.add("moving statistics")

    @staticmethod
    def _of_finite(seen: Seen) -> str:
        """Return what to look for where the loss itself was a number, and its residuals or its gradient were none."""
        if not seen.finite_loss:
            return ""
        some = "The loss itself was finite" + (
            "" if seen.finite_loss == seen.not_finite else f" in {seen.finite_loss} of them"
        )
        return (
            f"{some}: look for sample or class weights below zero, of which there is no root, and for roots of zero, "
            "which have no slope. "
        )

    def _say(self, key: Any, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            warn(f"tfjac: {text}", place=place_in_program() or self._place)
