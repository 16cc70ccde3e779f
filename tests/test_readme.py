"""What the README and the pages in docs/ show, runs; what they link to, is there."""

import pathlib
import re

import pytest

from tfjac.ops._environment import VARIABLES

ROOT = pathlib.Path(__file__).parents[1]
GENERATED = ("gallery", "api", "repository")  # folders that `make docs` writes
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name not in GENERATED),
]


def snippets():
    """Yield every fenced block of Python, each a program of its own."""
    for page in PAGES:
        for match in re.finditer(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            line = page.read_text()[: match.start()].count("\n") + 1
            yield pytest.param(match.group(1), id=f"{page.relative_to(ROOT)}:{line}")


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("code", list(snippets()))
def test_snippet_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("benchmarks", "examples", "tests"):  # as in a checkout, whose data are read
        (tmp_path / folder).symlink_to(ROOT / folder)
    try:
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})
    except SystemExit as missing:
        pytest.skip(str(missing))


MADE_WITH_THE_SITE = [ROOT / "docs" / name for name in ("gallery", "reference/api", "reference/repository")]
"""Folders that `make docs` writes, and follows the links into."""


@pytest.mark.core
def test_relative_links_lead_somewhere():
    targets = [(page, target) for page in PAGES for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())]
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page, target in targets
        if not target.startswith("http")
        and not (page.parent / target).exists()
        and not any((page.parent / target).is_relative_to(folder) for folder in MADE_WITH_THE_SITE)
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.core
def test_named_paths_are_there():
    """Files and folders that the pages name in code, without a link."""
    folders = "tfjac|tests|docs|examples|benchmarks|build_tools|custom_ops"
    named = re.compile(rf"`((?:{folders})/[\w./]*)`")
    found = [(page, path) for page in PAGES for path in named.findall(page.read_text())]
    missing = [f"{page.relative_to(ROOT)}: {path}" for page, path in found if not (ROOT / path).exists()]
    assert not missing and len(found) > 50, "\n".join(missing)


@pytest.mark.core
def test_environment_variables_are_in_one_table():
    """Those that the code reads are known to the check of their names and values, and explained."""
    sources = [*ROOT.glob("tfjac/**/*.py"), *ROOT.glob("build_tools/*.py"), *ROOT.glob("tests/**/conftest.py")]
    texts = [path.read_text() for path in [*sources, *ROOT.glob("custom_ops/**/*.cc")]]
    # A name that stands alone in a string, whatever is done with it; macros of the C++ sources do not.
    read = {name for text in texts for name in re.findall(r'"(TFJAC_[A-Z0-9_]+)"', text)}
    explained = re.findall(r"`(TFJAC_[A-Z0-9_]+)`", (ROOT / "docs" / "native_ops.md").read_text())
    assert read <= set(VARIABLES) and len(read) > 5
    assert set(explained) == set(VARIABLES)


@pytest.mark.core
def test_first_screen_names_the_two_commands():
    first_screen = (ROOT / "README.md").read_text().splitlines()[:40]
    assert "make demo" in "\n".join(first_screen)
    assert "make test" in "\n".join(first_screen)


def test_table_of_nodes_is_as_printed(capsys):
    """Every row of it, but for the places in the source."""
    page = (ROOT / "docs" / "interception.md").read_text()
    code, table = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL).groups()
    exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})
    printed = capsys.readouterr().out

    def cells(text):
        return [re.sub(r"\S+:\d+$", "", line.rstrip()).split() for line in text.splitlines()]

    assert cells(printed) == cells(table)
