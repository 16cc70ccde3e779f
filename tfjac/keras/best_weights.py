"""Which weights a training with validation data hands back, and when it ends by them; Ctrl-C."""

from typing import Any

import keras
import numpy as np

from tfjac._warn import warn
from tfjac.drive.interrupts import Interrupts
from tfjac.types import Logs


class BestWeights(keras.callbacks.Callback):
    """Restores the weights that had the lowest validation loss, and ends the training if it falls no more.

    A validation loss that is not finite is no lower one. If none is finite, the weights stay those of the last step.

    Args:
        patience: end after so many epochs without a lower validation loss.
    """

    def __init__(self, patience: Any) -> None:
        super().__init__()
        self._patience = patience

    def on_train_begin(self, logs: Logs = None) -> None:
        """Forget an earlier training."""
        self._lowest, self._weights, self._waited, self._said = np.inf, None, 0, False

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Keep the weights if they are better, and end the training if none have been for long."""
        loss = float((logs or {})["val_loss"])
        if loss < self._lowest:
            self._lowest, self._weights, self._waited = loss, self.model.get_weights(), 0
            return
        self._waited += 1
        if not np.isfinite(loss) and not self._said:
            self._said = True
            warn(
                "tfjac.fit: the validation loss is not finite. The training goes on, and these weights do not count as "
                "the best. Look for NaN and infinity in the validation data, targets and sample weights too: "
                f"np.isfinite(y).all(). Received: a validation loss of {loss}"
            )
        if self._weights is not None and self._waited >= self._patience:
            self.model.stop_training = True

    def on_train_end(self, logs: Logs = None) -> None:
        """Restore the best weights."""
        self.restore()

    def restore(self) -> None:
        """Restore the best weights, if there are any."""
        if self._weights is not None:
            self.model.set_weights(self._weights)


class StopOnInterrupt(keras.callbacks.Callback):
    """Ends the training after the step in which Ctrl-C was pressed.

    Args:
        interrupts: the `Interrupts` that notes it.
    """

    def __init__(self, interrupts: Interrupts) -> None:
        super().__init__()
        self._interrupts = interrupts

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """End the training if it was pressed."""
        if self._interrupts.pending:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """End the training if it was pressed during the validation."""
        self.on_train_batch_end(epoch)
