"""J·v, Jᵀ·u, H·v and G·v against matrices formed one row at a time, and the chain rule."""

import contextlib
import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians import networks
from tests.jacobians.oracles_full import assert_all_close, full_jacobian


@pytest.fixture
def x(rng):
    return tf.constant(rng.normal(size=(3, 3)))


def draw(rng, xs):
    return [rng.normal(size=tuple(x.shape)) for x in xs]


def forward(blocks, vectors):
    """Σ_x J_x v_x from full Jacobians."""
    return sum(np.tensordot(block, v, v.ndim) for block, v in zip(blocks, vectors))


def backward(blocks, u):
    """uᵀ J_x for each x."""
    return [np.tensordot(u, block, u.ndim) for block in blocks]


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("build, shape", [(networks.mlp, (3, 3)), (networks.grouped_cnn, (2, 4, 4, 3))])
def test_jvp_and_vjp(build, shape, compiled, dtype, rng):
    model = build(dtype.name)
    x = tf.constant(rng.normal(size=shape), dtype)
    variables = [v.value for v in model.trainable_variables]
    blocks = full_jacobian(lambda: model(x), [x, *variables])
    tangents, u = draw(rng, [x, *variables]), rng.normal(size=blocks[0].shape[:2])
    tolerance = 1e-10 if dtype == tf.float64 else 1e-4

    @compiled
    def products(x):
        xs = [x, *model.trainable_variables]
        return (
            tfjac.jvp(lambda: model(x), xs, tangents),
            tfjac.vjp(lambda: model(x), xs, u),
        )

    pushed, pulled = products(x)
    assert_all_close(pushed, forward(blocks, tangents), tolerance)
    assert_all_close(pulled, backward(blocks, u), tolerance)
    inner = np.sum(pushed.numpy() * u), sum(np.sum(p.numpy() * v) for p, v in zip(pulled, tangents))
    np.testing.assert_allclose(*inner, rtol=1e-10 if dtype == tf.float64 else 1e-3)  # ⟨Jv, u⟩ = ⟨v, Jᵀu⟩


@pytest.mark.by_day(None)
def test_jvp_through_a_loop(rng):
    """Where tf.autodiff.ForwardAccumulator fails: a recurrent layer inside a tf.function."""
    cell = tf.keras.layers.GRU(2, dtype="float64")
    x = tf.constant(rng.normal(size=(2, 3, 2)))
    cell(x)
    xs = [x, *(v.value for v in cell.trainable_variables)]
    tangents = draw(rng, xs)
    expected = forward(full_jacobian(lambda: cell(x), xs), tangents)
    compute = tf.function(lambda x: tfjac.jvp(cell(x), [x, *cell.trainable_variables], tangents))
    assert_all_close(compute(x), expected, 1e-10)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_jvp_through_branches_of_different_values(sign, rng):
    """What one branch keeps for its gradient, the other has other values for: no backward reads what flows back."""
    scale, sign = tf.Variable(rng.normal(size=3)), tf.Variable(sign, dtype=tf.float64)
    x, v = rng.normal(size=(4, 3)), rng.normal(size=3)

    def rows(x):
        return tf.cond(sign > 0, lambda: tf.tile(scale[None], [tf.shape(x)[0], 1]), lambda: tf.sin(x * scale))

    compute = tf.function(lambda x: tfjac.jvp(rows(x), scale, v))
    compute = compute.get_concrete_function(tf.TensorSpec([None, 3], tf.float64))
    slopes = 1 if sign > 0 else x * np.cos(x * scale.numpy())
    assert_all_close(compute(x), np.broadcast_to(slopes * v, [4, 3]), 1e-12)


