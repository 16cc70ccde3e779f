"""Keras callbacks that show how the steps of `LevenbergMarquardt` go, and stop where there is nothing left to gain."""

import math
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.fits.results.between_points import FAR, rounding_of, warn_if_far
from tfjac.graph import as_tf_variable
from tfjac.keras.levenberg_marquardt import LevenbergMarquardt
from tfjac.steps.converge import Stretch, Tolerances, first_cost_by, standing_of, status_after, tolerances
from tfjac.steps.statuses import Status
from tfjac.types import Logs


class StepMonitor(keras.callbacks.Callback):
    """Adds to the logs of each epoch how its steps went: progress bar, History, TensorBoard.

    `damping` is λ for the next step, `gain_ratio` ρ of the last attempt, `gradient_norm` max |g| before the last step
    (both NaN before the first one), `accepted_steps` the number of steps accepted in the epoch; with Bayesian
    regularisation there are `effective_parameters` γ and `noise_level` σ, too. Put it before the callbacks that are to
    see its logs; History always comes last.

    With `memory="epoch"` it tells the optimizer of epochs, as no other callback does.

    If there are validation data, and their loss ends at a hundred times the loss or more, it warns: what was found
    holds at the examples alone. It warns as well if the loss ends finite, and theirs does not. So have points in
    between as the validation data of a network that solves an equation.

    Args:
        patience: stop training after so many epochs in a row in which every step was rejected; None never stops.
    """

    _keeps_lowest = False
    """Whether the weights that remain are those of the lowest validation loss."""

    def __init__(self, patience: int | None = None) -> None:
        super().__init__()
        self.patience = None if patience is None else positive_integer("patience", patience)
        self._accepted = self._taken = self._idle = 0
        self._losses: tuple[float, float] | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Check the optimizer, and count from here."""
        if not isinstance(self.model.optimizer, LevenbergMarquardt):
            raise TypeError(
                f"{type(self).__name__} reads the state of a LevenbergMarquardt optimizer. "
                f"Received: a model compiled with {type(self.model.optimizer).__name__}"
            )
        self._accepted, self._taken, self._idle = self.model.optimizer.num_accepted, self.model.optimizer.num_steps, 0
        self._losses = None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Tell the optimizer, whose steps may be those of an epoch."""
        self.model.optimizer.begin_epoch(self.params.get("steps"))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Add to the logs, and stop where nothing moves any more."""
        optimizer = self.model.optimizer
        optimizer.warn_of_pitfalls()
        accepted, self._accepted = optimizer.num_accepted - self._accepted, optimizer.num_accepted
        if logs is not None:
            logs.update(self._shown(optimizer), accepted_steps=accepted)
            self._look_at_losses(logs.get("loss", math.nan), logs.get("val_loss"))
        if optimizer.num_steps > self._taken:
            self._idle, self._taken = 0 if accepted else self._idle + 1, optimizer.num_steps
        if self._idle == self.patience or (self.patience and optimizer.status is Status.GRADIENT_TOLERANCE):
            self.model.stop_training = True

    def keep_lowest(self) -> None:
        """Be told that the weights of the lowest validation loss are restored at the end."""
        self._keeps_lowest = True

    def _look_at_losses(self, trained: float, validated: float | None) -> None:
        """Keep the losses of the weights that remain, if this epoch had a validation."""
        if validated is None:
            return
        if not self._keeps_lowest or validated < (math.inf if self._losses is None else self._losses[1]):
            self._losses = trained, validated

    def on_train_end(self, logs: Logs = None) -> None:
        """Warn of examples that are met, and data of validation that are not."""
        if self._losses is None or not math.isfinite(self._losses[0]):
            return
        rounding = max((rounding_of(v.dtype) for v in self.model.trainable_variables), default=0.0) ** 2
        places = "on the training data", "on the validation data"
        warn_if_far("the loss", *places, *self._losses, FAR**2, rounding)

    def _shown(self, optimizer: Any) -> dict:
        report, precisions = optimizer.last_report, optimizer.precisions
        ratio, norm = (np.nan, np.nan) if report is None else (float(report.ratio), float(report.gradient_norm))
        shown = {"damping": optimizer.current_damping, "gain_ratio": ratio, "gradient_norm": norm}
        if precisions is not None:
            shown.update(effective_parameters=precisions.effective, noise_level=optimizer.noise_level)
        return shown


class Convergence(StepMonitor):
    """Stops training where a tolerance is met, as `least_squares` does, and says why; adds to the logs likewise.

        convergence = tfjac.callbacks.Convergence()
        model.fit(x, y, batch_size=len(x), epochs=1000, callbacks=[convergence])
        print(convergence.status, convergence.message)

    It looks at the last step of every call of the training function, and stops where in an epoch they all met a
    tolerance: with mini-batches, every one of them. As a step says where it started from, the next epoch must begin its
    last step at a point that meets one, too, unless no step was accepted. It stops as well where no damping helps any
    more, and where no step can be taken as the loss or its gradient is not finite. With sums over batches, calls
    between two steps do not count.

    Args:
        ftol, xtol, gtol: tolerances of the cost, the step and the gradient, as for `least_squares`: where None, √ε of
            the variables' dtype; zero switches one off.
        patience: as for `StepMonitor`.
        verbose: 1 to print the reason.

    Attributes:
        status: a `Status`, why training ended: a tolerance, STALLED, NOT_FINITE, or what the last step met where
            patience ran out; MAX_STEPS where the epochs were used up, STOPPED where another callback ended it.
    """

    def __init__(
        self,
        ftol: float | None = None,
        xtol: float | None = None,
        gtol: float | None = None,
        patience: int | None = None,
        verbose: Literal[0, 1] = 0,
    ) -> None:
        super().__init__(patience)
        self._given, self.verbose, self.status = (ftol, xtol, gtol), verbose, Status.RUNNING

    @property
    def message(self) -> str:
        """One sentence: why training ended."""
        return self.status.message

    def on_train_begin(self, logs: Logs = None) -> None:
        """Check the optimizer and the tolerances."""
        super().on_train_begin(logs)
        tolerances(*self._given, tf.float32)  # refuses what is none, before the first step
        self._limits: Tolerances | None = None
        self._first_cost = np.nan
        self.status, self._steps = Status.RUNNING, self.model.optimizer.num_steps
        self._met: list[Status] = []
        self._stood = False

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Judge the last step, where there is a new one."""
        report, steps = self.model.optimizer.last_report, self.model.optimizer.num_steps
        if steps == self._steps:
            return
        if self._limits is None:  # the first step may have built the model, so its dtype is known from here
            dtype = as_tf_variable(self.model.trainable_variables[0]).dtype
            self._limits, self._stretch = tolerances(*self._given, dtype), Stretch.begun(tf.zeros([], dtype))
        self._stretch = self._stretch.after(report, self._limits, steps - self._steps)
        self._steps = steps
        self._first_cost = float(first_cost_by(self._first_cost, report))
        standing = standing_of(report, self._limits, self._first_cost, self._stretch.is_long)
        status = Status(int(status_after(report, standing, self._limits)))
        status = Status(int(standing)) if status is Status.RUNNING else status
        self._met.append(Status(int(report.status)) if status is Status.STALLED else status)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Add to the logs, and stop where all steps of the epoch met a tolerance, or nothing moves any more."""
        (met, self._met), accepted = (self._met, []), self._accepted
        super().on_epoch_end(epoch, logs)
        finite = [each for each in met if each is not Status.NOT_FINITE]
        converged = bool(met) and all(each.converged for each in finite)
        still = self._accepted == accepted
        if (converged and (self._stood or still)) or (met and set(finite) == {Status.STALLED}):
            self.status = met[-1] if met == finite else Status.NOT_FINITE
            self.model.stop_training = True
        elif self._idle == self.patience:
            self.status = self.model.optimizer.status
        if met:
            self._stood = converged

    def on_train_end(self, logs: Logs = None) -> None:
        """Name what ended the training, where it was not this."""
        super().on_train_end(logs)
        if self.status is Status.RUNNING:
            self.status = Status.STOPPED if self.model.stop_training else Status.MAX_STEPS
        if self.verbose:
            print(self.message)
