"""Functions on a graph that must not be edited, with edits at its nodes."""

import collections
import functools
import itertools
import types
from typing import Any

import keras
import tensorflow as tf

from tfjac.graph import (
    added_losses,
    after_effects,
    call_converted,
    copy_inside,
    copy_op,
    forget_with,
    holds_bodies,
    is_taped,
    keep_with,
    mark_op,
    passes_to_bodies,
    quiet_function,
    set_added_losses,
    set_gradient,
)
from tfjac.graph.nodes import OpType, described, is_tap, nodes_in, returned_by_layer, select, taps_layers, trace
from tfjac.interception.edits import as_edit, edited
from tfjac.interception.lost_edits import warn_of_gradients_inside, warn_of_what_no_gradient_reaches
from tfjac.types import Function, NestLike, Selector


def intercept(
    fn: Function,
    edits: dict[Selector, Any] | None = None,
    rules: dict[Selector, Any] | None = None,
) -> "Intercepted":
    """Return a function like `fn` with other values or gradients at nodes inside.

    The model stays as it is: the graph of `fn` is copied at each trace, with the edits in it. Variables are shared.
    Derivatives of what it returns, by `tf.GradientTape`, `tf.gradients` or any function of tfjac, are those with the
    edits. Without forward edits its values are those of `fn`, bit for bit.

    Args:
        fn: a Keras model, a function of tensors, a `tf.function`, or the signature of a loaded SavedModel.
        edits: dict from selectors to edits: an `Edit(forward=..., backward=...)`, or a handler `gradient -> gradient`
            alone, such as those of `tfjac.handlers`. An edit counts for every node that its selector selects: see
            `nodes` for these. Several at one node apply in the order given, so that gradients meet them in reverse.
        rules: dict from types of ops, as strings or `op_type(...)`, or other selectors of ops, to rules, each a
            function `(op, *output_gradients) -> input gradients`, as for `tf.RegisterGradient`: one for each input of
            the op, None for none. Where several select one op, the last counts.

    Returns:
        A function of the arguments of `fn`, for use inside a `tf.function` or eagerly.

    Raises:
        TypeError: for edits or rules that are none.
        ValueError: when it is called, for selectors that select nothing, with the nearest names; for an edit or rule
            that changes a shape or dtype.

    Cost: one more trace of `fn` for each trace of the result; when it runs, that of the edits alone.
    """
    return Intercepted(fn, edits or {}, rules or {})


class Intercepted:
    """What `intercept` returns.

    Attributes:
        fn: the function that was given.
    """

    def __init__(self, fn: Function, edits: dict[Selector, Any], rules: dict[Selector, Any]) -> None:
        """Check the arguments of `intercept`."""
        for name, given in (("fn", fn),):
            if not callable(given):
                raise TypeError(f"{name} must be callable. Received: {given!r} of type {type(given).__name__}")
        for name, table in (("edits", edits), ("rules", rules)):
            if not isinstance(table, dict):
                raise TypeError(
                    f"{name} must be a dict from selectors to {name}. "
                    f"Received: {table!r} of type {type(table).__name__}"
                )
        self.fn = fn
        self._edits = {selector: as_edit(edit) for selector, edit in edits.items()}
        self._rules = {selector: Rule(rule) for selector, rule in rules.items()}
        self._layers: list[Any] = []
        self._traced = quiet_function(self._in_graph)
        self.__name__, self.__doc__ = getattr(fn, "__name__", type(fn).__name__), getattr(fn, "__doc__", None)

    def __getattr__(self, name):
        """What else the function has, such as the variables of a model; no methods, which know nothing of the edits."""
        if name == "fn" or name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self.fn, name)
        if callable(value) and not isinstance(value, keras.Layer):
            raise AttributeError(
                "What tfjac.intercept returns is called, and has no methods: those of the function that was given, its "
                "attribute fn, would run without the edits. For fit and predict put a tfjac.hook on layers of the "
                f"model, or make a keras.Model that calls this. Received: {name!r}"
            )
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> NestLike:
        """Call the function with the edits."""
        if not tf.executing_eagerly() and not is_taped():
            return self._in_graph(*args, **kwargs)[0]
        results, losses = self._traced(*args, **kwargs)
        for layer, values in zip(self._layers, losses):
            if values is not None:
                set_added_losses(layer, values)
        return results

    def _in_graph(self, *args, **kwargs):
        """Return what the function returns, and for each of `_layers` its losses, None where it was not called."""
        traced = trace(python_function(self.fn), *args, **kwargs)
        nodes = nodes_in(traced.graph, traced.graph.outputs)
        changes, edited, backwards = Changes(), [], []
        for selector, edit in self._edits.items():
            for node in select(nodes, selector):
                changes.add_edit(node, edit)
                edited.append(node)
                backwards += [node] if edit.backward is not None else []
        for selector, rule in self._rules.items():
            for node in _ops_selected(nodes, selector):
                changes.add_rule(node, rule)
                backwards.append(node)
        warn_of_what_no_gradient_reaches(backwards, traced.graph)
        warn_of_gradients_inside(edited + backwards, nodes)
        results = traced.place(changes.at())
        self._layers += [layer for layer in traced.losses.layers if layer not in self._layers]
        called = set(map(id, traced.losses.layers))
        return results, [added_losses(layer) if id(layer) in called else None for layer in self._layers]


