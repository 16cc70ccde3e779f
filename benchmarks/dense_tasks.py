"""Two tasks of networks of dense layers, the same for any library: data, start, batches, and the loss by NumPy."""

import dataclasses
import itertools
import pathlib
import time
from collections.abc import Iterator

import numpy as np


@dataclasses.dataclass(frozen=True)
class Task:
    """A network, what it is trained on, and the batches in their order.

    Attributes:
        x: `[examples, features]`, float32.
        y: `[examples, outputs]`, float32: brightness of pixels, or classes as zeros and ones.
        weights: list of kernel, bias, kernel, …, at the start.
        linear: list of the layers without tanh.
        classes: whether the loss is the cross-entropy of a softmax; otherwise that of pixels, summed over them.
        orders: `[steps, batch]`, which examples make a batch.
        every: the loss is noted after so many steps.
    """

    x: np.ndarray
    y: np.ndarray
    weights: list[np.ndarray]
    linear: list[int]
    classes: bool
    orders: np.ndarray
    every: int

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield x and y of each batch."""
        for rows in self.orders:
            yield self.x[rows], self.y[rows]

    def loss(self, weights: list[np.ndarray]) -> float:
        """Return the mean loss of the first 4,000 examples."""
        outputs, y = self.x[:4000], self.y[:4000]
        for k in range(len(weights) // 2):
            outputs = outputs @ weights[2 * k] + weights[2 * k + 1]
            outputs = outputs if k in self.linear else np.tanh(outputs)
        if self.classes:
            sums = np.logaddexp.reduce(outputs.astype("float64"), axis=1)
        else:
            sums = np.logaddexp(0, outputs).sum(axis=1, dtype="float64")
        return float(np.mean(sums - np.sum(outputs * y, axis=1, dtype="float64")))

    def save(self, path: pathlib.Path) -> None:
        """Write all to a file, for a process of another library."""
        named = {f"weight_{k}": each for k, each in enumerate(self.weights)}
        others = {name: value for name, value in vars(self).items() if name != "weights"}
        np.savez(path, **others, **named)

    @classmethod
    def load(cls, path: pathlib.Path) -> "Task":
        """Read what `save` wrote."""
        data = np.load(path)
        weights = [data[f"weight_{k}"] for k in range(sum(name.startswith("weight_") for name in data))]
        linear, classes, every = data["linear"].tolist(), bool(data["classes"]), int(data["every"])
        return cls(data["x"], data["y"], weights, linear, classes, data["orders"], every)


class Curve:
    """Notes CPU seconds of steps, and losses in between, off the clock.

    The steps of the first `warm` trace and compile. They count as much as the mean of those after them.

    Args:
        task: a `Task`.
        warm: number of steps.
    """

    def __init__(self, task: Task, warm: int = 10) -> None:
        self._task, self._warm, self._seconds = task, warm, []
        self.points = [[0, task.loss(task.weights)]]

    def begin(self) -> None:
        """Start the clock of a step."""
        self._began = time.process_time()

    def end(self, weights) -> None:
        """Stop it; `weights` is a function without arguments, called where a loss is noted."""
        self._seconds.append(time.process_time() - self._began)
        steps = len(self._seconds)
        if steps % self._task.every == 0:
            self.points.append([steps, self._task.loss(weights())])

    def figures(self) -> dict:
        """Return `seconds_per_step`, `first_steps`: CPU seconds of the warm ones, and `curve`: steps and losses."""
        first, rest = self._seconds[: self._warm], self._seconds[self._warm :]
        return {"seconds_per_step": float(np.mean(rest)), "first_steps": sum(first), "curve": self.points}


def curves_task(seed: int, steps: int = 300) -> Task:
    """Return the autoencoder of CURVES: 10,000 images, batches of 256, a code of six numbers."""
    from benchmarks.curves import curves

    x = curves(10_000, seed)
    half = [784, 400, 200, 100, 50, 25, 6]
    sizes = half + half[-2::-1]
    return Task(x, x, _start(sizes, seed), [5, 11], False, _orders(len(x), 256, steps, seed), 10)


def digits_task(seed: int, steps: int = 800) -> Task:
    """Return the perceptron 64-50-50-10 for 1,437 of scikit-learn's digits, batches of 32."""
    from benchmarks.tables import split

    data = split("digits", seed)
    labels = np.eye(10, dtype="float32")[data.y]
    return Task(data.x, labels, _start([64, 50, 50, 10], seed), [2], True, _orders(len(data.x), 32, steps, seed), 10)


TASKS = {"curves": curves_task, "digits": digits_task}


def _start(sizes: list[int], seed: int) -> list[np.ndarray]:
    """Return kernels and biases as Keras begins with: uniform by Glorot, zero."""
    random, weights = np.random.default_rng(seed), []
    for rows, columns in itertools.pairwise(sizes):
        limit = np.sqrt(6 / (rows + columns))
        weights += [random.uniform(-limit, limit, (rows, columns)).astype("float32"), np.zeros(columns, "float32")]
    return weights


def _orders(examples: int, batch: int, steps: int, seed: int) -> np.ndarray:
    """Return `[steps, batch]`: each epoch has another order, and leaves out what makes no full batch."""
    random, each = np.random.default_rng(seed), examples // batch
    epochs = [random.permutation(examples)[: each * batch].reshape(each, batch) for _ in range(-(-steps // each))]
    return np.concatenate(epochs)[:steps]
