"""Variables on manifolds: rotations beside SciPy's, closed forms of what is fitted, steps beside NumPy's."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf
from scipy.spatial.transform import Rotation

import tfjac
from tfjac.manifolds import Manifold, Quaternion, RotationVector, UnitSphere
from tfjac.optimizers import LeastSquaresProblem, least_squares

ROTATIONS = {
    "quaternion": (Quaternion, Rotation.as_quat, Rotation.from_quat),
    "vector": (RotationVector, Rotation.as_rotvec, Rotation.from_rotvec),
}


def by_quaternion(quaternion, vector):
    axis, real = quaternion[:, :3], quaternion[:, 3:]
    twice = 2.0 * tf.linalg.cross(axis, vector)
    return vector + real * twice + tf.linalg.cross(axis, twice)


def by_vector(rotation, vector):
    angle = tf.sqrt(tf.reduce_sum(rotation**2, axis=1, keepdims=True) + 1e-30)
    return by_quaternion(tf.concat([tf.sin(angle / 2) * rotation / angle, tf.cos(angle / 2)], axis=1), vector)


TURN = {"quaternion": by_quaternion, "vector": by_vector}


class Seen:
    """Bodies that each turned vectors, with noise; how far they turned is what is looked for."""

    def __init__(self, kind, rng, number=6, count=80, dtype=tf.float64, spread=0.4):
        self.manifold, self.values, self.rotations = ROTATIONS[kind]
        self.truth = Rotation.random(number, random_state=3)
        self.body = np.arange(count) % number
        self.vectors = rng.normal(size=(count, 3))
        self.images = self.truth[self.body].apply(self.vectors) + 0.01 * rng.normal(size=(count, 3))
        start = self.truth * Rotation.from_rotvec(spread * rng.normal(size=(number, 3)))
        self.variable = tf.Variable(self.values(start), dtype=dtype, name="turn")
        self._turn = TURN[kind]

    def residuals(self):
        turned = self._turn(tf.gather(self.variable, self.body), tf.constant(self.vectors, self.variable.dtype))
        return turned - tf.constant(self.images, self.variable.dtype)

    def solved(self):
        """The rotations with the least squares, by the singular value decomposition of Kabsch."""
        places = [self.body == k for k in range(len(self.truth))]
        return Rotation.concatenate([Rotation.align_vectors(self.images[one], self.vectors[one])[0] for one in places])

    def off(self):
        """By which angle each is off the closed form."""
        return (self.solved().inv() * self.rotations(self.variable.numpy())).magnitude().max()


@pytest.mark.parametrize("kind", ROTATIONS)
def test_rotations_are_those_of_scipy(kind, rng):
    manifold, values, rotations = ROTATIONS[kind]
    steps = rng.normal(size=(40, 3)) * np.geomspace(1e-9, 3, 40)[:, None]
    start = Rotation.random(40, random_state=1)
    moved = manifold().plus(tf.constant(values(start)), tf.constant(steps)).numpy()
    gap = rotations(moved).inv() * (start * Rotation.from_rotvec(steps))
    assert gap.magnitude().max() < 1e-14
    if kind == "quaternion":
        np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 1.0, rtol=1e-14)
    else:
        assert np.linalg.norm(moved, axis=1).max() <= np.pi + 1e-12


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_great_circles(size, rng):
    """x ⊕ δ keeps its length, is |δ| from x by angle, and begins in the plane that touches the sphere."""
    points, steps = rng.normal(size=(30, size)), rng.normal(size=(30, size - 1))
    points[:4] = np.concatenate([np.eye(size)[-2:], -np.eye(size)[-2:]])
    steps *= rng.uniform(1e-3, 3.0, (30, 1)) / np.linalg.norm(steps, axis=1, keepdims=True)
    sphere, lengths = UnitSphere(size), np.linalg.norm(points, axis=1)
    moved = sphere.plus(tf.constant(points), tf.constant(steps)).numpy()
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), lengths, rtol=1e-14)
    cosine = np.sum(points * moved, axis=1) / lengths**2
    np.testing.assert_allclose(cosine, np.cos(np.linalg.norm(steps, axis=1)), atol=1e-12)
    along = sphere.basis(tf.constant(points)).numpy()
    np.testing.assert_allclose(np.einsum("ni,nik->nk", points, along), 0.0, atol=1e-12)
    square = np.eye(size - 1) * lengths[:, None, None] ** 2
    np.testing.assert_allclose(np.einsum("nik,nil->nkl", along, along), square, atol=1e-12)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("manifold", [Quaternion(), RotationVector(), UnitSphere(4)], ids=lambda m: type(m).__name__)
def test_derivatives_where_formulas_have_none(manifold, rng):
    """At δ = 0, at angles of nothing, of nearly π and beyond, beside central differences."""
    rows = rng.normal(size=(6, manifold.size))
    if isinstance(manifold, RotationVector):
        rows *= np.array([0.0, 1e-9, 1e-3, 1.0, 0.99 * np.pi, 5.0])[:, None] / np.linalg.norm(rows, axis=1)[:, None]
    else:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    along = manifold.basis(tf.constant(rows)).numpy()
    for k, step in enumerate(1e-6 * np.eye(manifold.tangent_size)):
        ends = [manifold.plus(tf.constant(rows), tf.constant(np.tile(sign * step, [6, 1]))).numpy() for sign in (1, -1)]
        if isinstance(manifold, RotationVector):  # of the last row, the logarithm that is near it
            ends = [np.r_[end[:5], end[5:] * (1 - 2 * np.pi / np.linalg.norm(end[5]))] for end in ends]
        np.testing.assert_allclose(along[:, :, k], (ends[0] - ends[1]) / 2e-6, atol=1e-8)


SOLVERS = ["auto", "schur", "cg", "kernel"]  # `sparse` below


@pytest.mark.by_day(None)
@pytest.mark.parametrize("kind, solver", [*(("quaternion", name) for name in SOLVERS), ("vector", "auto")])
def test_the_closed_form_is_found(kind, solver, rng):
    seen = Seen(kind, rng)
    found = least_squares(seen.residuals, seen.variable, manifolds=seen.manifold(), solver=solver)
    assert found.success and seen.off() < 1e-5, found
    if kind == "quaternion":
        np.testing.assert_allclose(np.linalg.norm(found.x, axis=1), 1.0, rtol=1e-14)


def turned(quaternions, seen):
    return by_quaternion(quaternions, tf.constant(seen.vectors))


READ = {
    "embedding": lambda q, s: turned(tf.nn.embedding_lookup(q, s.body), s),
    "gather_nd": lambda q, s: turned(tf.gather_nd(q, s.body[:, None]), s),
    "rows": lambda q, s: turned(tf.gather(tf.stack([q[k] for k in range(q.shape[0])]), s.body), s),
    "branch": lambda q, s: tf.cond(tf.norm(q) > 1, lambda: turned(tf.gather(q, s.body), s), lambda: 0 * s.images),
    "loop with a function": lambda q, s: turned(
        tf.map_fn(tf.function(lambda k: q[k]), tf.constant(s.body), fn_output_signature=q.dtype), s
    ),
    "twice": lambda q, s: turned(tf.gather(q + 0.0 * tf.stop_gradient(q), s.body), s),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", READ)
def test_however_it_is_read(name, rng):
    seen = Seen("quaternion", rng, number=4, count=40)
    found = least_squares(
        lambda: READ[name](seen.variable, seen) - seen.images, seen.variable, manifolds=seen.manifold()
    )
    assert found.success and seen.off() < 1e-5, found


WAYS = {
    "accelerated": {"acceleration": "geodesic", "damping": "nielsen", "scaling": "identity", "window": 5},
    "robust under xla": {"loss": "huber", "loss_scale": 1.0, "jit_compile": True},
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", WAYS)
def test_with_other_options(name, rng):
    seen = Seen("quaternion", rng, number=3, count=20)
    found = least_squares(seen.residuals, seen.variable, manifolds=seen.manifold(), **WAYS[name])
    assert found.success and seen.off() < 1e-5, found


@pytest.mark.by_day(None)
def test_single_precision(rng):
    seen = Seen("vector", rng, dtype=tf.float32)
    found = least_squares(seen.residuals, seen.variable, manifolds=seen.manifold())
    assert found.success and seen.off() < 1e-3, found


@pytest.mark.by_day(None)
def test_a_step_is_that_of_the_tangent_space(rng):
    """(PᵀJᵀJP + λI) δ = −PᵀJᵀr, with P = ∂(x ⊕ δ)/∂δ by differences, and then x ⊕ δ by SciPy."""
    seen = Seen("quaternion", rng, number=4, count=30)
    start = seen.variable.numpy()
    with tf.GradientTape() as tape:
        residuals = tf.reshape(seen.residuals(), [-1])
    jacobian = tape.jacobian(residuals, seen.variable).numpy().reshape(len(residuals), -1)
    along = np.zeros([start.size, 12])
    for k, step in enumerate(np.eye(12) * 1e-6):
        ends = [(Rotation.from_quat(start) * Rotation.from_rotvec(s * step.reshape(4, 3))).as_quat() for s in (1, -1)]
        ends = [end * np.sign(np.sum(end * start, axis=1, keepdims=True)) for end in ends]
        along[:, k] = np.ravel(ends[0] - ends[1]) / 2e-6
    seen.variable.assign(start)
    found = least_squares(
        seen.residuals, seen.variable, 1, manifolds=seen.manifold(), damping="nielsen", scaling="identity"
    )
    reduced = jacobian @ along
    damping = found.history.damping[0]
    step = -np.linalg.solve(reduced.T @ reduced + damping * np.eye(12), reduced.T @ residuals.numpy())
    expected = Rotation.from_quat(start) * Rotation.from_rotvec(step.reshape(4, 3))
    assert (expected.inv() * Rotation.from_quat(found.x)).magnitude().max() < 1e-8


@pytest.mark.by_day(None)
def test_beyond_half_a_turn(rng):
    """A vector of nearly 2π, where rotations do not move with it; on the manifold there is no such place."""
    truth, vectors = Rotation.from_rotvec([0.3, -0.2, 0.1]), rng.normal(size=(20, 3))
    images, away = truth.apply(vectors), np.array([[0.0, 0.0, 2 * np.pi - 1e-6]])
    turn = tf.Variable(away)
    found = least_squares(
        lambda: by_vector(tf.tile(turn, [20, 1]), tf.constant(vectors)) - images, turn, manifolds=RotationVector()
    )
    assert found.cost < 1e-20
    np.testing.assert_allclose(turn.numpy(), [truth.as_rotvec()], atol=1e-8)


@pytest.mark.by_day(None)
def test_a_direction_is_the_mean_made_as_long(rng):
    seen = rng.normal(size=(50, 3)) + [2.0, -1.0, 0.5]
    direction = tf.Variable([0.0, 0.0, 3.0], dtype=tf.float64)
    found = least_squares(lambda: direction - seen, direction, manifolds=UnitSphere(), ftol=0, xtol=0, max_steps=50)
    np.testing.assert_allclose(found.x, 3 * seen.mean(0) / np.linalg.norm(seen.mean(0)), rtol=1e-7)


@pytest.mark.by_day(None)
def test_a_manifold_of_ones_own(rng):
    """Positions and headings, moved in their own frame; beside SciPy, which knows no manifold."""

    def plus(pose, delta):
        cosine, sine = tf.cos(pose[:, 2]), tf.sin(pose[:, 2])
        x = pose[:, 0] + cosine * delta[:, 0] - sine * delta[:, 1]
        y = pose[:, 1] + sine * delta[:, 0] + cosine * delta[:, 1]
        return tf.stack([x, y, tf.math.floormod(pose[:, 2] + delta[:, 2] + np.pi, 2 * np.pi) - np.pi], axis=1)

    poses = tf.Variable(rng.normal(size=(8, 3)))
    ahead = rng.normal(size=(7, 3)) * 0.1 + [1.0, 0.0, 0.4]

    def residuals(poses):
        here, there = poses[:-1], poses[1:]
        (x, y, turn), cosine, sine = tf.unstack(there - here, axis=1), tf.cos(here[:, 2]), tf.sin(here[:, 2])
        turn = tf.atan2(tf.sin(turn - ahead[:, 2]), tf.cos(turn - ahead[:, 2]))
        place = tf.stack([cosine * x + sine * y, cosine * y - sine * x], axis=1) - ahead[:, :2]
        return [place, turn[:, None], poses[:1] - 0.5, 0.1 * (poses[3:, :2] - poses[:-3, :2])]

    @tf.function
    def flat(x):
        return tf.concat([tf.reshape(part, [-1]) for part in residuals(tf.reshape(x, [8, 3]))], axis=0)

    start, exactly = poses.numpy().ravel(), {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    found = least_squares(residuals, poses, manifolds=Manifold(plus, 3, 3), solver="sparse")
    other = scipy.optimize.least_squares(lambda x: flat(x).numpy(), start, **exactly)
    assert found.success and abs(found.cost - other.cost) < 1e-6 * other.cost


@pytest.mark.by_day(None)
def test_beside_variables_that_are_on_none(rng):
    """A scale within bounds, known beforehand, and a rotation that is fixed."""
    seen = Seen("quaternion", rng, number=4)
    seen.images *= 1.5
    scale = tf.Variable(1.0, dtype=tf.float64, name="scale")
    held = np.zeros([4, 4], bool)
    held[2] = True
    before, options = seen.variable.numpy(), {"manifolds": [Quaternion(), None]}

    def residuals():
        turned = by_quaternion(tf.gather(seen.variable, seen.body), tf.constant(seen.vectors))
        return scale * turned - seen.images

    bounds = [None, 0.0], [None, 1.4]
    found = least_squares(residuals, [seen.variable, scale], fixed=[held, False], bounds=bounds, **options)
    np.testing.assert_array_equal(found.x[0][2], before[2])
    assert float(found.x[1]) == 1.4 and (found.active[0] == held).all() and found.active[1] == 1
    free = seen.rotations(found.x[0])[[0, 1, 3]]
    assert (seen.solved()[[0, 1, 3]].inv() * free).magnitude().max() < 1e-5
    least_squares(residuals, [seen.variable, scale], prior=([None, 2.0], [None, 1e-6]), **options)
    assert abs(float(scale) - 2.0) < 1e-5


@pytest.mark.by_day(None)
@pytest.mark.parametrize("number_held", [0, 1])
def test_errors_are_those_of_the_tangent_space(rng, number_held):
    """Of those that are free: a rotation that is held, as the first of a pose graph, takes nothing from the others."""
    seen = Seen("quaternion", rng, number=3, count=30)
    free = 9 - 3 * number_held
    held = np.arange(3)[:, None] < number_held
    found = least_squares(seen.residuals, seen.variable, manifolds=seen.manifold(), fixed=held)
    along = np.zeros([12, 9])
    rotations = Rotation.from_quat(found.x)
    for k, step in enumerate(np.eye(9) * 1e-6):
        ends = [(rotations * Rotation.from_rotvec(s * step.reshape(3, 3))).as_quat() for s in (1, -1)]
        ends = [end * np.sign(np.sum(end * found.x, axis=1, keepdims=True)) for end in ends]
        along[:, k] = np.ravel(ends[0] - ends[1]) / 2e-6
    along = along[:, 3 * number_held :]
    reduced = found.jacobian() @ along
    variance = 2 * found.cost / (90 - free)
    expected = variance * along @ np.linalg.inv(reduced.T @ reduced) @ along.T
    np.testing.assert_allclose(found.covariance(), expected, rtol=1e-5, atol=1e-10)
    assert found.rank == free and found.degrees_of_freedom == 90 - free and not np.any(found.undetermined)


@pytest.mark.by_day(None)
def test_in_a_function_without_derivatives(rng):
    seen = Seen("quaternion", rng, number=2, count=20)

    @tf.function
    def solve(weight):
        return least_squares(lambda: weight * seen.residuals(), seen.variable, manifolds=Quaternion())

    found = solve(tf.constant(2.0, tf.float64))
    assert tfjac.Status(int(found.status)).converged and seen.off() < 1e-5
    np.testing.assert_array_equal(found.x, seen.variable)
    np.testing.assert_allclose(2 * found.cost, np.sum(np.square(2 * seen.residuals())), rtol=1e-12)

    @tf.function
    def derivative(weight):
        found = least_squares(lambda: weight * seen.residuals(), seen.variable, manifolds=Quaternion())
        return tf.gradients(found.cost, weight)

    with pytest.raises(ValueError, match="on manifolds has no derivatives"):
        derivative(tf.constant(2.0, tf.float64))


@pytest.mark.by_day(None)
def test_traces_are_used_again_on_the_same_manifold_alone(rng):
    """With a function of one's own, which may read anything, each call traces; a problem object does once."""
    direction, calls = tf.Variable([0.0, 0.6, 0.8], dtype=tf.float64), []

    def plus(x, delta):
        calls.append(1)
        return tf.math.l2_normalize(x + tf.concat([delta, tf.zeros_like(delta[:, :1])], axis=1), axis=1)

    def residuals(target):
        return direction - target

    own, target = Manifold(plus, 3, 2), np.array([1.0, 2.0, 2.0])
    lengths = []
    for manifold in (UnitSphere(), None, UnitSphere(), own):
        direction.assign([0.0, 0.6, 0.8])
        least_squares(residuals, direction, args=(target,), manifolds=manifold)
        lengths.append(float(tf.norm(direction)))
    np.testing.assert_allclose(lengths, [1.0, 3.0, 1.0, 1.0], rtol=1e-7)
    problem = LeastSquaresProblem(residuals, direction, manifolds=own)
    problem.solve(target)
    traced = len(calls)
    problem.solve(target[::-1])
    assert len(calls) == traced
    np.testing.assert_allclose(direction, target[::-1] / 3, atol=1e-4)


