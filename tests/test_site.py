"""The site: its sidebar, the thumbnails of its gallery, and how long its examples take."""

import json
import pathlib
import re

import numpy as np
import pytest

from build_tools.site import staging

ROOT = pathlib.Path(__file__).parents[1]
RUNS = json.loads((ROOT / "docs" / "images" / "runs.json").read_text())


def test_the_sidebar_has_the_order_and_the_names_of_the_guide():
    text = (ROOT / "docs" / "guide" / "index.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    table = [pair for row in rows for pair in re.findall(r"\[([^]]+)\]\(\.\./(\w+)\.md\)", row)]
    sidebar = re.findall(r"^(.+) <\.\./(\w+)>$", text, re.MULTILINE)
    assert [page for _, page in sidebar] == [page for _, page in table]
    plain = [(title.replace("`", "").lower(), page) for title, page in table]
    assert [(title.lower(), page) for title, page in sidebar] == plain


def test_every_example_has_its_duration():
    names = {path.stem for path in (ROOT / "examples").glob("[0-9][0-9]_*.py")}
    assert set(RUNS) == names
    listed = re.findall(r":doc:`[a-z ]+ </gallery/(\w+)>` (\d+) s", staging.durations(RUNS))
    assert {name: int(seconds) for name, seconds in listed} == {name: round(RUNS[name]["seconds"]) for name in names}


def panels(columns, rows):
    """Return a white picture with dark panels of 100 by 80 pixels, 30 pixels apart."""
    image_of = pytest.importorskip("PIL.Image", reason="Matplotlib brings it").fromarray
    pixels = np.full([rows * 110 + 30, columns * 130 + 30], 255, np.uint8)
    for row in range(rows):
        for column in range(columns):
            pixels[30 + 110 * row : 110 + 110 * row, 30 + 130 * column : 130 + 130 * column] = 40 * (row + column)
    return image_of(pixels)


@pytest.mark.parametrize("columns, rows", [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (3, 2)])
def test_a_thumbnail_is_the_first_panel(columns, rows):
    from build_tools.site import thumbnails

    found = np.asarray(thumbnails.first_panel(panels(columns, rows)))
    if (columns, rows) == (2, 2):
        assert found.shape in ((80, 100), (190, 230))  # nearly a square: it may stay whole
    else:
        assert found.shape[1] == 100 and found.max() <= 40 * (rows - 1)
