"""A function outside TensorFlow at work: arrays in, arrays out, each forward pass with a number of its own.

What is measured for the gradient is measured once for each forward pass, however many backward passes follow: the last
few estimates are kept under the number of the pass, the *visit*.
"""

import collections
import itertools
import threading

import numpy as np
import tensorflow as tf

from tfjac.black_box.estimators import Probe
from tfjac.graph import resolution_of, verification_wanted

KEPT = 16
"""Forward passes whose estimates are kept."""

_SAME = 1e-3
"""How far results of one row may differ, relative to the largest, and count as the same."""


class Evaluation:
    """What the ops of one black box call: its values, its Jacobian, products with the user's own gradient.

    Args:
        function: `Measurement` of the function.
        estimator: `Estimator`, or None.
        gradient: `Measurement` of the user's gradient, which is called where there is no estimator.
        by_row: whether a row of the inputs is a point, rather than all of them together.
        call_dtype: NumPy dtype that floating-point inputs are converted to, None for their own.
        name: of the black box.
    """

    def __init__(self, function, estimator, gradient, by_row, call_dtype, name):
        self._function, self._estimator, self._gradient = function, estimator, gradient
        self._by_row, self._call_dtype, self._name = by_row, call_dtype, name
        self._visits, self._lock, self._resolution = itertools.count(), threading.Lock(), 0.0
        self._estimates = collections.OrderedDict()

    def values(self, arrays, specs):
        """Return the results for inputs `arrays`, with their rows, and the number of this visit."""
        points = self._points_of(arrays)
        results = self._function(points, specs, "forward")
        if self._by_row and verification_wanted():
            self._check_rows(points, results, specs)
        floating = [resolution_of(result.dtype) for result in results if result.dtype.kind == "f"]
        self._resolution = max([self._resolution, *floating])
        results = [result.astype(spec.dtype.as_numpy_dtype) for result, spec in zip(results, specs)]
        return (results if self._by_row else [result[0] for result in results]), next(self._visits)

    def _check_rows(self, points, results, specs):
        """Measure the first and the last row alone: they must give what they gave among the others.

        Raises:
            ValueError: where they do not.
        """
        for row in {0, len(points[0]) - 1} if len(points[0]) > 1 else ():
            alone = self._function([point[row : row + 1] for point in points], specs, "forward")
            for (one,), all_rows in zip(alone, results):
                size = np.max(np.abs(all_rows[np.isfinite(all_rows)]), initial=0.0)
                if not np.allclose(one, all_rows[row], rtol=0, atol=_SAME * size, equal_nan=True):
                    raise ValueError(
                        f"{self._name} was declared per_example, and gives something else for a row alone than among "
                        "others: leave per_example out where examples depend on one another, or the switch "
                        f"TFJAC_VERIFY where what is measured is noisy. Received: {one} for row {row} alone, "
                        f"{all_rows[row]} among {len(all_rows)}"
                    )

    def jacobian(self, visit, arrays, results, specs, moving):
        """Return responses `[n, k, o]` and directions `[n, k, i]` or None, as `Estimator.estimate` does.

        Args:
            visit: the number of the forward pass.
            arrays: list of its inputs.
            results: list of its results.
            specs: list of `ResultSpec`.
            moving: indices of the inputs that are differentiated.
        """
        with self._lock:
            if visit not in self._estimates:
                self._estimates[visit] = self._estimator.estimate(self._probe(visit, arrays, results, specs, moving))
                if len(self._estimates) > KEPT:
                    self._estimates.popitem(last=False)
            return self._estimates[visit]

    def pulled_back(self, arrays, results, cotangents, specs):
        """Return the user's gradient for each floating-point input, a list of arrays.

        Args:
            arrays, results: as in `jacobian`.
            cotangents: list of arrays, one for each floating-point result.
            specs: list of `ResultSpec` of the gradients.
        """
        given = [*self._points_of(arrays), *self._rows_of(results), *self._rows_of(cotangents)]
        gradients = self._gradient(given, specs, "gradient")
        gradients = [gradient.astype(spec.dtype.as_numpy_dtype) for gradient, spec in zip(gradients, specs)]
        return gradients if self._by_row else [gradient[0] for gradient in gradients]

    def forget(self):
        """Begin again: no estimates are kept, and an estimator that learns has learned nothing."""
        with self._lock:
            self._estimates.clear()
            if self._estimator is not None:
                self._estimator = self._estimator.fresh()

    def _probe(self, visit, arrays, results, specs, moving):
        points = Points(self._points_of(arrays), moving)
        floating = [k for k, spec in enumerate(specs) if spec.dtype.is_floating]
        n = len(points.vectors)

        def evaluate(vectors):
            replies = self._function(points.moved(vectors), specs, "gradient")
            flat = flattened([replies[k] for k in floating])
            return flat.reshape(n, vectors.shape[1], flat.shape[1])

        values = self._rows_of([results[k] for k in floating])
        resolution = max(points.resolution, self._resolution)
        of_values = max([resolution, *(resolution_of(specs[k].dtype) for k in floating)])
        return Probe(points.vectors, flattened(values), resolution, of_values, visit, evaluate, points.rounded)

    def _points_of(self, arrays):
        """One point for each row, or one for all."""
        rows = self._rows_of([self._converted(array) for array in arrays])
        if len({len(array) for array in rows}) > 1:
            raise ValueError(
                "With per_example=True, every input must have the same examples along axis 0. "
                f"Received: {[len(array) for array in rows]} rows"
            )
        return rows

    def _rows_of(self, arrays):
        return list(arrays) if self._by_row else [array[None] for array in arrays]

    def _converted(self, array):
        dtype = tf.as_dtype(array.dtype)
        if not dtype.is_floating:
            return array
        if self._call_dtype is not None:
            return array.astype(self._call_dtype)
        return array.astype(np.float32) if dtype.size < 4 else array


