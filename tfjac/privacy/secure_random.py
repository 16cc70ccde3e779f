"""Random numbers of the operating system, which who has seen many of them cannot continue."""

import math
import secrets
from collections.abc import Sequence

import numpy as np

from tfjac.types import Array


def uniforms(count: int) -> Array:
    """Return `[count]`, float64, multiples of 2⁻⁵³ in (0, 1]."""
    bits = np.frombuffer(secrets.token_bytes(8 * count), np.uint64) >> np.uint64(11)
    return (bits + np.uint64(1)) * 2.0**-53


def normals(shape: Sequence[int]) -> Array:
    """Return standard normal numbers of a shape, float64: each a sum of four, halved.

    A floating-point number from a normal distribution can be told from others by its last bits, and with it the value
    that it was added to. That takes far more work for a sum of several.

    Reference: N. Holohan, S. Braghin, "Secure random sampling in differential privacy", 2021.
    """
    count = math.prod(shape)
    radii = np.sqrt(-2 * np.log(uniforms(2 * count)))
    angles = 2 * math.pi * uniforms(2 * count)
    four = np.stack([radii * np.cos(angles), radii * np.sin(angles)]).reshape(4, count)
    return (four.sum(axis=0) / 2).reshape(shape)
