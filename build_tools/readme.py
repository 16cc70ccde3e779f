"""The README as a package index shows it: there are no files beside it, so that its links must be absolute."""

import pathlib
import re

from build_tools.settings import ROOT

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")


def package_page(root: pathlib.Path = ROOT) -> str:
    """Give the README with every link to a file of the repository made absolute; pictures lead to the file itself."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    repository = re.search(r'^Repository = "(.+)"$', project, re.MULTILINE).group(1)

    def absolute(match):
        picture, text, target = match.groups()
        way = "raw" if picture else "tree" if target.endswith("/") else "blob"
        return f"{picture}[{text}]({repository}/{way}/main/{target})"

    return _LINK.sub(absolute, (root / "README.md").read_text(encoding="utf-8"))