@pytest.mark.core
def test_nests_and_unconnected(x, rng):
    weight, unused = tf.Variable(rng.normal(size=3)), tf.Variable(1.0, dtype=tf.float64)
    tangents = {"w": np.ones(3), "unused": np.ones(())}
    xs = {"w": weight, "unused": unused}

    def ys():
        return {"y": tf.sin(weight), "z": (x * 2.0,)}

    pushed = tfjac.jvp(ys, xs, tangents)
    assert_all_close(pushed["y"], np.cos(weight.numpy()), 1e-12)
    assert pushed["z"] == (None,)
    assert_all_close(tfjac.jvp(ys, xs, tangents, "zero")["z"][0], np.zeros((3, 3)), 0)
    cotangents = {"y": np.ones(3), "z": (np.ones((3, 3)),)}
    pulled = tfjac.vjp(ys, xs, cotangents)
    assert_all_close(pulled["w"], np.cos(weight.numpy()), 1e-12)
    assert pulled["unused"] is None
    assert_all_close(tfjac.vjp(ys, xs, cotangents, "zero")["unused"], np.zeros(()), 0)


@pytest.mark.core
def test_known_gradients_at_several_nodes(x, rng):
    """A cotangent at a hidden node, and one at the output, which passes through the hidden node as well."""
    first, second = tf.Variable(rng.normal(size=(3, 4))), tf.Variable(rng.normal(size=(4, 2)))

    def nodes():
        hidden = tf.tanh(x @ first)
        return [hidden, tf.tanh(hidden @ second)]

    u = [rng.normal(size=(3, 4)), rng.normal(size=(3, 2))]
    by_parts = [full_jacobian(lambda k=k: nodes()[k], [first, second]) for k in (0, 1)]
    expected = [sum(parts) for parts in zip(*(backward(blocks, cotangent) for blocks, cotangent in zip(by_parts, u)))]
    assert_all_close(tfjac.vjp(nodes, [first, second], u), expected, 1e-12)
    assert_all_close(tf.function(lambda: tfjac.vjp(nodes(), [first, second], u), jit_compile=True)(), expected, 1e-12)


def test_embedding_gives_dense_tensors(rng):
    model = networks.embedding()
    ids = tf.constant(rng.integers(0, 50, (3, 5)), tf.int32)
    table = model.trainable_variables[0]
    u = rng.normal(size=(3, 2))
    block = full_jacobian(lambda: model(ids), [table.value])[0]
    pulled = tfjac.vjp(lambda: model(ids), table, u)
    assert tf.is_tensor(pulled)
    assert_all_close(pulled, backward([block], u)[0], 1e-12)
    v = rng.normal(size=tuple(table.shape))
    assert_all_close(tfjac.jvp(lambda: model(ids), table, v), forward([block], [v]), 1e-12)


def hessian_times(gradient, xs, vectors, step=1e-5):
    """Directional difference of a gradient."""
    start = [x.numpy() for x in xs]
    moved = []
    for sign in (1, -1):
        for x, at, v in zip(xs, start, vectors):
            x.assign(at + sign * step * v)
        moved.append([g.numpy() for g in gradient()])
    for x, at in zip(xs, start):
        x.assign(at)
    return [(up - down) / (2 * step) for up, down in zip(*moved)]


@pytest.mark.core
def test_hvp(compiled, x, rng):
    model = networks.mlp()
    variables = [v.value for v in model.trainable_variables]
    vectors = draw(rng, variables)

    def losses():
        return tf.reduce_sum(tf.square(model(x) - 0.3), axis=1)

    def gradient():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses())
        return tape.gradient(loss, variables)

    expected = hessian_times(gradient, variables, vectors)
    compute = compiled(lambda: tfjac.hvp(losses, model.trainable_variables, vectors))
    assert_all_close(compute(), expected, 1e-7)


def test_hvp_of_a_linear_loss(x):
    weight = tf.Variable(np.ones(3))
    assert tfjac.hvp(lambda: x * weight, weight, np.ones(3)) is None
    assert_all_close(tfjac.hvp(lambda: x * weight, weight, np.ones(3), "zero"), np.zeros(3), 0)


