"""The points at which a function is evaluated: the inputs row by row, and the vectors that estimators move."""

import numpy as np

from tfjac.graph import resolution_of


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
        self.vectors = self._flattened([arrays[k] for k in self._moving])
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

    def _flattened(self, arrays):
        return np.concatenate([array.reshape(self._n, _width(array)).astype(np.float64) for array in arrays], 1)


def flattened(arrays):
    """Return arrays `[n, ...]` as one, `[n, o]` in float64; `[n, 0]` for none needs one array at least."""
    return np.concatenate([array.reshape(len(array), _width(array)).astype(np.float64) for array in arrays], 1)


def _width(array):
    return int(np.prod(array.shape[1:], dtype=np.int64))
