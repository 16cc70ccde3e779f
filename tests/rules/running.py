"""Running cases: against one gradient per row, alone or many side by side in one graph."""

import functools

import numpy as np
import tensorflow as tf

import tfjac
from tests.rules.case import N
from tests.rules.recording import recorded
from tfjac.graph import SHARED, ExamplesMix, analyse_examples


@functools.cache
def expected(case):
    """Return ∂y/∂x and ∂y/∂v for each weight as arrays `[n, m, *v.shape]`, by one `tape.gradient` per row."""
    x, weights = case.make()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = case(x, *weights)
        elements = tf.unstack(tf.reshape(y, [-1]))
    rows = [tape.gradient(element, [x, *weights], unconnected_gradients="zero") for element in elements]
    return [
        np.reshape([tf.convert_to_tensor(row[k]).numpy() for row in rows], (*y.shape, *v.shape))
        for k, v in enumerate([x, *weights])
    ]


def check(*cases):
    """Check all that is asked of Jacobians for cases side by side, which take examples of one shape.

    The rows of all are those of one operator, so that one graph serves for many.

    Raises:
        AssertionError: naming the case.
    """
    made = [case.make() for case in cases]
    oracle = [expected(case) for case in cases]
    widths = [rows[0].shape[1] for rows in oracle]
    weights = [weight for _, own in made for weight in own]

    @tf.function(jit_compile=cases[0].jit or None)
    def compute(*xs):
        ys = tf.concat([case(x, *own) for case, x, (_, own) in zip(cases, xs, made)], 1)
        operator = tfjac.jacobian_operator(ys, weights)
        blocks = tfjac.batch_jacobian(ys, list(xs), unconnected_gradients="zero")
        return blocks, operator.to_dense(), operator.gram(), operator.row_norms()

    blocks, dense, gram, norms = compute(*(x for x, _ in made))
    tolerance = max(case.tolerance for case in cases)
    dense = tf.reshape(dense, [N, sum(widths), -1]).numpy()
    wanted = np.zeros_like(dense)
    row = column = 0
    for case, block, rows, width in zip(cases, blocks, oracle, widths):
        own = np.concatenate([part.reshape(N, width, -1) for part in rows[1:]], 2)
        wanted[:, row : row + width, column : column + own.shape[2]] = own
        _check_examples_apart(case, block.numpy()[:, row : row + width], rows[0])
        row, column = row + width, column + own.shape[2]
        found = dense[:, row - width : row, column - own.shape[2] : column]
        _close(found, own, case.tolerance, f"{case.name}: rows of the weights")
    _close(dense, wanted, tolerance, "rows of all weights")
    flat = wanted.reshape(N * sum(widths), -1)
    _close(gram.numpy(), flat.T @ flat, 10 * tolerance, "gram")
    _close(norms.numpy(), np.linalg.norm(flat, axis=1), 10 * tolerance, "row norms")


def _check_examples_apart(case, block, rows):
    diagonal = np.stack([rows[n, :, n] for n in range(N)])
    others = rows.copy()
    for n in range(N):
        others[n, :, n] = 0
    assert not np.any(others), f"{case.name}: examples mix, so this is no case of examples apart"
    _close(block, diagonal, case.tolerance, f"{case.name}: rows of the examples")


def _close(found, wanted, tolerance, name):
    assert np.all(np.isfinite(wanted)), f"{name}: the oracle is not finite"
    scale = max(1.0, np.abs(wanted).max())
    np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=tolerance, err_msg=name)


def answer(case):
    """Return what the analysis makes of a case: the axis of its examples, or the `ExamplesMix` that it raised."""
    x, weights = case.make()
    found = {}

    @tf.function
    def trace(x):
        y = case(x, *weights)
        try:
            found["answer"] = analyse_examples([x], [y]).axis(x)
        except ExamplesMix as mix:
            found["answer"] = mix
        return y

    trace.get_concrete_function(x)
    return found["answer"]


def check_mixes(case):
    """Check that examples mix in numbers, and that the analysis does not take them for independent."""
    x, weights = case.make()
    before = case(x, *weights).numpy()
    moved = case(tf.tensor_scatter_nd_add(x, [[0]], tf.ones([1, *case.shape], x.dtype)), *weights).numpy()
    assert not np.array_equal(before[1:], moved[1:]), f"{case.name}: no example depends on another"
    found = answer(case)
    assert found is SHARED or isinstance(found, ExamplesMix), f"{case.name}: the examples mix, but are said to be apart"


def calls_of(run, *cases):
    """The `Call`s that rules get while `run(*cases)` runs."""
    with recorded() as calls:
        run(*cases)
    return calls
