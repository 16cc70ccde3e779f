"""tensorflow-graphics' geometry in Jacobians, `least_squares` and `batch_dims`, against finite differences."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

pytest.importorskip("tensorflow_graphics", reason="tensorflow-graphics is not installed")

from tensorflow_graphics.geometry.transformation import (
    axis_angle,
    dual_quaternion,
    euler,
    look_at,
    quaternion,
    rotation_matrix_2d,
    rotation_matrix_3d,
)
from tensorflow_graphics.rendering.camera import orthographic, perspective, quadratic_radial_distortion

ROWS = 4
POINT = tf.constant([0.3, -0.5, 0.8], tf.float64)
FOCAL, CENTRE = tf.constant([1.2, 1.1], tf.float64), tf.constant([0.1, -0.1], tf.float64)
NEAR, FAR = tf.constant([0.1], tf.float64), tf.constant([9.0], tf.float64)
UP = tf.constant([0.0, 1.0, 0.0], tf.float64)


def unit(x):
    return x / tf.linalg.norm(x, axis=-1, keepdims=True)


def like(x, values):
    """Return `values` for each row of x."""
    return tf.zeros_like(x[..., :1]) + values


def points(x):
    return like(x, POINT)


def matrix_of(x):
    return rotation_matrix_3d.from_euler(x)


def parts(x, *sizes):
    return tf.split(x, sizes, axis=-1)


FUNCTIONS = {  # name: number of parameters, function of parameters [..., k]
    "quaternion.rotate": (4, lambda x: quaternion.rotate(points(x), unit(x))),
    "quaternion.normalize": (4, quaternion.normalize),
    "quaternion.conjugate": (4, quaternion.conjugate),
    "quaternion.inverse": (4, lambda x: quaternion.inverse(unit(x))),
    "quaternion.multiply": (8, lambda x: quaternion.multiply(*parts(x, 4, 4))),
    "quaternion.from_axis_angle": (4, lambda x: quaternion.from_axis_angle(unit(x[..., :3]), x[..., 3:])),
    "quaternion.from_euler": (3, quaternion.from_euler),
    "quaternion.from_rotation_matrix": (3, lambda x: quaternion.from_rotation_matrix(matrix_of(x))),
    "quaternion.relative_angle": (8, lambda x: quaternion.relative_angle(*map(unit, parts(x, 4, 4)))),
    "quaternion.between_two_vectors_3d": (6, lambda x: quaternion.between_two_vectors_3d(*parts(x, 3, 3))),
    "axis_angle.rotate": (4, lambda x: axis_angle.rotate(points(x), unit(x[..., :3]), x[..., 3:])),
    "axis_angle.from_euler": (3, lambda x: tf.concat(axis_angle.from_euler(x), -1)),
    "axis_angle.from_quaternion": (4, lambda x: tf.concat(axis_angle.from_quaternion(unit(x)), -1)),
    "axis_angle.from_rotation_matrix": (3, lambda x: tf.concat(axis_angle.from_rotation_matrix(matrix_of(x)), -1)),
    "axis_angle.inverse": (4, lambda x: tf.concat(axis_angle.inverse(unit(x[..., :3]), x[..., 3:]), -1)),
    "rotation_matrix_3d.rotate": (3, lambda x: rotation_matrix_3d.rotate(points(x), matrix_of(x))),
    "rotation_matrix_3d.from_axis_angle": (
        4,
        lambda x: rotation_matrix_3d.from_axis_angle(unit(x[..., :3]), x[..., 3:]),
    ),
    "rotation_matrix_3d.from_euler": (3, rotation_matrix_3d.from_euler),
    "rotation_matrix_3d.from_quaternion": (4, lambda x: rotation_matrix_3d.from_quaternion(unit(x))),
    "rotation_matrix_3d.inverse": (3, lambda x: rotation_matrix_3d.inverse(matrix_of(x))),
    "rotation_matrix_2d.rotate": (
        1,
        lambda x: rotation_matrix_2d.rotate(points(x)[..., :2], rotation_matrix_2d.from_euler(x)),
    ),
    "euler.from_quaternion": (4, lambda x: euler.from_quaternion(unit(x))),
    "euler.from_axis_angle": (4, lambda x: euler.from_axis_angle(unit(x[..., :3]), x[..., 3:])),
    "euler.from_rotation_matrix": (3, lambda x: euler.from_rotation_matrix(matrix_of(x))),
    "dual_quaternion.multiply": (16, lambda x: dual_quaternion.multiply(*parts(x, 8, 8))),
    "dual_quaternion.conjugate": (8, dual_quaternion.conjugate),
    "dual_quaternion.from_axis_angle_translation": (
        7,
        lambda x: dual_quaternion.from_axis_angle_translation(unit(x[..., :3]), x[..., 3:4], x[..., 4:]),
    ),
    "look_at.right_handed": (3, lambda x: look_at.right_handed(x + 2.0, points(x), tf.zeros_like(x) + UP)),
    "perspective.project": (3, lambda x: perspective.project(x + [0.0, 0.0, 3.0], FOCAL, CENTRE)),
    "perspective.project of a focal length": (2, lambda x: perspective.project(points(x), x, CENTRE)),
    "perspective.ray": (2, lambda x: perspective.ray(x, FOCAL, CENTRE)),
    "perspective.unproject": (
        3,
        lambda x: perspective.unproject(x[..., :2], x[..., 2:], like(x, FOCAL), like(x, CENTRE)),
    ),
    "perspective.matrix_from_intrinsics": (
        4,
        lambda x: perspective.matrix_from_intrinsics(x[..., :2], x[..., 2:], tf.zeros_like(x[..., :1])),
    ),
    "perspective.right_handed": (
        2,
        lambda x: perspective.right_handed(x[..., :1] + 1.0, x[..., 1:] + 1.5, like(x, NEAR), like(x, FAR)),
    ),
    "orthographic.project": (3, orthographic.project),
    "quadratic_radial_distortion.distortion_factor": (
        2,
        lambda x: quadratic_radial_distortion.distortion_factor(x[..., :1, None] ** 2, x[..., 1])[0],
    ),
}
CASES = pytest.mark.parametrize("name", FUNCTIONS)


def start(name, rows=ROWS):
    """Parameters `[rows, k]`, away from where angles wrap and axes vanish."""
    return np.random.default_rng(1).uniform(0.2, 0.7, size=(rows, FUNCTIONS[name][0]))


def flat(name):
    """The function with what it returns flattened behind the examples, `[n, m]`."""
    function = FUNCTIONS[name][1]

    def rows(x):
        y = function(x)
        return tf.reshape(y, [tf.shape(x)[0], -1])

    return rows


def differences(function, x, h=1e-5):
    """Central differences of each row by itself, `[n, m, k]`, from values alone."""
    columns = [
        (function(tf.constant(x + h * e)) - function(tf.constant(x - h * e))) / (2 * h) for e in np.eye(x.shape[1])
    ]
    return np.stack(columns, axis=-1)


@pytest.mark.by_day(None)
@CASES
def test_jacobians(name):
    x, function = start(name), flat(name)
    variable = tf.constant(x)
    found = tfjac.batch_jacobian(lambda: function(variable), variable)
    np.testing.assert_allclose(found, differences(function, x), atol=1e-8)


@pytest.mark.by_day(one_in=36)
@CASES
def test_least_squares(name):
    """The minimum is found, and the Jacobian there is the right one."""
    x, function = start(name, rows=1), flat(name)
    target = function(tf.constant(x)).numpy()
    variable = tf.Variable(x + np.linspace(-0.05, 0.05, x.shape[1]))
    result = tfjac.least_squares(lambda: function(variable.value()) - target, variable)
    assert result.cost < 1e-15
    np.testing.assert_allclose(result.jacobian(), differences(function, result.x)[0], atol=1e-7)


@pytest.mark.by_day(None)
@CASES
def test_many_fits(name):
    """Each fit of a batch reaches its own data."""
    x, function = start(name), flat(name)
    target = function(tf.constant(x)).numpy()
    variable = tf.Variable(x + np.linspace(-0.05, 0.05, x.shape[1]))
    result = tfjac.least_squares(lambda v, y: function(v) - y, variable, args=(target,), batch_dims=1)
    assert result.cost.max() < 1e-15
    np.testing.assert_allclose(function(tf.constant(result.x)), target, atol=1e-7)


@pytest.mark.by_day(None)
def test_the_moves_from_their_minimize():
    """Their residuals and variables, ours: the same minimum."""
    from tensorflow_graphics.math.optimizer.levenberg_marquardt import minimize

    rng = np.random.default_rng(0)
    seen = rng.normal(size=(20, 3))
    turned = quaternion.rotate(seen, np.array([[0.1, -0.2, 0.3, np.sqrt(0.86)]])).numpy()

    def residuals(angles):
        return rotation_matrix_3d.rotate(seen, rotation_matrix_3d.from_euler(angles)[None]) - turned

    cost, (theirs,) = minimize(residuals, [tf.zeros([3], tf.float64)], max_iterations=30)
    ours = tf.Variable(tf.zeros([3], tf.float64))
    result = tfjac.least_squares(residuals, [ours])
    assert result.cost < 1e-20 and cost < 1e-10
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
