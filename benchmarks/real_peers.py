"""GTSAM on the problems of `benchmarks.real_problems`; run by the Python of an environment that has it.

PEERS/bin/python benchmarks/real_peers.py      # pip install gtsam numpy

Prints a JSON object a line: `{problem: {peer: [cost, iterations, seconds, cost at the start]}}`. The objectives are
those of the problems: the costs at the start agree, and with GTSAM 4.3 the costs at the end of Victoria Park, to 12
digits. Before 4.3, GTSAM takes the difference of poses of the plane, not the logarithm.
"""

import gzip
import json
import pathlib
import tempfile
import time

import numpy as np

DATA = pathlib.Path(__file__).parent / "data"


def gtsam_solve(graph, values):
    """Return cost, iterations, seconds of GTSAM's Levenberg–Marquardt with its defaults, and the cost at the start."""
    import gtsam

    start = time.perf_counter()
    optimizer = gtsam.LevenbergMarquardtOptimizer(graph, values, gtsam.LevenbergMarquardtParams())
    optimizer.optimize()
    seconds = time.perf_counter() - start
    return optimizer.error(), optimizer.iterations(), seconds, graph.error(values)


def unpacked(name):
    """Return the path of a file of the data without compression."""
    path = pathlib.Path(tempfile.mkdtemp()) / name
    path.write_bytes(gzip.decompress((DATA / "posegraph" / f"{name}.gz").read_bytes()))
    return str(path)


def victoria():
    """Return what GTSAM makes of Victoria Park, the first pose held."""
    import gtsam

    graph, values = gtsam.load2D(unpacked("victoria_park.txt"))
    graph.add(gtsam.NonlinearEqualityPose2(0, values.atPose2(0)))
    return {"GTSAM": gtsam_solve(graph, values)}


def grown_victoria():
    """Return what GTSAM makes of Victoria Park by parts, as `grown_path` does."""
    import gtsam

    whole, _ = gtsam.load2D(unpacked("victoria_park.txt"))
    text = gzip.decompress((DATA / "posegraph/victoria_park.txt.gz").read_bytes())
    lines = [line.split() for line in text.splitlines()]
    values, graph, costs, steps, seconds = gtsam.Values(), gtsam.NonlinearFactorGraph(), [], 0, 0.0
    values.insert(0, gtsam.Pose2())
    graph.add(gtsam.NonlinearEqualityPose2(0, gtsam.Pose2()))
    poses, taken = 1, 0
    for stage in (1500, 3000, 4500, 6000, 6969):
        while taken < len(lines):
            kind, one, other, *numbers = lines[taken]
            one, other, (x, y, turn) = int(one), int(other), map(float, numbers[:3])
            if kind == b"ODOMETRY" and poses == stage:
                break
            if kind == b"ODOMETRY":
                values.insert(other, values.atPose2(one).compose(gtsam.Pose2(x, y, turn)))
                poses += 1
            elif not values.exists(gtsam.symbol("l", other)):
                values.insert(gtsam.symbol("l", other), values.atPose2(one).transformFrom(gtsam.Point2(x, y)))
            graph.add(whole.at(taken))
            taken += 1
        optimizer = gtsam.LevenbergMarquardtOptimizer(graph, values, gtsam.LevenbergMarquardtParams())
        start = time.perf_counter()
        values = optimizer.optimize()
        seconds += time.perf_counter() - start
        steps += optimizer.iterations()
        costs.append(optimizer.error())
    return {"GTSAM": (costs[-1], steps, seconds, costs[0])}


def sphere():
    """Return what GTSAM makes of sphere2500, from odometry, the first pose held."""
    import gtsam

    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    noise = gtsam.noiseModel.Diagonal.Precisions(np.array([100.0, 100.0, 25.0, 10.0, 10.0, 10.0]))
    values.insert(0, gtsam.Pose3())
    table = np.loadtxt(DATA / "posegraph/sphere2500.txt.gz", usecols=range(1, 9))
    for one, other, *numbers in table:
        move = gtsam.Pose3(gtsam.Rot3.RzRyRx(*numbers[3:]), numbers[:3])
        graph.add(gtsam.BetweenFactorPose3(int(one), int(other), move, noise))
        if other == one + 1:
            values.insert(int(other), values.atPose3(int(one)).compose(move))
    graph.add(gtsam.NonlinearEqualityPose3(0, gtsam.Pose3()))
    return {"GTSAM": gtsam_solve(graph, values)}


def city():
    """Return what GTSAM makes of w20000, from odometry, the first pose held."""
    import gtsam

    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    noise = gtsam.noiseModel.Diagonal.Sigmas(1 / np.array([3.16228, 3.16228, 5.0]))
    values.insert(0, gtsam.Pose2())
    for one, other, *move in np.loadtxt(DATA / "posegraph/w20000.txt.gz"):
        graph.add(gtsam.BetweenFactorPose2(int(one), int(other), gtsam.Pose2(*move), noise))
        if other == one + 1 and not values.exists(int(other)):
            values.insert(int(other), values.atPose2(int(one)).compose(gtsam.Pose2(*move)))
    graph.add(gtsam.NonlinearEqualityPose2(0, gtsam.Pose2()))
    return {"GTSAM": gtsam_solve(graph, values)}


def plaza(robust):
    """Return what GTSAM makes of Plaza 2, the first pose held."""
    import gtsam

    drive, heard = (np.loadtxt(DATA / f"posegraph/Plaza2_{kind}.txt.gz") for kind in ("DR", "TD"))
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    pose = gtsam.Pose2(-34.2086489999201, 45.3007639991120, -2.02108900000000)
    values.insert(0, pose)
    graph.add(gtsam.NonlinearEqualityPose2(0, pose))
    odometry = gtsam.noiseModel.Diagonal.Sigmas(np.array([0.05, 0.01, 0.2]))
    for row, (_, distance, turn) in enumerate(drive):
        move = gtsam.Pose2(distance, 0.0, turn)
        graph.add(gtsam.BetweenFactorPose2(row, row + 1, move, odometry))
        pose = pose.compose(move)
        values.insert(row + 1, pose)
    at = {1: (-68.9265, 18.3778), 6: (-37.5805, 69.2278), 0: (-33.6205, 26.9678), 5: (1.7095, -5.8122)}
    for name, place in at.items():
        values.insert(gtsam.symbol("l", name), gtsam.Point2(*place))
    noise = gtsam.noiseModel.Isotropic.Sigma(1, 15.0 if robust else 100.0)
    if robust:
        noise = gtsam.noiseModel.Robust.Create(gtsam.noiseModel.mEstimator.Tukey.Create(1.0), noise)
    where = np.minimum(np.searchsorted(drive[:, 0], heard[:, 0]), len(drive))
    for row, (_, _, name, distance) in zip(where, heard):
        graph.add(gtsam.RangeFactor2D(int(row), gtsam.symbol("l", int(name)), distance, noise))
    return {"GTSAM": gtsam_solve(graph, values)}


MAKERS = {"victoria_park": victoria, "victoria_park, grown": grown_victoria, "sphere2500": sphere, "w20000": city}
MAKERS |= {"plaza2": lambda: plaza(False), "plaza2, Tukey": lambda: plaza(True)}

if __name__ == "__main__":
    for name, make in MAKERS.items():
        print(json.dumps({name: {peer: list(map(float, run)) for peer, run in make().items()}}), flush=True)
