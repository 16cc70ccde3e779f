"""Build the native libraries in place, for a checkout installed with `pip install -e`; or into a given folder.

Fails where sources do not compile and the libraries of an earlier build are left: they are not what is written.
"""

import pathlib
import sys

from build_tools.installation import build
from build_tools.settings import ROOT, SettingError
from build_tools.toolchain import BuildError

target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tfjac" / "ops" / "_native"
try:
    info = build(target)
except (BuildError, SettingError) as error:
    sys.exit(f"tfjac: {error}")
if "failure" in info:
    sys.exit(1)
print("tfjac: native ops", f"are not available: {info['reason']}" if info["reason"] else "are built")
