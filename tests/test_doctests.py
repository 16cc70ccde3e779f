"""The examples in docstrings of public functions print what they say."""

import doctest
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

WITH_EXAMPLE = (
    "batch_jacobian", "clipped_gradients", "count_flops", "curve_fit", "explain_gradient", "external", "hvp",
    "jacobian", "jacobian_operator", "jvp", "node_gradients", "per_example_gradient_norms",
    "per_example_gradients", "per_example_jacobian", "values_at", "vjp",
)  # fmt: skip


def examples():
    """Return name → doctest of the public names that have examples."""
    names = {"tfjac": tfjac, "tf": tf, "np": np, "keras": keras}
    parser = doctest.DocTestParser()
    found = {}
    for name in tfjac.__all__:
        text = inspect.getdoc(getattr(tfjac, name)) or ""
        test = parser.get_doctest(text, dict(names), name, None, 0)
        if test.examples:
            found[name] = test
    return found


def test_each_central_function_has_an_example():
    assert set(examples()) >= set(WITH_EXAMPLE)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name, test", [pytest.param(name, test, id=name) for name, test in examples().items()])
def test_example_prints_what_it_says(name, test):
    report = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert not report, "".join(report)
