"""Test suites of other packages, run as they are installed, with a comparison of tfjac in their middle."""
