"""The Schur complement against dense normal equations in NumPy, SciPy's minimum, and the solvers that factor all."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.optimizers import LeastSquaresProblem, LevenbergMarquardt, NielsenDamping, least_squares

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


@pytest.mark.parametrize("scaling, order", [("identity", (0, 1, 2)), ("marquardt", (2, 1, 0))])
def test_steps_are_those_of_dense_equations(order, scaling, rng, implementation):
    bundle = Bundle(rng)
    bundle.variables = [bundle.variables[k] for k in order]
    optimizer = LevenbergMarquardt(NielsenDamping(1e-3), scaling, "schur")
    for _ in range(3):
        (r, jacobian), before = [part.numpy() for part in bundle.dense()], bundle.x
        report = optimizer.minimize(bundle.residuals, bundle.variables)
        diagonal = np.sum(np.square(jacobian), axis=0) if scaling == "marquardt" else np.ones(jacobian.shape[1])
        damped = jacobian.T @ jacobian + float(report.damping) * np.diag(diagonal)
        expected = before - np.linalg.solve(damped, jacobian.T @ r)
        assert report.accepted
        np.testing.assert_allclose(bundle.x, expected, rtol=1e-8, atol=1e-10)


def ways():
    yield "plain", {}
    yield "jit", {"jit_compile": True}
    yield "robust", {"loss": ["cauchy", None, "huber"], "loss_scale": 0.01}
    yield "fixed", {"fixed": [None, None, True]}
    yield "bounds", {"bounds": (None, [None, 1.2, None])}
    yield "prior", {"prior": (0.0, [None, 0.2, None])}
    yield "geodesic", {"acceleration": "geodesic"}
    yield "trust region", {"damping": "trust_region", "scaling": "more"}


@pytest.mark.parametrize("options", [pytest.param(options, id=name) for name, options in ways()])
def test_ends_where_the_factorisation_of_all_ends(options, rng):
    bundle, ends = Bundle(rng), {}
    for solver in ("schur", "cholesky"):
        bundle.reset()
        found = least_squares(bundle.residuals, bundle.variables, solver=solver, **options)
        assert found.success, found.message
        ends[solver] = found.cost, found.steps, bundle.x
    np.testing.assert_allclose(ends["schur"][0], ends["cholesky"][0], rtol=1e-9)
    np.testing.assert_allclose(ends["schur"][2], ends["cholesky"][2], rtol=1e-4, atol=1e-5)
    assert ends["schur"][1] == ends["cholesky"][1]


def test_scipy_finds_the_same_minimum(rng):
    bundle = Bundle(rng)
    expected = scipy.optimize.least_squares(bundle.of_x, bundle.x, xtol=1e-12, ftol=1e-12).cost
    bundle.reset()
    found = least_squares(bundle.residuals, bundle.variables, solver="schur")
    np.testing.assert_allclose(found.cost, expected, rtol=1e-8)


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


def test_points_that_nothing_determines_stay_and_disturb_no_other(rng):
    """One that nobody sees, and one that a single camera sees, which fixes its direction alone."""
    bundle = Bundle(rng)
    kept = (bundle.point.numpy() != 3) & ((bundle.point.numpy() != 5) | (bundle.camera.numpy() == 1))
    camera, point = bundle.camera[kept], bundle.point[kept]

    def residuals():
        seen, known, _ = bundle.residuals(camera, point, bundle.seen[kept])
        return [seen, known]

    ends = {}
    for solver in ("schur", "qr"):
        bundle.reset()
        found = least_squares(residuals, bundle.variables, solver=solver)
        assert found.success and np.isfinite(bundle.x).all()
        np.testing.assert_array_equal(bundle.points[3], bundle.start[1][3])
        ends[solver] = found.cost
    np.testing.assert_allclose(ends["schur"], ends["qr"], rtol=1e-6)


def test_auto_finds_it_and_says_so(rng):
    table, ids = tf.Variable(rng.normal(size=(200, 3))), tf.constant(np.arange(900) % 200)
    weights = tf.Variable(rng.normal(size=(3, 2)))
    x = tf.constant(rng.normal(size=(900, 2)))
    problem = LeastSquaresProblem(lambda: tf.tanh(tf.gather(table, ids) @ weights) - x, [weights, table])
    plan = problem.plan()
    assert plan.solver == "schur" and "200 rows of 3" in plan.reason and "6 × 6" in plan.reason
    assert LeastSquaresProblem(lambda: x @ weights[:2], [weights]).plan().solver == "qr"


def test_refused_where_rows_meet(rng):
    table = tf.Variable(rng.normal(size=(9, 2)))
    steps = lambda: tf.gather(table, tf.range(1, 9)) - tf.gather(table, tf.range(8))  # noqa: E731
    with pytest.raises(ValueError, match="eliminates a variable of which each example reads one row"):
        least_squares(steps, [table], solver="schur")


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
    for solver in ("schur", "cholesky"):
        model.set_weights(start)
        model.compile(tfjac.LevenbergMarquardt(solver=solver), loss="mse")
        losses[solver] = model.fit([who, what], rating, batch_size=300, epochs=6, verbose=0).history["loss"]
    np.testing.assert_allclose(losses["schur"], losses["cholesky"], rtol=1e-3)
    assert losses["schur"][-1] < losses["schur"][0] / 10


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
