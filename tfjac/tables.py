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


def lines_of_correlations(pairs: Iterable[tuple[float, str, str]], least: float, most: int) -> list[str]:
    """Return the lines of a report about correlations, the strongest first.

    Args:
        pairs: of a correlation and the names of its two parameters.
        least: weaker correlations are left out.
        most: so many are listed.
    """
    pairs = sorted((pair for pair in pairs if abs(pair[0]) >= least), key=lambda pair: -abs(pair[0]))
    if not pairs:
        return []
    rest = f" (and {len(pairs) - most} weaker)" if len(pairs) > most else ""
    return [f"correlations{rest}", *aligned([f"{one}, {other}", f"{value:+.4f}"] for value, one, other in pairs[:most])]
