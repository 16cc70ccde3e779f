"""A copy of what some tensors are computed from, in a graph of its own: what is added there is seen there alone."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.copying.rebuilding import rebuilt
from tfjac.graph.copying.transplanting import transplant
from tfjac.graph.facts import is_loop, is_parameter
from tfjac.graph.reading.traversal import ancestors
from tfjac.types import Array, Tensor


class Scratch:
    """A copy of what tensors of one graph are computed from, calls inlined. Side effects are left behind.

    Attributes:
        graph: the `tf.Graph` that it is in.
        ys: copies of the tensors.
    """

    def __init__(self, ys: Sequence[Tensor]) -> None:
        """Copy what `ys`, a list of tensors of one graph, are computed from."""
        found = [op.outputs[0] for op in ancestors(ys) if is_parameter(op)]
        external = {inner.ref(): outer for outer, inner in _private.captures_of(ys[0].graph)}
        with tf.Graph().as_default() as self.graph:
            parameters = [(old, _parameter(old)) for old in found]
            self._copies = transplant(ys, parameters, _with_rewritten_loops)
            self.ys = inline_calls([self._copies[y.ref()] for y in ys], draw_again=True)
        self._given: list[tuple[Tensor | Any, Tensor]] = [(external.get(old.ref()), new) for old, new in parameters]

    def of(self, tensor: Tensor | None) -> Tensor | None:
        """Return the copy of a tensor, or None where the ys are not computed from it."""
        return None if tensor is None else self._copies.get(tensor.ref())

    def without_value(self) -> list[Tensor]:
        """Return the parameters, as they are called here, that have no value outside, such as arguments: a list."""
        return [new for outer, new in self._given if not _has_value(outer, new)]

    def gradients(self, xs: Sequence[Tensor]) -> list[Tensor | None]:
        """Add the gradients of the sum of the ys with respect to tensors of the copy, and return them: a list."""
        with self.graph.as_default():
            anyway = any(y.dtype.is_complex for y in self.ys)  # only real ones are given cotangents by TensorFlow
            found = tf.gradients(self.ys, xs, [tf.ones_like(y) for y in self.ys] if anyway else None) if xs else []
            return [None if gradient is None else getattr(gradient, "values", gradient) for gradient in found]

    def session(self) -> tuple[tf.compat.v1.Session, dict[Tensor, Array]]:
        """Return a `tf.compat.v1.Session` in which the variables have their values, and the values to feed: a dict.

        Graphs are run as they are, not optimised, so that every op is what it was.
        """
        options = tf.compat.v1.ConfigProto()
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        options.graph_options.optimizer_options.opt_level = -1
        data = [(outer.numpy(), new) for outer, new in self._given if new.dtype != tf.resource]
        held = [(_read(outer, new), new) for outer, new in self._given if new.dtype == tf.resource]
        with self.graph.as_default():
            places = [tf.compat.v1.placeholder(value.dtype, value.shape) for value, _ in held]
            assignments = [tf.raw_ops.AssignVariableOp(resource=new, value=at) for (_, new), at in zip(held, places)]
        session = tf.compat.v1.Session(graph=self.graph, config=options)
        session.run(assignments, {at: value for at, (value, _) in zip(places, held)})
        return session, {new: value for value, new in data}


def _has_value(outer: Tensor | None, new: Tensor) -> bool:
    known = outer is not None and not tf.is_symbolic_tensor(outer)
    return known and (new.dtype != tf.resource or _private.handle_spec(new) is not None)


def _read(handle: Tensor, new: Tensor) -> Array:
    """The value of the variable that `handle` stands for outside, and `new` in the copy."""
    dtype = _private.handle_spec(new).dtype
    with tf.init_scope():
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype).numpy()


def _parameter(old: Tensor) -> Tensor:
    """What stands for a parameter: a variable for a variable, so that loops that read it know its shape."""
    spec, name = _private.handle_spec(old), old.op.name
    if spec is not None:
        new = tf.raw_ops.VarHandleOp(dtype=spec.dtype, shape=spec.shape, shared_name=name, name=name)
    else:
        new = tf.compat.v1.placeholder(old.dtype, old.shape, name)
        _private.copy_handle_data(old, new)
    _private.copy_traceback(old.op, new.op)
    return new


def _with_rewritten_loops(
    op: tf.Operation, inputs: Sequence[Tensor], copied: Callable[[], Sequence[Tensor]]
) -> Sequence[Tensor]:
    """Loops written again: TensorFlow's gradient of a copy of one forgets the shapes of the variables in it."""
    if not is_loop(op):
        return copied()
    return rebuilt(op, inputs, lambda targets, values: transplant(targets, values, _with_rewritten_loops))
