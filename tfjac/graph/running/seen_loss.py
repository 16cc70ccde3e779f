"""The loss of a training step that Keras traces: seen by `scale_loss` of an optimizer, used by its `apply`."""

import threading

import tensorflow as tf

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
        if loss is None or loss.graph is not tf.compat.v1.get_default_graph():
            raise ValueError(
                f"{self._owner} has not seen the loss of this training step. In a train_step or loop of your own, call "
                "loss = optimizer.scale_loss(loss) before optimizer.apply(gradients, variables), and have both, and "
                "the tape, in the same tf.function. "
                "With mixed_float16, Keras wraps the optimizer in a LossScaleOptimizer, which hides the loss: use "
                "float32. "
                f"Received: {'no loss' if loss is None else 'a loss of another graph'}"
            )
        return loss

    def _check_tracing(self) -> None:
        """Raise ValueError in eager execution, where a loss has no graph that could be read."""
        if tf.executing_eagerly():
            raise ValueError(
                f"{self._owner} reads the graph of the loss, and eager execution has none. Compile the model with "
                f"run_eagerly=False, or {self._otherwise}. In a loop of your own, have the tape and optimizer.apply in "
                "the same tf.function. Received: eager execution"
            )
