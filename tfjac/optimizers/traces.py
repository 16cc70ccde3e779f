"""What an optimizer remembers of graphs: the loss of the trace under way, and the functions it has traced."""

import collections
import threading
import weakref
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.optimizers.callables import anchors, objects_read


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
    """Traces of functions of the user's, the least recently used of which goes first.

    A trace is used again for the same function, variables and options as long as the function still reads the same
    objects (`objects_read`). Functions and variables are held weakly: a trace goes when one of them does.

    Args:
        size: how many to keep.
    """

    def __init__(self, size=8):
        self.size, self._kept = size, collections.OrderedDict()

    def get(self, function, variables, options, trace):
        """Return what `trace()` returned for this function, these variables and options; call it if it is to be.

        Args:
            function: callable without arguments.
            variables: list of the variables.
            options: hashable.
            trace: callable without arguments; what it returns must not refer to `function`.
        """
        owners = [*anchors(function), *variables]
        key = (*(id(owner) for owner in owners), options)
        kept = self._kept.pop(key, None)
        if kept is None or not (kept.owners.are(owners) and kept.read.are(objects_read(function))):
            kept = None  # frees the old trace before there is another
            result = trace()
            kept = _Kept(result, _Objects(owners, self._forget(key)), _Objects(objects_read(function)))
        self._kept[key] = kept
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)
        return kept.result

    def _forget(self, key):
        """Return the callback that drops the entry of `key`."""
        kept = self._kept
        return lambda _: kept.pop(key, None)


class _Objects:
    """Objects as they are, known by identity (bytes by their value); held weakly where they allow it."""

    def __init__(self, objects, when_gone=None):
        self._held = [_held(item, when_gone) for item in objects]

    def are(self, objects):
        """Return whether these are the same objects in the same order."""
        return len(objects) == len(self._held) and all(_same(held(), x) for held, x in zip(self._held, objects))


def _same(x, y):
    return x is y or (type(x) is type(y) is bytes and x == y)


def _held(item, when_gone):
    try:
        return weakref.ref(item, when_gone)
    except TypeError:  # numbers, strings, lists and their like
        return lambda: item


class _Kept(NamedTuple):
    """A trace, the function and variables that it is of, and what that function read when it was traced."""

    result: Any
    owners: _Objects
    read: _Objects
