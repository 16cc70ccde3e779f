"""The native op's constants are those of its twin, read from the text of its sources."""

import pathlib
import re

import pytest

from tfjac.optimizers import TrustRegionDamping
from tfjac.optimizers.damping import base
from tfjac.optimizers.loop import converge, residual_curvature
from tfjac.optimizers.solvers.base import ROUNDINGS

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "custom_ops/least_squares_steps"
SOURCE = "".join((FOLDER / name).read_text() for name in ("least_squares_steps_cpu.cc", "residual_curvature.h"))
TWIN = {
    "Tolerance": TrustRegionDamping.tolerance,
    "MaxSolves": TrustRegionDamping.max_solves,
    "FirstGuess": TrustRegionDamping.first_guess,
    "Good": TrustRegionDamping.good,
    "Reach": TrustRegionDamping.reach,
    "Poor": base.POOR,
    "LeastShrink": base.LEAST_SHRINK,
    "MostShrink": base.MOST_SHRINK,
    "AsPromised": converge.AS_PROMISED,
    "Roundings": converge.ROUNDINGS,
    "RoundingsOfSquares": ROUNDINGS,
    "Margin": residual_curvature.MARGIN,
    "Stays": residual_curvature.STAYS,
    "Parallel": residual_curvature.PARALLEL,
}


def constants():
    return dict(re.findall(r"^constexpr (?:double|int64_t) k(\w+) = ([\d.e-]+);", SOURCE, re.MULTILINE))


@pytest.mark.parametrize("name", TWIN)
def test_the_op_goes_by_the_constants_of_its_twin(name):
    assert float(constants()[name]) == TWIN[name]


def test_every_constant_of_the_op_has_a_twin():
    assert constants().keys() == TWIN.keys()


def test_no_number_of_the_method_stands_elsewhere_in_the_op():
    """Numbers such as 0.25 belong into the list at its head."""
    code = re.sub(r"^constexpr .*$|//.*$", "", SOURCE, flags=re.MULTILINE)
    found = set(re.findall(r"(?<![\w.])(?:\d+\.\d+|\d+e-?\d+)(?![\w.])", code))
    assert found <= {"0.0", "1.0"}, found
