"""Bundle adjustment in the convention of BAL: made scenes, and GTSAM and SciPy on them; without TensorFlow.

A camera has nine parameters: a rotation vector and a translation, from the world to the camera, which looks along its
negative z axis, a focal length, and two coefficients of radial distortion.
Reference: S. Agarwal, N. Snavely, S. Seitz, R. Szeliski, "Bundle adjustment in the large", 2010.
"""

import dataclasses
import pathlib
import tempfile

import numpy as np
import scipy.optimize
import scipy.sparse


@dataclasses.dataclass(frozen=True)
class Scene:
    """What was seen, and a guess of where from.

    Attributes:
        cameras, points: the start, float64, `[c, 9]` and `[p, 3]`.
        camera_of, point_of: which camera made each observation of which point, int32, `[n]`.
        seen: where, in pixels from the image's centre, `[n, 2]`.
    """

    cameras: np.ndarray
    points: np.ndarray
    camera_of: np.ndarray
    point_of: np.ndarray
    seen: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """All parameters, `[9 c + 3 p]`."""
        return np.concatenate([self.cameras.ravel(), self.points.ravel()])

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """Distances in the images for all parameters `[9 c + 3 p]`, `[2 n]`."""
        cameras, points = np.split(x, [self.cameras.size])
        image = project(cameras.reshape(-1, 9)[self.camera_of], points.reshape(-1, 3)[self.point_of])
        return (image - self.seen).ravel()


def made(cameras: int, points: int, observations: int, seed: int = 0) -> Scene:
    """Cameras on an arc around a cloud of points, each seen from neighbouring ones, with half a pixel of noise."""
    random = np.random.default_rng(seed)
    angle = np.linspace(-0.8, 0.8, cameras)
    turn = np.stack([0.02 * random.normal(size=cameras), -angle, 0.02 * random.normal(size=cameras)], axis=1)
    shift = [0, 0, -8] + 0.3 * random.normal(size=(cameras, 3))
    lens = np.tile([800.0, -1e-2, 1e-3], [cameras, 1])
    true_cameras, true_points = np.hstack([turn, shift, lens]), random.uniform(-2, 2, size=(points, 3))
    camera_of, point_of = _sightings(cameras, points, observations, random)
    seen = project(true_cameras[camera_of], true_points[point_of]) + 0.5 * random.normal(size=(observations, 2))
    spread = np.repeat([0.06, 0.4, 60.0, 6e-3, 6e-4], [3, 3, 1, 1, 1])
    return Scene(
        true_cameras + spread * random.normal(size=true_cameras.shape),
        true_points + 0.6 * random.normal(size=true_points.shape),
        camera_of.astype(np.int32),
        point_of.astype(np.int32),
        seen,
    )


def _sightings(cameras, points, observations, random):
    """Each point is seen by two cameras at least, and all by as many as there are observations."""
    counts = np.minimum(2 + random.multinomial(observations - 2 * points, np.full(points, 1 / points)), cameras)
    observations = counts.sum()
    first = random.integers(0, cameras - counts + 1)
    point_of = np.repeat(np.arange(points), counts)
    camera_of = np.concatenate([start + np.arange(count) for start, count in zip(first, counts, strict=True)])
    order = random.permutation(observations)
    return camera_of[order], point_of[order]


def project(cameras: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return where cameras `[n, 9]` see points `[n, 3]`, `[n, 2]`."""
    turn, shift, (focal, first, second) = cameras[:, :3], cameras[:, 3:6], cameras[:, 6:, None].swapaxes(0, 1)
    angle = np.linalg.norm(turn, axis=1, keepdims=True)
    axis = turn / np.maximum(angle, 1e-300)
    along = axis * np.sum(axis * points, axis=1, keepdims=True)
    moved = along + (points - along) * np.cos(angle) + np.cross(axis, points) * np.sin(angle) + shift
    image = -moved[:, :2] / moved[:, 2:]
    square = np.sum(np.square(image), axis=1, keepdims=True)
    return focal * (1 + first * square + second * np.square(square)) * image


def gtsam_adjustment(scene: Scene):
    """Return a function from a cost to reach to the cost and the iterations of GTSAM; None: until it ends by itself."""
    import gtsam

    data, initial, graph = _gtsams(scene), gtsam.Values(), gtsam.NonlinearFactorGraph()
    noise = gtsam.noiseModel.Isotropic.Sigma(2, 1.0)
    camera, point = gtsam.symbol_shorthand.C, gtsam.symbol_shorthand.P
    for c in range(data.numberCameras()):
        initial.insert(camera(c), data.camera(c))
    for p in range(data.numberTracks()):
        track = data.track(p)
        initial.insert(point(p), track.point3())
        for c, seen in (track.measurement(k) for k in range(track.numberMeasurements())):
            graph.add(gtsam.GeneralSFMFactorCal3Bundler(seen, noise, camera(c), point(p)))

    def adjust(target=None):
        optimizer = gtsam.LevenbergMarquardtOptimizer(graph, initial, gtsam.LevenbergMarquardtParams())
        if target is None:
            optimizer.optimize()
        else:
            while optimizer.error() > target:
                optimizer.iterate()
        return optimizer.error(), optimizer.iterations()

    return adjust


def _gtsams(scene):
    import gtsam

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "scene.txt"
        with path.open("w") as file:
            print(len(scene.cameras), len(scene.points), len(scene.seen), file=file)
            for c, p, (u, v) in zip(scene.camera_of, scene.point_of, scene.seen, strict=True):
                print(c, p, u, v, file=file)
            print(*scene.start, sep="\n", file=file)
        return gtsam.SfmData.FromBalFile(str(path))


def scipy_adjustment(scene: Scene):
    """Return a function from a cost to reach to the cost and the iterations of SciPy's `trf`, by sparse differences."""
    n, c = len(scene.seen), scene.cameras.size
    columns = np.hstack([
        9 * scene.camera_of[:, None] + np.arange(9), c + 3 * scene.point_of[:, None] + np.arange(3),
    ]).repeat(2, axis=0)  # fmt: skip
    shape = 2 * n, scene.start.size
    pattern = scipy.sparse.csr_array((np.ones(columns.size), columns.ravel(), 12 * np.arange(2 * n + 1)), shape)

    def adjust(target):
        def reached(intermediate_result):
            if intermediate_result.cost <= target:
                raise StopIteration

        found = scipy.optimize.least_squares(
            scene.residuals, scene.start, jac_sparsity=pattern, x_scale="jac", method="trf", callback=reached
        )
        return found.cost, found.njev

    return adjust
