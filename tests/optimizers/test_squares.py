"""Sums of squares in many guises: the residuals found in each are those of the plain sum; or it is refused by name.

All are sums of the squares of one error e(w) `[6, 2]`, but for those that say what else they are.
"""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from tests.optimizers.gauss_newton import damped_step, first_step
from tfjac.objective.residuals import objective_of_loss
from tfjac.optimizers import NotASumOfSquares, Status

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2))
VARIABLES = [tf.Variable(RNG.normal(size=size)) for size in ((3, 4), (4, 2))]
WEIGHTS = RNG.uniform(0.5, 2, (6, 2))


def error(x=X):
    return tf.tanh(tf.matmul(x, VARIABLES[0])) @ VARIABLES[1] - Y


def flat(e):
    return tf.reshape(e, [-1])


def pairs(e):
    return tf.complex(e[:, 0], e[:, 1])


def taken(when_true, when_false, condition=True):
    return tf.cond(tf.constant(condition), when_true, when_false)


@tf.custom_gradient
def halved(loss):
    return loss, lambda d: d / 2


GUISES = {
    "a squared norm": lambda e: tf.norm(e) ** 2,
    "norms of rows": lambda e: tf.reduce_sum(tf.square(tf.norm(e, axis=-1))),
    "norms of rows, kept": lambda e: tf.reduce_sum(tf.norm(e, axis=1, keepdims=True) ** 2),
    "norm times norm": lambda e: tf.norm(e) * tf.norm(e),
    "Frobenius": lambda e: tf.norm(e, ord="fro", axis=[0, 1]) ** 2,
    "keras.ops.norm": lambda e: keras.ops.norm(e) ** 2,
    "euclidean norm": lambda e: tf.math.reduce_euclidean_norm(e) ** 2,
    "euclidean norms of rows": lambda e: tf.reduce_sum(tf.math.reduce_euclidean_norm(e, axis=1) ** 2),
    "powers of a half": lambda e: tf.pow(tf.pow(tf.reduce_sum(e**2), 0.5), 2.0),
    "a reciprocal root": lambda e: tf.math.rsqrt(tf.reduce_sum(e**2)) ** -2,
    "one by the square of a reciprocal root": lambda e: 1 / tf.math.rsqrt(tf.reduce_sum(e**2)) ** 2,
    "one by a root, squared and turned over": lambda e: tf.math.reciprocal(tf.square(1 / tf.norm(e))),
    "a root of a root": lambda e: tf.sqrt(tf.norm(e)) ** 4,
    "a third power of a cube root": lambda e: tf.pow(tf.maximum(tf.reduce_sum(e**2), 1e-9), 1 / 3) ** 3,
    "RMSE squared": lambda e: 12 * tf.sqrt(tf.reduce_mean(e**2)) ** 2,
    "l2_loss of a norm": lambda e: 2 * tf.nn.l2_loss(tf.norm(e)),
    "a scaled norm": lambda e: tf.square(-3 * tf.norm(e) / 2) * 4 / 9,
    "weighted norms": lambda e: tf.reduce_sum(tf.square(tf.norm(e, axis=1, keepdims=True) * np.ones((1, 2)))) / 2,
    "a norm kept from zero": lambda e: tf.sqrt(tf.maximum(tf.reduce_sum(e**2), 1e-12)) ** 2,
    "a norm with epsilon": lambda e: tf.sqrt(tf.reduce_sum(e**2) + 1e-12) ** 2,
    "a norm in an inner function": lambda e: tf.function(lambda e: tf.norm(e) ** 2)(e),
    "absolute values": lambda e: tf.reduce_sum(tf.abs(e) ** 2),
    "einsum to a number": lambda e: tf.einsum("ij,ij->", e, e),
    "einsum to rows": lambda e: tf.reduce_sum(tf.einsum("ij,ij->i", e, e)),
    "einsum of vectors": lambda e: tf.einsum("i,i->", flat(e), flat(e)),
    "einsum with an ellipsis": lambda e: tf.reduce_sum(tf.einsum("...i,...i->...", e, e)),
    "einsum to a transpose": lambda e: tf.reduce_sum(tf.einsum("ij,ij->ji", e, e)),
    "einsum of e and its transpose": lambda e: tf.einsum("ij,ji->", e, tf.transpose(e)),
    "vdot": lambda e: tnp.vdot(e, e),
    "keras.ops.dot": lambda e: keras.ops.dot(flat(e), flat(e)),
    "tensordot": lambda e: tf.tensordot(e, e, 2),
    "trace of eᵀe": lambda e: tf.linalg.trace(tf.matmul(e, e, transpose_a=True)),
    "trace of e eᵀ": lambda e: tf.linalg.trace(e @ tf.transpose(e)),
    "sum of the diagonal": lambda e: tf.reduce_sum(tf.linalg.tensor_diag_part(tf.matmul(e, e, transpose_b=True))),
    "column by column": lambda e: tf.matmul(flat(e)[:, None], flat(e)[:, None], transpose_a=True)[0, 0],
    "row times column": lambda e: tf.squeeze(tf.reshape(e, [1, -1]) @ tf.reshape(e, [-1, 1])),
    "rows times columns": lambda e: tf.reduce_sum(e[:, None, :] @ e[:, :, None]),
    "matvec": lambda e: tf.reduce_sum(tf.linalg.matvec(e[:, None, :], e)),
    "w * e * e": lambda e: tf.reduce_sum(WEIGHTS * e * e / WEIGHTS),
    "e * (w * e)": lambda e: tf.reduce_sum(e * (WEIGHTS * e) / WEIGHTS),
    "e / w * e": lambda e: tf.reduce_sum(WEIGHTS * (e / WEIGHTS * e)),
    "reshaped and transposed": lambda e: tf.reduce_sum(tf.reshape(tf.transpose(tf.transpose(e) ** 2), [3, 4])),
    "squared_difference": lambda e: tf.reduce_sum(tf.math.squared_difference(e + Y, Y)),
    "gathered": lambda e: tf.reduce_sum(tf.gather(e**2, [5, 4, 3, 2, 1, 0])),
    "pooled": lambda e: 2 * tf.reduce_sum(tf.nn.avg_pool1d((e**2)[None], 2, 2, "VALID")),
    "|z|²": lambda e: tf.reduce_sum(tf.abs(pairs(e)) ** 2),
    "the real part of z z̄": lambda e: tf.math.real(tf.reduce_sum(pairs(e) * tf.math.conj(pairs(e)))),
    "a norm of complex numbers": lambda e: tf.math.real(tf.norm(pairs(e))) ** 2,
    "vectorized_map": lambda e: tf.reduce_sum(tf.vectorized_map(lambda row: tf.tensordot(row, row, 1), e)),
    "a branch": lambda e: taken(lambda: tf.reduce_sum(e**2), lambda: tf.reduce_sum(e**2 * 7)),
    "the other branch": lambda e: taken(lambda: tf.constant(7.0, e.dtype), lambda: tf.norm(e) ** 2, condition=False),
    "a norm in a branch": lambda e: taken(lambda: tf.norm(e), lambda: tf.norm(e) * 7) ** 2,
    "one of several branches": lambda e: tf.switch_case(
        tf.constant(1), [lambda: tf.reduce_sum(7 * e**2), lambda: tf.norm(e) ** 2, lambda: tf.nn.l2_loss(e)]
    ),
}  # fmt: skip

