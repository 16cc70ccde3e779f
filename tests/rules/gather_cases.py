"""Factors of gathered rows against their definition in NumPy, with every product and norm that they know."""

import dataclasses

import numpy as np
import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.factors.gather_factor import GatherFactor, row_grams
from tfjac.linear.factors.sparse_rows import side_by_side, sparse_rows


@dataclasses.dataclass(frozen=True)
class Gathered:
    """What examples read of a table.

    Attributes:
        name: what is special about it.
        ids: `[n][t]`, the rows that are read.
        rows: of the table.
        outputs: m.
        columns: of the table.
        open: which axes of `ids[n,t]` the trace leaves open; where both, all other sizes too.
    """

    name: str
    ids: tuple
    rows: int
    outputs: int = 2
    columns: int = 3
    open: str = ""

    @property
    def half(self):
        """Half of the columns: the table is cut into rows of so many, too."""
        return max(self.columns // 2, 1)


CASES = [
    Gathered("twice the same row", ((0, 2, 2), (4, 1, 0), (2, 4, 2), (1, 1, 1)), 6),
    Gathered("one position", ((3,), (0,), (3,)), 5),
    Gathered("more rows than are read", ((30, 7, 30), (7, 7, 2)), 40),
    Gathered("none twice", ((30, 7), (1, 2)), 40),
    Gathered("as many rows as are read", ((3, 3), (1, 0)), 4),
    Gathered("one column, one output", ((3, 1), (1, 0)), 4, 1, 1),
    Gathered("one column, twice the same row", ((3, 3), (1, 0)), 4, 1, 1),
    Gathered("four columns", ((3, 2), (1, 1)), 4, 2, 4),
    Gathered("open", ((0, 2, 2), (4, 1, 0)), 5, open="nt"),
    Gathered("one position, open", ((4,), (4,), (1,)), 5, open="nt"),
    Gathered("open examples", ((0, 2, 2), (4, 1, 0)), 50, open="n"),
    Gathered("open positions", ((0, 2, 2), (4, 1, 0)), 50, open="t"),
]


def check_gathered(case):
    """Check all that a factor computes against rows that are added up one by one."""
    rng = np.random.default_rng(3)
    n, t, m, o, rows = len(case.ids), len(case.ids[0]), case.outputs, case.columns, case.rows
    d, x, u = rng.normal(size=(n, m, t, o)), rng.normal(size=(rows * o, 2)), rng.normal(size=(n, m, 2))
    arguments = tf.constant(case.ids), tf.constant(d), tf.constant(rows), tf.constant(x), tf.constant(u)
    specs = [_spec(each, names, case.open) for each, names in zip(arguments, ("nt", "nmto", "", "qr", "nmr"))]
    compute = tf.function(lambda *given: _of(case, *given), autograph=False, input_signature=specs)
    j = _added_up(case.ids, d, rows)
    flat = j.reshape(n * m, rows * o)
    twice = 2.0 * j + _added_up(np.flip(case.ids, 0), d, rows)
    blocks = [
        each.reshape(n, m, rows, o) for each in (j, _added_up(case.ids, d * (np.arange(o) >= o - case.half), rows))
    ]
    expected = {
        "number of columns": rows * o,
        "dense": j,
        "matmul": (flat @ x).reshape(n, m, 2),
        "matmul of a column": (flat @ x[:, :1]).reshape(n, m, 1),
        "adjoint": flat.T @ u.reshape(n * m, 2),
        "adjoint of a column": flat.T @ u[:, :, :1].reshape(n * m, 1),
        "kernel": flat @ flat.T,
        "kernel of a table too large for rows": flat @ flat.T,
        "row norms": (j**2).sum(2),
        "column norms": (flat**2).sum(0),
        "scaled and joined": twice,
        "grams of rows": sum(np.einsum("nmvo,nmvp->vop", block, block) for block in blocks),
        "sparse rows": np.concatenate([np.zeros([n, m, 7]), j, twice], 2),
    }
    computed = compute(*arguments)
    assert set(computed) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(computed[name], value, rtol=1e-12, atol=1e-12, err_msg=f"{case.name}: {name}")


def _spec(tensor, names, open_axes):
    """What the trace knows of a tensor with axes `names`."""
    is_open = [open_axes == "nt" or name in open_axes for name in names]
    return tf.TensorSpec([None if each else size for each, size in zip(is_open, tensor.shape)], tensor.dtype)


def _added_up(ids, d, rows):
    """The definition: `[n,m,rows·o]`."""
    n, m, t, o = d.shape
    j = np.zeros([n, m, rows, o])
    for k in range(n):
        for position in range(t):
            j[k, :, ids[k][position]] += d[k, :, position]
    return j.reshape(n, m, rows * o)


def _of(case, ids, d, rows, x, u):
    """All that the factor computes, by name."""
    rows = rows if case.open == "nt" else case.rows
    factor = GatherFactor(ids, d, rows)
    assert GatherFactor(ids, tf.cast(d, tf.float16), rows).dtype == tf.float32
    assert not factor.has_outer_form and factor.dtype == tf.float64
    names = factor.axes_of_tensors()
    assert [len(each) for each in names] == [tensor.shape.rank for tensor in factor.tensors()]
    assert names[:2] == ("nt", "nmto")
    both = factor.scaled(2.0).joined(GatherFactor(tf.reverse(ids, [0]), d, rows))
    cuts, last = case.columns // case.half, case.columns - case.half
    cut = GatherFactor(ids * cuts + cuts - 1, tf.reshape(d[..., last:], [*axes(d)[:3], case.half]), rows * cuts)
    if d.shape[3] is None:
        assert factor.joined(cut) is None
        cut = GatherFactor(ids, tf.concat([tf.zeros_like(d[..., :last]), d[..., last:]], 3), rows)
    else:
        assert all(factor.joined(GatherFactor(ids, d[..., :width], rows)) is None for width in {0, last} - {case.half})
    parts = side_by_side([sparse_rows(factor, 7), sparse_rows(DenseFactor(both.dense()), 7 + factor.num_columns)])
    assert parts.columns.dtype == tf.int32
    return {
        "number of columns": factor.num_columns,
        "dense": factor.dense(),
        "matmul": factor.matmul(x),
        "matmul of a column": factor.matmul(x[:, :1]),
        "adjoint": factor.adjoint_matmul(u),
        "adjoint of a column": factor.adjoint_matmul(u[:, :, :1]),
        "kernel": factor.kernel(),
        "kernel of a table too large for rows": GatherFactor(ids, d, rows if case.open else 10**9).kernel(),
        "row norms": factor.squared_row_norms(),
        "column norms": factor.squared_column_norms(),
        "scaled and joined": both.dense(),
        "grams of rows": row_grams([factor, cut]),
        "sparse rows": GatherFactor(parts.columns, parts.values[..., None], 7 + 2 * factor.num_columns).dense(),
    }
