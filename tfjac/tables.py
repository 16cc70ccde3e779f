"""Tables of text, for reports."""

import itertools
from collections.abc import Iterable, Sequence


def aligned(rows: Iterable[Sequence[str]], indent: str = "    ") -> list[str]:
    """Return rows of text as lines, columns aligned; rows may be shorter than others."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in itertools.zip_longest(*rows, fillvalue="")]
    return [indent + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def without_empty_columns(rows: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the rows without the columns in which nothing stands below the head."""
    columns = itertools.zip_longest(*rows, fillvalue="")
    return list(zip(*(column for column in columns if any(column[1:]))))