REFUSED = {
    "a product with something else": (lambda e: tf.einsum("ij,ij->", e, tf.tanh(e)), "Einsum"),
    "eᵀe off the diagonal": (lambda e: tf.reduce_sum(tf.matmul(e, e, transpose_a=True)), "MatMul"),
    "another diagonal": (lambda e: tf.reduce_sum(tf.linalg.diag_part(e @ tf.transpose(e), k=1)), "MatrixDiagPartV3"),
    "e reshaped, times e": (lambda e: tf.reduce_sum(tf.reshape(tf.transpose(e), [6, 2]) * e), "Mul"),
    "a quadratic form": (lambda e: tf.einsum("ni,ij,nj->", e, np.eye(2) + 0.1, e), "Einsum"),
    "the square of a complex number": (lambda e: tf.math.real(tf.reduce_sum(pairs(e) ** 2)), "Real"),
    "a norm": (lambda e: tf.norm(e), "Sqrt"),
    "a loop": (lambda e: tf.reduce_sum(tf.map_fn(lambda row: tf.reduce_sum(row**2), e)), "TensorListStack"),
    "a norm in a loop": (lambda e: tf.reduce_sum((2 * tf.map_fn(lambda row: -tf.norm(row), e)) ** 2), "Pow"),
    "a draw in a branch": (
        lambda e: taken(lambda: tf.reduce_sum(e**2) * tf.random.uniform([], dtype=e.dtype), lambda: tf.norm(e)), "If"
    ),
    "a gradient of its own": (lambda e: halved(tf.reduce_sum(e**2)), "IdentityN"),
}  # fmt: skip


@pytest.fixture(scope="module")
def found():
    """The loss, and the residuals found in it, of every guise; or what was raised. From one trace."""
    raised = {}

    @tf.function(autograph=False)
    def trace():
        residuals = {}
        for name, guise in {**GUISES, **{name: guise for name, (guise, _) in REFUSED.items()}}.items():
            try:
                loss = tf.cast(guise(error()), tf.float64)
                residuals[name] = (loss, [r for _, r in objective_of_loss(loss, VARIABLES).rows])
            except ValueError as caught:
                raised[name] = caught
        return residuals

    return {**tf.nest.map_structure(lambda tensor: tensor.numpy(), trace()), **raised}


