"""Thumbnails of the examples' pictures: the first panel alone, so that it can be read when it is small."""

import pathlib

import numpy as np
from PIL import Image

_WIDE = 1.3
"""Pictures that are wider than this times their height are cut."""


def first_panel(picture: Image.Image) -> Image.Image:
    """Return the first panel of a picture, without margins: what is left of the broadest gaps, and above them."""
    pixels = np.asarray(picture.convert("L")) < 250
    columns = slice(0, _end(pixels.any(axis=0), picture.width > _WIDE * picture.height))
    rows = slice(0, _end(pixels[:, columns].any(axis=1), pixels.shape[0] > _WIDE * (columns.stop or picture.width)))
    inside = pixels[rows, columns]
    down, across = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    return picture.crop((across[0], down[0], across[-1] + 1, down[-1] + 1))


def _end(inked: np.ndarray, is_cut: bool) -> int:
    """Return where the first panel ends along an axis: at the first broad gap between a sixth and three quarters."""
    size = inked.size
    if not is_cut:
        return size
    edges = np.flatnonzero(np.diff(np.r_[True, inked, True].astype(int)))
    gaps = [(stop - start, start) for start, stop in edges.reshape(-1, 2) if size / 6 < start < 3 * size / 4]
    broadest = max((width for width, _ in gaps), default=0)
    return next((start for width, start in gaps if width >= 0.6 * broadest), size)


def write(picture: pathlib.Path, path: pathlib.Path, size: int = 640) -> None:
    """Write the thumbnail of a picture, at most `size` pixels wide."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(picture) as whole:
        found = first_panel(whole.convert("RGB"))
        found.thumbnail((size, size))
        found.save(path)
