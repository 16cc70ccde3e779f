"""Problems of Moré, Garbow & Hillstrom, "Testing unconstrained optimization software", 1981: nothing from tfjac.

Each is a function from parameters `[p]`, a float64 tensor, to residuals, with the standard start.
"""

import numpy as np
import tensorflow as tf


def _constant(values):
    return tf.constant(values, tf.float64)


def rosenbrock(x):
    return tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def freudenstein_roth(x):
    return tf.stack([-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1], -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]])


def powell_badly_scaled(x):
    return tf.stack([1e4 * x[0] * x[1] - 1, tf.exp(-x[0]) + tf.exp(-x[1]) - 1.0001])


def brown_badly_scaled(x):
    return tf.stack([x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2])


def beale(x):
    return tf.stack([y - x[0] * (1 - x[1] ** k) for k, y in enumerate((1.5, 2.25, 2.625), 1)])


def jennrich_sampson(x):
    i = _constant(np.arange(1, 11))
    return 2 + 2 * i - (tf.exp(i * x[0]) + tf.exp(i * x[1]))


def helical_valley(x):
    turn = tf.atan2(x[1], x[0]) / (2 * np.pi)
    return tf.stack([10 * (x[2] - 10 * turn), 10 * (tf.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]])


def bard(x):
    y = [0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39]
    u = np.arange(1.0, 16)
    v = 16 - u
    return _constant(y) - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


def meyer(x):
    y = [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872]
    return x[0] * tf.exp(x[1] / (_constant(45 + 5 * np.arange(1, 17)) + x[2])) - _constant(y)


def box_3d(x):
    t = 0.1 * np.arange(1, 11)
    return tf.exp(-t * x[0]) - tf.exp(-t * x[1]) - x[2] * _constant(np.exp(-t) - np.exp(-10 * t))


def powell_singular(x):
    return tf.stack([x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10**0.5 * (x[0] - x[3]) ** 2])


def wood(x):
    return tf.stack(
        [
            10 * (x[1] - x[0] ** 2), 1 - x[0], 90**0.5 * (x[3] - x[2] ** 2), 1 - x[2],
            10**0.5 * (x[1] + x[3] - 2), 10**-0.5 * (x[1] - x[3]),
        ]
    )  # fmt: skip


def kowalik_osborne(x):
    y = [0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246]
    u = _constant([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
    return _constant(y) - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])


def brown_dennis(x):
    t = _constant(np.arange(1, 21) / 5)
    return (x[0] + t * x[1] - tf.exp(t)) ** 2 + (x[2] + x[3] * tf.sin(t) - tf.cos(t)) ** 2


def osborne_1(x):
    y = [
        0.844, 0.908, 0.932, 0.936, 0.925, 0.908, 0.881, 0.850, 0.818, 0.784, 0.751, 0.718, 0.685, 0.658, 0.628, 0.603,
        0.580, 0.558, 0.538, 0.522, 0.506, 0.490, 0.478, 0.467, 0.457, 0.448, 0.438, 0.431, 0.424, 0.420, 0.414, 0.411,
        0.406,
    ]  # fmt: skip
    t = _constant(10 * np.arange(33))
    return _constant(y) - (x[0] + x[1] * tf.exp(-t * x[3]) + x[2] * tf.exp(-t * x[4]))


def osborne_2(x):
    y = [
        1.366, 1.191, 1.112, 1.013, 0.991, 0.885, 0.831, 0.847, 0.786, 0.725, 0.746, 0.679, 0.608, 0.655, 0.616, 0.606,
        0.602, 0.626, 0.651, 0.724, 0.649, 0.649, 0.694, 0.644, 0.624, 0.661, 0.612, 0.558, 0.533, 0.495, 0.500, 0.423,
        0.395, 0.375, 0.372, 0.391, 0.396, 0.405, 0.428, 0.429, 0.523, 0.562, 0.607, 0.653, 0.672, 0.708, 0.633, 0.668,
        0.645, 0.632, 0.591, 0.559, 0.597, 0.625, 0.739, 0.710, 0.729, 0.720, 0.636, 0.581, 0.428, 0.292, 0.162, 0.098,
        0.054,
    ]  # fmt: skip
    t = _constant(np.arange(65) / 10)
    peaks = [x[k] * tf.exp(-((t - x[k + 7]) ** 2) * x[k + 4]) for k in (1, 2, 3)]
    return _constant(y) - (x[0] * tf.exp(-t * x[4]) + tf.add_n(peaks))


PROBLEMS = {
    "Rosenbrock": (rosenbrock, [-1.2, 1.0]),
    "Freudenstein-Roth": (freudenstein_roth, [0.5, -2.0]),
    "Powell badly scaled": (powell_badly_scaled, [0.0, 1.0]),
    "Brown badly scaled": (brown_badly_scaled, [1.0, 1.0]),
    "Beale": (beale, [1.0, 1.0]),
    "Jennrich-Sampson": (jennrich_sampson, [0.3, 0.4]),
    "helical valley": (helical_valley, [-1.0, 0.0, 0.0]),
    "Bard": (bard, [1.0, 1.0, 1.0]),
    "Meyer": (meyer, [0.02, 4000.0, 250.0]),
    "Box 3D": (box_3d, [0.0, 10.0, 20.0]),
    "Powell singular": (powell_singular, [3.0, -1.0, 0.0, 1.0]),
    "Wood": (wood, [-3.0, -1.0, -3.0, -1.0]),
    "Kowalik-Osborne": (kowalik_osborne, [0.25, 0.39, 0.415, 0.39]),
    "Brown-Dennis": (brown_dennis, [25.0, 5.0, -5.0, -1.0]),
    "Osborne 1": (osborne_1, [0.5, 1.5, -1.0, 0.01, 0.02]),
    "Osborne 2": (osborne_2, [1.3, 0.65, 0.65, 0.7, 0.6, 3.0, 5.0, 7.0, 2.0, 4.5, 5.5]),
}
