"""From a loss, or from residuals, to the problem of a step: residuals, and a prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import Dependence, as_tf_variable, inline_calls, source_in, verification_wanted
from tfjac.jacobians.rows import read_in_parts
from tfjac.linear import arrays
from tfjac.linear.columns import Columns
from tfjac.objective.broadcasts import warn_of_broadcasts
from tfjac.objective.conditions.coordinates import positions_of, sources_of
from tfjac.objective.loss_terms import loss_terms
from tfjac.objective.objective import LocalObjective, ObjectiveOnManifolds
from tfjac.objective.reached_variables import check_dependence, refuse_precision, warn_of_lost
from tfjac.objective.reference_gradients import reference_gradients
from tfjac.objective.regularisers import combined, diagonal_prior
from tfjac.types import Tensor, Variable


def objective_of_loss(
    loss: Tensor,
    variables: Sequence[Variable],
    gradients: list | None = None,
    verify: bool | None = None,
    may_be_half: bool = False,
) -> LocalObjective:
    """Return the `Objective` of a loss that is a sum of squares and convex functions; F is the loss itself.

    Σ c·u² is ½‖r‖² with r = √(2c)·u. Where c is zero, so is r, whatever u: a loss that leaves out missing values by
    `tf.where` is finite, and so are its residuals. For convex functions see `terms`.

    Args:
        loss: scalar tensor of the graph being traced.
        variables: list of `tf.Variable` or `keras.Variable`.
        gradients: list of the gradients of the loss that other code has taken, for verification, or None.
        verify: whether to verify, see `verification_wanted`.
        may_be_half: whether the model may compute in bfloat16, which is noted as `half` then.

    Raises:
        NotASumOfSquares: a ValueError that names the op through which a variable enters in another way.
        ValueError: for a variable that the loss does not depend on, or reduced precision on the way.
    """
    loss, drawn_again = inlined(loss, variables)
    dependence = Dependence(_sources(loss.graph, variables))
    half = check_dependence([loss], variables, dependence, "loss", may_be_half)
    priors, terms = [], []
    for term in loss_terms(loss, dependence):
        found = diagonal_prior(term, dependence)
        if found is None:
            terms.append(term)
        else:
            priors.append(found)
    rows = [term.rows() for term in terms]
    if half is not None and any(tensor.dtype == tf.bfloat16 for tensor, _ in rows):
        refuse_precision(half, tf.float32)
    warn_of_broadcasts([term.root for term in terms], dependence)
    cost, prior = tf.reduce_sum(loss), combined(priors, Columns(variables).sizes, loss.dtype)
    if half is not None or not verification_wanted(verify):
        return LocalObjective(cost, rows, prior, variables, terms=terms, half=half)
    known = gradients is not None and any(x is not None for x in gradients) and not drawn_again
    reference = reference_gradients(cost, variables, gradients if known else None)
    return LocalObjective(cost, rows, prior, variables, reference, terms)


def inlined(loss: Tensor, variables: Sequence[Variable]) -> tuple[Tensor, bool]:
    """Return the loss with calls inlined, and whether it draws random numbers of its own by that."""
    read = [handle for handle in _sources(loss.graph, variables) if handle is not None]
    try:
        return inline_calls([loss], read)[0], False
    except ValueError:  # random numbers that an inner function draws
        return inline_calls([loss], read, draw_again=True)[0], True


def objective_of_residuals(
    tensors: list[Tensor],
    variables: Sequence[Variable],
    verify: bool | None = None,
    losses: Any = None,
    unit: Any = 1,
    prior: Any = (),
    prior_is_uniform: bool = True,
    charts: list | None = None,
    by_parts: bool = False,
) -> LocalObjective:
    """Return the `Objective` F = ½‖r‖² of residuals, or that of robust losses of them.

    Args:
        tensors: list of tensors of any shape, of the graph being traced. Where the leading axis is that of independent
            examples, the Jacobian is found far cheaper.
        variables: list of `tf.Variable` or `keras.Variable`.
        verify: whether to verify, see `verification_wanted`.
        losses: list of a `RobustLoss`, or None for squares, for each of `tensors`; None for squares throughout.
        unit: what the residuals are measured in, for the scales of losses.
        prior: a `GaussianPrior`, in that unit as well, or an empty tuple.
        prior_is_uniform: whether it is the same for all elements of a variable.
        charts: for each variable a `Chart` that the residuals read in its place, or None; or None for all.
        by_parts: whether J may have the parts of a flat vector in the place of a variable, where it has no chart.

    Raises:
        ValueError: for residuals that do not depend on one of the variables, or arithmetic in another precision.
    """
    charts = charts or [None] * len(variables)
    moved = sources_of(variables, charts)
    sources = _sources(tensors[0].graph, moved)
    tensors = inline_calls(tensors, [source for source in sources if source is not None], draw_again=True)
    dependence = Dependence(sources)
    check_dependence(tensors, variables, dependence, "residuals")
    warn_of_lost([tensor for tensor in tensors if not dependence.reaches(tensor)], dependence, "a block of residuals")
    warn_of_broadcasts(tensors, dependence)
    dtype = as_tf_variable(variables[0]).dtype
    tensors = [tf.cast(tensor, dtype) for tensor in tensors]  # another one is not computed from the variables
    losses = losses or [None] * len(tensors)
    columns, position = Columns(moved), None
    if prior:
        values = [as_tf_variable(variable).read_value() for variable in variables]
        position = columns.flatten(positions_of(values, charts))
    cost = cost_of(tensors, losses, unit, prior, position)
    tensors = [t if loss is None else loss.linearised(t, unit) for t, loss in zip(tensors, losses)]
    gradients = reference_gradients(cost, moved) if verification_wanted(verify) else None
    tensors, parts = read_in_parts(tensors, moved) if by_parts and not any(charts) else (tensors, None)
    rows = [(tensor, tensor) for tensor in tensors]
    if prior:
        quadratic = prior.linearised(position, columns, prior_is_uniform)
    else:
        quadratic = combined([], columns.sizes, dtype)
    if not any(charts):
        return LocalObjective(cost, rows, quadratic, variables, gradients, sums_squares=not any(losses), parts=parts)
    return ObjectiveOnManifolds(cost, rows, quadratic, variables, gradients, charts, sums_squares=not any(losses))


def cost_of(
    tensors: list[Tensor], losses: Any, unit: Any = 1, prior: Any = (), position: Tensor | None = None
) -> Tensor:
    """Return F, a scalar, of residuals, their losses, and a prior of `position` `[p]`; see `objective_of_residuals`."""
    squares = [tf.reduce_sum(tf.square(tensor)) / 2 for tensor, loss in zip(tensors, losses) if loss is None]
    others = [loss.cost(tensor, unit) for tensor, loss in zip(tensors, losses) if loss is not None]
    return tf.add_n([*squares, *others, *([prior.cost(position)] if prior else [])])


def unit_of(residuals: Any, dtype: tf.DType) -> Tensor:
    """Return the unit to measure residuals in, a scalar: 1 where they are of ordinary size.

    Else the power of two next to the root of the largest. Their squares are then within the range of the dtype, and so
    are those of J, whether it is as large or as small as they are, or about 1.
    """
    sizes = [tf.reduce_max(tf.abs(tf.cast(residual, dtype))) for residual in residuals]
    return units_of(tf.stack(sizes))


def units_of(residuals: Tensor) -> Tensor:
    """Return the `unit_of` each row of residuals `[..., m]`."""
    of_four = arrays.constant(2 * float(np.log(2)), residuals)
    half = arrays.log(arrays.reduce_max(arrays.absolute(residuals), axis=-1)) / of_four
    extreme = (arrays.absolute(half) > 16) & arrays.is_finite(half)
    power = arrays.power(arrays.constant(2, residuals), arrays.round_even(half))
    return arrays.where(extreme, power, arrays.ones_like(half))


def _sources(graph: tf.Graph, variables: Sequence[Variable]) -> list:
    return [source_in(graph, variable) for variable in variables]