@pytest.mark.by_day(None)
def test_a_run_that_was_cut_short_goes_on_to_the_same_bits(rng, tmp_path):
    seen, options = Seen("quaternion", rng), {"manifolds": Quaternion(), "ftol": 0, "xtol": 0, "gtol": 0}
    start = seen.variable.numpy()
    whole = least_squares(seen.residuals, seen.variable, 4, **options)
    seen.variable.assign(start)
    least_squares(seen.residuals, seen.variable, 2, checkpoint=tmp_path / "run", **options)
    seen.variable.assign(start)
    rest = least_squares(seen.residuals, seen.variable, 4, checkpoint=tmp_path / "run", **options)
    np.testing.assert_array_equal(rest.x, whole.x)


REFUSED = {
    "shape": ({"manifolds": UnitSphere()}, ValueError, "of size 3. Received: turn:0 of shape \\(2, 4\\)"),
    "kind": ({"manifolds": "quaternion"}, TypeError, "tfjac.Manifold objects"),
    "class": ({"manifolds": Quaternion}, TypeError, "tfjac.Manifold objects"),
    "nest": ({"manifolds": [None, None]}, ValueError, "structure of the variables"),
    "bounds": ({"manifolds": Quaternion(), "bounds": (-1, 1)}, ValueError, "move as a whole"),
    "prior": ({"manifolds": Quaternion(), "prior": (0.0, 1.0)}, ValueError, "move as a whole"),
    "part": ({"manifolds": Quaternion(), "fixed": [[True, False, False, False]] * 2}, ValueError, "move as a whole"),
    "equality": ({"manifolds": Quaternion(), "equality": (np.ones(8), 1.0)}, ValueError, "move as a whole"),
    "batches": ({"manifolds": Quaternion(), "batch_dims": 1}, ValueError, "manifolds does not go together"),
    "away": ({"manifolds": Manifold(lambda x, d: x + d + 1.0, 4, 4)}, ValueError, "which plus moves by 1"),
    "nowhere": ({"manifolds": Manifold(lambda x, d: x + d**2, 4, 4)}, ValueError, "with 0 of 4"),
    "mixing": ({"manifolds": Manifold(lambda x, d: x + d - tf.reduce_mean(d, 0), 4, 4)}, ValueError, "its own δ alone"),
    "nothing": ({"manifolds": Manifold(lambda x, d: None, 4, 4)}, ValueError, "Received: None"),
    "returned": ({"manifolds": Manifold(lambda x, d: d, 4, 3)}, ValueError, "must return a tensor like x"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, rng):
    options, error, message = REFUSED[name]
    seen = Seen("quaternion", rng, number=2, count=6)
    before = seen.variable.numpy()
    with pytest.raises(error, match=message):
        least_squares(seen.residuals, seen.variable, **options)
    np.testing.assert_array_equal(seen.variable, before)


def test_definitions_that_are_none():
    with pytest.raises(TypeError, match="plus must be a function"):
        Manifold(None, 3, 2)
    with pytest.raises(ValueError, match="no more directions than"):
        Manifold(lambda x, d: x, 3, 4)
    with pytest.raises(ValueError, match="two dimensions on"):
        UnitSphere(1)


@pytest.mark.parametrize(
    "manifold, row, words",
    [
        (UnitSphere(), [0.0, 0.0, 0.0], "not zero.*with a row of length 0"),
        (UnitSphere(), [np.nan, 0.0, 0.0], "with a row of length nan"),
        (RotationVector(), [np.inf, 0.0, 0.0], "finite vectors"),
        (Quaternion(), [0.0, 0.0, 0.0, 2.0], "off by 1"),
    ],
)
def test_starts_off_the_manifold_are_refused(manifold, row, words):
    variable = tf.Variable([row, row], dtype=tf.float64)
    with pytest.raises(ValueError, match=words):
        least_squares(lambda: variable - 1.0, variable, manifolds=manifold)


@pytest.mark.by_day(None)
def test_what_is_fixed_stays_bit_for_bit():
    """A rotation by more than half a turn, too, which ⊕ would write as one by less."""
    start = np.array([[0.0, 0.0, 4.0], [0.0, 0.0, 5.0], [0.1, 0.2, 0.3]])
    turns = tf.Variable(start)
    held = [[True], [False], [True]]
    found = least_squares(lambda: tf.sin(turns) - 0.2, turns, 3, manifolds=RotationVector(), fixed=held)
    np.testing.assert_array_equal(found.x[[0, 2]], start[[0, 2]])
    assert np.abs(found.x[1] - start[1]).max() > 0.1


@pytest.mark.by_day(None)
def test_points_on_spheres_that_are_not_seen(rng):
    """Two of them in a row; one by one along a direction that moves nothing, and read against itself."""
    points = tf.Variable(rng.normal(size=(5, 2, 3)))
    here, there = [0, 1, 2, 0, 4], [1, 2, 0, 2, 4]
    found = least_squares(
        lambda: [tf.gather(points, here) - tf.gather(points, there) - 1.0, 0.1 * tf.gather(points, [3])[..., :1]],
        points,
        max_steps=20,
        manifolds=UnitSphere(),
    )
    jacobian = found.jacobian().reshape(-1, 5, 6)
    along = UnitSphere().basis(tf.constant(found.x.reshape(-1, 3))).numpy().reshape(5, 2, 3, 2)
    ranks = [
        np.linalg.matrix_rank(np.concatenate([jacobian[:, k, :3] @ a, jacobian[:, k, 3:] @ b], axis=1), 1e-6)
        for k, (a, b) in enumerate(along)
    ]
    expected = [k for k, rank in enumerate(ranks) if rank < 4]
    assert expected == [3, 4] and list(found.undetermined_rows()["x"]) == expected


def test_quaternions_that_nothing_turns_are_named(rng):
    """Normalised where they are used, their length has no effect: that is none of the directions that count."""
    seen = Seen("quaternion", rng, number=5, count=60)
    seen.body = np.where(seen.body == 2, 1, seen.body)

    def residuals():
        return by_quaternion(tf.gather(tf.linalg.l2_normalize(seen.variable, axis=1), seen.body), seen.vectors) - 0.5

    found = least_squares(residuals, seen.variable, manifolds=Quaternion())
    assert list(found.undetermined_rows()["turn"]) == [2]
    found = least_squares(residuals, seen.variable)
    assert list(found.undetermined_rows()["turn"]) == [0, 1, 2, 3, 4]


def test_optimality_is_that_along_the_manifold(rng):
    """At a minimum on a sphere ∂F/∂x points across it; elsewhere it is the tangent part that counts."""
    x = tf.Variable([[0.8, 0.0, 0.6], [0.0, 0.6, 0.8]], dtype=tf.float64)
    target = rng.normal(size=(2, 3)) * 3
    fit = lambda **options: least_squares(lambda: x - target, x, manifolds=UnitSphere(), **options)  # noqa: E731
    start, value = fit(max_steps=0), x.numpy()
    tangent = (value - target) - value * np.sum(value * (value - target), axis=1, keepdims=True)
    np.testing.assert_allclose(start.grad, tangent.ravel(), rtol=1e-9)
    assert fit(gtol=1e-12).optimality < 1e-4