def python_function(fn):
    """Return the Python function behind a `tf.function`, so that it is traced again; what else there is, as it is."""
    return getattr(fn, "python_function", fn)


def _ops_selected(nodes, selector):
    """The nodes whose ops a rule is for."""
    ops = nodes.where(kind="op")
    if isinstance(selector, str) and any(node.op_type == selector for node in ops):
        return select(ops, OpType(selector))
    if isinstance(selector, types.FunctionType):  # a predicate chooses among ops
        return select(ops, selector)
    found = select(nodes, selector)
    wrong = next((node for node in found if node.kind != "op"), None)
    if wrong is not None:
        raise ValueError(
            f"A rule is for ops, and a {wrong.kind} is none: select ops by their type, by a name or glob such as those "
            "that tfjac.nodes lists, 'dense/*', or by a function of a node. "
            f"Received: {described(selector)}, which selects {wrong}"
        )
    return found


class Changes:
    """What is changed where: the `edit` of a copy."""

    def __init__(self):
        """Start with no change."""
        self._edits, self._rules, self._places = collections.defaultdict(list), {}, set()
        self._keep_taps = taps_layers()

    def add_edit(self, node, edit):
        """Have an `Edit` applied at a node, after those that were added before."""
        self._edits[node.key].append((edit, node))
        self._add_place(node)

    def add_rule(self, node, rule):
        """Have the op of a node take its gradient by a `Rule`."""
        self._rules[node.key[:-1]] = rule
        self._add_place(node)

    def _add_place(self, node):
        self._places |= {node.place[: depth + 1] for depth in range(len(node.place))}

    def at(self, place=()):
        """Return the `edit` of `copy_ops` in the function at this place, as in `Node.place`."""
        return functools.partial(self._apply, place)

    def _apply(self, place, op, inputs, copied):
        if is_tap(op):  # what bears the name afterwards is the result of the edits, for edits that are put on later
            value = self._edited((*place, op.name, 0), inputs[0])
            return list(copy_op(op, [value]).outputs) if self._keep_taps or not returned_by_layer(op) else [value]
        outputs = self._outputs(place, op, inputs, copied)
        return [self._edited((*place, op.name, index), value) for index, value in enumerate(outputs)]

    def _edited(self, key, value):
        for edit, node in self._edits.get(key, ()):
            value = edited(value, edit, node)
        return value

    def _outputs(self, place, op, inputs, copied):
        rule = self._rules.get((*place, op.name))
        if rule is not None:
            copy = copy_op(op, inputs)
            rule.replace_gradient(copy)
            mark_op(copy, f"a rule of tfjac.intercept for {op.name!r}")
            return list(copy.outputs)
        if holds_bodies(op) and (passes_to_bodies(op) or self._changed_inside(place, op)):
            return copy_inside(op, inputs, lambda attribute, index: self.at((*place, (op.name, attribute, index))))
        return list(copied())

    def _changed_inside(self, place, op):
        return any(each[:-1] == place and each[-1][0] == op.name for each in self._places)


_numbers = itertools.count()


class Rule:
    """A rule under the name by which TensorFlow knows it, which lives as long as the graphs in which it is used."""

    def __init__(self, function):
        """Register a function `(op, *output_gradients) -> input gradients`.

        Raises:
            TypeError: where it is not callable.
        """
        if not callable(function):
            raise TypeError(
                "A rule must be a function of an op and the gradients with respect to its outputs. "
                f"Received: {function!r} of type {type(function).__name__}"
            )
        self._function, self.name = function, f"TfjacRule{next(_numbers)}"
        self._gradient = self._gradients  # one object, which can be referred to weakly
        tf.RegisterGradient(self.name)(self._gradient)
        forget_with(self._gradient, self.name)

    def replace_gradient(self, op):
        """Have gradients through `op` taken by the rule."""
        set_gradient(op, self.name)
        keep_with(op.graph, self._gradient)

    def _gradients(self, op, *output_gradients):
        return after_effects(lambda: self._called(op, output_gradients))

    def _called(self, op, output_gradients):
        given = call_converted(self._function, op, *output_gradients)
        gradients = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(gradients) != len(op.inputs):
            raise ValueError(
                f"A rule must return a gradient, or None, for each input of the op: {len(op.inputs)} for "
                f"{op.name!r} of type {op.type}. Received: {len(gradients)}"
            )
        return [_checked(gradient, tensor, op) for gradient, tensor in zip(gradients, op.inputs)]


def _checked(gradient, tensor, op):
    if gradient is None:
        return None
    if not isinstance(gradient, tf.IndexedSlices):
        gradient = tf.convert_to_tensor(gradient)
    if gradient.dtype != tensor.dtype or not gradient.shape.is_compatible_with(tensor.shape):
        raise ValueError(
            f"A rule must return gradients like the inputs of the op: {tensor.shape}, {tensor.dtype.name} for "
            f"{tensor.name!r} of {op.name!r} of type {op.type}. Received: {gradient.shape}, {gradient.dtype.name}"
        )
    return gradient
