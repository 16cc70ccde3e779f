"""Influences by Kronecker factors with corrected eigenvalues, against NumPy, which forms all of it in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.precision import floating

RNG = np.random.default_rng(3)
N, DAMPING = 14, 0.05


def mlp():
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((5,)), *layers]), RNG.normal(size=(N, 5))


def cnn():
    layers = [keras.layers.Conv2D(2, 2, activation="tanh"), keras.layers.Flatten(), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((3, 3, 2)), *layers]), RNG.normal(size=(N, 3, 3, 2))


def text():
    layers = [keras.layers.Embedding(4, 3), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((3,), dtype="int32"), *layers]), RNG.integers(0, 4, (N, 3))


def jacobian_of(model, x):
    """∂z/∂w, one row at a time: a list of `[n, m, *shape]`."""
    rows = []
    for k in range(len(x)):
        with tf.GradientTape() as tape:
            z = model(x[k : k + 1])[0]
        rows.append([each.numpy() for each in tape.jacobian(z, [v.value for v in model.trainable_variables])])
    return [np.array(each) for each in zip(*rows)]


def roots(z):
    """R with R Rᵀ = diag(π) − ππᵀ, `[n, m, m]`."""
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    values, vectors = np.linalg.eigh(np.array([np.diag(each) - np.outer(each, each) for each in p]))
    return vectors * np.sqrt(np.maximum(values, 0))[:, None], p


def positions(model, x, variable):
    """`(a[n,t,i], d[n,m,t,o])` of a weight by its layer's definition: inputs, and gradients of the outputs there."""
    layer = next(each for each in model.layers if any(w is variable for w in each.weights))
    before = keras.Model(model.inputs, layer.input)(x).numpy()
    behind = keras.Sequential([keras.Input(layer.output.shape[1:]), *model.layers[model.layers.index(layer) + 1 :]])
    linear = tf.constant(before)
    with tf.GradientTape() as tape:
        kernel, bias = layer.kernel, layer.bias
        if isinstance(layer, keras.layers.Dense):
            pre = linear @ kernel + bias
        else:
            pre = tf.nn.conv2d(linear, kernel, 1, "VALID") + bias
        tape.watch(pre)
        z = behind(layer.activation(pre)) if behind.layers else layer.activation(pre)
    d = tape.batch_jacobian(z, pre).numpy()
    n, m, o = len(x), d.shape[1], d.shape[-1]
    d = d.reshape(n, m, -1, o)
    if isinstance(layer, keras.layers.Dense):
        return before[:, None], d
    patches = np.stack([before[:, i : i + 2, j : j + 2].reshape(n, -1) for i in range(2) for j in range(2)], axis=1)
    return patches, d


def inverse_of(model, x, jacobian, root):
    """Per weight: eigenvectors of A and G, the diagonal of JᵀHJ there, and the damped inverse `[p, p]`."""
    blocks = []
    for variable, rows in zip(model.trainable_variables, jacobian):
        weighed = np.einsum("nkm,nk...->nm...", root, rows).reshape(-1, int(np.prod(variable.shape)))
        curvature = weighed.T @ weighed
        if variable.path.endswith("kernel"):
            a, d = positions(model, x, variable)
            d = np.einsum("nkm,nkto->nmto", root, d)
            left = np.linalg.eigh(np.einsum("nti,ntj->ij", a, a))[1]
            basis = np.kron(left, np.linalg.eigh(np.einsum("nmto,nmtp->op", d, d))[1])
        elif variable.path.endswith("embeddings"):  # each row by itself
            vocabulary, o = variable.shape
            square = curvature.reshape(vocabulary, o, vocabulary, o)
            basis = np.zeros((vocabulary, o, vocabulary, o))
            for row in range(vocabulary):
                basis[row, :, row] = np.linalg.eigh(square[row, :, row])[1]
            basis = basis.reshape(vocabulary * o, -1)
        else:
            basis = np.linalg.eigh(curvature)[1]
        values = np.einsum("pi,pq,qi->i", basis, curvature, basis) + N * DAMPING
        blocks.append(basis / values @ basis.T)
    size = sum(map(len, blocks))
    whole, at = np.zeros((size, size)), 0
    for block in blocks:
        whole[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return whole


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("make", [mlp, cnn, text])
def test_all_of_it_formed_by_numpy(make):
    with floating("float64"):
        keras.utils.set_random_seed(0)
        model, x = make()
        y = RNG.integers(3, size=N)
        model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        found = tfjac.influence(model, x, y, method="ekfac", damping=DAMPING, batch_size=5)
        changes, own = found.on_losses(x[:4], y[:4]), found.self_influence()
        jacobian, z = jacobian_of(model, x), model(x).numpy()
        root, p = roots(z)
        inverse = inverse_of(model, x, jacobian, root)
    slopes = p - np.eye(3)[y]
    flat = np.concatenate([each.reshape(N, 3, -1) for each in jacobian], axis=2)
    gradients = np.einsum("nm,nmp->np", slopes, flat)
    assert found.removal == "first_order" and found.method == "ekfac"
    np.testing.assert_allclose(changes, gradients[:4] @ inverse @ gradients.T, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(own, np.einsum("np,pq,nq->n", gradients, inverse, gradients), rtol=1e-6, atol=1e-9)


@pytest.mark.by_day(None)
def test_one_linear_layer_of_one_output_is_exact():
    """Then the Kronecker factors are the curvature."""
    with floating("float64"):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(loss="mse")
        x, y = RNG.normal(size=(N, 4)), RNG.normal(size=(N, 1))
        exact, found = (tfjac.influence(model, x, y, method=each, removal="newton") for each in ("weights", "ekfac"))
        np.testing.assert_allclose(found.damping, exact.damping, rtol=1e-10)
        for name in "self_influence", "leverages":
            np.testing.assert_allclose(getattr(found, name)(), getattr(exact, name)(), rtol=1e-8)
        np.testing.assert_allclose(found.on_losses(x, y), exact.on_losses(x, y), rtol=1e-7, atol=1e-10)


def test_a_singular_curvature_without_damping_is_refused():
    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(1)])
    model.compile(loss="mse")
    with pytest.raises(ValueError, match=r"singular.*damping above zero"):
        tfjac.influence(model, RNG.normal(size=(5, 30)), np.ones((5, 1)), method="ekfac", damping=0.0)
