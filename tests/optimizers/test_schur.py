"""The Schur complement, factored and by conjugate gradients, against dense normal equations in NumPy, SciPy's minimum,
and the solvers that factor all."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tests.optimizers.gauss_newton import damped_step, first_step, rows_of_jacobian
from tfjac.jacobians.rows import read_in_parts
from tfjac.linear.model import Coupled, Elimination
from tfjac.linear.solvers.schur_jacobi import SchurJacobi
from tfjac.objective.residuals import objective_of_residuals
from tfjac.optimizers import (
    AutoSolver,
    IterativeSchurSolver,
    LeastSquaresProblem,
    LevenbergMarquardt,
    NielsenDamping,
    TrustRegionDamping,
    least_squares,
)
from tfjac.steps.statuses import Status

CAMERAS, POINTS = 4, 15


class Bundle:
    """Cameras that turn, move and share one focal length, and the points that some of them see."""

    def __init__(self, rng, dtype=tf.float64, observations=60):
        truth = rng.normal(size=(CAMERAS, 5)) * 0.1 + [0, 0, 0, 0, 4], rng.normal(size=(POINTS, 3)) * 0.5, 2.0
        self.camera = tf.constant(np.arange(observations) % CAMERAS, tf.int32)
        self.point = tf.constant(np.arange(observations) // CAMERAS % POINTS, tf.int32)
        self.cameras, self.points = (tf.Variable(part, dtype=dtype) for part in truth[:2])
        self.focal = tf.Variable(truth[2], dtype=dtype)
        self.seen = self.project(self.camera, self.point)
        self.seen += tf.constant(0.01 * rng.normal(size=self.seen.shape), dtype)
        self.variables = [self.cameras, self.points, self.focal]
        for variable in self.variables:
            variable.assign_add(tf.constant(0.03 * rng.normal(size=variable.shape), dtype))
        self.start = [variable.numpy() for variable in self.variables]

    def project(self, camera, point):
        turn, shift = tf.split(tf.gather(self.cameras, camera), [2, 3], axis=1)
        moved = tf.gather(self.points, point) + shift
        moved += tf.linalg.cross(tf.pad(turn, [[0, 0], [0, 1]]), moved)
        return self.focal * moved[:, :2] / moved[:, 2:]

    def residuals(self, camera=None, point=None, seen=None):
        """What was seen, where a camera is known, and points near the origin."""
        camera, point, seen = (self.camera, self.point, self.seen) if camera is None else (camera, point, seen)
        known = tf.gather(self.cameras, [0, 1, 1])[:, :4] - self.start[0][[0, 1, 1], :4]
        return [self.project(camera, point) - seen, known, 0.1 * tf.gather(self.points, tf.range(0, POINTS, 2))]

    def reset(self):
        for variable, value in zip(self.variables, self.start):
            variable.assign(value)

    @property
    def x(self):
        return np.concatenate([variable.numpy().ravel() for variable in self.variables])

    @tf.function(autograph=False)
    def dense(self):
        """r and J by TensorFlow, for all variables side by side."""
        with tf.GradientTape(persistent=True) as tape:
            rows = tf.concat([tf.reshape(part, [-1]) for part in self.residuals()], axis=0)
        parts = [tf.convert_to_tensor(tape.jacobian(rows, variable)) for variable in self.variables]
        return rows, tf.concat([tf.reshape(part, [rows.shape[0], -1]) for part in parts], axis=1)

    def of_x(self, x):
        for variable, part in zip(self.variables, np.split(x, np.cumsum([v.size for v in self.start])[:-1])):
            variable.assign(part.reshape(variable.shape))
        return self._flat().numpy()

    @tf.function(autograph=False)
    def _flat(self):
        return tf.concat([tf.reshape(part, [-1]) for part in self.residuals()], axis=0)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("scaling, order", [("identity", (0, 1, 2)), ("marquardt", (2, 1, 0))])
def test_steps_are_those_of_dense_equations(order, scaling, rng, implementation):
    _assert_steps_are_dense(order, scaling, "schur", rng)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "scaling, order, kind", [("identity", (0, 1, 2), "schur_jacobi"), ("marquardt", (2, 1, 0), "block_jacobi")]
)
def test_products_alone_lead_to_the_same_steps(order, scaling, kind, rng):
    _assert_steps_are_dense(order, scaling, IterativeSchurSolver(1e-13, 500, kind), rng)


def _assert_steps_are_dense(order, scaling, solver, rng):
    bundle = Bundle(rng)
    bundle.variables = [bundle.variables[k] for k in order]
    optimizer = LevenbergMarquardt(NielsenDamping(1e-3), scaling, solver)
    for _ in range(3):
        (r, jacobian), before = [part.numpy() for part in bundle.dense()], bundle.x
        report = optimizer.minimize(bundle.residuals, bundle.variables)
        diagonal = np.sum(np.square(jacobian), axis=0) if scaling == "marquardt" else np.ones(jacobian.shape[1])
        damped = jacobian.T @ jacobian + float(report.damping) * np.diag(diagonal)
        expected = before - np.linalg.solve(damped, jacobian.T @ r)
        assert report.accepted
        np.testing.assert_allclose(bundle.x, expected, rtol=1e-8, atol=1e-10)


class Pairs:
    """Points seen from two places at once, which may be one; examples that read the same; a scale for all."""

    def __init__(self, rng):
        self.places, self.points = tf.Variable(rng.normal(size=(4, 2))), tf.Variable(rng.normal(size=(7, 3)))
        self.scale = tf.Variable([0.7, 1.2], dtype=tf.float64)
        self.variables = [self.places, self.points, self.scale]
        self.pairs = np.array([[0, 1], [1, 1], [2, 0], [3, 2], [0, 1], [2, 3], [1, 3], [0, 0], [3, 1], [2, 1]] * 2)
        self.point = np.arange(20) // 2 % 7

    def __call__(self):
        first, second = tf.unstack(tf.gather(self.places, self.pairs), axis=1)
        point = tf.gather(self.points, self.point)
        seen = self.scale * tf.sin(point[:, :2] + first) + point[:, 2:] * second
        return [seen, tf.gather(self.places, [0, 2]) - 0.3, 0.1 * self.points, self.scale[None] - 1.0]


@pytest.mark.by_day(None)
def test_examples_that_read_several_rows_under_xla(rng):
    pairs = Pairs(rng)
    expected = damped_step(pairs, pairs.variables)
    loss = lambda: tf.add_n([tf.reduce_sum(part**2) / 2 for part in pairs()])  # noqa: E731
    step, _ = first_step(loss, pairs.variables, solver=IterativeSchurSolver(1e-13, 500), jit_compile=True)
    np.testing.assert_allclose(step, expected, rtol=1e-8, atol=1e-10)


def test_preconditioner_is_the_blocks_of_the_complement(rng):
    """Where no two examples read the same rows of both tables; beside blocks cut out of the dense complement."""
    pairs = Pairs(rng)
    pairs.pairs, pairs.point = np.array([[0, 1], [1, 1], [2, 0], [3, 2], [3, 2], [2, 3]]), np.array([0, 1, 1, 2, 3, 5])
    mass, vector = rng.uniform(0.1, 2, size=31), rng.normal(size=10)

    @tf.function(autograph=False)
    def applied():
        linearisation = objective_of_residuals(pairs(), pairs.variables).linearise()
        coupled = Coupled(linearisation, Elimination.of(linearisation.jacobian))
        others, own = coupled.elimination.split(tf.constant(mass))
        whitened, known = coupled.whitened(coupled.own_gram() + tf.linalg.diag(own))
        diagonal = coupled.elimination.split(linearisation.diagonal())[0]
        precondition = SchurJacobi("schur_jacobi", coupled, diagonal).inverse(whitened, others)
        return precondition(tf.constant(vector)), whitened.product(tf.constant(vector)) + others * vector, known

    _, jacobian = rows_of_jacobian(pairs, pairs.variables)
    matrix, own = jacobian.T @ jacobian + np.diag(mass), np.arange(8, 29)
    stays = np.delete(np.arange(31), own)
    lost = matrix[np.ix_(stays, own)] @ np.linalg.solve(matrix[np.ix_(own, own)], matrix[np.ix_(own, stays)])
    complement = matrix[np.ix_(stays, stays)] - lost
    blocks = np.kron(np.eye(5), np.ones((2, 2))) * complement
    preconditioned, product, known = applied()
    assert known
    np.testing.assert_allclose(product, complement @ vector, rtol=1e-9)
    np.testing.assert_allclose(preconditioned, np.linalg.solve(blocks, vector), rtol=1e-9)


def ways():
    yield "jit", {"jit_compile": True}
    yield "robust", {"loss": ["cauchy", None, "huber"], "loss_scale": 0.01, "fixed": [None, None, True]}
    by_j = TrustRegionDamping(residual_curvature=False)
    yield "bounds", {"bounds": (None, [None, 1.2, None]), "prior": (0.0, [None, 0.2, None]), "damping": by_j}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("options", [pytest.param(options, id=name) for name, options in ways()])
def test_ends_where_the_factorisation_of_all_ends(options, rng):
    bundle, ends = Bundle(rng), {}
    for solver in ("schur", "cholesky"):
        bundle.reset()
        ends[solver] = _end(bundle, solver, options)
    np.testing.assert_allclose(ends["schur"][0], ends["cholesky"][0], rtol=1e-8)
    np.testing.assert_allclose(ends["schur"][2], ends["cholesky"][2], rtol=1e-4, atol=1e-5)
    assert ends["schur"][1] == ends["cholesky"][1]


@pytest.mark.by_day(None)
def test_products_alone_lead_to_where_the_factorisation_ends(rng):
    """As well as it pays, so by other steps; to the last digits of a valley, where nothing is gained any more."""
    held = np.tile((np.arange(CAMERAS) == 2)[:, None], [1, 5])
    options = {
        "loss": ["huber", None, None],
        "loss_scale": 0.01,
        "prior": (0.0, [None, 0.2, None]),
        "fixed": [held, None, None],
        "bounds": (None, [None, 1.2, None]),
        "ftol": 1e-12,
    }
    bundle, ends = Bundle(rng), []
    for solver in ("schur_cg", "cholesky"):
        bundle.reset()
        found = least_squares(bundle.residuals, bundle.variables, solver=solver, **options)
        assert found.success or found.status is Status.STALLED, found.message
        ends.append(found.cost)
        np.testing.assert_array_equal(bundle.cameras.numpy()[held], bundle.start[0][held])
        assert (bundle.points.numpy() <= 1.2).all()
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)


def _end(bundle, solver, options):
    found = least_squares(bundle.residuals, bundle.variables, solver=solver, **options)
    assert found.success, found.message
    return found.cost, found.steps, bundle.x


@pytest.mark.by_day(None)
def test_scipy_finds_the_same_minimum(rng):
    bundle = Bundle(rng)
    expected = scipy.optimize.least_squares(bundle.of_x, bundle.x, xtol=1e-12, ftol=1e-12).cost
    bundle.reset()
    found = least_squares(bundle.residuals, bundle.variables, solver="schur")
    np.testing.assert_allclose(found.cost, expected, rtol=1e-8)


@pytest.mark.by_day(None)
def test_single_precision_and_any_number_of_observations(rng):
    """One trace for two numbers of them, solved in double precision."""
    bundle, double = Bundle(rng, tf.float32), Bundle(np.random.default_rng(0))
    double.start, double.seen = bundle.start, tf.cast(bundle.seen, tf.float64)
    problem = LeastSquaresProblem(bundle.residuals, bundle.variables, solver="schur", gram_dtype="float64")
    in_double = LeastSquaresProblem(double.residuals, double.variables)
    for count in (60, 48, 52):
        ends = []
        for each, fit in ((bundle, problem), (double, in_double)):
            each.reset()
            ends.append(fit.solve(each.camera[:count], each.point[:count], each.seen[:count]))
        found, expected = ends
        assert found.success
        np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-3)


@pytest.mark.by_day(None)
def test_points_that_nothing_determines_stay_and_disturb_no_other(rng):
    """One that is not seen, and one that a single camera sees, which fixes its direction alone."""
    bundle = Bundle(rng)
    kept = (bundle.point.numpy() != 3) & ((bundle.point.numpy() != 5) | (bundle.camera.numpy() == 1))
    camera, point = bundle.camera[kept], bundle.point[kept]

    def residuals():
        seen, known, _ = bundle.residuals(camera, point, bundle.seen[kept])
        return [seen, known]

    ends = {}
    for solver in ("schur", "schur_cg", "qr"):
        bundle.reset()
        found = least_squares(residuals, bundle.variables, solver=solver)
        assert found.success and np.isfinite(bundle.x).all()
        np.testing.assert_array_equal(bundle.points[3], bundle.start[1][3])
        ends[solver] = found.cost
    np.testing.assert_allclose([ends["schur"], ends["schur_cg"]], ends["qr"], rtol=1e-6)


@pytest.mark.by_day(None)
def test_auto_finds_it_and_says_so(rng):
    table, ids = tf.Variable(rng.normal(size=(200, 3))), tf.constant(np.arange(900) % 200)
    weights = tf.Variable(rng.normal(size=(3, 2)))
    x = tf.constant(rng.normal(size=(900, 2)))
    problem = LeastSquaresProblem(lambda: tf.tanh(tf.gather(table, ids) @ weights) - x, [weights, table])
    plan = problem.plan()
    assert plan.solver == "schur" and "200 rows of 3" in plan.reason and "6 × 6" in plan.reason
    assert LeastSquaresProblem(lambda: x @ weights[:2], [weights]).plan().solver == "qr"


def test_auto_multiplies_where_what_is_left_does_not_fit(rng):
    table, others = tf.Variable(rng.normal(size=(200, 3))), tf.Variable(rng.normal(size=(150, 3)))
    ids, x = rng.integers(0, [[200], [150]], size=(2, 900)), rng.normal(size=(900, 3))
    residuals = lambda: [tf.gather(table, ids[0]) + tf.gather(others, ids[1]) - x, 0.1 * others, 0.1 * table]  # noqa: E731
    problem = LeastSquaresProblem(residuals, [table, others], solver=AutoSolver(memory_budget=1e6))
    plan = problem.plan()
    assert plan.solver == "schur_cg" and "no matrix" in str(plan) and 0 < plan.memory - plan.held < 1e6
    assert "200 rows of 3" in plan.reason and "450 × 450, which does not fit" in plan.reason
    matrix = np.concatenate([np.eye(350)[ids[0]] + np.eye(350)[200 + ids[1]], 0.1 * np.eye(350)])
    expected, *_ = np.linalg.lstsq(matrix, np.concatenate([x, np.zeros((350, 3))]))
    assert problem.solve().success
    np.testing.assert_allclose(np.concatenate([table, others]), expected, atol=1e-4)


@pytest.mark.by_day(None)
def test_steps_that_are_tried_again(rng):
    """Several λ in one step, where TensorFlow rewrites sums of three in a loop into what may stand only once."""
    table, weights, bias = (tf.Variable(rng.normal(size=size)) for size in ((300, 3), (3, 40), (40,)))
    start, ids, y = [each.numpy() for each in (table, weights, bias)], np.arange(900) % 300, rng.normal(size=(900, 40))
    ends = []
    for solver in ("schur", "cholesky"):
        for variable, value in zip((table, weights, bias), start):
            variable.assign(value)
        found = least_squares(
            lambda: tf.tanh(tf.gather(table, ids) @ weights + bias) - y,
            [table, weights, bias],
            solver=solver,
            max_steps=2,
        )
        ends.append(found.cost)
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9)


def test_options_of_the_iterative_one():
    options = {"tolerance": 0.1, "max_iterations": 7, "preconditioner": "block_jacobi"}
    assert IterativeSchurSolver.from_config(options).get_config() == options
    with pytest.raises(ValueError, match=r"must be one of 'schur_jacobi', 'block_jacobi'. .*Received"):
        IterativeSchurSolver(preconditioner="shur_jacobi")


def test_refused_where_rows_meet(rng):
    table = tf.Variable(rng.normal(size=(9, 2)))
    steps = lambda: tf.gather(table, tf.range(1, 9)) - tf.gather(table, tf.range(8))  # noqa: E731
    for solver in ("schur", "schur_cg"):
        with pytest.raises(ValueError, match=f"'{solver}' eliminates a variable of which each example reads one row"):
            least_squares(steps, [table], solver=solver)


@pytest.mark.by_day(None)
def test_embeddings_in_a_keras_model(rng):
    """Ratings of items by users: the larger of the two tables is eliminated."""
    import keras

    keras.utils.set_random_seed(0)
    users, items = keras.Input([], dtype="int32"), keras.Input([], dtype="int32")
    both = [keras.layers.Embedding(40, 2)(users), keras.layers.Embedding(9, 2)(items)]
    model = keras.Model([users, items], keras.layers.Dense(1)(both[0] * both[1]))
    who, what = rng.integers(0, 40, 300), rng.integers(0, 9, 300)
    rating = np.sum(rng.normal(size=(40, 2))[who] * rng.normal(size=(9, 2))[what], axis=1, keepdims=True)
    losses, start = {}, [0.5 * rng.normal(size=weight.shape) for weight in model.get_weights()]
    for solver in ("schur", IterativeSchurSolver(1e-6), "cholesky"):
        model.set_weights(start)
        model.compile(tfjac.LevenbergMarquardt(solver=solver, acceleration=None), loss="mse")
        losses[getattr(solver, "name", solver)] = model.fit(
            [who, what], rating, batch_size=300, epochs=6, verbose=0
        ).history["loss"]
    np.testing.assert_allclose(losses["schur"], losses["cholesky"], rtol=1e-3)
    np.testing.assert_allclose(losses["schur_cg"], losses["cholesky"], rtol=1e-3)
    assert losses["schur"][-1] < losses["schur"][0] / 10


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("way", ["plain", "fixed", "prior", "float32"])
def test_points_that_are_not_seen_well_enough_are_named(way, rng):
    """One that no camera sees, one that a single camera sees twice; beside the ranks of the columns of dense J."""
    bundle = Bundle(rng, tf.float32 if way == "float32" else tf.float64)
    seen = np.flatnonzero((bundle.point != 3) & ((bundle.point != 7) | (bundle.camera == 1)) & (bundle.point != 9))
    camera, point = tf.gather(bundle.camera, seen), tf.gather(bundle.point, seen)
    held = np.zeros([POINTS, 3], bool)
    held[9] = held[7, 2] = way == "fixed"
    options = {"fixed": {"fixed": [True, held, True]}, "prior": {"prior": (0.0, [None, 1.0, None])}}.get(way, {})

    def residuals():
        return bundle.project(camera, point) - tf.gather(bundle.seen, seen)

    found = least_squares(residuals, bundle.variables, max_steps=5, solver="schur", **options)
    named = found.undetermined_rows()
    if way == "prior":
        assert not named
        return
    columns = found.jacobian()[:, CAMERAS * 5 : CAMERAS * 5 + 3 * POINTS].reshape(-1, POINTS, 3)
    ranks = [np.linalg.matrix_rank(columns[:, k, ~held[k]], 1e-4) for k in range(POINTS)]
    expected = np.flatnonzero(ranks < 3 - held.sum(axis=1))
    np.testing.assert_array_equal(named[found.names[1]], expected)
    assert list(expected) == ([3] if way == "fixed" else [3, 7, 9])
    assert found.names[1] in named and found.names[0] not in named


def _read_again(x):
    again = tf.reshape(tf.slice(x, [20], [300]), [100, 3])
    return tf.reshape(x[:20], [5, 4]), tf.concat([tf.reshape(x[20:], [100, 3])[:, :1], again[:, 1:]], axis=1)


CUTS = {
    "slices": (2, lambda x: (tf.reshape(x[:20], [5, 4]), tf.reshape(x[20:320], [100, 3]))),
    "rows": (2, lambda x: (tf.reshape(tf.reshape(x, [-1, 2])[:10], [5, 4]), tf.reshape(x[20:320], [100, 3]))),
    "points first": (2, lambda x: (tf.reshape(x[300:], [5, 4]), tf.reshape(x[:300], [100, 3]))),
    "split": (2, lambda x: tuple(map(tf.reshape, tf.split(x, [20, 300]), ([5, 4], [100, 3])))),
    "not all": (5, lambda x: (tf.reshape(x[3:11], [4, 2]), tf.reshape(x[17:317], [100, 3]))),
    "read again": (2, _read_again),
    "in common": (1, lambda x: (tf.reshape(x[:21], [7, 3]), tf.reshape(x[20:], [100, 3]))),
    "whole as well": (1, lambda x: (tf.reshape(x[:20], [5, 4]), tf.reshape(x, [-1, 4]))),
    "every other": (1, lambda x: (x[::2], x[1::2])),
}


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("name", CUTS)
def test_parts_of_a_flat_vector_have_its_derivatives(name, rng):
    number, cut = CUTS[name]
    x = tf.Variable(rng.normal(size=320))

    @tf.function
    def both():
        tensors = [tf.sin(part) * tf.reduce_sum(part) for part in cut(x)]
        moved, parts = read_in_parts(tensors, [x])
        assert len(parts) == number
        slopes = tf.gradients(moved, parts, unconnected_gradients="zero")
        return tf.concat([tf.reshape(slope, [-1]) for slope in slopes], 0), tf.gradients(tensors, x)[0]

    found, expected = map(tf.convert_to_tensor, both())
    np.testing.assert_allclose(found, expected)


def test_points_in_one_flat_vector_are_eliminated(rng):
    x, camera, point = tf.Variable(np.zeros(320)), np.arange(500) % 5, np.arange(500) // 5
    of_camera, of_point, seen = rng.normal(size=(500, 2, 4)), rng.normal(size=(500, 2, 3)), rng.normal(size=(500, 2))

    def residuals():
        cameras, points = CUTS["slices"][1](x)
        parts = tf.reduce_sum(of_camera * tf.gather(cameras, camera)[:, None], 2)
        return tf.reshape(parts + tf.reduce_sum(of_point * tf.gather(points, point)[:, None], 2) - seen, [-1])

    problem = LeastSquaresProblem(residuals, x)
    assert problem.plan().solver == "schur"
    problem.solve()
    matrix = np.zeros([500, 2, 320])
    for k in range(4):
        matrix[np.arange(500), :, 4 * camera + k] = of_camera[:, :, k]
    for k in range(3):
        matrix[np.arange(500), :, 20 + 3 * point + k] = of_point[:, :, k]
    np.testing.assert_allclose(x, np.linalg.lstsq(matrix.reshape(1000, 320), seen.reshape(-1))[0], atol=1e-6)