class Points:
    """The arguments of n evaluations.

    Args:
        arrays: list of arrays `[n, ...]`, one per input, in the dtypes that the function is called with.
        moving: indices of those that are differentiated, all of them floating-point.

    Attributes:
        vectors: `[n, i]` float64, the moving inputs of each point, flattened, one after the other.
        resolution: the coarsest relative spacing of numbers among them.
    """

    def __init__(self, arrays, moving):
        self.arrays, self._moving = arrays, list(moving)
        self._n = len(arrays[0])
        self._ends = np.cumsum([0, *(_width(arrays[k]) for k in self._moving)])
        self.vectors = flattened([arrays[k] for k in self._moving])
        self.resolution = max(resolution_of(arrays[k].dtype) for k in self._moving)

    def rounded(self, vectors):
        """Return `vectors` `[n, k, i]` as the function will see them: rounded to the dtypes of the inputs."""
        parts = [vectors[..., start:end] for start, end in zip(self._ends[:-1], self._ends[1:])]
        dtypes = [self.arrays[k].dtype for k in self._moving]
        return np.concatenate([part.astype(dtype).astype(np.float64) for part, dtype in zip(parts, dtypes)], -1)

    def moved(self, vectors):
        """Return the arrays `[n·k, ...]` at which each point has moved to its k `vectors` `[n, k, i]`."""
        k = vectors.shape[1]
        arrays = [None if j in self._moving else np.repeat(array, k, axis=0) for j, array in enumerate(self.arrays)]
        for j, start, end in zip(self._moving, self._ends[:-1], self._ends[1:]):
            array = self.arrays[j]
            arrays[j] = vectors[..., start:end].reshape(self._n * k, *array.shape[1:]).astype(array.dtype)
        return arrays


def flattened(arrays):
    """Return arrays `[n, ...]` as one, `[n, o]` in float64; `[n, 0]` for none needs one array at least."""
    return np.concatenate([array.reshape(len(array), _width(array)).astype(np.float64) for array in arrays], 1)


def _width(array):
    return int(np.prod(array.shape[1:], dtype=np.int64))
