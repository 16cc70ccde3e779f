"""Install what is in dist/ beside a TensorFlow that is there already, and try its features: `python -m
build_tools.try_wheels`.

For each minor version a fresh environment gets that TensorFlow, then tfjac by one `pip install`. That must
leave every package as it is. `smoke` and the example of the README run there, outside of the checkout; with --core the
fast core of the tests, too. What they say goes to benchmarks/results/wheels.log, and a row to the table in
docs/wheels.md. Each environment is removed before the next one is made.
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from build_tools.settings import ROOT
from build_tools.wheels import DIST, MINORS

LOG = ROOT / "benchmarks" / "results" / "wheels.log"
PAGE = ROOT / "docs" / "wheels.md"
HEAD = """# Tried wheels

`python -m build_tools.try_wheels` writes this table. Each row is a fresh environment: TensorFlow first, then one `pip
install` of the file. The example is that of the README, the core the tests that `make check` runs.

| TensorFlow | Python | file | MB | example ran | core tests |
| --- | --- | --- | --- | --- | --- |
"""
SMOKE = ROOT / "build_tools" / "smoke"
CORE = "core and not nightly"
KINDS = {  # of what is installed: its file, and what the ops then run on
    "wheel": (f"tfjac-*manylinux*_{platform.machine()}.whl", "native"),
    "pure": ("tfjac-*-none-any.whl", "twin"),
    "sdist": ("tfjac-*.tar.gz", "native"),
}


def main() -> int:
    """Try each TensorFlow; give how many did not pass."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minors", nargs="+", default=MINORS, help="minor versions of TensorFlow, as in 2.18 2.20")
    parser.add_argument("--kind", choices=KINDS, default="wheel", help="what to install")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environments")
    parser.add_argument("--with", dest="others", nargs="*", default=[], help="more requirements, as in numpy==1.26.*")
    parser.add_argument("--core", action="store_true", help="run the fast core of the tests, too")
    parser.add_argument("--append", action="store_true", help="to log and table, rather than beginning new ones")
    options = parser.parse_args()
    pattern, wanted = KINDS[options.kind]
    (package,) = DIST.glob(pattern)
    failures = 0
    if not options.append or not PAGE.is_file():
        PAGE.write_text(HEAD, encoding="utf-8")
    with open(LOG, "a" if options.append else "w") as log, open(PAGE, "a", encoding="utf-8") as page:
        for minor in options.minors:
            parts = _try(package, wanted, minor, options)
            said = "\n".join(parts)
            page.write(_row(package, minor, parts))
            page.flush()
            for stream in (log, sys.stdout):
                stream.write(f"== TensorFlow {minor}, {package.name}\n{said}\n")
                stream.flush()
            failures += "FAILED" in said
    return failures


def _try(package: pathlib.Path, wanted: str, minor: str, options: argparse.Namespace) -> list:
    """Give what was said: by pip, the features, the example, and the core if it ran."""
    with tempfile.TemporaryDirectory(prefix="tfjac-wheel-") as place:
        folder = pathlib.Path(place)
        subprocess.run([options.python, "-m", "venv", folder / "env"], check=True)
        python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
        _pip(python, "install", f"tensorflow=={minor}.*", *options.others)
        before = _pip(python, "freeze", "--exclude", "keras")
        _pip(python, "install", str(package))
        after = _pip(python, "freeze", "--exclude", "keras")
        exchanged = sorted(set(before.splitlines()) - set(after.splitlines()))
        kept = "pip left every package as it was" if not exchanged else f"FAILED: pip exchanged {', '.join(exchanged)}"
        shutil.copytree(SMOKE, folder / "smoke", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "example.py").write_text(_example(), encoding="utf-8")
        said = [kept, *(_run(python, folder, *words) for words in (["smoke", wanted], ["example.py"]))]
        if options.core:
            said.append(_core(python, folder))
        return said


def _row(package: pathlib.Path, minor: str, said: list) -> str:
    """Give the row of the table for one environment."""
    _, features, example, *core = said
    found = re.search(r"^tensorflow (\S+), .*python (\S+)", features, re.MULTILINE)
    versions = found.groups() if found else (minor, "")
    summary = re.findall(r"^.*\d (?:passed|failed|errors?).* in .*$", core[0] if core else "", re.MULTILINE)
    counts = re.findall(r"\d+ (?:failed|passed|skipped|errors?)\b", summary[-1] if summary else "")
    ran = "no" if "FAILED" in example else "yes"
    tests = ", ".join(counts) or ("FAILED" if core else "not run")
    size = f"{package.stat().st_size / 1e6:.1f}"
    return f"| {' | '.join([*versions, f'`{package.name}`', size, ran, tests])} |\n"


def _example() -> str:
    """Give the first program of the README."""
    page = (ROOT / "README.md").read_text("utf-8")
    return re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL).group(1)


def _core(python, folder: pathlib.Path) -> str:
    """Run the core of the tests in a copy of the checkout, with what is installed in the place of the package."""
    _pip(python, "install", "--requirement", str(ROOT / "build_tools" / "compat.txt"))
    left_out = shutil.ignore_patterns("tfjac", "build", "dist", ".*", "__pycache__", "gallery")
    shutil.copytree(ROOT, folder / "checkout", ignore=left_out)
    (installed,) = (folder / "env").rglob("site-packages/tfjac")
    (folder / "checkout" / "tfjac").symlink_to(installed, target_is_directory=True)
    ran = _run(python, folder / "checkout", "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", CORE)
    return ran if "FAILED" in ran else ran.rstrip().rpartition("\n")[2]


def _run(python, folder: pathlib.Path, *words: str) -> str:
    """Run a program; give what it printed, and what went wrong where it failed."""
    ran = subprocess.run([python, "-W", "ignore", *words], cwd=folder, capture_output=True, text=True)
    return ran.stdout if not ran.returncode else f"{ran.stdout}{ran.stderr[-3000:]}\nFAILED {' '.join(words)}"


def _pip(python, *arguments) -> str:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
