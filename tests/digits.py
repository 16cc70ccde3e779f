"""The handwritten digits of UCI, which the examples read as well."""

import pathlib

import numpy as np

_FILE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "data" / "digits" / "digits.csv.gz"


def load_digits():
    """Return images `[1797, 8, 8]`, float32 from 0 to 1, and labels `[1797]`."""
    table = np.loadtxt(_FILE, delimiter=",", dtype=int)
    return (table[:, :-1] / 16).astype(np.float32).reshape(-1, 8, 8), table[:, -1]
