"""Run the CPU kernels under AddressSanitizer and UndefinedBehaviorSanitizer: `python -m build_tools.sanitize`.

EMULATOR is the command that runs them where CXX compiles for another processor than this one.
"""

import os
import subprocess
import sys

from build_tools.programs import build_programs
from build_tools.settings import ROOT

FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def main() -> int:
    """Build and run the test driver for each instruction set that this processor has."""
    emulator = os.environ.get("EMULATOR", "").split()
    for processor, name, program in build_programs(ROOT / "tests" / "native" / "sanitize.cc", FLAGS):
        if program is None:
            print(f"tfjac: {name} is not checked: this processor does not have it")
            continue
        print(f"tfjac: {processor}, {name}: ", end="", flush=True)
        if subprocess.run([*emulator, str(program)]).returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
