"""The loss of a training step that Keras traces: seen by `scale_loss` of an optimizer, used by its `apply`."""

import sys
import threading

import keras
import tensorflow as tf

from tfjac.graph import _private
from tfjac.types import Tensor


class SeenLoss:
    """The loss seen by `scale_loss`, until `apply` asks for it; one for each thread that traces.

    Args:
        owner: name of the optimizer, for errors.
        otherwise: what to do where there is no graph, for errors.
    """

    def __init__(self, owner: str, otherwise: str) -> None:
        self._owner, self._otherwise = owner, otherwise
        self._losses: dict[int, Tensor] = {}

    def keep(self, loss: Tensor) -> None:
        """Remember the loss of this trace.

        Raises:
            ValueError: in eager execution.
        """
        self._check_tracing()
        self._losses[threading.get_ident()] = loss

    def take(self) -> Tensor:
        """Return the loss of this trace, and forget it.

        Raises:
            ValueError: where there is none, or it is of another graph; in eager execution.
        """
        self._check_tracing()
        loss = self._losses.pop(threading.get_ident(), None)
        if loss is None and _scales_losses():
            raise _private.passed_on_as_it_is(
                ValueError(
                    f"{self._owner} does not go with mixed_float16: Keras wraps the optimizer in a LossScaleOptimizer, "
                    "which hides the loss. Use float32: keras.config.set_dtype_policy('float32') before the model is "
                    "made. Received: a call by LossScaleOptimizer"
                )
            )
        if loss is None or loss.graph is not tf.compat.v1.get_default_graph():
            raise ValueError(
                f"{self._owner} has not seen the loss of this training step. In a train_step or loop of your own, call "
                "loss = optimizer.scale_loss(loss) before optimizer.apply(gradients, variables), and have both, and "
                "the tape, in the same tf.function. "
                f"Received: {'no loss' if loss is None else 'a loss of another graph'}"
            )
        return loss

    def _check_tracing(self) -> None:
        """Raise ValueError in eager execution, where a loss has no graph that could be read."""
        if tf.executing_eagerly():
            raise ValueError(
                f"{self._owner} reads the graph of the loss, and eager execution has none. Compile the model with "
                "run_eagerly=False. In a loop of your own, have the tape, loss = optimizer.scale_loss(loss) and "
                f"optimizer.apply in the same tf.function, or {self._otherwise}. Received: eager execution"
            )


def _scales_losses() -> bool:
    """Return whether an optimizer that scales losses is what calls: it hides the loss from the one that it holds."""
    frame = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), keras.optimizers.LossScaleOptimizer):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None
