"""What an optimizer remembers of graphs: the loss of the trace under way, and the functions it has traced."""

import collections
import threading

import tensorflow as tf


class LossOfTrace:
    """The loss seen by `scale_loss`, until `apply` asks for it; one for each thread that traces."""

    def __init__(self):
        self._losses = {}

    def keep(self, loss):
        """Remember the loss of this trace."""
        self._losses[threading.get_ident()] = loss

    def take(self):
        """Return the loss of this trace, and forget it.

        Raises:
            ValueError: where there is none, or it is of another graph.
        """
        loss = self._losses.pop(threading.get_ident(), None)
        if loss is None or loss.graph is not tf.compat.v1.get_default_graph():
            raise ValueError(
                "LevenbergMarquardt has not seen the loss of this training step. In a train_step of your own, call "
                "loss = optimizer.scale_loss(loss) before optimizer.apply(gradients, variables), in the same graph. "
                "With mixed_float16, Keras wraps the optimizer in a LossScaleOptimizer, which hides the loss: use "
                "float32. "
                f"Received: {'no loss' if loss is None else 'a loss of another graph'}"
            )
        return loss


class TraceCache:
    """Traced functions by what they were traced from; the least recently used one goes first.

    Args:
        size: how many to keep.
    """

    def __init__(self, size=8):
        self.size, self._functions = size, collections.OrderedDict()

    def get(self, key, make):
        """Return the function for `key`, from `make()` where there is none yet."""
        if key not in self._functions:
            self._functions[key] = make()
            if len(self._functions) > self.size:
                self._functions.popitem(last=False)
        self._functions.move_to_end(key)
        return self._functions[key]
