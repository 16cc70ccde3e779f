"""Jacobians, their products, and the native ops."""

import tempfile

import numpy as np
import tensorflow as tf
from common import RNG, X, dense_jacobian, feature, flat, network, same

import tfjac


@feature
def per_example_jacobian():
    model = network()
    same(flat(tfjac.per_example_jacobian(lambda: model(X), model.trainable_variables)), dense_jacobian(model))


@feature
def per_example_jacobian_under_xla():
    model = network()
    found = tf.function(lambda: tfjac.per_example_jacobian(model(X), model.trainable_variables), jit_compile=True)()
    same(flat(found), dense_jacobian(model))


@feature
def gram_and_kernel():
    model, compiled = network(), {}
    for jit in (False, True):

        @tf.function(jit_compile=jit)
        def products():
            operator = tfjac.jacobian_operator(model(X), model.trainable_variables)
            return operator.gram(), operator.kernel()

        compiled[jit] = products()
    j = dense_jacobian(model)
    for gram, kernel in compiled.values():
        same(gram, j.T @ j)
        same(np.reshape(kernel, [24, 24]), j @ j.T)


@feature
def gradient_norms_and_clipping():
    model = network(1)
    j = dense_jacobian(model)
    norms = np.linalg.norm(j, axis=1)
    same(tfjac.per_example_gradient_norms(lambda: model(X)[:, 0], model.trainable_variables), norms)
    clipped = tfjac.clipped_gradients(lambda: model(X)[:, 0], model.trainable_variables, 1.0)
    expected = (j * np.minimum(1.0, 1.0 / norms)[:, None]).sum(axis=0)
    same(np.concatenate([np.ravel(each) for each in clipped]), expected)


@feature
def products_with_vectors():
    w = tf.Variable([0.3, -0.2, 0.5], dtype=tf.float64)
    v = tf.constant([1.0, 2.0, -1.0], tf.float64)

    @tf.function
    def products():
        y = tf.sin(tf.linalg.matvec(X, w))
        return tfjac.jvp(y, w, v), tfjac.vjp(y, w), tfjac.hvp(tf.reduce_sum(y), w, v)

    forward, backward, second = products()
    x, angles = X.numpy(), X.numpy() @ w.numpy()
    j = np.cos(angles)[:, None] * x
    same(forward, j @ v.numpy())
    same(backward, j.sum(axis=0))
    same(second, -x.T @ (np.sin(angles) * (x @ v.numpy())))


@feature
def batch_and_full_jacobian():
    @tf.function
    def both(x):
        y = tf.stack([x[:, 0] * x[:, 1], tf.exp(x[:, 2])], axis=1)
        return tfjac.batch_jacobian(y, x), tfjac.jacobian(y, x)

    rows, full = both(X)
    x = X.numpy()
    expected = np.zeros([12, 2, 3])
    expected[:, 0, 0], expected[:, 0, 1], expected[:, 1, 2] = x[:, 1], x[:, 0], np.exp(x[:, 2])
    same(rows, expected)
    same(np.einsum("nmnk->nmk", full), expected)


@feature
def sparse_jacobian():
    x = tf.constant(RNG.normal(size=50))

    @tf.function
    def stencil(x):
        return tfjac.sparse_jacobian(x[1:] ** 2 - x[:-1], x)

    expected = np.zeros([49, 50])
    expected[np.arange(49), np.arange(49)], expected[np.arange(49), np.arange(1, 50)] = -1.0, 2 * x.numpy()[1:]
    same(tf.sparse.to_dense(tf.sparse.reorder(stencil(x))), expected)


@feature
def sparse_jacobian_with_a_full_row_and_column():
    x = tf.constant(RNG.normal(size=50))

    @tf.function
    def arrow(x):  # colours of rows alone, or of columns alone, would be fifty
        return tfjac.sparse_jacobian(tf.concat([[tf.reduce_sum(x**2)], x[1:] * x[0]], axis=0), x)

    expected = np.diag(np.full(50, x.numpy()[0]))
    expected[:, 0], expected[0] = x.numpy(), 2 * x.numpy()
    same(tf.sparse.to_dense(arrow(x)), expected)


@feature
def colours_of_columns():
    import scipy.sparse

    pattern = scipy.sparse.diags([np.ones(39), np.ones(40), np.ones(39)], [-1, 0, 1], format="csr")
    for implementation in ("native", "twin") if tfjac.ops_info().native else ("twin",):
        with tfjac.ops.implementation(implementation):
            same(tfjac.ops.column_colours(pattern, pattern.tocsc(), most_constrained_first=False), np.arange(40) % 3)


@feature
def saved_model():
    model = network()
    module = tf.Module()
    module.model, variables = model, model.trainable_variables
    module.gram = tf.function(lambda: tfjac.jacobian_operator(model(X), variables).gram())
    expected = module.gram()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
        same(loaded.gram(), expected)


@feature
def native_op_beside_its_twin():
    a, d = [tf.constant(RNG.normal(size=(6, 1, 1, 4)))], [tf.constant(RNG.normal(size=(6, 2, 1, 1, 3)))]
    j = np.einsum("ntgi,nmtgo->nmio", a[0], d[0]).reshape(12, 12)
    same(np.reshape(tfjac.ops.jacobian_kernel(a, d), [12, 12]), j @ j.T)
    with tfjac.ops.implementation("twin"):
        same(np.reshape(tfjac.ops.jacobian_kernel(a, d), [12, 12]), j @ j.T)
