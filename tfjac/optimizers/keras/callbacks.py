"""A Keras callback that shows how the steps of `LevenbergMarquardt` go."""

import keras

from tfjac.optimizers.keras.levenberg_marquardt import LevenbergMarquardt
from tfjac.optimizers.options import positive_integer
from tfjac.optimizers.statuses import Status


class StepMonitor(keras.callbacks.Callback):
    """Adds `damping`, `gain_ratio` and `accepted_steps` to the logs of each epoch: progress bar, History, TensorBoard.

    `damping` is λ for the next step, `gain_ratio` ρ of the last attempt, `accepted_steps` the number of steps accepted
    in the epoch. Put it before the callbacks that are to see its logs; History always comes last.

    Args:
        patience: stop training after so many epochs in a row without an accepted step; None never stops.
    """

    def __init__(self, patience=None):
        super().__init__()
        self.patience = None if patience is None else positive_integer("patience", patience)
        self._accepted = self._idle = 0

    def on_train_begin(self, logs=None):
        """Check the optimizer, and count from here."""
        if not isinstance(self.model.optimizer, LevenbergMarquardt):
            raise TypeError(
                "StepMonitor reads the state of a LevenbergMarquardt optimizer. "
                f"Received: a model compiled with {type(self.model.optimizer).__name__}"
            )
        self._accepted, self._idle = self.model.optimizer.num_accepted, 0

    def on_epoch_end(self, epoch, logs=None):
        """Add to the logs, and stop where nothing moves any more."""
        optimizer = self.model.optimizer
        accepted, self._accepted = optimizer.num_accepted - self._accepted, optimizer.num_accepted
        if logs is not None:
            logs["damping"], logs["gain_ratio"] = optimizer.current_damping, optimizer.last_ratio
            logs["accepted_steps"] = accepted
        self._idle = 0 if accepted else self._idle + 1
        if self._idle == self.patience or (self.patience and optimizer.status is Status.GRADIENT_TOLERANCE):
            self.model.stop_training = True
