"""The environment variables of this package, in one table: what is misspelt is refused or said, not ignored.

Imports nothing of the package: the build reads this file by itself (`build_tools/settings.py`).
"""

import difflib
import os
from collections.abc import Mapping

VARIABLES = {  # name -> its values; None: any text
    # when the package is built
    "TFJAC_NATIVE": ("auto", "0", "1"),
    "TFJAC_CUDA": ("auto", "0", "1"),
    "TFJAC_CUDA_ARCHS": None,
    "TFJAC_INSTRUCTION_SETS": ("native", "all"),
    "TFJAC_TENSORFLOW": None,
    # when it runs
    "TFJAC_ISA": ("baseline", "avx2", "avx512"),
    "TFJAC_XLA": ("call", "hlo"),
    "TFJAC_TF32": ("0", "1"),
    "TFJAC_CUBLAS": None,
    "TFJAC_CUSOLVER": None,
    "TFJAC_VERIFY": ("0", "1"),
    # when it is tested
    "TFJAC_TEST_GPU": None,
    "TFJAC_CUDA_LIBRARY": None,
    "TFJAC_WERROR": ("0", "1"),
    "TFJAC_EMULATED_LIBRARY": None,
    "TFJAC_EMULATED_CUBLAS": None,
    "TFJAC_EMULATED_CUSOLVER": None,
    "TFJAC_EMULATED_FAILURE": None,
}


def wrong_value(environment: Mapping = os.environ) -> str:
    """Say which variable has a value that it may not have; empty where none has. One that is empty is not set."""
    for name, choices in VARIABLES.items():
        value = environment.get(name)
        if value and choices and value not in choices:
            meant = _meant(value.lower(), choices, 0.7)
            return f"The environment variable {name} must be one of {', '.join(choices)}.{meant} Received: {value!r}"
    return ""


def misspelt_name(environment: Mapping = os.environ) -> str:
    """Say which variable is named almost like one of these, and so does nothing; empty where none is."""
    for name in environment:
        meant = _meant(name, VARIABLES, 0.85) if name not in VARIABLES else ""
        if meant:
            return f"tfjac knows no environment variable {name}, so it does nothing.{meant}"
    return ""


def _meant(word, known, cutoff):
    near = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""
