"""What is handed out: the source distribution can be built and tested from, the wheel has the package and its marks."""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import tfjac
from build_tools.wheels import MINORS

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tracked():
    """List the files that are under version control, and those that will be."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout: there is nothing to compare with")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def distributions(tracked, tmp_path_factory):
    """Build both from a clean copy; give the members of the source distribution, those of the wheel, its metadata."""
    if int(importlib.metadata.version("setuptools").split(".")[0]) < 77:
        pytest.skip("setuptools older than pyproject.toml asks for: `make install` brings it")
    place = tmp_path_factory.mktemp("distributions")
    for name in tracked:
        (place / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / "copy" / name)
    program = "import sys; from build_tools import backend; getattr(backend, sys.argv[1])(sys.argv[2])"
    environment = {**os.environ, "TFJAC_NATIVE": "0"}
    for build in ("build_sdist", "build_wheel"):
        command = [sys.executable, "-c", program, build, place]
        subprocess.run(command, cwd=place / "copy", env=environment, check=True)
    (sdist,), (wheel,) = place.glob("*.tar.gz"), place.glob("*.whl")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
        metadata = archive.read(next(name for name in in_wheel if name.endswith("/METADATA"))).decode()
    return in_sdist, in_wheel, metadata


@pytest.mark.by_day(None)
def test_source_distribution_has_all_that_is_tracked(distributions, tracked):
    in_sdist, _, _ = distributions
    assert not set(tracked) - in_sdist
    assert not [name for name in in_sdist if re.search(r"__pycache__|\.(so|o|pyc)$", name)]


@pytest.mark.by_day(None)
def test_wheel(distributions, tracked):
    _, in_wheel, metadata = distributions
    package = {name for name in tracked if name.startswith("tfjac/")}
    assert package <= in_wheel and "tfjac/py.typed" in package
    others = {name.split("/")[0] for name in in_wheel if not name.startswith("tfjac/")}
    assert len(others) == 1 and others.pop().endswith(".dist-info")
    assert f"\nVersion: {tfjac.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata and "\nLicense-File: LICENSE\n" in metadata


def test_links_of_the_package_page_are_absolute(distributions):
    """There are no files beside it; a picture is wanted itself, not the page around it."""
    _, _, metadata = distributions
    page = metadata.partition("\n\n")[2]
    targets = re.findall(r"(!?)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)", page)
    assert targets and all(target.startswith(("https://", "#")) for _, target in targets)
    assert any(picture and "/raw/main/docs/images/" in target for picture, target in targets)


def test_no_pin_exchanges_what_the_user_has(distributions):
    _, _, metadata = distributions
    needed = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    always = [each for each in needed if "extra ==" not in each]
    names = {"tensorflow", "keras", "numpy", "scipy", "typing-extensions"}  # the last for TypeAliasType, of Python 3.12
    assert {re.split(r"[<>=]", each)[0] for each in always} == names
    assert not [each for each in always if "<" in each or "==" in each]


def test_versions_are_those_of_the_pages():
    """The citation names the version; the wheels hold what the installation page promises."""
    assert f"\nversion: {tfjac.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    page = (ROOT / "docs" / "installation.md").read_text()
    assert f"| TensorFlow | {MINORS[0]} to {MINORS[-1]} with native ops" in page
    assert f"tensorflow>={MINORS[0]}" in (ROOT / "pyproject.toml").read_text()
