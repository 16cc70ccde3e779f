"""Tables to learn from: UCI's, scikit-learn's, and one that a seeded script makes."""

import dataclasses
import importlib.util
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).parent
UCI = {
    "concrete": ROOT / "data" / "concrete",
    "energy": ROOT / "data" / "energy",
    "yacht": ROOT.parent / "examples" / "data" / "yacht",
    "airfoil": ROOT / "data" / "airfoil",
}
TABLES = (*UCI, "abalone", "diabetes", "kinematics", "digits", "breast cancer")
AS_THEY_ARE = tuple(f"{name}, targets as they are" for name in ("concrete", "energy", "yacht", "airfoil", "diabetes"))
"""The same with targets in the units of the table: MPa, kWh/m², dB and the like."""
CLASSES = {"digits": 10, "breast cancer": 2}
HAS_SCIKIT_LEARN = importlib.util.find_spec("sklearn") is not None
BY_SCIKIT_LEARN = ("diabetes", "digits", "breast cancer")


@dataclasses.dataclass(frozen=True)
class Split:
    """A table in two parts; features, and targets of a regression, are standardised by what is trained on.

    Attributes:
        x: `[rows, features]`; y: `[rows, 1]`, or classes `[rows]`.
        x_test, y_test: the part that is kept back.
        classes: number of classes, 0 where it is a regression.
        variance: of the targets that are trained on, which losses are measured in.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: int
    variance: float = 1.0


def load(name):
    """Return features `[rows, features]` and targets `[rows]` of a table, as they are."""
    if name in UCI:
        table = np.loadtxt(UCI[name] / "data.txt")
    elif name == "abalone":
        cells = np.loadtxt(ROOT / "data" / "abalone" / "data.csv", delimiter=",", dtype=str)
        table = np.hstack([cells[:, :1] == ["M", "F", "I"], cells[:, 1:].astype(float)])
    elif name == "kinematics":
        return kinematics()
    else:
        from sklearn import datasets

        return getattr(datasets, f"load_{name.replace(' ', '_')}")(return_X_y=True)
    return table[:, :-1], table[:, -1]


def kinematics(rows=8192, joints=8, noise=0.1, seed=0):
    """Return angles `[rows, joints]` of an arm, and how far its hand is from a point `[rows]`, with noise.

    As DELVE's kin8nm: link k has length 0.1 + 0.1·k mod 3, and turns about an axis that is bent by 90° from link to
    link. The deviation of the noise is a share of that of the distance.
    """
    generator = np.random.default_rng(seed)
    angles = generator.uniform(-np.pi / 2, np.pi / 2, (rows, joints))
    frame, hand = np.broadcast_to(np.eye(3), (rows, 3, 3)), np.zeros((rows, 3))
    bend = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    for joint, angle in enumerate(angles.T):
        cosine, sine, zero, one = np.cos(angle), np.sin(angle), np.zeros(rows), np.ones(rows)
        turn = np.array([[cosine, -sine, zero], [sine, cosine, zero], [zero, zero, one]]).transpose(2, 0, 1)
        frame = frame @ turn
        hand = hand + (0.1 + 0.1 * (joint % 3)) * frame[:, :, 0]
        frame = frame @ bend
    distance = np.linalg.norm(hand - [0.1, 0.1, 0.1], axis=1)
    return angles, distance + noise * distance.std() * generator.standard_normal(rows)


def split(name, seed, share=0.8):
    """Return the `Split` of a table by a seed: that share of the rows is trained on.

    Args:
        name: one of `TABLES`, or of `AS_THEY_ARE`, whose targets are not standardised.
        seed: an integer.
        share: of the rows.
    """
    name, *as_they_are = name.split(", ")
    x, y = load(name)
    rows = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(rows, [int(share * len(x))])
    x = standardised(x, train).astype("float32")
    classes = CLASSES.get(name, 0)
    if as_they_are:
        y = y[:, None].astype("float32")
        return Split(x[train], y[train], x[test], y[test], 0, float(np.var(y[train])))
    y = y.astype("int32") if classes else standardised(y[:, None], train).astype("float32")
    return Split(x[train], y[train], x[test], y[test], classes)


def standardised(values, rows=slice(None)):
    """Return `[n, k]` with mean zero and variance one over some rows; a column that is constant there is zero."""
    deviation = values[rows].std(axis=0)
    return (values - values[rows].mean(axis=0)) / np.where(deviation > 0, deviation, np.inf)
