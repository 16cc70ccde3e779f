"""The process of the cases under replicas, one for a session."""

import pytest

from tests.contract.replicas import Replicas


@pytest.fixture(scope="session")
def replicas():
    """Give the `Replicas`."""
    process = Replicas()
    yield process
    process.close()
