"""The index arithmetic that the kernels on the CPU and the GPU share, compiled for the host."""

import ctypes
import itertools

import numpy as np
import pytest

from tests.gpu.conftest import CACHE, emulated_library


@pytest.fixture(scope="module")
def arithmetic():
    library = ctypes.CDLL(str(emulated_library(CACHE / "emulated")))
    library.test_divide.restype = ctypes.c_uint32
    library.test_triangle_row.restype = ctypes.c_int64
    return library


def test_division_is_exact(arithmetic):
    rng = np.random.default_rng(1)
    last = 2**31 - 1
    divisors = [1, 2, 3, 5, 7, 10, 641, 2**16, 2**16 + 1, 2**30, last, *rng.integers(1, 2**31, 50)]
    for divisor in map(int, divisors):
        multiples = [k * divisor for k in (0, 1, 2, last // divisor)]
        dividends = {x + step for x in multiples for step in (-1, 0, 1)} | {last, *map(int, rng.integers(0, 2**31, 20))}
        for dividend in dividends:
            if 0 <= dividend <= last:
                found = arithmetic.test_divide(ctypes.c_uint32(dividend), ctypes.c_int64(divisor))
                assert found == dividend // divisor, (dividend, divisor)


def test_rows_of_a_triangle(arithmetic):
    rows = [*range(100), 2**20, 2**25, 2**26 - 1]
    for row in rows:
        for index in (row * (row + 1) // 2, row * (row + 1) // 2 + row):
            assert arithmetic.test_triangle_row(ctypes.c_int64(index)) == row


@pytest.mark.parametrize("rows, columns, triangular", [(1, 1, 1), (9, 9, 1), (4, 7, 0), (7, 1, 0)])
def test_pairs_are_numbered_without_gaps(rows, columns, triangular, arithmetic):
    sizes = [ctypes.c_int64(rows), ctypes.c_int64(columns), ctypes.c_int(triangular)]
    seen, index = set(), ctypes.c_int64()
    for x, y in itertools.product(range(rows), range(columns)):
        assert arithmetic.test_pair(*sizes, ctypes.c_int64(x), ctypes.c_int64(y), ctypes.byref(index)), (x, y)
        seen.add(index.value)
    assert seen == set(range(rows * (rows + 1) // 2 if triangular else rows * columns))


@pytest.mark.parametrize("layout", ["gio", "goi", "igo", "iog", "ogi", "oig"])
def test_columns_and_places(layout, arithmetic):
    for sizes in itertools.product((1, 2, 5), (1, 3), (1, 4, 7)):
        assert arithmetic.test_places(layout.encode(), *(ctypes.c_int64(size) for size in sizes)), sizes


def test_segments_cover_the_depth(arithmetic):
    rng = np.random.default_rng(2)
    out = (ctypes.c_int64 * 4)()
    for rows, columns, depth in [(1, 1, 0), (0, 5, 7), (61, 61, 20_000), *rng.integers(1, 5000, (200, 3))]:
        for triangular in (0, 1):
            columns = rows if triangular else columns
            sizes = [ctypes.c_int64(int(x)) for x in (rows, columns, depth)]
            arithmetic.test_product_shape(*sizes, ctypes.c_int(triangular), out)
            tiles, segments, length, scratch = out
            down, across = -(-int(rows) // 64), -(-int(columns) // 64)
            assert tiles == (down * (down + 1) // 2 if triangular else down * across)
            assert segments >= 1 and segments * length >= depth and length % 16 == 0
            assert scratch == (segments - 1) * rows * columns
