"""Random factors and an oracle for their Jacobian in NumPy float64."""

import numpy as np
import tensorflow as tf


class Problem:
    """K factors with random values, and the Jacobian they stand for.

    Args:
        rng: NumPy generator.
        n: number of examples.
        m: number of residuals of an example.
        blocks: one (t, g, i, o, layout) per factor.
    """

    def __init__(self, rng, n, m, blocks):
        self.n, self.m = n, m
        self.layouts = [block[-1] for block in blocks]
        self.a = [rng.standard_normal((n, t, g, i)) for t, g, i, _, _ in blocks]
        self.d = [rng.standard_normal((n, m, t, g, o)) for t, g, _, o, _ in blocks]
        self.residual = rng.standard_normal((n, m))

    def tensors(self, dtype):
        """Give (a, d) as lists of tensors."""
        return [tf.constant(x, dtype) for x in self.a], [tf.constant(x, dtype) for x in self.d]

    def jacobian(self):
        """Give J as `[n, m, p]`, one entry after the other as the definition says."""
        blocks = []
        for a, d, layout in zip(self.a, self.d, self.layouts):
            block = (a[:, None, :, :, :, None] * d[:, :, :, :, None, :]).sum(axis=2)  # [n,m,g,i,o]
            block = block.transpose(0, 1, *(2 + "gio".index(axis) for axis in layout))
            blocks.append(block.reshape(self.n, self.m, int(np.prod(block.shape[2:]))))
        return np.concatenate(blocks, axis=-1)

    def rows(self):
        """Give J as the matrix `[n·m, p]`."""
        jacobian = self.jacobian()
        return jacobian.reshape(self.n * self.m, jacobian.shape[-1])


# name -> (n, m, blocks); one factor of each kind, and nets as they occur
CASES = {
    "dense": (7, 1, [(1, 1, 3, 4, "gio")]),
    "mlp": (9, 3, [(1, 1, 5, 4, "gio"), (1, 1, 1, 4, "gio"), (1, 1, 4, 3, "gio"), (1, 1, 1, 3, "gio")]),
    "positions": (4, 2, [(6, 1, 3, 2, "gio"), (2, 1, 2, 5, "oig")]),
    "many_positions": (3, 4, [(2, 1, 9, 8, "gio"), (1, 1, 9, 8, "ogi")]),
    "groups": (5, 2, [(3, 2, 3, 2, "igo"), (1, 3, 2, 4, "ogi")]),
    "convolution": (4, 3, [(9, 1, 18, 5, "gio"), (1, 1, 1, 5, "gio"), (9, 4, 9, 2, "igo")]),
    "dense_block": (6, 3, [(1, 1, 1, 17, "gio")]),
    "wide": (11, 1, [(1, 1, 20, 19, "iog"), (1, 1, 19, 18, "oig"), (1, 1, 1, 18, "gio")]),
    "one_of_everything": (1, 1, [(1, 1, 1, 1, "gio")]),
    "one_example": (1, 4, [(1, 1, 3, 2, "goi"), (3, 2, 2, 2, "goi")]),
    "empty_batch": (0, 2, [(1, 1, 3, 2, "gio"), (3, 1, 2, 2, "gio"), (1, 1, 1, 2, "gio")]),
    "empty_batch_of_large_factors": (0, 5, [(1, 1, 5, 23, "oig"), (1, 1, 20, 9, "gio")]),
    "no_residuals": (3, 0, [(1, 1, 3, 2, "gio")]),
    "no_columns": (3, 2, [(1, 1, 0, 2, "gio"), (2, 1, 2, 2, "gio")]),
}


def tolerance(dtype):
    """Relative and absolute tolerance for sums of a few hundred products of unit size."""
    return {"rtol": 2e-5, "atol": 2e-4} if dtype == tf.float32 else {"rtol": 1e-12, "atol": 1e-11}
