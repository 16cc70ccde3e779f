"""Tables of text."""

import itertools


def table(rows, indent="    "):
    """Return rows of text as lines, columns aligned; columns in which there is nothing below the head are left out."""
    columns = [list(column) for column in itertools.zip_longest(*rows, fillvalue="")]
    columns = [column for column in columns if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns)
    return [indent + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in lines]
