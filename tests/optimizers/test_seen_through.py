"""Rows and elements seen through ops that move them: J by its pattern, beside one tape row by row, and the plan."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import tensorflow as tf

import tfjac
from tfjac.fits import prepared
from tfjac.jacobians.rows import forms_of_blocks
from tfjac.jacobians.sparsity import sparsity
from tfjac.jacobians.sparsity.index_sets import TooManyEntries, at_most
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.objective.residuals import objective_of_residuals
from tfjac.objective.tracing.callables import as_data

RNG = np.random.default_rng(0)
IDS, PAIRS = RNG.integers(0, 6, 15), RNG.integers(0, 6, [20, 2])
FIRST, MORE = RNG.normal(size=[1, 6]), RNG.normal(size=[6, 6])

SEEN = {
    "slices of a vector, reshaped": lambda x, _: tf.gather(tf.reshape(tf.reshape(x, [-1])[6:], [10, 3]), IDS % 6) ** 2,
    "a frame around a grid": lambda x, _: tf.pad(x, [[1, 1], [1, 1]])[2:, 1:-1] * x,
    "a mirrored frame": lambda x, _: tf.pad(x, [[1, 0], [0, 0]], "SYMMETRIC")[:-1] * tf.exp(x),
    "a constant before a table": lambda x, _: tf.gather(tf.concat([FIRST, x], 0), IDS) * tf.gather(x, IDS[::-1]),
    "two tables as one": lambda x, y: tf.gather(tf.concat([x, y], 0), 2 * (IDS % 6)) ** 3,
    "tables side by side": lambda x, y: tf.sin(tf.gather(tf.stack([x, y, MORE], 1), IDS)),
    "rolled": lambda x, _: x * tf.roll(x, 1, 0) - tf.roll(x, -2, 1),
    "reversed": lambda x, y: tf.reverse(x, [1]) * y,
    "split": lambda x, _: tf.square(tf.split(x, 3)[0] - tf.split(x, 3)[2]),
    "sums over what meets": lambda x, _: tf.math.unsorted_segment_sum(tf.gather(x, PAIRS[:, 0]) ** 2, PAIRS[:, 1], 6),
    "single elements": lambda x, y: tf.gather_nd(x, PAIRS) * tf.gather_nd(tf.transpose(y), PAIRS),
    "columns": lambda x, _: tf.gather(x, IDS, axis=1) - 2 * tf.gather(x, IDS[::-1], axis=1) ** 2,
    "differences along both axes": lambda x, _: tf.concat(
        [tf.reshape(each, [-1]) for each in (x[1:] ** 2 - x[:-1], x[:, 1:] - x[:, :-1] ** 2)], 0
    ),
    "a stencil": lambda x, _: tf.nn.conv2d(x[None, :, :, None], np.ones([3, 3, 1, 1]), 1, "SAME") ** 2,
    "residuals of one variable, then of the other": lambda x, y: tf.concat([x[1:] * x[:-1], y[::2] ** 2], 0),
    "a table times a number": lambda x, y: tf.gather(tf.exp(y[0, 0]) * x + y[1, 1], IDS),
    "half of them kept": lambda x, y: tf.where(np.arange(36).reshape(6, 6) % 2 == 0, tf.roll(x, 1, 0), y) ** 2,
}


@pytest.fixture
def eager_to_compress(monkeypatch):
    """Read the pattern of a J of any size, wherever it has fewer numbers."""
    monkeypatch.setattr(forms_of_blocks, "FEW_COLUMNS", 0)
    monkeypatch.setattr(forms_of_blocks, "MANY_OUTPUTS", 1)
    monkeypatch.setattr(forms_of_blocks, "SHARE", 1)


def by_tape(residuals, variables):
    """J `[rows, p]`, one gradient of TensorFlow's for each row."""
    with tf.GradientTape(persistent=True) as tape:
        rows = tf.unstack(tf.reshape(residuals(*variables), [-1]))
    grads = [tape.gradient(row, variables, unconnected_gradients="zero") for row in rows]
    return np.stack([np.concatenate([np.ravel(tf.convert_to_tensor(each)) for each in row]) for row in grads])


