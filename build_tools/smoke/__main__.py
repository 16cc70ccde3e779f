"""Some thirty features of an installed tfjac, each against a number that does not come from it: run by try_wheels.py.

A program that needs nothing but the package: `python smoke native`, or `twin`, for what the ops are to run on.
"""

import os
import sys
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import fits  # noqa: F401  each adds its features
import gradients  # noqa: F401
import jacobians  # noqa: F401
import keras
import numpy as np
import tensorflow as tf
import training  # noqa: F401
from common import FEATURES

import tfjac


def main(wanted):
    """Try each feature; return how many failed."""
    info = tfjac.ops_info()
    python = sys.version.split()[0]
    print(f"tensorflow {tf.__version__}, keras {keras.__version__}, numpy {np.__version__}, python {python}")
    print(f"tfjac {tfjac.__version__}: native {info.native}, built for {info.built_for or '-'}, {info.instruction_set}")
    failed = 0
    if info.native != (wanted == "native"):
        failed += 1
        print(f"FAILED ops run on {'the native library' if info.native else 'the twins'}: {info.reason}")
    for each in FEATURES:
        try:
            each()
            print("passed", each.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAILED", each.__name__, traceback.format_exc(limit=-4), flush=True)
    print(f"{len(FEATURES)} features, {failed} failures")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1]), 1))
