"""Build the native libraries in place, for a checkout installed with `pip install -e`; or into a given folder."""

import pathlib
import sys

from build_tools.native import ROOT, build

target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tfjac" / "ops" / "_native"
info = build(target)
print("tfjac: native ops", f"are not available: {info['reason']}" if info["reason"] else "are built")
