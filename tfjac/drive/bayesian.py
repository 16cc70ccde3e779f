"""Bayesian regularisation: how firmly weights are held, and how noisy the data are, found from the data themselves.

The weights are normal around zero a priori, with precision α, and the N residuals u with precision β = 1/σ². Then the
most probable weights minimise

    M(w) = β·E_D + α·E_W,    E_D = ½ Σ u²,  E_W = ½ ‖w‖²

and the most probable α and β, where the posterior is taken for normal, solve

    γ = p − α·tr(H⁻¹),  H = β JᵀJ + α I,    α = γ / 2E_W,    β = (N − γ) / 2E_D

γ, between zero and p, is the effective number of parameters: how many the data determine, not the prior. A step lowers
M in units of the loss, L + ½Λ‖w‖² with Λ = α/β for L = E_D, and an accepted one is followed by new α and β, with the H
that it was solved by. Nothing but H's trace is taken beyond what the step needs.

Where a loss weighs squares differently, L = Σ c·u², the precision of u is β·c/c̄, c̄ being the mean of all c that are
not zero: α is in units of the weights, σ in those of the residuals, whatever the loss is divided by. With `unit` 2c̄,
2E_D = 2L/unit, and Λ = unit·α/β.
Reference: D. J. C. MacKay, "Bayesian interpolation", 1992, and "A practical Bayesian framework for backpropagation
networks", 1992; F. D. Foresee & M. T. Hagan, "Gauss-Newton approximation to Bayesian learning", 1997.
"""

from typing import NamedTuple

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.prior import Prior
from tfjac.objective.objective import LocalObjective
from tfjac.objective.terms import SquaredTerm
from tfjac.steps.method import Method
from tfjac.steps.objective import SummedObjective
from tfjac.steps.records import State
from tfjac.steps.step import Step, take_step
from tfjac.types import Tensor


class Precisions(NamedTuple):
    """What is estimated, scalars; zeros before the first step.

    Attributes:
        weights: α.
        noise: β.
        effective: γ, at the last accepted step.
    """

    weights: tf.Tensor
    noise: tf.Tensor
    effective: tf.Tensor


def take_regularised_step(
    objective: SummedObjective, precisions: Precisions, state: State, method: Method
) -> tuple[Precisions, Step]:
    """Take one step on the loss of `objective` with the prior of `precisions`, and re-estimate them if it is accepted.

    Args:
        objective: an `Objective` whose cost is a sum of squares, without a prior.
        precisions: `Precisions`, of the step before, or the first ones; not computed from the variables in this graph.
        state, method: as for `take_step`; `method.evidence` is True.
    """
    _, number, unit = _squares(objective)
    ratio = tf.math.divide_no_nan(unit * precisions.weights, precisions.noise)
    regularised = _regularised(objective, ratio)
    step = take_step(regularised, state, method)
    report = step.report
    length = _squared_norm(objective)
    squares = 2 * (report.cost - ratio * length / 2) / unit
    gamma = report.effective
    new = Precisions(gamma / length, (number - gamma) / squares, gamma)
    return arrays.choice(_sound(new) & report.accepted, new, precisions), step


def first_precisions(objective: SummedObjective, known: Precisions) -> Precisions:
    """Return `known` `Precisions`, or where they are zeros, those to begin with: γ half of what it can be at most.

    They are zeros again where the loss is not finite.

    Raises:
        ValueError: for a loss that is no sum of squares alone, naming the op, or has regularisers.
    """
    _check(objective)
    data, number, unit = _squares(objective)
    length = _squared_norm(objective)
    gamma = tf.minimum(number, tf.cast(objective.columns.total, number.dtype)) / 2
    guess = Precisions(gamma / tf.where(length > 0, length, gamma), (number - gamma) * unit / (2 * data), gamma)
    guess = arrays.choice(_sound(guess), guess, tf.nest.map_structure(tf.zeros_like, guess))
    return arrays.choice(known.weights > 0, known, guess)


def _check(objective: SummedObjective) -> None:
    if objective.is_shared:
        raise ValueError(
            "regularization='bayesian' estimates the noise of all residuals, which are in one process for "
            "tf.distribute.MirroredStrategy alone. Received: a strategy of several workers"
        )
    for term in objective.terms:
        if not isinstance(term, SquaredTerm):
            raise ValueError(
                "regularization='bayesian' estimates the noise of residuals: it is for sums of squares, such as 'mse'. "
                f"Received: another convex function, of op {term.root.op.name!r} of type {term.root.op.type}"
            )
    if not objective.prior.is_zero:
        raise ValueError(
            "regularization='bayesian' finds itself how firmly weights are to be held: leave out other regularisers. "
            "Received: a loss with squares of weights in it"
        )


def _squares(objective: SummedObjective) -> tuple[Tensor, Tensor, Tensor]:
    """Return L, without constants that the loss may hold, N, and 2c̄."""
    dtype = objective.cost.dtype
    residuals = [residual for _, residual in objective.rows]
    data = tf.add_n([tf.reduce_sum(tf.square(residual)) / 2 for residual in residuals])
    weights = [term.weight for term in objective.terms] or [
        tf.fill(tf.shape(r), tf.cast(0.5, dtype)) for r in residuals
    ]
    number = tf.add_n([tf.math.count_nonzero(weight, dtype=dtype) for weight in weights])
    total = tf.add_n([tf.reduce_sum(tf.cast(weight, dtype)) for weight in weights])
    return data, number, tf.math.divide_no_nan(2 * total, number)


def _regularised(objective: SummedObjective, ratio: Tensor) -> SummedObjective:
    """Return the `Objective` of L + ½Λ‖w‖², shared out among the parts of it."""
    share = ratio / objective.num_parts

    def with_prior(part: SummedObjective) -> LocalObjective:
        values = part.values()
        flat, zeros = part.columns.flatten(values), tf.zeros([len(values)], share.dtype)
        prior = Prior(share + tf.zeros_like(flat), share * flat, share + zeros, is_zero=False)
        gradients = part.gradients
        if gradients is not None:
            gradients = [each._replace(value=each.value + share * v) for each, v in zip(gradients, values)]
        cost = _squares(part)[0] + share * tf.reduce_sum(tf.square(flat)) / 2
        return LocalObjective(cost, part.rows, prior, part.variables, gradients)

    return objective.with_parts(with_prior)


def _squared_norm(objective: SummedObjective) -> Tensor:
    return tf.reduce_sum(tf.square(objective.columns.flatten(objective.values())))


def _sound(precisions: Precisions) -> Tensor:
    return tf.reduce_all([tf.math.is_finite(each) & (each > 0) for each in precisions])
