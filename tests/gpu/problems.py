"""Random factors, and what the ops on them must give, in NumPy float64."""

import numpy as np


class Problem:
    """K factors with random values.

    Args:
        rng: NumPy generator.
        n: number of examples.
        m: number of residuals of an example.
        blocks: one (t, g, i, o, layout) per factor; "=" in place of o: with the d of the factor before.
    """

    def __init__(self, rng, n, m, blocks):
        self.n, self.m = n, m
        self.layouts = [block[-1] for block in blocks]
        self.a = [rng.standard_normal((n, t, g, i)) for t, g, i, _, _ in blocks]
        self.d = []
        for t, g, _, o, _ in blocks:
            self.d.append(self.d[-1] if o == "=" else rng.standard_normal((n, m, t, g, o)))
        self.residual = rng.standard_normal((n, m))

    @property
    def p(self):
        """Number of parameters."""
        return sum(a.shape[2] * a.shape[3] * d.shape[4] for a, d in zip(self.a, self.d))

    def jacobian(self):
        """Give J as `[n, m, p]`: the definition, written down."""
        blocks = []
        for a, d, layout in zip(self.a, self.d, self.layouts):
            block = np.einsum(f"ntgi,nmtgo->nm{layout}", a, d)
            blocks.append(block.reshape(self.n, self.m, int(np.prod(block.shape[2:]))))
        return np.concatenate(blocks, axis=-1)

    def rows(self):
        """Give J as the matrix `[n·m, p]`."""
        return self.jacobian().reshape(self.n * self.m, self.p)


# name -> (n, m, blocks)
CASES = {
    "one_of_everything": (1, 1, [(1, 1, 1, 1, "gio")]),
    "one_parameter": (300, 2, [(1, 1, 1, 1, "gio")]),
    "one_example": (1, 5, [(1, 1, 7, 3, "gio"), (3, 2, 2, 2, "goi")]),
    "one_output": (70, 1, [(1, 1, 9, 5, "gio"), (1, 1, 1, "=", "gio"), (1, 1, 5, 1, "gio"), (1, 1, 1, "=", "gio")]),
    "mlp": (33, 3, [(1, 1, 11, 7, "gio"), (1, 1, 1, "=", "gio"), (1, 1, 7, 3, "oig"), (1, 1, 1, "=", "gio")]),
    "wide": (19, 2, [(1, 1, 13, 11, "iog"), (1, 1, 5, 6, "oig"), (1, 1, 1, 67, "gio")]),
    "two_folds": (60, 3, [(1, 1, 17, 13, "iog"), (1, 1, 14, 16, "gio")]),
    "tall": (150, 1, [(1, 1, 9, 8, "gio")]),
    "positions": (5, 3, [(6, 1, 3, 2, "gio"), (2, 1, 2, 5, "oig"), (1, 1, 4, 3, "goi")]),
    "many_positions": (2, 2, [(70, 1, 5, 4, "gio"), (2, 1, 66, 7, "ogi"), (3, 1, 2, 67, "gio")]),
    "long_rows": (2, 2, [(20, 1, 30, 30, "gio"), (40, 1, 70, 3, "gio")]),
    "groups": (9, 2, [(3, 2, 3, 2, "igo"), (1, 3, 2, 4, "ogi"), (1, 3, 1, "=", "gio"), (4, 3, 2, 2, "iog")]),
    "many_factors": (6, 2, [(1, 1, 2, 1 + k % 3, "gio") for k in range(35)] + [(2, 1, 1, 2, "gio")] * 2),
    "empty_batch": (0, 2, [(1, 1, 3, 2, "gio"), (3, 1, 2, 2, "gio")]),
    "no_residuals": (3, 0, [(1, 1, 3, 2, "gio")]),
    "no_columns": (3, 2, [(1, 1, 0, 2, "gio"), (2, 1, 2, 2, "gio"), (2, 1, 2, 0, "gio")]),
    "no_columns_at_all": (3, 2, [(1, 1, 0, 2, "gio")]),
    "no_positions": (3, 2, [(0, 1, 3, 2, "gio"), (1, 1, 2, 2, "gio")]),
}


# name -> ((g, i, o, layout) of each factor, (n, m, t of each factor) of each block)
STACKS = {
    "once": ([(1, 9, 5, "gio"), (1, 1, "=", "gio"), (1, 4, 3, "oig")], [(70, 1, (1, 1, 1)), (9, 3, (1, 1, 1))]),
    "equation_and_border": ([(1, 11, 7, "gio"), (1, 1, 7, "gio")], [(33, 1, (3, 1)), (70, 2, (1, 1))]),
    "absent": ([(1, 3, 2, "gio"), (1, 4, 3, "gio")], [(5, 1, (1, 0)), (40, 2, (0, 3)), (3, 1, (2, 1))]),
    "nothing_in_common": ([(1, 3, 2, "gio"), (1, 4, 3, "gio")], [(5, 1, (1, 0)), (4, 2, (0, 1))]),
    "groups": ([(2, 3, 2, "igo"), (3, 2, 4, "ogi")], [(9, 2, (3, 1)), (2, 1, (1, 1))]),
    "no_examples": ([(1, 3, 2, "gio")], [(0, 2, (1,)), (3, 1, (1,)), (2, 0, (4,))]),
}


def stack_of(rng, factors, blocks):
    """Give one `Problem` for each block of rows, all of the same columns."""
    return [Problem(rng, n, m, [(t, *sizes) for t, sizes in zip(positions, factors)]) for n, m, positions in blocks]


def random_case(rng):
    """Draw a problem of random sizes, also beyond a tile."""
    blocks = []
    for _ in range(rng.integers(1, 4)):
        t, g = rng.choice([1, 1, 1, 2, 17]), rng.choice([1, 1, 1, 3])
        i, o = rng.integers(1, 14, 2)
        blocks.append((int(t), int(g), int(i), int(o), "".join(rng.permutation(list("gio")))))
    return int(rng.integers(1, 40)), int(rng.integers(1, 6)), blocks


def tolerance(dtype):
    """Relative and absolute tolerance for sums of some hundred products of unit size."""
    return {"rtol": 2e-4, "atol": 3e-4} if np.dtype(dtype) == np.float32 else {"rtol": 1e-11, "atol": 1e-10}