def linearised(residuals, variables, vector):
    """J dense, J·v, JᵀJ, the norms of its columns, and the kinds of its factors, as the optimizer has them."""
    kinds = []

    @tf.function(autograph=False)
    def run():
        jacobian = objective_of_residuals([residuals(*variables)], variables).linearise().jacobian
        kinds.extend(type(each) for factors in jacobian.factors() for each in factors)
        rows = jacobian.to_dense()
        return rows, jacobian.matvec(vector), jacobian.gram_and_gradient(rows[:, 0])[0], jacobian.column_norms_squared()

    return run(), kinds


@pytest.mark.by_day(one_in=9)
@pytest.mark.usefixtures("eager_to_compress")
@pytest.mark.parametrize("name", SEEN)
def test_rows_are_those_of_one_tape(name):
    x, y = (tf.Variable(RNG.normal(size=[6, 6])) for _ in range(2))
    variables = [x, y] if any(_uses_second(SEEN[name], x, y)) else [x]

    def residuals(x, y=y):
        return SEEN[name](tf.convert_to_tensor(x), tf.convert_to_tensor(y))

    v = RNG.normal(size=36 * len(variables))
    expected = by_tape(residuals, variables)
    (rows, image, gram, norms), kinds = linearised(residuals, variables, v)
    assert kinds == [GatherFactor] * len(variables)
    for found, wanted in ((rows, expected), (image, expected @ v), (gram, expected.T @ expected)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(norms, np.sum(expected**2, 0), rtol=1e-12, atol=1e-12)


def _uses_second(function, x, y):
    with tf.GradientTape() as tape:
        result = function(tf.convert_to_tensor(x), tf.convert_to_tensor(y))
    yield tape.gradient(result, y) is not None


@pytest.mark.by_day(None)
@pytest.mark.usefixtures("eager_to_compress")
@pytest.mark.parametrize("seed", range(6))
def test_random_mixes_of_such_ops(seed):
    rng = np.random.default_rng(seed)
    names = [name for name in SEEN if SEEN[name](FIRST * np.ones([6, 1]), MORE).shape[:1] == (6,)]
    chosen = [SEEN[names[k]] for k in rng.integers(0, len(names), 3)]
    x, y = (tf.Variable(rng.normal(size=[6, 6])) for _ in range(2))

    def residuals(x, y):
        x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
        first = tf.reshape(x * y, [-1])
        for function in chosen[:-1]:
            x, y = tf.tanh(tf.reshape(function(x, y), [6, -1]))[:, :6], tf.roll(x, 1, 1)
            x = x if x.shape[1] == 6 else tf.pad(x, [[0, 0], [0, 6 - x.shape[1]]]) + y
        return tf.concat([tf.reshape(chosen[-1](x, y), [-1]), first[::2]], 0)

    (rows, *_), _ = linearised(residuals, [x, y], tf.zeros([72], tf.float64))
    np.testing.assert_allclose(rows, by_tape(residuals, [x, y]), rtol=1e-12, atol=1e-12)


@pytest.mark.by_day(None)
def test_a_boundary_value_problem_by_padding():
    """Bratu's: Newton's method with a sparse LU by SciPy, from zero."""
    n, h2 = 24, 6 / 25**2
    u = tf.Variable(tf.zeros([n, n], tf.float64))

    def residuals():
        p = tf.pad(u, [[1, 1], [1, 1]])
        return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u + h2 * tf.exp(u)

    second = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    laplace, found = scipy.sparse.kronsum(second, second), np.zeros(n * n)
    for _ in range(30):
        slope = scipy.sparse.csc_array(laplace + scipy.sparse.diags_array(h2 * np.exp(found)))
        found -= scipy.sparse.linalg.spsolve(slope, laplace @ found + h2 * np.exp(found))
    result = tfjac.least_squares(residuals, u, solver="sparse")
    assert result.success
    np.testing.assert_allclose(result.x.ravel(), found, rtol=1e-8)


@pytest.mark.by_day(None)
def test_what_is_seen_through_is_not_said_to_prevent_sparsity():
    u = tf.Variable(RNG.normal(size=[48, 48]))

    def residuals():
        p = tf.pad(u, [[1, 1], [1, 1]])
        return p[2:, 1:-1] + p[:-2, 1:-1] - 2 * u + tf.exp(u)

    plan = tfjac.LeastSquaresProblem(residuals, u).plan()
    assert "solver: sparse" in str(plan) and plan.hints == ()


@pytest.mark.by_day(None)
def test_a_picture_by_differences_of_its_rows_and_columns_is_sparse():
    """With one pixel that is pinned, the residual of which reads a single one of all columns."""
    n, smooth, pinned = 48, 3.0, 2.0
    noisy = RNG.normal(size=[n, n])
    u = tf.Variable(noisy)
    problem = tfjac.LeastSquaresProblem(
        lambda: [u - noisy, smooth * (u[1:] - u[:-1]), smooth * (u[:, 1:] - u[:, :-1]), pinned * (u[3, 4] - 2.0)], u
    )
    plan = problem.plan()
    assert plan.solver == "sparse"
    assert plan.memory < 20 * 2**20
    step = scipy.sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - 1, n))
    eye = scipy.sparse.eye_array(n)
    gradient = scipy.sparse.vstack([scipy.sparse.kron(step, eye), scipy.sparse.kron(eye, step)])
    pin = scipy.sparse.csc_array(([1.0], ([0], [3 * n + 4])), shape=(1, n * n))
    normal = scipy.sparse.eye_array(n * n) + smooth**2 * gradient.T @ gradient + pinned**2 * pin.T @ pin
    right = noisy.ravel() + pinned**2 * 2.0 * pin.toarray()[0]
    expected = scipy.sparse.linalg.spsolve(scipy.sparse.csc_array(normal), right)
    np.testing.assert_allclose(problem.solve().x.ravel(), expected, rtol=1e-6, atol=1e-6)


