"""What goes wrong in `fit` without an error: said once, as a warning."""

from tfjac._warn import warn
from tfjac.graph import ancestors
from tfjac.optimizers.keras.moving_statistics import advice, largest_momentum
from tfjac.optimizers.statuses import Status


def may_differ(loss):
    """Return whether a loss of the graph being traced may be another each time that it is computed."""
    return any("Random" in op.type or "PyFunc" in op.type for op in ancestors([loss]))


class Pitfalls:
    """Says what an optimizer has seen that is worth a warning, each thing once.

    The steps run in a graph, which says nothing: they count, and Keras calls the optimizer at the end of `fit`, a
    callback of tfjac at the end of each epoch.
    """

    def __init__(self):
        self._said = set()

    def look(self, state):
        """Warn of what `StateVariables` have counted.

        Args:
            state: the `StateVariables` of the optimizer.
        """
        seen = state.seen
        if seen.not_finite:
            self._say(
                "not finite",
                f"the loss, or its gradient, was not finite at the start of a step (status {Status.NOT_FINITE}), and "
                "the weights stay as they are there. Look for NaN and infinity in the data, with "
                "np.isfinite(x).all(), and for logarithms and roots in the model. "
                f"Received: {seen.not_finite} such steps",
            )
        if seen.narrow:
            self._say(
                "narrow",
                f"batches have fewer residuals than the model has weights ({state.size:,}), and each step fits its own "
                "batch at the expense of the others. Take all examples as one batch, fit(..., batch_size=len(x)); or "
                'sum the batches up, LevenbergMarquardt(gram_batches="epoch"); or call tfjac.fit(model, x, y), which '
                f"chooses. Received: {seen.narrow} steps on such batches",
            )

    def look_at_graph(self, graph):
        """Warn of moving statistics in a graph that steps are taken in, unless these are looked after."""
        text = advice(largest_momentum(graph))
        if text is not None:
            self._say("moving statistics", text)

    def look_after_statistics(self):
        """Be told that somebody sets moving statistics to what they must be."""
        self._said.add("moving statistics")

    def _say(self, key, text):
        if key not in self._said:
            self._said.add(key)
            warn(f"tfjac: {text}")
