"""Timed questions about tfjac and its peers; `python -m benchmarks.run --help` lists them."""