@pytest.mark.core
@pytest.mark.parametrize("loss", ["square", "softmax"])
def test_ggnvp(loss, compiled, x, rng):
    model = networks.mlp(outputs=3)
    variables = [v.value for v in model.trainable_variables]
    vectors = draw(rng, variables)
    z = model(x).numpy()
    blocks = full_jacobian(lambda: model(x), variables)
    if loss == "square":
        hessians = np.stack([2 * np.eye(3)] * 3)
    else:
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        hessians = np.stack([np.diag(row) - np.outer(row, row) for row in p])

    def losses(outputs):
        if loss == "square":
            return tf.square(outputs - 1.0)
        return tf.nn.sparse_softmax_cross_entropy_with_logits([0, 2, 1], outputs)

    expected = backward(blocks, np.einsum("nij,nj->ni", hessians, forward(blocks, vectors)))
    compute = compiled(lambda: tfjac.ggnvp(lambda: model(x), losses, model.trainable_variables, vectors))
    assert_all_close(compute(), expected, 1e-10)


def test_ggnvp_with_losses_of_the_graph(x, rng):
    """Losses that are there already, and two outputs, one computed from the other."""
    weight, v = tf.Variable(rng.normal(size=(3, 2))), rng.normal(size=(3, 2))

    @tf.function
    def compute():
        first = tf.tanh(x @ weight)
        second = first**2
        losses = tf.reduce_sum(first**2, 1) + tf.reduce_sum(tf.exp(second), 1)
        return tfjac.ggnvp([first, second], losses, weight, v)

    first = full_jacobian(lambda: tf.tanh(x @ weight), [weight])
    second = full_jacobian(lambda: tf.tanh(x @ weight) ** 2, [weight])
    at = np.tanh(x.numpy() @ weight.numpy()) ** 2
    expected = backward(first, 2 * forward(first, [v]))[0] + backward(second, np.exp(at) * forward(second, [v]))[0]
    assert_all_close(compute(), expected, 1e-10)


def test_differences_confirm_jvp(x, rng):
    model = networks.mlp()
    variables = [v.value for v in model.trainable_variables]
    tangents = draw(rng, variables)
    difference = hessian_times(lambda: [model(x)], variables, tangents)[0]
    assert_all_close(tfjac.jvp(lambda: model(x), model.trainable_variables, tangents), difference, 1e-8)


def test_a_product_is_differentiated_again(x, rng):
    """½‖Jv‖² of y = sin(w): its gradient is −sin(w)·cos(w)·v²."""
    weight, v = tf.Variable(rng.normal(size=3)), rng.normal(size=3)
    with tf.GradientTape() as tape:
        energy = tf.reduce_sum(tfjac.jvp(lambda: tf.sin(weight), weight, v) ** 2) / 2
    expected = -np.sin(weight.numpy()) * np.cos(weight.numpy()) * v**2
    assert_all_close(tape.gradient(energy, weight), expected, 1e-12)


class TestChain:
    """J_x = J_z · ∂z/∂x."""

    def test_full(self, rng):
        weight = tf.constant(rng.normal(size=(3, 2)))

        def node(w):
            return tf.tanh(w * 2.0)

        def output(z):
            return tf.reduce_sum(z[None] ** tf.range(1.0, 5.0, dtype=tf.float64)[:, None, None], axis=2)

        whole = full_jacobian(lambda: output(node(weight)), [weight])[0]
        z = node(weight)
        outer = full_jacobian(lambda: output(z), [z])[0]
        inner = full_jacobian(lambda: node(weight), [weight])[0]
        assert_all_close(tfjac.chain(outer, [inner], node_rank=2), [whole], 1e-12)

    def test_per_example(self, rng):
        model = networks.mlp()
        x = tf.constant(rng.normal(size=(4, 3)))
        first, second = model.layers

        @tf.function
        def parts(x):
            z = first(x)
            y = second(z)
            outer = tfjac.batch_jacobian(y, z)
            return (
                tfjac.chain(outer, tfjac.batch_jacobian(z, x), batch_dims=1),
                tfjac.chain(outer, tfjac.per_example_jacobian(z, first.trainable_variables), batch_dims=1),
            )

        to_x, to_weights = parts(x)
        blocks = full_jacobian(lambda: model(x), [x, *(v.value for v in first.trainable_variables)])
        assert_all_close(to_x, np.stack([blocks[0][n, :, n] for n in range(4)]), 1e-12)
        assert_all_close(to_weights, blocks[1:], 1e-12)

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(ValueError, match=r"last 1 axes of outer must be those of the node.*Received"):
            tfjac.chain(tf.ones([2, 3]), tf.ones([4, 5]))
        with pytest.raises(ValueError, match=r"same 1 batch axes.*Received"):
            tfjac.chain(tf.ones([2, 3, 4]), tf.ones([5, 4, 6]), batch_dims=1)
        with pytest.raises(ValueError, match=r"at least node_rank \+ batch_dims = 3.*Received"):
            tfjac.chain(tf.ones([2, 3]), tf.ones([3, 2]), node_rank=2, batch_dims=1)
        with pytest.raises(TypeError, match=r"one floating-point dtype.*Received: float32 and float64"):
            tfjac.chain(tf.ones([2, 3]), tf.ones([3, 2], tf.float64))
        with pytest.raises(ValueError, match="node_rank must be an integer"):
            tfjac.chain(tf.ones([2, 3]), tf.ones([3, 2]), node_rank=-1)


