"""Where NVIDIA's packages from PyPI put cuBLAS and cuSOLVER.

Imports nothing of the package: the launchers' tests read this file by itself, where there is no TensorFlow.
"""

import pathlib
import sys
from collections.abc import Iterable


def nvidia_folders(places: Iterable = ()) -> list[pathlib.Path]:
    """List the folders with cuBLAS or cuSOLVER below folders of packages; those of `sys.path` unless given."""
    found = []
    for place in map(pathlib.Path, places or sys.path):
        for folder in sorted(place.glob("nvidia/*/lib")) if place.is_dir() else ():
            if any(folder.glob("libcublas.so.*")) or any(folder.glob("libcusolver.so.*")):
                found.append(folder)
    return found
