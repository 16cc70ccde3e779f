"""C++ and CUDA sources are as `.clang-format` wants them: by clang-format, if it is installed, and by their width."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = sorted(
    path for folder in ("custom_ops", "tests") for end in ("cc", "h") for path in (ROOT / folder).rglob(f"*.{end}")
)


def test_lines_of_code_have_120_columns():
    lines = [(path, line) for path in FILES for line in path.read_text().splitlines()]
    found = [f"{path.name}: {line}" for path, line in lines if len(line) > 120 and "//" not in line]
    assert FILES and not found, found


@pytest.mark.skipif(shutil.which("clang-format") is None, reason="there is no clang-format")
def test_files_are_formatted():
    done = subprocess.run(
        ["clang-format", "--dry-run", "--Werror", *FILES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]