@tf.custom_gradient
def clipping(x):
    return tf.identity(x), lambda d: tf.clip_by_value(d, -0.1, 0.1)


@pytest.mark.core
def test_no_hessian_of_what_is_no_gradient():
    x = tf.constant([0.3, 2.0])
    with pytest.raises(LookupError, match=r"no Hessian here.*not linear.*Received: op .* of type IdentityN"):
        tfjac.hvp(lambda: tf.sin(clipping(x)) ** 2, x, x)
    doubling = tf.custom_gradient(lambda x: (tf.identity(x), lambda d: 2.0 * d))
    assert tfjac.hvp(lambda: tf.sin(doubling(x)) ** 2, x, x).shape == [2]


INNER = tf.function(lambda x: tf.sin(x) ** 3)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(
    "derivative",
    [
        lambda x: tfjac.vjp(INNER(x), x),
        lambda x: tfjac.vjp(lambda: INNER(x), x),
        lambda x: tfjac.jvp(INNER(x), x, tf.ones_like(x)),
        lambda x: tfjac.hvp(INNER(x), x, tf.ones_like(x)),
        lambda x: tf.reduce_sum(tfjac.jacobian(INNER(x), x), 0),
        lambda x: tfjac.batch_jacobian(INNER(x)[:, None], x)[:, 0],
    ],
)
def test_tapes_see_what_is_copied(derivative):
    """Derivatives of derivatives by a tape inside of a function, where what is called is copied: none were found."""
    x = tf.constant([0.3, 2.0, -1.0], tf.float64)

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            first = derivative(x)
        return first, tape.gradient(first, x)

    first, second = slope(x)
    h = 1e-5
    expected = (derivative_at(derivative, x + h) - derivative_at(derivative, x - h)) / (2 * h)
    np.testing.assert_allclose(first, derivative_at(derivative, x), rtol=1e-12)
    np.testing.assert_allclose(second, expected, rtol=1e-7)


def derivative_at(derivative, x):
    return tf.function(derivative, autograph=False)(x).numpy()


def test_a_tape_over_a_gradient_through_a_loop_is_warned_of():
    """TensorFlow's own tapes give a part of it: for tf.gradients as for vjp."""
    looped = lambda x: tf.while_loop(lambda k, v: k < 3, lambda k, v: (k + 1, tf.sin(v)), (0, x))[1]  # noqa: E731

    @tf.function
    def slope(x, by_tape):
        with tf.GradientTape() if by_tape else contextlib.nullcontext() as tape:
            if by_tape:
                tape.watch(x)
            first = tfjac.vjp(looped(x), x)
        return tape.gradient(first, x) if by_tape else tf.gradients(first, x)[0]

    with pytest.warns(UserWarning, match=r"gradient tape records a gradient through the loop '.*while'.*tf.gradients"):
        slope(tf.constant(1.0), True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slope(tf.constant(1.0), False)
