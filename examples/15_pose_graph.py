"""A pose graph in plain TensorFlow: where a drone flew, from how it thought it moved, and places that it saw again.

    python examples/15_pose_graph.py [--rounds N] [--plot FILE.png]

A drone climbs around a tower and measures each of its moves, with noise that adds up. It recognises where it passed one
round before, and measures where that is from here. Each pose is a position and a quaternion; residuals gather the two
poses of each measurement. Quaternions are told to be on their manifold: three directions each, and of unit length for
good. tfjac reads off the graph which poses meet, and factors a sparse JᵀJ.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import dataclasses
import pathlib
import time

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_figures import save_figure
from scipy.spatial.transform import Rotation

import tfjac

PER_ROUND = 40
NOISE = {"turn": 0.02, "shift": 0.03}  # radians, metres, of each move
PLOT = pathlib.Path(__file__).parent / "plots" / "15_pose_graph.png"


@dataclasses.dataclass(frozen=True)
class Flight:
    """Positions `[n, 3]` and rotations, and what was measured: seen from `here[k]`, where `there[k]` is, how turned."""

    positions: np.ndarray
    rotations: Rotation
    here: np.ndarray
    there: np.ndarray
    shifts: np.ndarray
    turns: Rotation

    @classmethod
    def around_a_tower(cls, rounds: int) -> "Flight":
        """Return the flight as it was, with noisy measurements of each move, and of what was seen a round before."""
        rng, number = np.random.default_rng(0), rounds * PER_ROUND
        angle = 2 * np.pi * np.arange(number) / PER_ROUND
        positions = np.stack([10 * np.cos(angle), 10 * np.sin(angle), 2.0 * angle / np.pi], axis=1)
        rotations = Rotation.from_euler("zyx", np.stack([angle, 0.2 * np.sin(3 * angle), 0.1 * np.cos(angle)], axis=1))
        again = np.flatnonzero(rng.uniform(size=number - PER_ROUND) < 0.5)
        here, there = np.r_[np.arange(number - 1), again + PER_ROUND], np.r_[np.arange(1, number), again]
        shifts = rotations[here].inv().apply(positions[there] - positions[here])
        shifts += NOISE["shift"] * rng.normal(size=shifts.shape)
        turns = rotations[here].inv() * rotations[there]
        turns *= Rotation.from_rotvec(NOISE["turn"] * rng.normal(size=shifts.shape))
        return cls(positions, rotations, here, there, shifts, turns)

    def by_its_moves(self) -> tuple[np.ndarray, Rotation]:
        """Return positions and rotations with one move put after the other, from where the flight began."""
        position, rotation = self.positions[0], self.rotations[0]
        positions, rotations = [position], [rotation]
        for shift, turn in zip(self.shifts[: len(self.positions) - 1], self.turns):
            position, rotation = position + rotation.apply(shift), rotation * turn
            positions.append(position)
            rotations.append(rotation)
        return np.stack(positions), Rotation.concatenate(rotations)

    def distance(self, positions: np.ndarray) -> float:
        """Return the root mean square distance of `positions` to the true ones."""
        return float(np.sqrt(np.mean(np.sum(np.square(positions - self.positions), axis=1))))


def times(p, q):
    """Return the products of quaternions `[n, 4]`, the scalar part last."""
    one, other, a, b = p[:, :3], q[:, :3], p[:, 3:], q[:, 3:]
    vector = a * other + b * one + tf.linalg.cross(one, other)
    return tf.concat([vector, a * b - tf.reduce_sum(one * other, axis=1, keepdims=True)], axis=1)


def inverse(q):
    """Return the inverse of unit quaternions `[n, 4]`."""
    return q * tf.constant([-1.0, -1.0, -1.0, 1.0], q.dtype)


def turned(q, vectors):
    """Return vectors `[n, 3]` turned by unit quaternions `[n, 4]`."""
    twice = 2.0 * tf.linalg.cross(q[:, :3], vectors)
    return vectors + q[:, 3:] * twice + tf.linalg.cross(q[:, :3], twice)


def optimise(flight: Flight) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions by the moves alone, and those that agree best with all that was measured."""
    start, rotations = flight.by_its_moves()
    positions, quaternions = tf.Variable(start, name="positions"), tf.Variable(rotations.as_quat(), name="rotations")
    measured = inverse(tf.constant(flight.turns.as_quat()))

    def residuals():
        here, there = tf.gather(quaternions, flight.here), tf.gather(quaternions, flight.there)
        way = tf.gather(positions, flight.there) - tf.gather(positions, flight.here)
        turn = times(measured, times(inverse(here), there))
        turn = 2.0 * turn[:, :3] * tf.sign(turn[:, 3:])  # twice the sine of half the angle between the two
        shift = turned(inverse(here), way) - flight.shifts
        return tf.concat([turn / NOISE["turn"], shift / NOISE["shift"]], axis=1)

    held = np.zeros([len(start), 1], bool)
    held[0] = True
    problem = tfjac.LeastSquaresProblem(
        residuals, [positions, quaternions], manifolds=[None, tfjac.manifolds.Quaternion()], fixed=[held, held]
    )
    print(problem.plan())
    began = time.perf_counter()
    found = problem.solve()
    print(f"{found.message} {found.steps} steps, {time.perf_counter() - began:.1f} s")
    lengths = np.linalg.norm(found.x[1], axis=1)
    print(f"cost {found.history.cost[0]:.4g} after the first step, {found.cost:.4g} at the end; ", end="")
    print(f"quaternions of length 1 to {np.abs(lengths - 1).max():.0e}")
    return start, positions.numpy()


def save_plot(flight: Flight, flights: dict[str, np.ndarray], path: pathlib.Path) -> None:
    """Draw flights beside the true one, and lines between the places that were seen again."""
    figure = plt.figure(figsize=(6 * len(flights), 5.5))
    again = slice(len(flight.positions) - 1, None)
    everything = np.concatenate([flight.positions, *flights.values()])
    low, high = everything.min(axis=0) - 1.0, everything.max(axis=0) + 1.0
    for place, (title, positions) in enumerate(flights.items(), start=1):
        axes = figure.add_subplot(1, len(flights), place, projection="3d", elev=18, azim=-60)
        for ends in zip(positions[flight.here[again]], positions[flight.there[again]]):
            axes.plot(*np.transpose(ends), color="C7", linewidth=0.3)
        axes.plot(*flight.positions.T, color="C7", linewidth=1, label="true")
        axes.plot(*positions.T, color="C0", linewidth=1, label="found")
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
        axes.set_box_aspect(high - low)  # a metre is as long in each direction, and in each picture
        axes.set(title=f"{title}: off by {flight.distance(positions):.2g} m")
        axes.set(xlabel="x / m", ylabel="y / m", zlabel="z / m")
        axes.legend(loc="upper left")
    figure.tight_layout()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Optimise, print, draw; return how far off positions are by the moves alone, and at the end, in metres."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25, help="around the tower")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    flight = Flight.around_a_tower(options.rounds)
    before, after = optimise(flight)
    off = flight.distance(before), flight.distance(after)
    print(f"positions off by {off[0]:.3g} m by the moves alone, {off[1]:.3g} m in the end")
    save_plot(flight, {"by the moves alone": before, "with places seen again": after}, options.plot)
    print(f"plot: {options.plot}")
    return off


if __name__ == "__main__":
    main()
