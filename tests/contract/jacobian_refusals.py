"""Combinations of Jacobians that are refused, with the words of the error and the reason: the one table of them.

`python -m tests.contract.jacobian_refusals` prints docs/combinations_of_jacobians.md.
"""

from typing import NamedTuple

import tfjac

PER_EXAMPLE = (
    "per_example_jacobian",
    "per_example_gradients",
    "per_example_gradient_norms",
    "clipped_gradients",
    "jacobian_operator: matvec, adjoint, split",
    "jacobian_operator: gram, kernel",
    "jacobian_operator: norms, to_dense",
    "batch_jacobian",
)
OF_INPUTS = ("batch_jacobian", "sparse_jacobian")


class Refusal(NamedTuple):
    """Combinations that raise an error, by name."""

    what: str
    where: dict  # axis -> values, all of which must fit
    error: type
    words: str  # in the message
    reason: str


REFUSALS = [
    Refusal(
        "integer inputs",
        {"function": OF_INPUTS, "family": ("attention",)},
        TypeError,
        "floating",
        "Words are numbers of rows in a table: nothing can be differentiated with respect to them.",
    ),
    Refusal(
        "examples that mix",
        {"function": PER_EXAMPLE, "family": ("mixing",), "option": ("default", "chunk", "budget", "verify", "norms")},
        tfjac.ExamplesMix,
        "depend on one another",
        'Batch normalisation in training mode: an example has no Jacobian apart from the others. `examples_mix="full"` '
        "gives the full one.",
    ),
    Refusal(
        "sparse Jacobians with an open batch, in a `tf.function`",
        {"function": ("sparse_jacobian",), "batch": ("open",), "execution": ("function", "xla")},
        ValueError,
        "needs xs of static shapes",
        "The pattern and the colours are worked out while tracing, so the number of rows and columns must be known.",
    ),
    Refusal(
        "sparse Jacobians through a loop in a function that was traced with an open batch",
        {"function": ("sparse_jacobian",), "batch": ("open",), "execution": ("eager",), "family": ("lstm",)},
        ValueError,
        "needs shapes that are known while tracing",
        "The sizes of what the user calls are known outside of the loop, but not inside of it.",
    ),
]
