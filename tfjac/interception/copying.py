"""Copies of a graph with edits and rules at some of its nodes."""

import collections
import functools

from tfjac.graph import copy_inside, copy_op, holds_bodies, mark_op, passes_to_bodies
from tfjac.graph.nodes import is_tap, returned_by_layer, taps_layers
from tfjac.interception.edits import edited


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
