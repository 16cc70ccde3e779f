"""Run the launchers' tests under NVIDIA's checkers: `python -m tests.gpu.sanitize [memcheck racecheck synccheck]`.

Needs a GPU, compute-sanitizer, PyTorch or CuPy, and nvcc or a library that TFJAC_CUDA_LIBRARY names; neither TensorFlow
nor tfjac. Also `--host`: the emulated kernels under AddressSanitizer and UndefinedBehaviorSanitizer, which needs g++
alone and finds reads out of bounds.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from build_tools.settings import read_settings
from build_tools.toolchain import find_nvcc
from tests.gpu import build
from tests.gpu.build import CACHE, has_nvcc
from tests.gpu.restarts import run_tests
from tests.gpu.running import how_it_ended

TOOLS = ("memcheck", "racecheck", "synccheck")
_PYTEST = (sys.executable, "-m", "pytest", "-q", "--confcutdir=tests/gpu", "tests/gpu")


def find_checker() -> str:
    """Find compute-sanitizer: in PATH, or in the toolkit that nvcc is of; empty where there is none."""
    nvcc = find_nvcc(read_settings().cuda_architectures)
    home = pathlib.Path(nvcc.path).parents[1] if nvcc else None
    folders = [home / "bin", home / "compute-sanitizer", home / "extras" / "compute-sanitizer"] if home else []
    places = (None, os.pathsep.join(map(str, folders)))
    return next(filter(None, (shutil.which("compute-sanitizer", path=place) for place in places)), "")


def check_on_gpu(tools, checker=None) -> int:
    """Run each tool over the tests on the GPU; small limits, so that all ways are taken by small problems.

    Returns:
        The status to exit with: 0 only if every tool ended, and found nothing.
    """
    checker = checker or find_checker()
    if not checker:
        print("compute-sanitizer was not found; it comes with the CUDA toolkit")
        return 1
    plain = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # so that each array has bounds of its own
    wanted = "gpu-small_limits" if has_nvcc() else "gpu"
    failures = {}
    for tool in tools:
        print(f"== {tool}", flush=True)
        prefix = (checker, "--tool", tool, "--error-exitcode", "3", "--target-processes", "all")
        failures[tool] = run_tests(("-k", wanted), prefix, plain)
        print(f"== {tool}: {failures[tool] or 'nothing found'}", flush=True)
    return 1 if any(failures.values()) else 0


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
    failure = how_it_ended(subprocess.run(tests, cwd=build.ROOT, env=os.environ | settings).returncode)
    print(f"== {failure or 'nothing found'}")
    return 1 if failure else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments != ["--host"] and find_checker() and has_nvcc():
        build.cuda_library_of_small_limits()  # not under a checker, which slows down nvcc as well
    sys.exit(check_on_host() if arguments == ["--host"] else check_on_gpu(arguments or TOOLS))
