"""Complex numbers on the way from real weights to real results, against one tape.gradient per row."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles_full import assert_all_close, full_jacobian

EXAMPLES, INPUTS, OUTPUTS = 3, 4, 5


def number(x):
    """A complex number of a real one."""
    return tf.complex(x, tf.sin(x) + 0.3)


def spectral_convolution(x, v):
    """A layer of a Fourier neural operator."""
    modes = tf.signal.rfft(tf.reshape(x, [-1, 2, 2, 1])[..., 0])  # [n, channels, modes]
    kernel = tf.complex(v["kernel"], v["matrix"][:2, :4])
    modes = tf.einsum("nim,iom->nom", modes, tf.reshape(kernel, [2, 2, 2]))
    return tf.signal.irfft(modes, [2])


def scan(x, v):
    def step(state, u):
        return state * tf.exp(tf.complex(tf.zeros_like(v["vector"]), v["vector"])) + number(u)[:, None]

    states = tf.scan(step, tf.transpose(x), tf.zeros([EXAMPLES, INPUTS], tf.complex128))
    return tf.math.real(states[-1])


MODELS = {
    "scale": lambda x, v: tf.math.real(number(x) * number(v["vector"])),
    "phase": lambda x, v: tf.math.imag(tf.cast(x, tf.complex128) * tf.exp(1j * tf.cast(v["vector"], tf.complex128))),
    "shift": lambda x, v: tf.abs(number(x) + number(v["vector"]) - tf.cast(v["vector"], tf.complex128)),
    "matmul": lambda x, v: tf.abs(number(x) @ number(v["matrix"])),
    "matmul, a cast weight": lambda x, v: tf.abs(number(x) @ tf.cast(v["matrix"], tf.complex128)),
    "matmul, adjoint weight": lambda x, v: tf.abs(
        tf.matmul(number(x)[:, None], tf.transpose(number(v["matrix"]))[None], adjoint_b=True)
    ),
    "matmul, adjoint data": lambda x, v: tf.abs(
        tf.matmul(number(x)[:, :, None], number(v["matrix"])[None], adjoint_a=True)
    ),
    "matmul, adjoint weight on the left": lambda x, v: tf.abs(
        tf.matmul(number(v["matrix"])[None], number(x)[:, :, None], adjoint_a=True)
    ),
    "conjugate transpose": lambda x, v: tf.abs(
        number(x) @ tf.transpose(tf.transpose(number(v["matrix"])), conjugate=True)
    ),
    "conjugate transpose, element by element": lambda x, v: tf.math.imag(
        number(x)[:, None] * tf.transpose(number(v["matrix"]), conjugate=True)
    ),
    "reshaped": lambda x, v: tf.math.imag(
        number(x) @ tf.transpose(tf.reshape(number(v["matrix"]), [OUTPUTS, INPUTS]))
    ),
    "scaled": lambda x, v: tf.math.imag(number(x) * ((2.0 - 1.0j) * number(v["vector"]))),
    "a matrix and a row": lambda x, v: tf.abs(number(x) @ tf.complex(v["matrix"], v["matrix"][0])),
    "einsum": lambda x, v: tf.math.imag(tf.einsum("ni,io->no", number(x), number(v["matrix"]))),
    "division": lambda x, v: tf.math.imag(number(x) / number(v["vector"])),
    "division by data": lambda x, v: tf.math.angle(number(v["vector"]) / number(x)),
    "power": lambda x, v: tf.math.imag(tf.pow(number(x), number(v["vector"]))),
    "squared difference": lambda x, v: tf.math.real(tf.math.squared_difference(number(v["vector"]), number(x))),
    "where": lambda x, v: tf.abs(tf.where(x > 0, number(v["vector"]), number(x) * number(v["vector"]))),
    "bias": lambda x, v: tf.math.real(tf.nn.bias_add(number(x), number(v["vector"])) ** 2),
    "made complex with data": lambda x, v: tf.abs(tf.complex(v["vector"], x)) + tf.abs(tf.complex(x, v["vector"])) ** 2,
    "a look-up": lambda x, v: tf.abs(tf.gather(number(v["matrix"]), tf.cast(x > 0, tf.int32))),
    "spectral convolution": spectral_convolution,
    "a Fourier transform of the weight": lambda x, v: tf.math.real(
        tf.signal.ifft(tf.signal.fft(number(x)) * tf.signal.fft(number(v["vector"])))
    ),
    "no rule: solve": lambda x, v: tf.math.real(
        tf.transpose(
            tf.linalg.solve(
                number(v["matrix"][:, :INPUTS]) + 5 * tf.eye(INPUTS, dtype=tf.complex128), tf.transpose(number(x))
            )
        )
    ),
    "a loop": scan,
    "an invariant of a loop": lambda x, v: tf.while_loop(
        lambda k, h: k < 2, lambda k, h: (k + 1, h + tf.math.real(number(x) * number(v["vector"]))), [0, x]
    )[1],
    "a branch": lambda x, v: tf.math.real(
        tf.cond(tf.reduce_sum(x) > 99.0, lambda: number(x), lambda: number(x) * number(v["vector"]))
    ),
}  # fmt: skip


def setting(rng):
    shapes = {"vector": [INPUTS], "matrix": [INPUTS, OUTPUTS], "kernel": [2, 4]}
    variables = {name: tf.Variable(rng.normal(size=shape)) for name, shape in shapes.items()}
    return tf.constant(rng.normal(size=(EXAMPLES, INPUTS))), variables


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", MODELS)
def test_real_weights_of_complex_models(name, rng):
    x, v = setting(rng)

    def y():
        return MODELS[name](x, v)

    rows = dict(zip(v, full_jacobian(y, list(v.values()))))
    used = [key for key in v if np.any(rows[key])]
    variables, expected = [v[key] for key in used], [rows[key] for key in used]

    @tf.function
    def compute():
        operator = tfjac.jacobian_operator(MODELS[name](x, v), variables)
        return tfjac.per_example_jacobian(MODELS[name](x, v), variables), operator.gram(), operator.row_norms()

    jacobian, gram, norms = compute()
    dense = np.concatenate([block.reshape(norms.shape[0], -1) for block in expected], 1)
    assert_all_close(jacobian, expected, 1e-10)
    assert_all_close([gram, norms], [dense.T @ dense, np.linalg.norm(dense, axis=1)], 1e-9)


def test_complex_variables_and_results_are_refused(rng):
    x, v = setting(rng)
    weight = tf.Variable(number(v["vector"]))
    for refused in (tfjac.per_example_jacobian, tfjac.jacobian_operator, tfjac.jacobian):
        with pytest.raises(TypeError, match=r"must be real.*tf\.complex\(re, im\).*Received.*complex128"):
            refused(lambda: tf.math.real(number(x) * weight), weight)
        with pytest.raises(TypeError, match=r"ys must be real.*tf\.math\.real\(ys\).*Received.*complex128"):
            refused(lambda: number(x) * number(v["vector"]), v["vector"])


def parts(z):
    return np.stack([np.real(z), np.imag(z)])


def test_products_take_complex_numbers(rng):
    """With respect to the real and imaginary parts of both: J by differences, [2, *y, 2, *x]."""
    start, u, tangent = (rng.normal(size=INPUTS) + 1j * rng.normal(size=INPUTS) for _ in range(3))
    weight = tf.Variable(start)

    def y():
        return weight * tf.math.conj(weight) * weight + tf.exp(weight)

    def moved(step):
        weight.assign(start + step)
        result = y().numpy()
        weight.assign(start)
        return result

    step = 1e-6
    forward = (moved(step * tangent) - moved(-step * tangent)) / (2 * step)
    assert_all_close(tfjac.jvp(y, weight, tangent), forward, 1e-8)
    backward = []
    for direction in [*np.eye(INPUTS), *(1j * np.eye(INPUTS))]:
        slope = (moved(step * direction) - moved(-step * direction)) / (2 * step)
        backward.append(np.sum(parts(u) * parts(slope)))
    assert_all_close(tfjac.vjp(y, weight, u), np.array(backward[:INPUTS]) + 1j * np.array(backward[INPUTS:]), 1e-8)
    with pytest.raises(TypeError, match=r"cotangents must be given for complex ys.*Received: none"):
        tfjac.vjp(y, weight)


def test_without_cotangents_it_is_the_gradient(rng):
    x, v = setting(rng)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.sin(x @ v["matrix"]))
    assert_all_close(
        tfjac.vjp(lambda: tf.sin(x @ v["matrix"]), v["matrix"]), tape.gradient(total, v["matrix"]).numpy(), 1e-12
    )
