"""Functions of a loaded SavedModel under XLA, in a process of their own: a crash there is a failure here."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

PROGRAM = """
import sys
import numpy as np
import tensorflow as tf
import tfjac

model = tf.saved_model.load(sys.argv[1])
w, x = model.w, tf.constant(np.load(sys.argv[1] + "/x.npy"))
u = tf.constant(np.load(sys.argv[1] + "/u.npy"))
products = lambda j: [j.matvec(tf.reshape(w, [-1])), j.matvec(tf.reshape(u, [-1]), adjoint=True), j.gram()]
FUNCTIONS = {
    "per_example_jacobian": lambda: tfjac.per_example_jacobian(model(x), w),
    "jacobian_operator": lambda: products(tfjac.jacobian_operator(model(x), w)),
    "clipped_gradients": lambda: tfjac.clipped_gradients(tf.reduce_sum(model(x) ** 2, axis=1), w, 0.7),
    "jvp": lambda: tfjac.jvp(model(x), w, w),
    "vjp": lambda: tfjac.vjp(model(x), w, u),
    "least_squares": lambda: tfjac.least_squares(lambda: model(x) - u, w, solver="cholesky").x,
}
found = tf.nest.flatten(tf.function(FUNCTIONS[sys.argv[2]], jit_compile=True)())
np.savez(sys.argv[3], *(each.numpy() for each in found))
"""


class Loaded(tf.Module):
    def __init__(self, value):
        self.w = tf.Variable(value)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)])
    def __call__(self, x):
        return tf.matmul(x, self.w)


RNG = np.random.default_rng(0)
X, W, U = (RNG.normal(size=size) for size in ([5, 3], [3, 2], [5, 2]))


def expected(name):
    """By hand: y = x w."""
    jacobian = np.einsum("ni,mo->nmio", X, np.eye(2))
    rows = jacobian.reshape(10, 6)
    gradients = np.einsum("nmio,nm->nio", jacobian, 2 * (X @ W))
    norms = np.sqrt((gradients**2).sum(axis=(1, 2), keepdims=True))
    return {
        "per_example_jacobian": [jacobian],
        "jacobian_operator": [rows @ W.ravel(), rows.T @ U.ravel(), rows.T @ rows],
        "clipped_gradients": [(gradients * np.minimum(1, 0.7 / norms)).sum(axis=0)],
        "jvp": [X @ W],
        "vjp": [X.T @ U],
        "least_squares": [np.linalg.lstsq(X, U, rcond=None)[0]],
    }[name]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("saved"))
    tf.saved_model.save(Loaded(W), path)
    np.save(f"{path}/x.npy", X)
    np.save(f"{path}/u.npy", U)
    return path


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize(
    "name", ["per_example_jacobian", "jacobian_operator", "clipped_gradients", "jvp", "vjp", "least_squares"]
)
def test_the_same_as_by_hand(saved, tmp_path, name):
    result = tmp_path / "found.npz"
    command = [sys.executable, "-c", PROGRAM, saved, name, str(result)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr[-2000:]
    with np.load(result) as found:
        values = [found[key] for key in found.files]
    wanted = expected(name)
    assert len(values) == len(wanted)
    for value, want in zip(values, wanted):
        np.testing.assert_allclose(value, want, rtol=1e-6, atol=1e-7)
