"""Links of pages: those to files of the repository lead to pages of the site, and all of them lead somewhere."""

import html.parser
import pathlib
import re
import urllib.parse

OF_REPOSITORY = {
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "custom_ops/README.md": "adding_an_op",
}
"""Files outside of docs/ of which the site has a page in `reference/repository/`."""

OF_FILES = "https://github.com/tfjac/tfjac/blob/main"
"""Where links to all other files of the repository lead."""


def write_pages_of_repository(root: pathlib.Path) -> None:
    """Copy the files of `OF_REPOSITORY` to where Sphinx reads them, with their links changed."""
    folder = root / "docs" / "reference" / "repository"
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in OF_REPOSITORY.items():
        (folder / f"{page}.md").write_text(with_page_links((root / name).read_text(), (root / name).parent, root))


def with_page_links(text: str, folder: pathlib.Path, root: pathlib.Path) -> str:
    """Return a page's text with links to examples, and to files of which the site has pages, leading to these pages.

    Args:
        text: Markdown.
        folder: that links are relative to.
        root: of the repository.
    """

    def changed(match):
        path = (folder / match[1]).resolve()
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
        if name in OF_REPOSITORY:
            return f"](/reference/repository/{OF_REPOSITORY[name]}.md{match[2]})"
        if re.fullmatch(r"examples/\d\d_\w+\.py", name):
            return f"](/gallery/{path.stem}.rst)"
        if path.is_file() and name.startswith("docs/"):
            return f"](/{name.removeprefix('docs/')}{match[2]})"
        if name and path.exists() and not name.startswith("docs/") and folder != root / "docs":
            return f"]({OF_FILES}/{name})"
        return match[0]

    return re.sub(r"\]\(([^)#\s:]+)(#[^)\s]*|)\)", changed, text)


def to_pages(app, docname, source):
    """Change links of a page to files of the repository into links to the pages that the site has of them."""
    path = pathlib.Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        source[0] = with_page_links(source[0], path.parent, pathlib.Path(app.srcdir).parent)


class _Page(html.parser.HTMLParser):
    """What a page refers to, and what in it can be referred to."""

    def __init__(self, text: str):
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value and ((tag in ("a", "link") and name == "href") or (tag in ("img", "script") and name == "src")):
                self.targets.append(value)
            elif value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)


def pages_of(site: pathlib.Path) -> list[pathlib.Path]:
    """Return the pages of a built site, without what a theme keeps in its folder."""
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)


def broken_links(site: pathlib.Path) -> list[str]:
    """Return the links of a built site that lead nowhere: files and anchors that are not there.

    Addresses of other sites are not asked: the check is made offline.
    """
    pages = {path: _Page(path.read_text()) for path in pages_of(site)}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            address = urllib.parse.urlsplit(target)
            if address.scheme or address.netloc:
                continue
            other = (path.parent / urllib.parse.unquote(address.path)).resolve() if address.path else path
            anchor = urllib.parse.unquote(address.fragment)
            known = pages.get(other)
            if not other.exists() or (anchor and known is not None and anchor not in known.anchors):
                broken.append(f"{path.relative_to(site)}: {target}")
    return broken
