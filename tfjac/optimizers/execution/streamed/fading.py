"""A quadratic model of earlier batches, and a step that lowers the loss of a batch and that model together.

With Fₖ the loss of batch k and dₖ what it counts for, what is minimised at batch n is Σ βⁿ⁻ᵏ dₖ Fₖ. Of the batches
before, only a quadratic model is kept, around where the variables are: Q(δ) = hᵀδ + ½ δᵀHδ. A step lowers
dₙFₙ(w+p) + βQ(p), and is judged by that:

    (βH + dJᵀJ + dΛ + λD) p = −(βh + dg)
    H ← βH + dJᵀJ + dΛ,    h ← βh + dg + Hp

With λ = 0, h is zero after each step, and for linear residuals this is recursive least squares with forgetting; for
others the extended Kalman filter of a constant state, H being the inverse of its covariance. What damping holds back of
a step is not lost, as it is for these: it stays in h, and so does a batch whose step was rejected.
Reference: D. P. Bertsekas, "Incremental least squares methods and the extended Kalman filter", 1996.
"""

import tensorflow as tf

from tfjac.optimizers.contracts import AS_FACTORS, LinearModel, Objective
from tfjac.optimizers.execution.streamed.sums import Equations
from tfjac.optimizers.linear_model import Linearisation


class FadingModel:
    """H and h, in variables of the optimizer, which Keras saves, in units of the loss of the batch that came last.

    p² numbers are read and written as seldom as can be: that is most of what a step takes beside its factorisation.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        size: number of parameters, p.
        dtype: of H and h.
    """

    def __init__(self, add, size, dtype):
        self._gram, self._gradient = add("remembered_gram", (size, size), dtype), add("remembered", (size,), dtype)
        self._centre, self._weight = add("centre_of_remembered", (size,), dtype), add("weight_of_last", (), "float64")
        self.dtype = dtype

    def around(self, position, decay, weight):
        """Return βH `[p, p]` and βh `[p]` around `position` `[p]`, wherever the last step ended.

        Args:
            position: where the variables are.
            decay: scalar, β.
            weight: scalar, d of the batch in the units of whose loss they are returned.
        """
        factor = tf.math.divide_no_nan(self._weight.value.read_value(), tf.cast(weight, tf.float64))
        factor = decay * tf.cast(factor, self.dtype)
        gram, gradient = self._gram.value.read_value(), self._gradient.value.read_value()
        moved = position - self._centre.value.read_value()
        far = tf.reduce_any(tf.not_equal(moved, 0))
        gradient += tf.cond(far, lambda: tf.linalg.matvec(gram, moved), lambda: tf.zeros_like(moved))
        return factor * gram, factor * gradient

    def keep(self, wanted, gram, gradient, position, weight):
        """Replace H and h by those around `position` if `wanted`, a scalar bool, and if they are finite.

        A gram matrix is finite where its diagonal is.
        """

        def keep():
            self._gram.value.assign(gram)
            self._gradient.value.assign(gradient)
            self._centre.value.assign(position)
            self._weight.value.assign(tf.cast(weight, tf.float64))
            return True

        tf.cond(wanted & _finite(tf.linalg.diag_part(gram)) & _finite(gradient), keep, lambda: False)


class RecallingObjective(Objective):
    """The `Objective` of a batch and a quadratic model of others around where the variables are.

    Args:
        objective: `Objective` of the batch.
        batch: its `LinearModel` there.
        gram, gradient: H `[p, p]` and h `[p]` of the model.
        of_batch: JᵀJ `[p, p]` and g `[p]` of the batch, in the dtype of the model.

    Attributes:
        linearisation: the `Linearisation` of both.
    """

    def __init__(self, objective: Objective, batch: LinearModel, gram, gradient, of_batch):
        self._objective, self._gram, self._gradient = objective, gram, gradient
        self.cost, self.columns, self.variables = objective.cost, objective.columns, objective.variables
        self.is_shared, self.sums_squares = objective.is_shared, objective.sums_squares
        self._start = objective.position(objective.values())
        both = {gram.dtype: (of_batch[0] + gram, of_batch[1] + gradient)}
        self.linearisation = RecallingLinearisation(batch, gram, gradient, both)

    def values(self):
        """Return what the variables hold now, as a list of tensors."""
        return self._objective.values()

    def position(self, values):
        """Return the place where the variables hold `values`, `[p]`."""
        return self._objective.position(values)

    def linearise(self, allowed=AS_FACTORS):
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
        return cost + self.remembered(self.position(self.values()))

    def remembered(self, position):
        """Return the part of what is lowered that is remembered, at `position` `[p]`; zero where the step started."""
        moved = tf.cast(position - self._start, self._gram.dtype)
        remembered = tf.tensordot(moved, self._gradient + tf.linalg.matvec(self._gram, moved) / 2, 1)
        return tf.cast(remembered, self.cost.dtype)


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

    def with_prior(self, dtype):
        """Return JᵀJ + H + Λ `[p, p]` and g + h `[p]` in a dtype."""
        gram, gradient, precision, _ = Equations.of(self, dtype)
        if self.prior.is_zero:
            return gram, gradient
        return tf.linalg.set_diag(gram, tf.linalg.diag_part(gram) + precision), gradient


def _finite(tensor):
    return tf.reduce_all(tf.math.is_finite(tensor))
