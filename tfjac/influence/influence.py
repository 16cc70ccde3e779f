"""`influence`: from a trained Keras model to what each training example does to it."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any, Literal

import keras

from tfjac.arguments import choice, positive
from tfjac.influence.by_curvature import CurvatureInfluence
from tfjac.influence.data import TrainingData
from tfjac.influence.sides import ByExamples, ByWeights, ConjugateGradients, EigenvalueCorrected, Factored
from tfjac.influence.tracin import TracInInfluence, checked_rates
from tfjac.types import LikelihoodName, Nest, TensorLike, Variable

SIDES = {
    "weights": functools.partial(ByWeights, inverse=Factored),
    "examples": ByExamples,
    "cg": functools.partial(ByWeights, inverse=ConjugateGradients),
    "ekfac": functools.partial(ByWeights, inverse=EigenvalueCorrected),
}

LARGEST = 5000
"""Matrices of more rows are not formed, unless asked for."""


def influence(
    model: keras.Model,
    x: Nest[TensorLike],
    y: TensorLike,
    *,
    method: Literal["auto", "weights", "examples", "cg", "ekfac", "tracin"] = "auto",
    removal: Literal["auto", "newton", "first_order"] = "auto",
    damping: float | None = None,
    checkpoints: Sequence[Sequence[Any] | str | os.PathLike] | None = None,
    learning_rates: float | Sequence[float] = 1.0,
    variables: Literal["all", "last_layer"] | Sequence[Variable] = "all",
    likelihood: LikelihoodName | None = None,
    from_logits: bool | None = None,
    batch_size: int | None = None,
) -> CurvatureInfluence | TracInInfluence:
    """Return what leaving out each training example would do to a trained model, without training it again.

        found = tfjac.influence(model, x, y)
        change = found.on_losses(x_test, y_test)  # [tests, n]; positive: the training example helps
        suspects = np.argsort(-found.self_influence())  # wrong labels come first

    Let the loss be a mean of ℓ over n examples, g the gradient of ℓ of one, and P = Σ JᵀHJ + nλI the Gauss-Newton
    curvature of the sum. Without the example the weights move by P⁻¹g, and the loss of another changes by g*ᵀP⁻¹g. That
    holds near a minimum: train until the loss no longer falls. The model is used in inference mode. ℓ is what Keras
    counts: without the positions that it masks, of which the mean is that of all examples, and times `loss_weights`.

    Args:
        model: a Keras model with one output, trained.
        x: array or tensor `[n, ...]`, or nest of them: the inputs that it was trained on.
        y: their targets, as for `fit`.
        method: "weights" to factor P `[p, p]`, "examples" to factor a matrix `[n·m, n·m]` with the same influences,
            "cg" for conjugate gradients with products, which form neither; "ekfac" for an approximation of P by
            Kronecker factors of each weight, which solves at once; "auto" for the smaller matrix where it has at most
            5,000 rows, else "cg"; "tracin" for Σ η g*·g over checkpoints of the training.
        removal: "first_order", as above; "newton" to also take the curvature of the example out of P, which is exact
            for squares and linear models, and better near to high leverage; "auto" for "newton" with squares, and
            for "first_order" with cross-entropies, which are no squares, with "cg", where "newton" would take n·m
            solutions, and with "ekfac".
        damping: λ, in units of the mean loss: a penalty λ/2·‖w‖² that the training had, as `keras.regularizers.l2(λ/2)`
            on all weights; zero for none. Where None, a tenth of the mean eigenvalue of Σ JᵀHJ/n.
        checkpoints: for "tracin" alone: a list of `model.get_weights()`, or of files of weights.
        learning_rates: for "tracin" alone: η, one or one for each checkpoint.
        variables: "all" (trainable ones), "last_layer" (those of the last layer that has some), or a list.
        likelihood, from_logits: where the model is not compiled with a mean squared error or a cross-entropy; as in
            `laplace`.
        batch_size: how many examples at a time; by their sizes where None.

    Returns:
        A `CurvatureInfluence`, or a `TracInInfluence`: `on_losses`, `self_influence`; the first also `on_outputs` and
        `leverages`.

    Raises:
        ValueError, TypeError: for options that do not fit, a loss that is not known, a curvature that is singular.

    Cost: n·p²/2 multiply-adds by way of factors and p³/3, or J·Jᵀ between all pairs of chunks and (n·m)³/3; with "cg"
    nothing now, and then passes over all examples until each solution has converged; with "ekfac" two passes over all
    examples, and i³ + o³ for each weight with i inputs and o outputs.
    Reference: P. W. Koh, P. Liang, "Understanding black-box predictions via influence functions", 2017; R. Grosse et
    al., "Studying large language model generalization with influence functions", 2023; G. Pruthi, F. Liu, S. Kale, M.
    Sundararajan, "Estimating training data influence by tracing gradient descent", 2020.
    """
    choice("method", method, ("auto", *SIDES, "tracin"))
    choice("removal", removal, ("auto", "newton", "first_order"))
    damping = None if damping is None else positive("damping", damping, or_zero=True)
    if method == "tracin":
        rates = checked_rates(checkpoints, learning_rates)
        data = TrainingData(model, x, y, variables, likelihood, from_logits, batch_size)
        return TracInInfluence(data, list(checkpoints or ()), rates)
    if checkpoints is not None:
        raise ValueError(f"Checkpoints are for method='tracin'. Received: method={method!r} and checkpoints")
    data = TrainingData(model, x, y, variables, likelihood, from_logits, batch_size)
    if method == "auto":
        by_weights, by_examples = data.curvature.num_parameters, data.labels.size
        method = "weights" if by_weights <= by_examples else "examples"
        method = method if min(by_weights, by_examples) <= LARGEST else "cg"
    if removal == "auto":
        removal = "newton" if data.curvature.likelihood.has_noise and method not in ("cg", "ekfac") else "first_order"
    return CurvatureInfluence(data, SIDES[method](data, damping), method, removal)
