"""The table from op type to rule: from the index sets of an op's inputs to those of its outputs.

A rule is `rule(step) -> list`, one boolean matrix per output, or None for an output that depends on nothing. It raises
`NoRule` where it does not know; every output element then depends on all that any input depends on.
"""

import dataclasses

import tensorflow as tf

from tfjac.graph import registering
from tfjac.jacobians.sparsity.fixed_values import FixedValues
from tfjac.jacobians.sparsity.index_sets import linked, union

_RULES = {}


class NoRule(Exception):
    """What the outputs depend on is not known."""


@dataclasses.dataclass
class Step:
    """An op that index sets are carried through.

    Attributes:
        op: the op.
        patterns: for each input its index sets, or None where it does not depend on x.
        fixed: gives the value of a tensor that is the same in every run, or None.
    """

    op: tf.Operation
    patterns: list
    fixed: FixedValues

    @property
    def carriers(self):
        """Positions of the inputs that depend on x."""
        return [k for k, pattern in enumerate(self.patterns) if pattern is not None]

    def shape(self, k):
        """Static sizes of input k."""
        return self.op.inputs[k].shape.as_list()

    def out_shape(self, k=0):
        """Static sizes of output k."""
        return self.op.outputs[k].shape.as_list()

    def value(self, k):
        """Return the value of input k, which must be fixed."""
        value = self.fixed(self.op.inputs[k])
        if value is None:
            raise NoRule(f"its input {k} is unknown until it runs")
        return value

    def linked(self, k, labels, out_labels, output=0):
        """Return what output elements depend on through input k, by labels of axes; see `index_sets.linked`."""
        return linked(self.patterns[k], labels, self.shape(k), out_labels, self.out_shape(output))


rule = registering(_RULES)
"""Register a rule for `op_types`."""


def index_sets_of(step):
    """Return the index sets of the outputs of `step.op`.

    Raises:
        NoRule: where nothing is known about ops of this type, or about this use of one, or where its gradient is a
            custom one.
    """
    if step.op.type not in _RULES:
        raise NoRule("nothing is known about ops of this type")
    if "_gradient_op_type" in step.op.node_def.attr:
        raise NoRule("it has a custom gradient, which may be anything")
    return _RULES[step.op.type](step)


def all_of_all(step):
    """The index sets where nothing is known: every output element depends on everything."""
    return [
        union([linked(step.patterns[k], [None], [step.patterns[k].shape[0]], [None], [size]) for k in step.carriers])
        for size in (output.shape.num_elements() for output in step.op.outputs)
    ]
