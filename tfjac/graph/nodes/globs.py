"""Globs over names with slashes: `*` and `?` stay within a part of the name, `**` crosses them."""

import re

_WILD = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]")
_MEANS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def is_glob(name: str) -> bool:
    """Return whether a name is to be read as a glob."""
    return any(character in name for character in "*?")


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the compiled pattern of the names, or ends of names after a "/", that a glob means.

    `*` is anything without a "/", `?` one character but that, `[ab]` and `[!ab]` one of, or none of, some; `**` is
    anything at all.
    """
    parts, at = [], 0
    for found in _WILD.finditer(glob):
        parts += [re.escape(glob[at : found.start()]), _MEANS.get(found[0]) or _one_of(found[0])]
        at = found.end()
    return re.compile("(?:.*/)?" + "".join(parts) + re.escape(glob[at:]), re.DOTALL)


def _one_of(characters: str) -> str:
    inside = characters[1:-1].replace("\\", r"\\")
    return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
