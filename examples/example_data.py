"""Reads the data sets that come with the examples (see data/README.md for where they come from)."""

import dataclasses
import pathlib
import re

import numpy as np

DATA = pathlib.Path(__file__).parent / "data"


@dataclasses.dataclass(frozen=True)
class Split:
    """A regression table cut into a training and a test part, standardised with the training part's statistics.

    Attributes:
        x_train, x_test: features, float32, `[rows, features]`.
        y_train, y_test: target, float32, `[rows, 1]`.
        target_scale: standard deviation of the training target: multiply an RMSE by it to get the target's own units.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    target_scale: float


def load_yacht(split: int = 0) -> Split:
    """Return one of the three shipped splits (0, 1, 2) of the UCI yacht set: 277 rows to train on, 31 to test on."""
    folder = DATA / "yacht"

    def indices(name):
        return np.loadtxt(folder / f"index_{name}.txt", dtype=int, ndmin=1)

    table = np.loadtxt(folder / "data.txt")
    x, y = table[:, indices("features")], table[:, indices("target")]
    train, test = indices(f"train_{split}"), indices(f"test_{split}")
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    target_scale = float(y[train].std())
    y = (y - y[train].mean()) / target_scale
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Split(x[train], y[train], x[test], y[test], target_scale)


@dataclasses.dataclass(frozen=True)
class CertifiedFit:
    """A NIST nonlinear regression problem, all in float64.

    Attributes:
        x, y: the data, `[observations]`.
        starts: the two official starting points, `[2, parameters]`.
        parameters, standard_deviations: the certified answer, `[parameters]`.
        residual_sum_of_squares: the certified minimum.
    """

    x: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    parameters: np.ndarray
    standard_deviations: np.ndarray
    residual_sum_of_squares: float


def load_nist(name: str = "MGH17") -> CertifiedFit:
    """Read one NIST StRD file of the one-predictor kind."""
    lines = (DATA / "nist" / f"{name}.dat").read_text().splitlines()
    values = np.array([line.split("=")[1].split() for line in lines if re.match(r"\s*b\d+\s*=", line)], dtype=float)
    (minimum,) = [line.split(":")[1] for line in lines if line.startswith("Residual Sum of Squares")]
    y, x = np.loadtxt(lines[60:], unpack=True)
    return CertifiedFit(x, y, values[:, :2].T, values[:, 2], values[:, 3], float(minimum))


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images of handwritten digits.

    Attributes:
        x_train, x_test: pixels from 0 to 1, float32, `[n, 8, 8, 1]`.
        y_train, y_test: the digits, integers `[n]`.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_digits() -> Digits:
    """Read the UCI digits: the first 1500 rows to train on, the last 297 to test on."""
    table = np.loadtxt(DATA / "digits" / "digits.csv.gz", delimiter=",", dtype=int)
    x, y = (table[:, :-1].reshape(-1, 8, 8, 1) / 16).astype(np.float32), table[:, -1]
    return Digits(x[:1500], y[:1500], x[1500:], y[1500:])


@dataclasses.dataclass(frozen=True)
class Bundle:
    """Cameras, points, and where the ones see the others; in the convention of "Bundle adjustment in the large".

    Attributes:
        cameras: `[c, 9]`, rotation vector, translation, focal length, two coefficients of radial distortion.
        points: `[p, 3]`.
        camera_of, point_of: of each observation, integers `[n]`.
        seen: in pixels from the centre of the image, `[n, 2]`.
    """

    cameras: np.ndarray
    points: np.ndarray
    camera_of: np.ndarray
    point_of: np.ndarray
    seen: np.ndarray


def load_bundle(name: str = "dubrovnik-3-7-pre") -> Bundle:
    """Read a file of the BAL collection."""
    numbers = np.array((DATA / "bal" / f"{name}.txt").read_text().split(), dtype=float)
    (cameras, _, observations), numbers = numbers[:3].astype(int), numbers[3:]
    table, of_cameras, of_points = np.split(numbers, np.cumsum([4 * observations, 9 * cameras]))
    camera_of, point_of, *seen = table.reshape(-1, 4).T
    indices = camera_of.astype(int), point_of.astype(int)
    return Bundle(of_cameras.reshape(-1, 9), of_points.reshape(-1, 3), *indices, np.stack(seen, axis=1))
