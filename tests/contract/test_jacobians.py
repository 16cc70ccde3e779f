"""Every pair of choices that users of Jacobians make works, or is refused by name."""

import contextlib
import pathlib
import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests import processes
from tests.contract.jacobian_cases import examples_of, working_pairs, working_triples
from tests.contract.jacobian_functions import FUNCTIONS, OPTIONS, Setting, expected, options_in_words
from tests.contract.jacobian_models import subject
from tests.contract.jacobian_oracle import oracle
from tests.contract.jacobian_refusals import MISTAKES, REFUSALS, page

TOLERANCE = {"float32": 2e-4, "float64": 1e-6, "mixed_bfloat16": 0.1}
# What counts as zero, by the largest element of all tensors. In bfloat16 a sum that cancels (a bias before a batch
# normalization) keeps a few ε = 1/256 of its terms, and processors differ in which. In float32 these are 3.4 ε.
NEGLIGIBLE = {"float32": 2e-3, "float64": 1e-3, "mixed_bfloat16": 0.15}


def known_mistakes():
    """Cases that fail today, and must be taken off the table on the day that they do not."""
    for mistake in MISTAKES:
        marks = [pytest.mark.xfail(strict=True, reason=mistake.reason)]
        marks += [pytest.mark.by_day(None)] if mistake.crashes else []  # a process of its own takes long
        for case in examples_of(mistake)[:3]:
            yield pytest.param(case, mistake.crashes, marks=marks, id=str(case))


def compute(case):
    """Call the function as the case says, and return a nest of tensors."""
    model = subject(case.family, case.policy, case.batch)
    compute, truth = FUNCTIONS[case.function].compute, oracle(case.family)

    def ask(ys, x):
        return compute(Setting(ys, x, model.variables, OPTIONS[case.option], truth))

    spec = tf.TensorSpec([None if case.batch == "open" else len(model.x), *model.x.shape[1:]], model.x.dtype)
    x = tf.constant(model.x)
    if case.execution == "eager":
        call = tf.function(model.call, input_signature=[spec]) if case.batch == "open" else model.call
        return ask(lambda: call(x), x)

    @tf.function(input_signature=[spec], jit_compile=case.execution == "xla")
    def traced(x):
        return ask(model.call(x) if case.given == "tensor" else lambda: model.call(x), x)

    return traced(x)


@contextlib.contextmanager
def warned_if_unverified(case):
    """XLA drops what verifies a result, which a warning says; elsewhere nothing goes unverified."""
    if case.option == "verify" and case.execution == "xla":
        with pytest.warns(match="verif"):
            yield
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*verif")
            yield


def assert_agrees(case):
    """Compare with the oracle, where the largest element of a tensor is the measure of its error."""
    with warned_if_unverified(case):
        results = tf.nest.flatten(compute(case))
    wanted = expected(case.function, case.option, oracle, case.family)
    assert [tuple(result.shape) for result in results] == [np.shape(value) for value in wanted]
    largest = max(np.abs(value).max() for value in wanted)
    for result, value in zip(results, wanted):
        error = np.abs(tf.cast(result, tf.float64).numpy() - value).max()
        assert error <= TOLERANCE[case.policy] * max(np.abs(value).max(), NEGLIGIBLE[case.policy] * largest)


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("case", working_pairs(), ids=str)
def test_pairs_work(case):
    assert_agrees(case)


@pytest.mark.by_day(one_in=109)
@pytest.mark.parametrize("case", working_triples(), ids=str)
def test_triples_work(case):
    assert_agrees(case)


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize(
    "refusal, case",
    [pytest.param(refusal, case, id=str(case)) for refusal in REFUSALS for case in examples_of(refusal)],
)
def test_what_is_refused_is_refused_by_name(refusal, case):
    with pytest.raises(refusal.error, match=refusal.words):
        compute(case)


@pytest.mark.parametrize("case, crashes", list(known_mistakes()))
def test_known_mistakes(case, crashes):
    if crashes:
        imports = "from tests.contract import jacobian_cases, test_jacobians"
        processes.run(f"{imports}\ntest_jacobians.assert_agrees(jacobian_cases.Case(*{tuple(case)}))")
    else:
        assert_agrees(case)


def test_the_page_has_the_table():
    """After a change: python -m tests.contract.jacobian_refusals > docs/combinations_of_jacobians.md."""
    path = pathlib.Path(__file__).parents[2] / "docs" / "combinations_of_jacobians.md"
    assert path.read_text() == page(options_in_words())
