"""Run the launchers' tests under NVIDIA's checkers: `python -m tests.gpu.sanitize [memcheck racecheck synccheck]`.

Needs a GPU, nvcc, compute-sanitizer, and PyTorch or CuPy; neither TensorFlow nor tfjac. Also `--host`: the emulated
kernels under AddressSanitizer and UndefinedBehaviorSanitizer, which needs g++ alone and finds reads out of bounds.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from build_tools.settings import read_settings
from tests.gpu import build
from tests.gpu.conftest import CACHE

TOOLS = ("memcheck", "racecheck", "synccheck")
_PYTEST = (sys.executable, "-m", "pytest", "-q", "--confcutdir=tests/gpu", "tests/gpu")


def check_on_gpu(tools) -> int:
    """Run each tool over the tests on the GPU; small limits, so that all ways are taken by small problems."""
    checker = shutil.which("compute-sanitizer")
    if checker is None:
        print("compute-sanitizer was not found; it comes with the CUDA toolkit")
        return 1
    worst = 0
    for tool in tools:
        print(f"== {tool}", flush=True)
        options = ("--tool", tool, "--error-exitcode", "3", "--target-processes", "all")
        tests = (*_PYTEST, "--require-gpu", "-k", "gpu-small_limits")
        plain = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # so that each array has bounds of its own
        worst = max(worst, subprocess.run([checker, *options, *tests], cwd=build.ROOT, env=plain).returncode)
    return worst


def check_on_host() -> int:
    """Run the emulated kernels under the compiler's checkers."""
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    library = build.build_emulated(CACHE / "sanitized", True, flags)
    compiler = read_settings().compiler[0]
    runtime = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    settings = {
        "LD_PRELOAD": str(pathlib.Path(runtime).resolve()),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
        "TFJAC_EMULATED_LIBRARY": str(library),
    }
    tests = (*_PYTEST, "--capture=no", "-k", "emulated-small_limits-f and not falling")  # a report ends the process
    return subprocess.run(tests, cwd=build.ROOT, env=os.environ | settings).returncode


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(check_on_host() if arguments == ["--host"] else check_on_gpu(arguments or TOOLS))
