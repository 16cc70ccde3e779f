"""One call that trains a Keras model by the Levenberg-Marquardt method, and is right without further thought."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac.arguments import described_value, positive_integer, suggestion
from tfjac.drive.interrupts import Interrupts
from tfjac.keras.arguments import check_trainable
from tfjac.keras.best_weights import BestWeights, StopOnInterrupt
from tfjac.keras.callbacks import Convergence
from tfjac.keras.fit_under_way import TRACING
from tfjac.keras.fitting_data import FittingData, refuse_negative, validation_dataset
from tfjac.keras.levenberg_marquardt import LevenbergMarquardt
from tfjac.keras.linear_start import start_near
from tfjac.keras.moving_statistics import statistics_callbacks
from tfjac.progress import shown
from tfjac.steps.acceleration import AutoAcceleration
from tfjac.steps.statuses import Status
from tfjac.types import Logs, MemoryBudget, Nest, TensorLike

STEPS_PER_CALL = 10
"""So many steps are taken in one call of the training function where there are no validation data."""

_IDLE = 10
"""So many epochs without an accepted step end the training."""


def fit(
    model: keras.Model,
    x: Nest[TensorLike] | tf.data.Dataset | keras.utils.PyDataset,
    y: Nest[TensorLike] | None = None,
    *,
    sample_weight: Nest[TensorLike] | None = None,
    class_weight: Mapping[int, float] | None = None,
    validation_data: tuple[Any, ...] | tf.data.Dataset | keras.utils.PyDataset | None = None,
    validation_split: float = 0.0,
    loss: Any = "mse",
    max_steps: int = 1000,
    patience: int = 20,
    ftol: float | None = None,
    xtol: float | None = None,
    gtol: float | None = None,
    batch_size: int | None = None,
    memory_budget: MemoryBudget = "auto",
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None = None,
    verbose: Any = "auto",
    **others: Any,
) -> keras.callbacks.History:
    """Train a Keras model by the Levenberg-Marquardt method until the validation loss or a tolerance says to stop.

        history = tfjac.fit(model, x, y, validation_split=0.2)
        print(history.status, history.history["loss"][-1], min(history.history["val_loss"]))

    Every step sees all examples: as one batch where that fits the memory budget, else as batches whose JᵀJ and Jᵀr are
    summed up (`memory="epoch"`), which takes the same steps. With validation data the loss on them is looked at
    after every step, and the weights that had the lowest one are restored at the end, also after Ctrl-C. Without, as
    many as ten steps are taken in one call of the training function.

    A model that is not compiled is compiled with `LevenbergMarquardt` and `loss`. One that is keeps its optimizer, loss
    and metrics; its optimizer must be a `LevenbergMarquardt`.

    If the targets are far from the outputs of the model, as prices of 200,000 are, and the loss is the mean squared
    error, the training begins with the last layer solved as a linear model of them, and a warning says so.

    Batch normalisations get the mean and variance of all examples as their moving statistics, before each validation
    and at the end, if all examples are one batch.

    Args:
        model: a Keras model.
        x, y, sample_weight: as in `model.fit`, arrays or tensors, or nests of them; or as x a `tf.data.Dataset` or
            `keras.utils.PyDataset` of batches, each of which is one part of the sums. A data set of one batch is taken
            as it is. One of unknown length is run through once, to count its batches. Without y the loss is what
            layers add by `add_loss`.
        class_weight: as in `model.fit`, a dict from the number of a class to its weight; it is for the training data.
        validation_data: `(x, y)` or `(x, y, sample_weight)`, or batches as x may be.
        validation_split: the last so many of the examples, a fraction between 0 and 1, are validation data; for arrays.
        loss: what a model that is not compiled is compiled with.
        max_steps: at most so many steps, rounded up to whole epochs.
        patience: end after so many epochs without a lower validation loss.
        ftol, xtol, gtol: tolerances of the training loss, the step and the gradient, as for `least_squares`.
        batch_size: how many examples one batch of the sums has; None for all examples as one batch if they fit, or as
            many as do.
        memory_budget: bytes that the Jacobian of one batch may take, as factors, by the sizes of the tensors in the
            model, and that a step may plan to take, see `LevenbergMarquardt`. `"auto"`: half of the memory that is
            free, and no more than 1 GiB of it for the Jacobian; None: no limit.
        callbacks: further callbacks for `model.fit`, one or several.
        verbose: `"auto"` for a line that says how far it is, after two seconds: on a terminal it is rewritten, and goes
            at the end; in logs there is one each ten seconds. 0 for silence; 1 and 2 for the lines of `model.fit`, some
            for each epoch.
        **others: none; other arguments of `model.fit` are refused, each with the one to take instead.

    Returns:
        The `keras.callbacks.History` of `model.fit`. `loss` in it is the loss after the steps of an epoch, and there is
        what `callbacks.Convergence` logs. `history.status` is a `Status`: a tolerance, STOPPED for the validation loss
        or another callback, MAX_STEPS. `history.plan` is a sentence: how steps take the examples, and why.

    Raises:
        ValueError: for a model that is compiled with another optimizer, or with what contradicts the arguments; for
            data that do not go together.
        TypeError: for what is no Keras model, or no arrays; for an argument that there is not.
    """
    _refuse_arguments(others)
    _check_model(model, loss)
    refuse_negative("class_weight", None if class_weight is None else list(class_weight.values()))
    data = FittingData.of(x, y, sample_weight, validation_split)
    if validation_data is not None and data.validation is not None:
        raise ValueError(
            "validation_data and validation_split are two ways to say the same: leave one of them out. Received: both"
        )
    data.build(model)
    check_trainable(model.trainable_variables)
    validation = data.validation if validation_data is None else validation_data
    batches = data.batches(model, batch_size, memory_budget)
    if not data.has_targets:
        _check_own_loss(model, data, x)
        loss = None if loss == "mse" else loss
    data_are = {"is_summed": batches is not None, "is_validated": validation is not None}
    _compile_or_check(model, loss, memory_budget, steps=max_steps, **data_are)
    if batches is not None:
        start_near(model, batches)
    optimizer = model.optimizer
    convergence = Convergence(ftol, xtol, gtol, patience=_IDLE)
    watching = [convergence, _LossAfterSteps(), *tf.nest.flatten(() if callbacks is None else callbacks)]
    best = None if validation is None else BestWeights(positive_integer("patience", patience))
    if best is not None:
        convergence.keep_lowest()
    statistics = statistics_callbacks(model, data.inputs()) if batches is None else []
    if statistics:
        optimizer.pitfalls.look_after_statistics()
    history = _run(
        model,
        convergence,
        best,
        verbose,
        x=data.whole() if batches is None else batches,
        epochs=math.ceil(positive_integer("max_steps", max_steps) / optimizer.steps_per_batch),
        validation_data=None if validation is None else validation_dataset(validation),
        callbacks=[*watching, *([] if best is None else [best]), *statistics],  # theirs are the weights restored
        class_weight=class_weight,
        shuffle=False,
    )
    history.plan = data.in_words(batches, batch_size)
    return history


def _run(model: Any, convergence: Any, best: Any, verbose: Any, callbacks: list, **options: Any) -> Any:
    """Call `model.fit`; return its history with a status. Ctrl-C and errors leave the best weights, too."""
    with Interrupts() as interrupts:
        try:
            by_line = isinstance(verbose, str) and verbose == "auto"
            with shown("tfjac.fit", is_quiet=not by_line, in_logs=True) as progress:
                watching = [*callbacks, StopOnInterrupt(interrupts), _ToldProgress(progress, options["epochs"])]
                history = model.fit(callbacks=watching, verbose=0 if by_line else verbose, **options)
        except BaseException:
            if best is not None:
                best.restore()
            raise
        history.status = Status.INTERRUPTED if interrupts.pending else convergence.status
        interrupts.pending = False
    return history


_STEPS = "every step sees all examples, and max_steps says how many steps there are at most"

_ELSEWHERE = {
    "epochs": _STEPS,
    "initial_epoch": _STEPS,
    "steps_per_epoch": _STEPS,
    "shuffle": "every step sees all examples, so their order does not matter: leave it out",
    "validation_batch_size": "it has no effect on the validation loss: leave it out",
    "validation_steps": "validation is on all of validation_data: leave it out",
    "validation_freq": "with validation data there is a validation after every step: leave it out",
    "optimizer": "compile the model with tfjac.LevenbergMarquardt(...) before",
    "metrics": "compile the model with tfjac.LevenbergMarquardt() and with the metrics before",
}
"""Arguments of `model.fit` and `model.compile` that are not taken, and what to do."""


def _refuse_arguments(others: dict[str, Any]) -> None:
    """Raise TypeError for every argument that there is not, saying what to do."""
    known = [name for name in inspect.signature(fit).parameters if name != "others"]
    for name, value in others.items():
        todo = f" {_ELSEWHERE[name]}." if name in _ELSEWHERE else suggestion(name, known)
        joint = ":" if name in _ELSEWHERE else "."
        raise TypeError(f"tfjac.fit has no argument {name!r}{joint}{todo} Received: {name}, {described_value(value)}")


def _check_model(model: Any, loss: Any) -> None:
    if not isinstance(model, keras.Model):
        raise TypeError(
            "tfjac.fit trains a Keras model; for a function of variables there is tfjac.least_squares. "
            f"Received: a {type(model).__name__}"
        )
    if not model.compiled:
        return
    if not isinstance(model.optimizer, LevenbergMarquardt):
        raise ValueError(
            "tfjac.fit keeps the optimizer of a compiled model, which must be tfjac.LevenbergMarquardt(): compile the "
            "model with it, or not at all. Received: a model compiled with "
            f"{type(model.optimizer).__name__}"
        )
    if not (isinstance(loss, str) and loss == "mse"):
        raise ValueError(
            f"loss is for a model that is not compiled; this one keeps its own: leave loss out. Received: loss={loss!r}"
        )


def _check_own_loss(model: Any, data: Any, x: Any) -> None:
    """Raise TypeError for data without targets, if the model adds no loss itself."""
    if type(model).compute_loss is not keras.Model.compute_loss:
        return
    model(data.inputs(1))
    if not model.losses:
        raise TypeError(
            "tfjac.fit takes arrays x and y, or as x a tf.data.Dataset or PyDataset, which must hold batches (x, y). "
            "Without targets, layers of the model must add its loss by add_loss. "
            f"Received: x of type {type(x).__name__} without y"
        )


def _compile_or_check(
    model: Any, loss: Any, memory_budget: Any, is_summed: bool, is_validated: bool, steps: Any
) -> None:
    """Compile a model that is not; else see that its optimizer takes the data as they are."""
    if not model.compiled:
        several = 1 if is_summed or is_validated else min(STEPS_PER_CALL, steps)
        alone = {"steps_per_batch": several, "acceleration": AutoAcceleration()}
        options = {"memory": "epoch"} if is_summed else alone
        model.compile(optimizer=LevenbergMarquardt(**options, memory_budget=memory_budget), loss=loss)
    elif is_summed and not model.optimizer.sums_batches:
        raise ValueError(
            "The examples come as several batches, which the optimizer of the model does not sum up: compile the model "
            "with LevenbergMarquardt(memory='epoch'), or not at all. Or have all examples in one batch: with "
            "arrays, leave batch_size out, or raise memory_budget; with a tf.data.Dataset, batch(number of examples). "
            f"Received: a model compiled with memory={model.optimizer.memory!r}"
        )


class _LossAfterSteps(keras.callbacks.Callback):
    """Puts the loss after the steps of an epoch into its logs: Keras' own is that before them."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Put it there, where it is known."""
        report = self.model.optimizer.last_report
        if logs is not None and report is not None and np.isfinite(report.cost):
            logs["loss"] = float(report.cost)


class _ToldProgress(keras.callbacks.Callback):
    """Tells a `Progress` of the training: what its first epoch does, and how far the others are.

    Args:
        progress: the `Progress`.
        epochs: how many there are at most.
    """

    def __init__(self, progress: Any, epochs: int) -> None:
        super().__init__()
        self._progress, self._epochs = progress, epochs

    def on_train_begin(self, logs: Logs = None) -> None:
        """Tell it what the first epoch does."""
        self._progress.at(of=TRACING)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Tell it."""
        losses = {name: float(value) for name, value in (logs or {}).items() if name in ("loss", "val_loss")}
        self._progress.at(epoch + 1, self._epochs, of="epochs", **losses)