def chain(count, seed):
    """Which of the points are seen from which others, and how far they are, with the least cost by NumPy."""
    rng = np.random.default_rng(seed)
    i, j = (
        np.r_[np.arange(count - 1), rng.integers(0, count, 40)],
        np.r_[np.arange(1, count), rng.integers(0, count, 40)],
    )
    seen = rng.normal(size=[len(i), 2])
    ends = np.zeros([len(i), count])
    np.add.at(ends, (np.arange(len(i)), j), 1.0)
    np.add.at(ends, (np.arange(len(i)), i), -1.0)
    return i, j, seen, np.sum((ends @ np.linalg.lstsq(ends, seen, rcond=None)[0] - seen) ** 2) / 2


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("again", [False, True], ids=["least_squares", "LeastSquaresProblem"])
def test_indices_among_the_data_are_those_of_now(again, monkeypatch):
    """One vector, cut by a number among the data; then other indices of the same shapes."""
    count = 200
    x, chosen = tf.Variable(np.zeros(3 + 2 * count)), []
    choose = prepared.OpenOrKnown.choose

    def residuals(skip, i, j, seen):
        points = tf.reshape(x[skip:], [count, 2])
        return tf.concat([tf.reshape(tf.gather(points, j) - tf.gather(points, i) - seen, [-1]), x[:skip]], 0)

    def noted(self, *given):
        found = choose(self, *given)
        chosen.append(found[1])
        return found

    monkeypatch.setattr(prepared.OpenOrKnown, "choose", noted)
    problem = tfjac.LeastSquaresProblem(residuals, x)
    for seed in (1, 2, 1):
        *data, expected = chain(count, seed)
        x.assign(np.zeros(3 + 2 * count))
        result = problem.solve(3, *data) if again else tfjac.least_squares(residuals, x, args=(3, *data))
        np.testing.assert_allclose(result.cost, expected, rtol=1e-6)
    assert len(set(chosen)) == 2


def test_indices_that_show_no_structure_are_left_open():
    """Each residual reads all weights: nothing is traced once more for other integers."""
    w, x = tf.Variable(RNG.normal(size=300)), RNG.normal(size=[300, 300])
    problem = tfjac.LeastSquaresProblem(lambda labels: tf.gather(tf.linalg.matvec(x, w) / tf.norm(w), labels) - 0.1, w)
    plans = [problem._problem._traced_for(as_data((RNG.integers(0, 300, 400),), [w]))[1] for _ in range(2)]
    assert plans[0] is plans[1]


def test_a_pattern_that_is_too_full_is_given_up_before_it_is_made():
    w, x = tf.Variable(tf.zeros([3000, 200])), tf.ones([3000, 3000])

    @tf.function(autograph=False)
    def run():
        with at_most(10**6), pytest.raises(TooManyEntries, match="are more than 1,000,000"):
            sparsity(tf.tanh(x @ w), w)
        return 0

    run()