@pytest.mark.core
@pytest.mark.parametrize("name", GUISES)
def test_residuals(name, found):
    """As sets, up to signs: in which order the squares are summed is of no importance."""
    if isinstance(found[name], Exception):
        raise found[name]
    loss, residuals = found[name]
    ours = np.sort(np.concatenate([np.abs(residual).ravel() for residual in residuals]))
    expected = np.sort(np.abs(np.sqrt(2) * error().numpy().ravel()))
    np.testing.assert_allclose(loss, (expected**2).sum() / 2, rtol=1e-12)
    np.testing.assert_allclose(ours[ours > 0], expected, rtol=1e-9)


@pytest.mark.core
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name, found):
    assert isinstance(found[name], NotASumOfSquares)
    assert found[name].op.type == REFUSED[name][1]


STEPS = {
    "plain and in guise": lambda e: tf.reduce_sum(e**2) / 4 + tf.norm(e) ** 2 / 2 + tf.tensordot(e, e, 2) / 4,
    "variance": lambda e: 12 * tf.math.reduce_variance(e),
    "squared standard deviation": lambda e: 12 * tf.math.reduce_std(e) ** 2,
}


@pytest.mark.core
@pytest.mark.parametrize("name", STEPS)
def test_step(name):
    centred = "devi" in name or "vari" in name
    residuals = lambda: np.sqrt(2) * (error() - (tf.reduce_mean(error()) if centred else 0.0))  # noqa: E731
    expected = damped_step(residuals, VARIABLES)
    step, _ = first_step(lambda: STEPS[name](error()), VARIABLES)
    np.testing.assert_allclose(step, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("perfect", [False, True])
def test_a_step_on_a_squared_norm(perfect):
    """Also where the norm is zero, at which it has no derivative."""
    variable = tf.Variable([1.0, 2.0], dtype=tf.float64)
    residuals = lambda: tf.stack([variable[0] - 1, 3 * variable[0] * variable[1] - (6 if perfect else 5)])  # noqa: E731
    expected = 0 if perfect else damped_step(lambda: np.sqrt(2) * residuals(), [variable])
    step, optimizer = first_step(lambda: tf.norm(residuals()) ** 2, [variable])
    np.testing.assert_allclose(step, expected, rtol=1e-9)
    assert perfect or 0.5 < optimizer.last_ratio < 1.5


def test_a_branch_that_is_not_finite_where_it_is_not_taken_is_reported():
    step, optimizer = first_step(
        lambda: taken(lambda: tf.norm(error()) ** 2, lambda: tf.reduce_sum((error() / tf.zeros([], tf.float64)) ** 2)),
        VARIABLES,
    )
    assert optimizer.status is Status.NOT_FINITE and not step.any()


def test_a_squared_norm_of_a_variable_is_a_prior():
    """Known to weigh all elements alike, so that the kernel serves."""
    found = {}

    @tf.function(autograph=False)
    def trace():
        loss = tf.reduce_sum(error() ** 2) + 0.3 * tf.norm(VARIABLES[0]) ** 2
        found["problem"] = problem = objective_of_loss(loss, VARIABLES)
        return problem.prior.precision, problem.prior.gradient

    precision, gradient = trace()
    np.testing.assert_allclose(precision, np.repeat([0.6, 0.0], [12, 8]))
    np.testing.assert_allclose(gradient, precision * np.concatenate([flat(v) for v in VARIABLES]))
    assert found["problem"].prior.has_one_number_per_variable


@pytest.mark.by_day(None)
def test_an_open_batch():
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)], autograph=False)
    def trace(x):
        e = tf.tanh(tf.matmul(x, VARIABLES[0])) @ VARIABLES[1]
        losses = [tf.norm(e) ** 2, tf.tensordot(e, e, 2), tf.einsum("ij,ij->", e, e), tf.reduce_sum(e * e)]
        return [objective_of_loss(loss, VARIABLES).linearise().gram_and_gradient() for loss in losses]

    *guises, plain = trace(X)
    for ours in guises:
        tf.nest.map_structure(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11), ours, plain)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda e: tf.sqrt(tf.minimum(tf.reduce_sum(e**2), 100)) ** 2, "no more rows"),
        (lambda e: tf.exp(tf.reduce_mean(e**2)), "rank one"),
        (lambda e: tf.sqrt(tf.nn.softplus(e[0, 0])) ** 2, None),
        (lambda e: tf.exp(tf.reduce_mean(e)) + tf.reduce_sum(tf.exp(e)), None),
    ],
    ids=["the root of a minimum", "an exponential", "no sum under the root", "no square within"],
)
def test_what_is_one_residual_though_a_sum_of_squares_is_within_is_pointed_out(loss, words):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tf.function(lambda: objective_of_loss(loss(error()), VARIABLES).cost, autograph=False).get_concrete_function()
    said = [str(warning.message) for warning in caught if "tfjac" in str(warning.message)]
    assert len(said) == bool(words) and all(words in message for message in said)
