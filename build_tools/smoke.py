"""Twenty-odd features of an installed tfjac, each against a number that does not come from it: run by try_wheels.py.

A program that needs nothing but the package: `python smoke.py native`, or `twin`, for what the ops are to run on.
"""

import os
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf

import tfjac

keras.config.set_floatx("float64")
RNG = np.random.default_rng(0)
X = tf.constant(RNG.normal(size=(12, 3)))
FEATURES = []


def feature(function):
    """Add a function to those that are tried."""
    FEATURES.append(function)
    return function


def same(found, expected, rtol=1e-6, atol=1e-8):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=atol)


def network(outputs=2):
    keras.utils.set_random_seed(1)
    hidden = keras.layers.Dense(5, activation="tanh", name="hidden")
    return keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(outputs, name="out")])


def dense_jacobian(model):
    """J of all outputs in all weights, by one tape: [12·m, p]."""
    with tf.GradientTape() as tape:
        y = tf.reshape(model(X), [-1])
    blocks = tape.jacobian(y, [weight.value for weight in model.trainable_variables])
    return np.concatenate([np.reshape(block, [len(y), -1]) for block in blocks], axis=1)


def flat(jacobians):
    return np.concatenate([np.reshape(j, [j.shape[0] * j.shape[1], -1]) for j in jacobians], axis=1)


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
def nodes_and_their_gradients():
    model = network(1)
    assert len(tfjac.nodes(model, X).where(kind="layer"))
    found = tfjac.node_gradients(lambda: model(X)[:, 0], "hidden")
    same(found, np.broadcast_to(model.get_layer("out").kernel.numpy()[:, 0], [12, 5]))


@feature
def interception():
    model = network(1)
    guided = tfjac.intercept(model, edits={"hidden": tfjac.Edit(backward=lambda d: 2.0 * d)})
    gradients = []
    for function in (model, guided):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = function(X)
        gradients.append(tape.gradient(y, X))
    same(gradients[1], 2.0 * gradients[0].numpy())


@feature
def hook_in_fit():
    model = network(1)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    before = model.get_layer("hidden").kernel.numpy()
    with tfjac.hook(model.get_layer("hidden"), backward=lambda d: tf.zeros_like(d)):
        model.fit(X, np.ones([12, 1]), verbose=0)
    same(model.get_layer("hidden").kernel.numpy(), before)


@feature
def explain_gradient():
    w = tf.Variable(2.0)
    report = tfjac.explain_gradient(tf.function(lambda: tf.cast(tf.cast(w, tf.int32), tf.float32)), w)
    assert "Cast" in str(report), report


@feature
def count_flops():
    w = tf.Variable(tf.ones([3, 4], tf.float64))
    count = tfjac.count_flops(lambda: X @ w, w)
    assert "MatMul" in str(count), count


def trained(**options):
    model = network(1)
    model.compile(optimizer=tfjac.LevenbergMarquardt(steps_per_batch=10), loss="mse", **options)
    target = np.sin(X.numpy().sum(axis=1, keepdims=True))
    return model.fit(X, target, batch_size=12, epochs=5, verbose=0).history["loss"]


@feature
def levenberg_marquardt_in_fit():
    losses = trained()
    assert losses[-1] < 1e-6, losses


@feature
def levenberg_marquardt_under_xla():
    losses = trained(jit_compile=True)
    assert losses[-1] < 1e-6, losses


@feature
def generalised_gauss_newton():
    model = network(3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tfjac.LevenbergMarquardt(), loss=loss)
    losses = model.fit(X, np.arange(12) % 3, batch_size=12, epochs=15, verbose=0).history["loss"]
    assert losses[-1] < 0.2 * losses[0], losses


T = np.linspace(0.0, 4.0, 30)
TRUTH = np.array([3.0, 0.7, 0.5])


@feature
def least_squares():
    b = tf.Variable([1.0, 0.1, 0.0], dtype=tf.float64)
    measured = TRUTH[0] * np.exp(-TRUTH[1] * T) + TRUTH[2]
    tfjac.least_squares(lambda: b[0] * tf.exp(-b[1] * T) + b[2] - measured, b)
    same(b.numpy(), TRUTH)


@feature
def least_squares_with_bounds_and_a_robust_loss():
    a = RNG.normal(size=(20, 3))
    target = a @ [1.0, -2.0, 3.0]
    b = tf.Variable(np.zeros(3))
    tfjac.least_squares(lambda: tf.linalg.matvec(a, b) - target, b, bounds=(-10.0, 2.0), loss="huber", max_steps=200)
    assert abs(float(b[2]) - 2.0) < 1e-9, b


@feature
def curve_fit():
    import scipy.optimize

    y = TRUTH[0] * np.exp(-TRUTH[1] * T) + TRUTH[2] + 0.01 * np.random.default_rng(3).normal(size=30)
    x, covariance = scipy.optimize.curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, T, y, [1.0, 1.0, 0.0])
    found = tfjac.curve_fit(lambda t, a, b, c: a * tf.exp(-b * t) + c, T, y, [1.0, 1.0, 0.0])
    same(found.x, x, rtol=1e-5)
    same(found.covariance(), covariance, rtol=1e-3)


@feature
def many_fits():
    truth = RNG.uniform([1.0, 0.3], [4.0, 2.0], size=(40, 2))
    measured = truth[:, :1] * np.exp(-truth[:, 1:] * T)
    b = tf.Variable(np.ones([40, 2]))
    tfjac.least_squares(lambda b, y: b[:, :1] * tf.exp(-b[:, 1:] * T) - y, b, args=(measured,), batch_dims=1)
    same(b.numpy(), truth, rtol=1e-5)


@feature
def laplace():
    x = np.linspace(-1.0, 1.0, 20)[:, None]
    layer = keras.layers.Dense(1)
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(loss="mse")
    _, variance = tfjac.laplace(model, x, 2 * x, prior_precision=1.0, noise=0.5).predict(x)
    design = np.concatenate([x, np.ones_like(x)], axis=1)
    expected = design @ np.linalg.inv(design.T @ design / 0.25 + np.eye(2)) @ design.T
    same(np.ravel(variance), np.diag(expected))


@feature
def black_box():
    square = tfjac.external(lambda x: np.asarray(x) ** 2, gradient=lambda x, y, d: 2 * x * d)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.reduce_sum(square(X))
    same(tape.gradient(y, X), 2 * X.numpy())


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


def main(wanted):
    """Try each feature; return how many failed."""
    info = tfjac.ops_info()
    python = sys.version.split()[0]
    print(f"tensorflow {tf.__version__}, keras {keras.__version__}, numpy {np.__version__}, python {python}")
    print(f"tfjac {tfjac.__version__}: native {info.native}, built for {info.built_for or '-'}, {info.instruction_set}")
    failed = 0
    if info.native != (wanted == "native"):
        failed += 1
        print(f"FAILED ops run on {'the native library' if info.native else 'the twins'}: {info.reason}")
    for each in FEATURES:
        try:
            each()
            print("passed", each.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAILED", each.__name__, traceback.format_exc(limit=-4), flush=True)
    print(f"{len(FEATURES)} features, {failed} failures")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1]), 1))
