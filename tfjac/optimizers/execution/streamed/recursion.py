"""Streams that never end: every batch is a step, and what earlier ones said is remembered, and fades.

With Fₖ the loss of batch k, what is minimised at batch n is Σ βⁿ⁻ᵏ Fₖ. Of the batches before, only a quadratic model is
kept, around where the variables are: Q(δ) = hᵀδ + ½ δᵀHδ. A step lowers Fₙ(w+p) + βQ(p), and is judged by that:

    (βH + JᵀJ + Λ + λD) p = −(βh + g)
    H ← βH + JᵀJ + Λ,    h ← βh + g + Hp

With λ = 0, h is zero after each step, and for linear residuals this is recursive least squares with forgetting; for
others the extended Kalman filter of a constant state, H being the inverse of its covariance. What damping holds back of
a step is not lost, as it is for these: it stays in h, and so does a batch whose step was rejected.
Reference: D. P. Bertsekas, "Incremental least squares methods and the extended Kalman filter", 1996.
"""

import numpy as np
import tensorflow as tf

from tfjac.optimizers.contracts import Objective
from tfjac.optimizers.execution.streamed.sums import Equations
from tfjac.optimizers.linear_model import Linearisation
from tfjac.optimizers.loop.records import chosen
from tfjac.optimizers.loop.step import take_step
from tfjac.optimizers.statuses import Status


class Memory:
    """What the batches before said, in variables of the optimizer, which Keras saves.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        size: number of parameters.
        dtype: of H and h.
        decay: β.
    """

    def __init__(self, add, size, dtype, decay):
        self._gram, self._gradient = add("remembered_gram", (size, size), dtype), add("remembered", (size,), dtype)
        self._centre = add("centre_of_remembered", (size,), dtype)
        self._dtype, self._decay = dtype, decay

    def take_step(self, objective, state, method):
        """Take a step on a batch and what is remembered, remember the batch, and return the `Step`.

        The cost that is reported is that of both, of which what is remembered is zero before the step. A batch that is
        not finite changes nothing. Where somebody else has assigned to the variables, the model is taken there. What
        was judged by rounding alone, as where a stream has nothing new to say, changes no damping: else that would have
        grown beyond all measure when the stream changes.
        """
        before = tf.cast(objective.position(objective.values()), self._dtype)
        gram, gradient = self._gram.value.read_value(), self._gradient.value.read_value()
        gradient += tf.linalg.matvec(gram, before - self._centre.value.read_value())
        recalling = RecallingObjective(objective, self._decay * gram, self._decay * gradient)
        step = take_step(recalling, state, method)
        report = step.report
        after = tf.cast(objective.position(objective.values()), self._dtype)
        gram, gradient, precision, _ = Equations.of(recalling.linearisation, self._dtype)
        gram = tf.linalg.set_diag(gram, tf.linalg.diag_part(gram) + precision)
        gradient += tf.linalg.matvec(gram, after - before)
        sound = tf.not_equal(report.status, int(Status.NOT_FINITE)) & _finite(gram) & _finite(gradient)

        def remember():
            self._gram.value.assign(gram)
            self._gradient.value.assign(gradient)
            self._centre.value.assign(after)
            return True

        tf.cond(sound, remember, lambda: False)
        return step._replace(state=chosen(_within_rounding(report), state, step.state))


class RecallingObjective(Objective):
    """The `Objective` of a batch and a quadratic model of others around where the variables are.

    Args:
        objective: `Objective` of the batch.
        gram, gradient: H `[p, p]` and h `[p]` of the model.

    Attributes:
        linearisation: the `Linearisation` of both.
    """

    def __init__(self, objective: Objective, gram, gradient):
        self._objective, self._gram, self._gradient = objective, gram, gradient
        self.cost, self.columns, self.variables = objective.cost, objective.columns, objective.variables
        self.is_shared, self.sums_squares = objective.is_shared, objective.sums_squares
        self._start = objective.position(objective.values())
        self.linearisation = RecallingLinearisation(objective.linearise(), gram, gradient)

    def values(self):
        """Return what the variables hold now, as a list of tensors."""
        return self._objective.values()

    def position(self, values):
        """Return the place where the variables hold `values`, `[p]`."""
        return self._objective.position(values)

    def linearise(self, by_products=False):
        """Return the `Linearisation` of both."""
        return self.linearisation

    def change_of_rows(self):
        """Return how much more the tensors of the rows of the batch are now, `[rows]`."""
        return self._objective.change_of_rows()

    def move(self, start, step):
        """Assign `start` + `step` to the variables."""
        self._objective.move(start, step)

    def move_to(self, start, position):
        """Assign `position` `[p]` to the variables."""
        self._objective.move_to(start, position)

    def restore_unless(self, accepted, start):
        """Assign `start` to the variables, bit for bit, unless `accepted`."""
        self._objective.restore_unless(accepted, start)

    def evaluate(self):
        """Return what is to be lowered, at what the variables hold at this point of the program."""
        cost = self._objective.evaluate()
        moved = tf.cast(self.position(self.values()) - self._start, self._gram.dtype)
        remembered = tf.tensordot(moved, self._gradient + tf.linalg.matvec(self._gram, moved) / 2, 1)
        return cost + tf.cast(remembered, cost.dtype)


class RecallingLinearisation(Linearisation):
    """A `Linearisation` with the quadratic model of other batches added to it; for solvers that take JᵀJ and g.

    Args:
        batch: the `Linearisation` of the batch.
        gram, gradient: H `[p, p]` and h `[p]`.
        found: dict from dtypes to what was computed in them before, for the step and for what is remembered.
    """

    def __init__(self, batch, gram, gradient, found=None):
        super().__init__(batch.jacobian, batch.residual, batch.prior)
        self._batch, self._gram, self._gradient = batch, gram, gradient
        self._found = {} if found is None else found

    def cast(self, dtype):
        """Return the same in another dtype."""
        return RecallingLinearisation(self._batch.cast(dtype), self._gram, self._gradient, self._found)

    def gram_and_gradient(self):
        """Return JᵀJ + H `[p, p]` and g + h `[p]`."""
        if self.dtype not in self._found:
            gram, gradient = self._batch.gram_and_gradient()
            recalled = tf.cast(self._gram, self.dtype), tf.cast(self._gradient, self.dtype)
            self._found[self.dtype] = gram + recalled[0], gradient + recalled[1]
        return self._found[self.dtype]


def _within_rounding(report):
    """Return whether a step promised no more than the rounding of residuals, which are as large as J times w."""
    rounding = np.finfo(report.cost.dtype.as_numpy_dtype).eps * report.length
    return report.promised <= rounding * (rounding + tf.sqrt(2 * tf.abs(report.cost_before)))


def _finite(tensor):
    return tf.reduce_all(tf.math.is_finite(tensor))
