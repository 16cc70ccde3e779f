"""A table of what was covered how, printed after the tests."""

import pytest

COVERAGE = []


@pytest.fixture
def record_coverage():
    """Give a function `(layer, way)` that adds a row to the table printed at the end."""
    return lambda layer, way: COVERAGE.append((layer, way))


def pytest_terminal_summary(terminalreporter):
    if COVERAGE:
        terminalreporter.section("per-example Jacobian of every layer with weights")
        for layer, way in sorted(COVERAGE):
            terminalreporter.write_line(f"{layer:45s} {way}")
