"""What is said to keep J from being sparse: the op that does, not one before it; and what is advised helps."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

N = 800
RNG = np.random.default_rng(0)
IDS, FULL, BAND = RNG.integers(0, N, 1000), RNG.normal(size=[N, N]), np.eye(N) + np.eye(N, k=1)


def rows(table):
    return tf.gather(table, IDS) - 1.0


SEEN_THROUGH = {
    "rolled": lambda x: tf.roll(x, 1, 0),
    "padded": lambda x: tf.pad(x, [[1, 1], [0, 0]])[1:-1],
    "beside constants": lambda x: tf.concat([x[1:], np.ones([1, 3])], 0),
    "transposed": lambda x: tf.transpose(tf.reverse(tf.transpose(x), [1])),
    "split": lambda x: tf.concat(tf.split(x, 2)[::-1], 0),
}

WIDENS = {
    "Cumsum": (tf.cumsum, "make the running sums the variable"),
    "MatMul": (lambda x: tf.matmul(FULL, x), "have it as a constant in the function"),
    "Mean": (lambda x: x - tf.reduce_mean(x, 0), 'solver="lsmr"'),
    "Softmax": (lambda x: tf.transpose(tf.nn.softmax(tf.transpose(x))), 'solver="lsmr"'),
    "TensorScatterUpdate": (
        lambda x: tf.tensor_scatter_nd_update(x, tf.argsort(x[:, 0])[:, None], x),
        "give indices that are known before the fit",
    ),
}


def plan_of(residuals, *args):
    x = tf.Variable(RNG.normal(size=[N, 3]))
    return tfjac.LeastSquaresProblem(lambda *args: residuals(tf.convert_to_tensor(x), *args), x).plan(*args)


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize(("widens", "seen"), list(zip(WIDENS, SEEN_THROUGH, strict=True)))
def test_the_op_that_widens_is_named_whatever_comes_before(widens, seen):
    function, advice = WIDENS[widens]
    (hint,) = plan_of(lambda x: rows(function(SEEN_THROUGH[seen](x * x)))).hints
    assert f"of type {widens} " in hint and advice in hint


@pytest.mark.by_day(None)
def test_a_product_of_examples_is_named_not_what_moves_them():
    (hint,) = plan_of(lambda x: tf.matmul(FULL, tf.roll(x * x, 1, 0)) - 1.0).hints
    assert "of type MatMul " in hint


ADVISED = {
    "running sums": (lambda s: tf.concat([rows(s), s[1:] - s[:-1]], 0), ()),
    "a matrix that is known": (lambda x: rows(tf.matmul(BAND, x)), ()),
    "indices in args": (lambda x, i: tf.gather(x, i) * tf.gather(x, i[::-1]) - 1.0, (IDS,)),
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", ADVISED)
def test_what_is_advised_is_sparse(name):
    residuals, args = ADVISED[name]
    plan = plan_of(residuals, *args)
    assert plan.solver == "sparse" and plan.hints == ()


@pytest.mark.by_day(None)
def test_few_columns_in_many_variables_are_not_read_once_more(monkeypatch):
    monkeypatch.setattr("tfjac.fits.traced.hints_of", lambda *args: pytest.fail("read once more"))
    points, cameras = tf.Variable(RNG.normal(size=[N, 3])), [tf.Variable(RNG.normal(size=[3])) for _ in range(2)]
    terms = lambda: [tf.gather(points, IDS[k::2]) * camera - 1.0 for k, camera in enumerate(cameras)]  # noqa: E731
    plan = tfjac.LeastSquaresProblem(terms, [points, *cameras]).plan()
    assert plan.hints == () and plan.parameters == 3 * N + 6
