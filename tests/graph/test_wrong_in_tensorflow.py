"""The list of ops that are not left to TensorFlow, held against what the sweep found."""

import pytest

from tests.sweep import report
from tests.sweep.samples import SAMPLES
from tfjac.graph.gradients import mending, vectorising

FOUND = report.kept()
pytestmark = pytest.mark.skipif(FOUND is None, reason=f"`python -m tests.sweep` has not run on {report.VERSION}")
OF_A_FAMILY = {
    "FakeQuantWithMinMaxArgsGradient": "as FakeQuantWithMinMaxVarsGradient",
    "FakeQuantWithMinMaxVarsPerChannelGradient": "as FakeQuantWithMinMaxVarsGradient",
    **dict.fromkeys(["Acos", "Acosh", "Asin", "Cosh", "Elu", "Erf", "Erfc", "Expm1", "LeakyRelu", "Relu6"], "as Mul"),
    **dict.fromkeys(["Relu", "Selu", "Sqrt"], "as Mul"),
    "Atan2": "its gradient is NaN at the origin, where no sample is",
    "MaxPoolGradV2": "as MaxPoolGrad, whose kernel it shares",
    "Case": "as If",
    "Div": "as Mul",
    "If": "its gradient is right, but for shapes of branches that differ",
    "MatrixDiagPartV3": "its samples have no value that pads",
    "Mul": "its gradient is NaN where one of slope and cotangent is zero, the other infinite, as no sample has it",
    "Polygamma": "its order is an integer, and has no differences",
    "RaggedFillEmptyRows": "it has no second derivative",
    "RealDiv": "as Mul",
    "ResizeArea": "it has none in TensorFlow",
    "SparseDenseCwiseDiv": "its sample has a dense tensor of the same rank",
    "SparseDenseCwiseMul": "likewise",
    "StatelessCase": "as If",
    "Transpose": "XLA refuses the permutation of one in a loop",
}
"""Ops of the list that the sweep has nothing against, and why they are there."""


NOT_FINITE = {"unsorted_segment_prod with a zero"}
"""Samples at which a second derivative is no number, which at least shows."""


def test_the_package_is_nowhere_wrong():
    wrong = {name for name, ways in FOUND["deviations"].items() if "package" in ways.get("wrong", "")}
    assert wrong == NOT_FINITE


@pytest.mark.parametrize("outcome", ["aborts", "hangs"])
def test_the_package_neither_aborts_nor_hangs(outcome):
    assert [name for name, ways in FOUND["deviations"].items() if "package" in ways.get(outcome, "")] == []


def test_every_op_of_the_list_is_one_that_the_sweep_found():
    found = {op for ways in FOUND["deviations"].values() for op in ways["ops"]}
    assert {*mending.listed(), *vectorising.listed()} - found == set(OF_A_FAMILY)


def test_the_sweep_has_run_since_samples_were_added():
    assert FOUND["samples"] == len(SAMPLES) and set(FOUND["deviations"]) <= set(SAMPLES)
