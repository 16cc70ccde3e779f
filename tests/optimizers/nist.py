"""Reading NIST StRD files, and their models written in TensorFlow: nothing here comes from tfjac."""

import dataclasses
import pathlib
import re

import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "nist"


@dataclasses.dataclass
class Problem:
    """One file: data, two starting points, certified parameters and residual sum of squares."""

    name: str
    y: np.ndarray
    x: np.ndarray
    starts: np.ndarray
    certified: np.ndarray
    deviations: np.ndarray
    sum_of_squares: float

    def residuals(self, b):
        """Residuals at the parameters `b`, a tensor `[p]` of float64."""
        y = np.log(self.y) if self.name == "Nelson" else self.y
        return y - MODELS[self.name](b, tf.constant(self.x))


def load(name):
    """Read the file of one problem."""
    lines = (FOLDER / f"{name}.dat").read_text().splitlines()
    parameter = re.compile(r"^\s*b(\d+)\s*=\s*(.+)$")
    table = [[float(v) for v in match[2].split()] for match in map(parameter.match, lines) if match]
    table = np.array([row for row in table if len(row) == 4])
    rss = next(float(line.split(":")[1]) for line in lines if line.startswith("Residual Sum of Squares"))
    first, last = map(int, re.search(r"Data\s+\(lines\s+(\d+) to\s+(\d+)\)", "\n".join(lines[:10])).groups())
    data = np.array([[float(v) for v in line.split()] for line in lines[first - 1 : last] if line.strip()])
    x = data[:, 1] if data.shape[1] == 2 else data[:, 1:]
    return Problem(name, data[:, 0], x, table[:, :2].T, table[:, 2], table[:, 3], rss)


def _gauss1(b, x):
    peaks = b[2] * tf.exp(-((x - b[3]) ** 2) / b[4] ** 2) + b[5] * tf.exp(-((x - b[6]) ** 2) / b[7] ** 2)
    return b[0] * tf.exp(-b[1] * x) + peaks


MODELS = {
    "BoxBOD": lambda b, x: b[0] * (1 - tf.exp(-b[1] * x)),
    "Misra1a": lambda b, x: b[0] * (1 - tf.exp(-b[1] * x)),
    "Chwirut2": lambda b, x: tf.exp(-b[0] * x) / (b[1] + b[2] * x),
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "Gauss1": _gauss1,
    "Kirby2": lambda b, x: (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2),
    "Lanczos3": lambda b, x: b[0] * tf.exp(-b[1] * x) + b[2] * tf.exp(-b[3] * x) + b[4] * tf.exp(-b[5] * x),
    "MGH17": lambda b, x: b[0] + b[1] * tf.exp(-x * b[3]) + b[2] * tf.exp(-x * b[4]),
    "Nelson": lambda b, x: b[0] - b[1] * x[:, 0] * tf.exp(-b[2] * x[:, 1]),
    "Rat42": lambda b, x: b[0] / (1 + tf.exp(b[1] - b[2] * x)),
}
