"""The least λ of steps on batches that stream, by what one example says and by how much may be noise.

λ is never less than s times the mean over examples of ‖√d Jₙ‖², the squared norm of what one example says about the
weights. With s = 1 one example alone, if it is like the average, moves its output half of the way at most. Less damping
fits a batch better, and noise with it: weights that a batch does not determine go far, and all other data are fitted
worse. For losses whose noise is that of counts and classes s = 6: the curvature of cross-entropies vanishes where
predictions are certain, and with less λ their test losses are ruined.

For squares of errors, and robust losses of them, s = min(s₁, 20·e/v), s₁ being one, or less where much is remembered.
As in a Kalman filter, that is the variance of the noise over that of what the weights may say. v is the largest
variance of the residuals of the first ten batches: what there was to explain. It is about the mean of each output, as
an offset is not worth more freedom. The noise is no more than q, the mean square of residuals before their step, as no
step has seen these data. If q falls, most of it is no noise either: with q₅ and q₂₀ for the last 5 and 20 batches, e =
q₅·min(1, q₅/q₂₀)². So tables with noise, of which a twentieth stays unexplained, are damped in full. Functions without
noise, as residuals of differential equations are, end 10 to 50 times lower. Epochs after the first have seen the data,
so q falls where noise is learnt by heart; no trial ended worse for that.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfjac.linear.contracts import LinearModel
from tfjac.linear.model import num_examples, square_and_variance
from tfjac.objective.terms import are_errors
from tfjac.steps.method import Method
from tfjac.steps.objective import SummedObjective
from tfjac.steps.records import State
from tfjac.types import Tensor

OF_OTHER_LOSSES = 6.0
"""s of losses that are no sums of squares."""

OF_UNEXPLAINED, OF_FALL = 20.0, 2
"""s = 1 from 1/20 of the variance on; the power of q₅/q₂₀."""

FIRST, MEANS = 10, np.array([5.0, 20.0])
"""Over so many batches v is found, and the means of log q are taken."""


class LeastDamping:
    """Raises λ to the least that a batch allows, and keeps what the rule needs from batch to batch.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
    """

    def __init__(self, add: Callable) -> None:
        self._seen, self._means = add("batches_of_noise", (), "int64"), add("log_squares", (2,), "float64")
        self._variance = add("first_variance", (), "float64")

    def look(self, objective: SummedObjective, batch: LinearModel, stayed: Tensor) -> None:
        """Take in the residuals of a batch before its step, if they are finite and not all zero.

        Args:
            objective: `SummedObjective` of the batch; batch: its `LinearModel`.
            stayed: scalar bool, whether the weights are where the step before left them; if not, all begins again.
        """
        if not are_errors(objective):
            return
        square, variance = (tf.cast(each, tf.float64) for each in square_and_variance(batch, objective.num_parts))
        counts = tf.math.is_finite(square) & tf.math.is_finite(variance) & (square > 0)
        seen = tf.where(stayed, self._seen.value.value(), 0)
        means, largest = self._means.value.value(), tf.where(seen > 0, self._variance.value.value(), 0.0)
        log = tf.math.log(tf.where(counts, square, 1.0))
        means += (log - means) / tf.minimum(tf.cast(seen + 1, tf.float64), MEANS)
        largest = tf.where(seen < FIRST, tf.maximum(largest, variance), largest)
        self._seen.value.assign(seen + tf.cast(counts, tf.int64))
        for kept, value in ((self._means, means), (self._variance, largest)):
            kept.value.assign(tf.where(counts, value, kept.value.value()))

    def raised(
        self,
        state: State,
        method: Method,
        objective: SummedObjective,
        batch: LinearModel,
        diagonal: Tensor,
        most: float,
        streams: Tensor | None = None,
    ) -> State:
        """Return a `State` whose λ is no less than the least.

        Args:
            state: `State`; method: `Method`.
            objective: `SummedObjective` of the batch; batch: its `LinearModel`.
            diagonal: `[p]`, diag(JᵀJ) of the batch.
            most: s₁.
            streams: scalar bool, whether there is a least λ; None if there is.
        """
        diagonal = tf.cast(diagonal, state.scaling.dtype)
        metric = method.damping.metric(state.damping, method.scaling.update(state.scaling, diagonal))
        examples = tf.cast(num_examples(batch, objective.num_parts), metric.dtype)
        share = tf.cast(self.share(most), metric.dtype) if are_errors(objective) else OF_OTHER_LOSSES
        least = share * tf.math.divide_no_nan(tf.reduce_sum(diagonal / metric), examples)
        names = method.damping.state_names
        raised = [tf.maximum(value, least) if name == "damping" else value for name, value in zip(names, state.damping)]
        counts = tf.reduce_any([tf.not_equal(value, 0) for value in state.damping])
        counts = counts if streams is None else counts & streams
        return State(tuple(tf.where(counts, new, old) for new, old in zip(raised, state.damping)), state.scaling)

    def share(self, most: float = 1.0) -> Tensor:
        """Return s of errors, a scalar float64; `most` before the first batch, and where v is zero."""
        short, long = tf.unstack(self._means.value.value())
        variance = self._variance.value.value()
        noise = tf.exp(short + OF_FALL * tf.minimum(short - long, 0.0))
        return tf.where(variance > 0, tf.minimum(OF_UNEXPLAINED * noise / variance, most), most)
