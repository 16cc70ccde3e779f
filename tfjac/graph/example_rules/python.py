"""Python functions in a graph: nothing shows what they do with examples, so it is for whoever calls them to say."""

from tfjac.graph import _private
from tfjac.graph.example_rules.registry import SHARED, NoRule, rule

_DECLARED = "_tfjac_per_example"
"""The attribute of an op that was declared to keep examples apart."""


def declare_per_example(op):
    """Say of an op that calls Python that row n of its outputs comes from rows n of its inputs alone."""
    _private.set_integers_attribute(op, _DECLARED, [1])


@rule("EagerPyFunc", "PyFunc", "PyFuncStateless")
def _python(op, axis, wanted):
    """Examples run along axis 0 of every input, where this was declared."""
    if _private.integers_attribute(op, _DECLARED) is None:
        raise NoRule(
            "what a Python function does with examples cannot be seen; where it treats rows independently, call it by "
            "tfjac.external(..., per_example=True)"
        )
    if axis.axis != 0:
        raise NoRule(f"it carries the examples along axis {axis.axis}, and was declared for rows")
    return [SHARED if tensor.shape.rank == 0 else axis for tensor in op.inputs]
