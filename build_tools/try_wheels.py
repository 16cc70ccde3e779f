"""Install the wheels of dist/ where somebody has a TensorFlow already, and try twenty features: `python -m
build_tools.try_wheels`.

For each minor version of TensorFlow a fresh environment gets that TensorFlow, then the wheel by one `pip install`, which
must leave TensorFlow as it is; `smoke.py` runs there, outside of the checkout. What it says goes to
benchmarks/results/wheels.log, too. Environments are removed, one before the next is made.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

from build_tools.settings import ROOT
from build_tools.wheels import DIST, MINORS

LOG = ROOT / "benchmarks" / "results" / "wheels.log"
SMOKE = ROOT / "build_tools" / "smoke.py"


def main() -> int:
    """Try each TensorFlow; give how many did not pass."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minors", nargs="+", default=MINORS, help="minor versions of TensorFlow, as in 2.18 2.20")
    parser.add_argument("--pure", action="store_true", help="the wheel without native ops")
    parser.add_argument("--with", dest="others", nargs="*", default=[], help="further requirements, as in numpy==1.26.*")
    parser.add_argument("--append", action="store_true", help="to the log, rather than beginning a new one")
    options = parser.parse_args()
    (wheel,) = DIST.glob("tfjac-*-none-any.whl" if options.pure else "tfjac-*manylinux*.whl")
    failures = 0
    with open(LOG, "a" if options.append else "w") as log:
        for minor in options.minors:
            said, passed = _try(wheel, minor, options.others, "twin" if options.pure else "native")
            for stream in (log, sys.stdout):
                stream.write(f"== TensorFlow {minor}, {wheel.name}\n{said}\n")
                stream.flush()
            failures += not passed
    return failures


def _try(wheel: pathlib.Path, minor: str, others: list, wanted: str) -> tuple:
    """Give what was said, and whether all passed."""
    with tempfile.TemporaryDirectory(prefix="tfjac-wheel-") as place:
        folder = pathlib.Path(place)
        venv.create(folder / "env", with_pip=True)
        python = folder / "env" / "bin" / "python"
        _pip(python, "install", f"tensorflow=={minor}.*", *others)
        before = _pip(python, "freeze", "--exclude", "keras")
        _pip(python, "install", str(wheel))
        after = _pip(python, "freeze", "--exclude", "keras")
        exchanged = sorted(set(before.splitlines()) - set(after.splitlines()))
        shutil.copy2(SMOKE, folder)
        ran = subprocess.run([python, "-W", "ignore", "smoke.py", wanted], cwd=folder, capture_output=True, text=True)
        said = ran.stdout if ran.stdout.rstrip().endswith("failures") else ran.stdout + ran.stderr[-3000:]
        kept = "pip left every package as it was" if not exchanged else f"FAILED: pip exchanged {', '.join(exchanged)}"
        return f"{kept}\n{said}", not (ran.returncode or exchanged)


def _pip(python, *arguments) -> str:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
