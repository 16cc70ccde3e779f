"""Code compiled for one instruction set must not be shared with code compiled for another by the linker."""

import pathlib
import shutil
import subprocess

import pytest
import tensorflow as tf

OBJECTS = pathlib.Path(__file__).parents[2] / "build" / "native" / tf.__version__


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_variants_share_no_symbols(name):
    objects = sorted(OBJECTS.glob(f"{name}/*_cpu.o"))
    if not objects or shutil.which("nm") is None:
        pytest.skip(f"no object files for {name} here, or no nm to read them with")
    listing = subprocess.run(
        ["nm", "-C", "--defined-only", *objects], capture_output=True, text=True, check=True
    ).stdout
    kinds = [line.split(maxsplit=2)[1:] for line in listing.splitlines() if len(line.split(maxsplit=2)) == 3]
    shared = [
        symbol for kind, symbol in kinds if kind in "TWVu" and name not in symbol and not symbol.startswith("DW.ref")
    ]
    assert not shared
