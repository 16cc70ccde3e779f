"""Combinations of Jacobians that are refused, with the words of the error and the reason: the one table of them.

`python -m tests.contract.jacobian_refusals > docs/combinations_of_jacobians.md` writes the page with it.
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


class Mistake(NamedTuple):
    """Combinations that are known to be wrong, or to crash."""

    where: dict  # axis -> values, all of which must fit
    reason: str
    crashes: bool = False  # the process: never tried in it


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
        "xs must be of a floating-point dtype",
        "Words are numbers of rows in a table: nothing can be differentiated with respect to them.",
    ),
    Refusal(
        "examples that mix",
        {
            "function": PER_EXAMPLE,
            "family": ("mixing",),
            "option": ("default", "chunk", "budget", "verify", "norms", "zero"),
        },
        tfjac.ExamplesMix,
        "examples mix at op",
        'Batch normalisation in training mode: an example has no Jacobian apart from the others. `examples_mix="full"` '
        "gives the full one, where a function has it.",
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

MISTAKES: list = []

_PAGE = """# Combinations of Jacobians

Which choices work together. Functions that take Jacobians were tried with models (dense, convolutions with strides and
groups, LSTM, attention with embeddings, normalisation, tied weights, functions inside functions, loaded SavedModels),
batch sizes that are known while tracing and batch sizes that are left open, eagerly, in a `tf.function` and under XLA,
in float32, float64 and mixed_bfloat16, with each option that a function has. Every pair of such choices gives what one
gradient per row gives in float64, or is refused with an error that is in the table below. What does neither is listed
at the end. `tests/contract/test_jacobians.py` holds that.

## Options

| function | options |
| --- | --- |
{options}

Under XLA `verify=True` gives the result and warns that it was not verified.

## Refusals

| what | where | error | why |
| --- | --- | --- | --- |
{refusals}

## Known mistakes

{mistakes}
"""


def page(options):
    """Return docs/combinations_of_jacobians.md.

    Args:
        options: for the name of each function, the options it has, as text.
    """
    rows = [f"| `{name.partition(':')[0]}`{name.partition(':')[2]} | {text} |" for name, text in options.items()]
    refusals = [
        f"| {each.what} | {_functions(each)} | `{each.error.__name__}`: “… {each.words} …” | {each.reason} |"
        for each in REFUSALS
    ]
    mistakes = [f"- {mistake.reason}" for mistake in MISTAKES] or ["None."]
    return _PAGE.format(options="\n".join(rows), refusals="\n".join(refusals), mistakes="\n".join(mistakes))


def _functions(refusal):
    """The public functions that refuse, each named once."""
    return ", ".join(dict.fromkeys(f"`{name.partition(':')[0]}`" for name in refusal.where["function"]))


if __name__ == "__main__":
    from tests.contract.jacobian_functions import options_in_words

    print(page(options_in_words()), end="")
