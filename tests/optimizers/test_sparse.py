"""Sparse normal equations: poses that see one another, against the solvers that form all of JᵀJ, and SciPy."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.linear.solvers.sparse_counts import SparseCounts
from tfjac.optimizers import LeastSquaresProblem, TrustRegionDamping, least_squares

NUMBER = 20


class PoseGraph:
    """Positions and headings along a walk, what each saw of the next one and of some others, and where it began."""

    def __init__(self, rng):
        heading = np.cumsum(rng.choice([0.0, 0.5, -0.5], NUMBER))
        places = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], axis=1), axis=0)
        self.truth = np.concatenate([places, heading[:, None]], axis=1)
        loops = rng.integers(0, NUMBER, (2, 15))
        loops = loops[:, loops[0] != loops[1]]
        self.start, self.end = (np.r_[a, b] for a, b in zip((np.arange(NUMBER - 1), np.arange(1, NUMBER)), loops))
        self.poses = tf.Variable(self.truth)
        self.seen = self.relative().numpy() + rng.normal(size=[len(self.start), 3]) * 0.02
        self.reset(rng)

    def reset(self, rng):
        self.poses.assign(self.truth + 0.2 * rng.normal(size=self.truth.shape))

    def relative(self):
        here, there = tf.gather(self.poses, self.start), tf.gather(self.poses, self.end)
        (x, y, turn), sine, cosine = tf.unstack(there - here, axis=1), tf.sin(here[:, 2]), tf.cos(here[:, 2])
        return tf.stack([cosine * x + sine * y, cosine * y - sine * x, turn], axis=1)

    def residuals(self):
        return [self.relative() - self.seen, self.poses[:1] * 10.0, 0.1 * (self.poses[2:] - 2.0 * self.poses[1:-1])]

    def of_x(self, x):
        self.poses.assign(x.reshape(NUMBER, 3))
        return self._flat().numpy()

    @tf.function(autograph=False)
    def _flat(self):
        return tf.concat([tf.reshape(part, [-1]) for part in self.residuals()], axis=0)


BY_J = TrustRegionDamping(residual_curvature=False)
"""The steps of "sparse", with J alone."""

WAYS = {
    "plain": {"damping": BY_J},
    "robust": {"loss": ["huber", None, "cauchy"], "loss_scale": 0.05},
    "bounds": {"bounds": (None, 4.0), "damping": BY_J},
    "prior": {"prior": (0.0, 3.0), "damping": BY_J, "scaling": "more"},
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", WAYS)
def test_ends_where_the_factorisation_of_all_ends(name, rng):
    graph, ends = PoseGraph(rng), {}
    first = np.minimum(graph.poses.numpy(), 4.0 if name == "bounds" else np.inf)
    for solver in ("sparse", "cholesky"):
        graph.poses.assign(first)
        found = least_squares(graph.residuals, [graph.poses], solver=solver, **WAYS[name])
        assert found.success, found.message
        ends[solver] = found.cost, graph.poses.numpy(), found.steps
    np.testing.assert_allclose(ends["sparse"][0], ends["cholesky"][0], rtol=1e-9)
    np.testing.assert_allclose(ends["sparse"][1], ends["cholesky"][1], rtol=1e-5, atol=1e-6)
    assert ends["sparse"][2] == ends["cholesky"][2]


@pytest.mark.by_day(None)
def test_scipy_finds_the_same_minimum(rng):
    graph = PoseGraph(rng)
    first = graph.poses.numpy()
    expected = scipy.optimize.least_squares(graph.of_x, first.ravel(), xtol=1e-12, ftol=1e-12).cost
    for solver in ("sparse", "cg"):
        graph.poses.assign(first)
        found = least_squares(graph.residuals, [graph.poses], solver=solver, ftol=1e-12)
        np.testing.assert_allclose(found.cost, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="solver='sparse' runs in Python"):
        least_squares(graph.residuals, [graph.poses], solver="sparse", jit_compile=True)


@pytest.mark.by_day(None)
def test_what_is_not_determined_or_not_finite_is_a_status(rng):
    """Without where it began nothing holds the whole; and an observation that is no number."""
    graph = PoseGraph(rng)
    found = least_squares(lambda: graph.relative() - graph.seen, [graph.poses], solver="sparse")
    assert found.success and np.isfinite(graph.poses).all() and found.cost < 1
    graph.seen[3, 1] = np.nan
    before = graph.poses.numpy()
    found = least_squares(lambda: graph.relative() - graph.seen, [graph.poses], solver="sparse")
    assert not found.success and found.status.name == "NOT_FINITE"
    np.testing.assert_array_equal(graph.poses, before)


def test_auto_takes_it_for_many_that_meet_few(rng):
    """A chain of 3,000 points is sparse; so is one that is anchored; one that all meet one parameter is not."""
    chain, scale = tf.Variable(rng.normal(size=(1000, 3))), tf.Variable(1.0, dtype=tf.float64)
    steps = lambda: [chain[1:] - chain[:-1], 0.1 * chain, chain[0] - 1.0]  # noqa: E731
    plan = LeastSquaresProblem(steps, [chain]).plan()
    assert plan.solver == "sparse" and "JᵀJ is sparse" in str(plan)
    assert LeastSquaresProblem(lambda: scale * (chain[1:] - chain[:-1]), [chain, scale]).plan().solver != "sparse"
    found = least_squares(steps, [chain])
    matrix = np.concatenate([np.diff(np.eye(1000), axis=0), 0.1 * np.eye(1000), np.eye(1, 1000)])
    expected, *_ = np.linalg.lstsq(matrix, np.eye(1, len(matrix), len(matrix) - 1)[0])
    assert found.success
    np.testing.assert_allclose(chain, np.repeat(expected[:, None], 3, axis=1), atol=1e-6)


@pytest.mark.by_day(None)
def test_auto_takes_it_for_hundreds_that_meet_few(rng):
    """A picture of 24 × 24 points, smoothed: some rows of J are read from whole rows of it, others point by point."""
    pixels = tf.Variable(noisy := rng.normal(size=(24, 24)))
    steps = lambda: [pixels - noisy, 2 * (pixels[1:] - pixels[:-1]), 2 * (pixels[:, 1:] - pixels[:, :-1])]  # noqa: E731
    problem = LeastSquaresProblem(steps, pixels)
    assert problem.plan().solver == "sparse"
    assert LeastSquaresProblem(steps, pixels, jit_compile=True).plan().solver != "sparse"
    line = 2 * np.diff(np.eye(24), axis=0)
    matrix = np.concatenate([np.eye(576), np.kron(line, np.eye(24)), np.kron(np.eye(24), line)])
    expected, *_ = np.linalg.lstsq(matrix, np.r_[noisy.ravel(), np.zeros(len(matrix) - 576)])
    assert problem.solve().success
    np.testing.assert_allclose(pixels, expected.reshape(24, 24), atol=1e-7)


@pytest.mark.by_day(None)
def test_auto_takes_it_for_poses_in_variables_of_any_shape(rng):
    """Places and headings apart, and one number of each held by a residual: such a residual is not dense."""
    places, headings = tf.Variable(rng.normal(size=(300, 2))), tf.Variable(rng.normal(size=300))
    start, end = rng.integers(0, 300, (2, 600))

    def residuals():
        poses = tf.concat([places, headings[:, None]], axis=1)
        return [tf.gather(poses, end) - tf.gather(poses, start) - 1.0, places[0], 10 * headings[0] - 1.0, 0.1 * poses]

    problem = LeastSquaresProblem(residuals, [places, headings])
    assert problem.plan().solver == "sparse" and problem.solve().success
    line = np.zeros((len(start), 300))
    np.add.at(line, (np.arange(len(start)), end), 1.0)
    np.add.at(line, (np.arange(len(start)), start), -1.0)
    for found, weight, target in ((places, 1.0, 0.0), (headings, 10.0, 1.0)):
        matrix = np.concatenate([line, weight * np.eye(1, 300), 0.1 * np.eye(300)])
        expected, *_ = np.linalg.lstsq(matrix, np.r_[np.ones(len(line)), target, np.zeros(300)])
        np.testing.assert_allclose(np.reshape(found, (300, -1)).T - expected, 0, atol=1e-7)


@pytest.mark.by_day(None)
def test_equations_between_parameters_are_refused_and_solved_otherwise(rng):
    graph = PoseGraph(rng)
    first, rows = graph.poses.numpy(), (np.eye(1, 3 * NUMBER), np.zeros(1))
    for solver in ("sparse", "schur"):
        with pytest.raises(ValueError, match="equality"):
            least_squares(graph.residuals, [graph.poses], solver=solver, equality=rows)
    found = least_squares(graph.residuals, [graph.poses], equality=rows)
    start = first.ravel()[1:]
    expected = scipy.optimize.least_squares(lambda x: graph.of_x(np.r_[0.0, x]), start, xtol=1e-12, ftol=1e-12)
    assert found.success
    np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver", ["sparse", "cg", "cholesky"])
def test_a_variable_that_is_read_in_two_layouts(solver, rng):
    """As the table that it is and as one long vector, by the same examples and by others."""
    table, places, rows = tf.Variable(rng.normal(size=(6, 2))), rng.integers(0, 12, 9), rng.integers(0, 6, 9)
    start, measured = table.numpy(), rng.normal(size=(9, 2))

    def residuals():
        numbers = tf.gather(tf.reshape(table, [-1]), places)
        return [numbers - measured[:, 0], tf.gather(table, rows) ** 2 - measured, numbers[:5] * 0.3, 0.1 * table]

    def of_x(x):
        x = x.reshape(6, 2)
        numbers = x.ravel()[places]
        parts = [numbers - measured[:, 0], x[rows] ** 2 - measured, numbers[:5] * 0.3, 0.1 * x]
        return np.concatenate([part.ravel() for part in parts])

    expected = scipy.optimize.least_squares(of_x, start.ravel(), xtol=1e-12, ftol=1e-12).cost
    found = least_squares(residuals, table, solver=solver)
    np.testing.assert_allclose(found.cost, expected, rtol=1e-6)


@pytest.mark.by_day(None)
def test_begins_with_nearly_a_gauss_newton_step(rng):
    """The first λ is 1e-9 of the largest diagonal element of JᵀJ, if nothing else is asked for; 1e-3 for others."""
    graph, first = PoseGraph(rng), {}
    options = {"damping": "radius", "scaling": "identity", "max_steps": 1}
    start = graph.poses.numpy()
    for name, more in {"sparse": {}, "cholesky": {}, "named": {"solver": "sparse", "initial_damping": 1e-2}}.items():
        graph.poses.assign(start)
        first[name] = least_squares(graph.residuals, graph.poses, **{"solver": name, **options, **more})
    ratios = [float(first[name].history.damping[0] / first["cholesky"].history.damping[0]) for name in first]
    np.testing.assert_allclose(ratios, [1e-6, 1.0, 10.0], rtol=1e-6)


@pytest.mark.by_day(None)
def test_auto_takes_it_for_a_constant_mask(rng):
    kept, level = rng.random(299) > 0.3, tf.Variable(np.zeros(300))
    data = rng.normal(size=300)
    problem = LeastSquaresProblem(lambda: [tf.boolean_mask(level[1:] - level[:-1], kept), level - data], level)
    plan = problem.plan()
    assert (plan.residuals, plan.solver) == (kept.sum() + 300, "sparse")
    matrix = np.concatenate([np.diff(np.eye(300), axis=0)[kept], np.eye(300)])
    expected = np.linalg.lstsq(matrix, np.r_[np.zeros(kept.sum()), data])[0]
    problem.solve()
    np.testing.assert_allclose(level, expected, atol=1e-6)


def test_bounds_leave_entries_counted(monkeypatch):
    """Which rows of a table examples read is known in J of free parameters, too."""
    found, count = [], SparseCounts.of
    monkeypatch.setattr(SparseCounts, "of", lambda jacobian: found.append(count(jacobian)) or found[-1])
    table, places = tf.Variable(np.zeros((300, 1))), np.arange(300)
    for bounds in (None, (-5, 5)):
        least_squares(
            lambda: [tf.gather(table, places[1:]) - tf.gather(table, places[:-1]), tf.gather(table, places) - 1],
            table,
            bounds=bounds,
            max_steps=1,
        )
    assert [each.entries for each in found] == [(300 + 2 * 299) / 2] * 2
