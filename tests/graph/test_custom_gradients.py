"""Custom gradients, wherever their ops are copied to, against one backward pass of TensorFlow per row."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import one_gradient_per_row, rows_one_at_a_time
from tfjac.graph import ExamplesMix, replay

STATIC, OPEN = [3, 4], [None, 4]


@tf.custom_gradient
def reversed_gradient(x):
    return tf.identity(x), lambda d: -2.0 * d


@tf.custom_gradient
def returned_as_it_is(x):
    return x, lambda d: -2.0 * d


@tf.custom_gradient
def clipped_by_example(x):
    return tf.identity(x), lambda d: tf.clip_by_norm(d, 0.3, axes=[-1])


@tf.custom_gradient
def with_weight(x, weight):
    return tf.matmul(x, weight), lambda d: (2.0 * tf.matmul(d, weight, transpose_b=True), tf.matmul(3.0 * x, d, True))


@tf.custom_gradient
def reads_what_it_did_not_use(x):
    gate = tf.sigmoid(x)
    return tf.identity(x), lambda d: d * gate


@tf.custom_gradient
def centred(x):
    return tf.identity(x), lambda d: d - tf.reduce_mean(d, 0)


@tf.custom_gradient
def clipped_together(x):
    return tf.identity(x), lambda d: tf.clip_by_norm(d, 0.3)


@tf.custom_gradient
def centred_behind_a_stop(x):
    return tf.identity(x), lambda d: d - tf.stop_gradient(tf.reduce_mean(d, 0))


@tf.custom_gradient
def clipped(x):
    return tf.identity(x), lambda d: tf.clip_by_value(d, -0.1, 0.1)


@tf.custom_gradient
def injected(x):
    return tf.identity(x), lambda d: d + 0.1 * x


@tf.custom_gradient
def replaced(x):
    return tf.identity(x), lambda d: tf.ones_like(x)


@tf.custom_gradient
def pushed_off(x):
    return tf.identity(x), lambda d: tf.clip_by_value(d, 0.01, 0.2)


@tf.custom_gradient
def pulled_back_by_numpy(x):
    return tf.identity(x), lambda d: tf.numpy_function(lambda d: 2.0 * d, [d], d.dtype)


@tf.custom_gradient
def squashed(x):
    return tf.tanh(x), lambda d: 0.5 * d


@tf.custom_gradient
def squashed_backwards(x):
    return 2.0 * x, lambda d: squashed(d) + d * tf.cos(x)


@tf.custom_gradient
def doubled(x):
    return 2.0 * x, lambda d: 3.0 * d


@tf.custom_gradient
def doubled_backwards(x):
    return tf.sin(x), lambda d: doubled(d) * tf.cos(x)


@tf.custom_gradient
def shifted(x):
    return tf.cos(x), lambda d: d


@tf.custom_gradient
def shifted_backwards(x):
    return tf.sin(x), shifted


class Programs:
    """Programs `[n, 4] -> [n, 4]` of one weight, with a custom gradient in each."""

    def __init__(self, rng):
        self.w = tf.Variable(rng.normal(size=(4, 4)))
        self.x = tf.constant(rng.normal(size=(3, 4)))

    def reverse(self, x):
        return tf.tanh(reversed_gradient(x @ self.w) @ self.w)

    def as_it_is(self, x):
        return returned_as_it_is(x @ self.w) @ self.w

    def clip(self, x):
        return clipped_by_example(x @ self.w) @ self.w

    def silu(self, x):
        return tf.nn.silu(x @ self.w) @ self.w

    def silu_with_a_weight(self, x):
        return tf.nn.silu(x @ self.w, tf.reduce_sum(self.w))

    def weight(self, x):
        return tf.sin(with_weight(tf.tanh(x @ self.w), self.w))

    def gate(self, x):
        return reads_what_it_did_not_use(x @ self.w) @ self.w

    def recomputed(self, x):
        return tf.recompute_grad(lambda x: tf.tanh(x @ self.w))(x) @ self.w

    def scanned(self, x):
        return tf.scan(lambda h, _: tf.nn.silu(h @ self.w), tf.range(3), x)[-1]

    def looped(self, x):
        body = lambda k, h: (k + 1, reversed_gradient(h @ self.w))  # noqa: E731
        return tf.while_loop(lambda k, h: k < 3, body, (0, x))[1]

    def branched(self, x):
        positive = tf.reduce_sum(self.w) > 0
        return tf.cond(positive, lambda: tf.nn.silu(x @ self.w), lambda: reversed_gradient(x @ self.w))


@functools.cache
def programs_and_rows(name):
    """The programs, which no test changes, and the rows of one of them."""
    programs = Programs(np.random.default_rng(20260))
    return programs, rows_one_at_a_time(getattr(programs, name), programs.x, [programs.w])[0].reshape(3, 4, 4, 4)


CASES = [
    *((name, "inner_function") for name in vars(Programs) if not name.startswith("_")),
    *((name, "plain") for name in ("silu", "weight", "looped", "recomputed")),
    *((name, "nested_twice") for name in ("silu", "gate", "branched")),
    *((name, "behind_a_call") for name in ("silu", "scanned", "looped", "branched")),
    *((name, "saved") for name in ("silu", "weight", "scanned", "branched")),
]


@pytest.mark.by_day("values")
@pytest.mark.parametrize("name, way", CASES)
def test_rows(name, way, tmp_path):
    programs, expected = programs_and_rows(name)
    program = getattr(programs, name)
    called = tf.function(lambda x: x + 0.0 * programs.w[0])
    ways = {
        "plain": lambda: program,
        "inner_function": lambda: tf.function(program),
        "behind_a_call": lambda: lambda x: program(called(x)),
    }
    function = ways.get(way, lambda: tf.function(lambda x: tf.function(program)(x)))()
    variable = programs.w
    if way == "saved":
        module = tf.Module()
        module.w, module.call = programs.w, tf.function(program, input_signature=[tf.TensorSpec(OPEN, tf.float64)])
        tf.saved_model.save(module, str(tmp_path))
        loaded = tf.saved_model.load(str(tmp_path))
        function, variable = loaded.call, loaded.w
    shape = OPEN if way in ("saved", "nested_twice") else STATIC

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float64)], autograph=False)
    def analyse(x):
        y = function(x)
        return tfjac.per_example_jacobian(y, variable), tfjac.jacobian(y, variable, mode="reverse")

    found = [*analyse(programs.x)]
    if way in ("plain", "saved"):  # a callable is traced, to the graphs above
        found.append(tfjac.per_example_jacobian(lambda: function(programs.x), variable))
    for rows in found:
        np.testing.assert_allclose(rows, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "inner_function"])
@pytest.mark.parametrize("program", [centred, clipped_together, centred_behind_a_stop])
def test_a_backward_that_mixes_examples_is_refused_by_name(program, wrapped, rng):
    w, x = tf.Variable(rng.normal(size=(4, 2))), tf.constant(rng.normal(size=(3, 4)))
    function = lambda x: tf.sin(program(x @ w))  # noqa: E731
    called = tf.function(function) if wrapped else function
    signature = [tf.TensorSpec(STATIC, tf.float64)]
    with pytest.raises(tfjac.ExamplesMix, match="custom gradient combines the cotangents of different examples"):
        tf.function(lambda x: tfjac.per_example_jacobian(called(x), w), input_signature=signature)(x)
    full = tf.function(
        lambda x: tfjac.per_example_jacobian(called(x), w, examples_mix="full"), input_signature=signature
    )
    with pytest.warns(UserWarning, match="custom gradient"):
        found = full(x)
    expected = np.zeros(found.shape)
    for n, m in np.ndindex(3, 2):
        with tf.GradientTape() as tape:
            row = function(x)[n, m]
        expected[n, m] = tape.gradient(row, w)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "inner_function"])
@pytest.mark.parametrize("program", [injected, replaced, pushed_off])
def test_a_backward_that_adds_something_of_its_own(program, wrapped, rng):
    """Each row has what is added for all examples: it is no row of one example."""
    w, x = tf.Variable(rng.normal(size=(4, 2))), tf.constant(rng.normal(size=(3, 4)))
    function = lambda x: tf.sin(program(x @ w))  # noqa: E731
    called = tf.function(function) if wrapped else function
    for refused in (
        lambda: tfjac.per_example_jacobian(lambda: called(x), w),
        lambda: tfjac.batch_jacobian(lambda: called(x), x),
        lambda: tfjac.clipped_gradients(lambda: called(x)[:, 0], w, 1.0),
    ):
        with pytest.raises(tfjac.ExamplesMix, match="adds something of its own"):
            refused()
    for forward in (
        lambda: tfjac.jvp(lambda: called(x), w, tf.ones_like(w)),
        lambda: tfjac.jacobian(lambda: called(x), w, mode="forward"),
    ):
        with pytest.raises(LookupError, match="adds something of its own"):
            forward()
    expected = one_gradient_per_row(lambda: function(x), [x, w])
    for source, rows in zip((x, w), expected):
        found = tfjac.jacobian(lambda: called(x), source)
        np.testing.assert_allclose(tf.reshape(found, rows.shape), rows, rtol=1e-10)
        sparse = tf.sparse.to_dense(tfjac.sparse_jacobian(lambda: called(x), source))
        np.testing.assert_allclose(sparse, rows, rtol=1e-10)


def looped_twice(program):
    return lambda x: tf.while_loop(lambda k, h: k < 2, lambda k, h: (k + 1, program(h)), [0, x])[1]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    "program", [squashed_backwards, tf.function(squashed_backwards), looped_twice(squashed_backwards)]
)
def test_linearity_is_that_of_what_a_backward_computes_not_of_what_its_own_custom_gradients_state(program, rng):
    x, v = (tf.constant(rng.normal(size=(3, 2))) for _ in range(2))
    with pytest.raises(LookupError, match="custom gradient"):
        tfjac.jvp(lambda: program(x), x, v)
    with pytest.raises(LookupError, match="custom gradient is not linear in what flows back"):
        tfjac.hvp(lambda: tf.reduce_sum(program(x)), x, v)
    (rows,) = one_gradient_per_row(lambda: program(x), [x])
    with pytest.warns(UserWarning, match="not verified, as a custom gradient is not linear"):
        found = tfjac.jacobian(lambda: program(x), x, verify=True)
    np.testing.assert_allclose(tf.reshape(found, rows.shape), rows, rtol=1e-10)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("program", [doubled_backwards, tf.function(doubled_backwards)])
def test_forward_mode_is_that_of_what_a_backward_computes(program, rng):
    x, v = (tf.constant(rng.normal(size=(3, 2))) for _ in range(2))
    (rows,) = one_gradient_per_row(lambda: program(x), [x])
    product = tf.reshape(tf.linalg.matvec(rows, tf.reshape(v, [-1])), x.shape)
    np.testing.assert_allclose(tfjac.jvp(lambda: program(x), x, v), product, rtol=1e-10)
    found = tfjac.jacobian(lambda: program(x), x, mode="forward", verify=True)
    np.testing.assert_allclose(tf.reshape(found, rows.shape), rows, rtol=1e-10)


def test_a_backward_that_adds_something_in_a_custom_gradient_of_its_own(rng):
    x = tf.constant(rng.normal(size=(3, 2)))
    with pytest.raises(tfjac.ExamplesMix, match="adds something of its own"):
        tfjac.batch_jacobian(lambda: shifted_backwards(x), x)


@pytest.mark.parametrize("program", [clipped, clipped_together, injected])
def test_weighted_gradients_where_gradients_do_not_add_up(program, rng):
    w, x, weights = tf.Variable(rng.normal(size=(4, 2))), tf.constant(rng.normal(size=(3, 4))), rng.normal(size=3)
    losses = lambda: tf.reduce_sum(tf.sin(program(x @ w)), 1)  # noqa: E731
    (rows,) = one_gradient_per_row(losses, [w])
    found = tfjac.weighted_gradients(losses, w, weights)
    np.testing.assert_allclose(tf.reshape(found, [-1]), weights @ rows.numpy(), rtol=1e-10)


def test_a_backward_in_numpy(rng):
    """What Python computes from a cotangent is no constant, though the op counts as stateful."""
    w, x = tf.Variable(rng.normal(size=(4, 2))), tf.constant(rng.normal(size=(3, 4)))
    program = lambda: tf.sin(pulled_back_by_numpy(x @ w))  # noqa: E731
    (rows,) = one_gradient_per_row(program, [w])
    np.testing.assert_allclose(tf.reshape(tfjac.jacobian(program, w), rows.shape), rows, rtol=1e-10)
    np.testing.assert_allclose(tf.sparse.to_dense(tfjac.sparse_jacobian(program, w)), rows, rtol=1e-10)


def test_a_copy_is_differentiated_through_itself(rng):
    """A replayed silu once went back through the tensors of the original."""
    x, other = tf.constant(rng.normal(size=(5,))), tf.constant(rng.normal(size=(5,)))

    @tf.function
    def program(x, other):
        y = tf.nn.silu(3.0 * x)
        (z,) = replay([y], [(x, other)])
        return z, tf.gradients(z, other)[0]

    with tf.GradientTape() as tape:
        tape.watch(other)
        expected = tf.nn.silu(3.0 * other)
    value, gradient = program(x, other)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, tape.gradient(expected, other), rtol=1e-12)


def test_overridden_gradient_of_an_op(rng):
    """`gradient_override_map` gives any op another gradient: no rule of its type holds then."""
    w, x = tf.Variable(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(5, 4)))

    @tf.RegisterGradient("TfjacTestsOther")
    def _other(op, d):
        x, w = op.inputs
        return 2.0 * tf.matmul(d, w, transpose_b=True), 5.0 * tf.matmul(x, d, transpose_a=True)

    def program(x):
        with tf.compat.v1.get_default_graph().gradient_override_map({"MatMul": "TfjacTestsOther"}):
            return tf.matmul(x, w)

    signature = [tf.TensorSpec([5, 4], tf.float64)]
    plain = tf.function(lambda x: tfjac.per_example_jacobian(tf.sin(program(x)), w), input_signature=signature)
    inner = tf.function(program)
    called = tf.function(lambda x: tfjac.per_example_jacobian(tf.sin(inner(x)), w), input_signature=signature)
    expected = 5.0 * np.einsum("ni,mo,nm->nmio", x, np.eye(3), np.cos(np.asarray(x) @ w.numpy()))
    for compute in (plain, called):
        with pytest.warns(UserWarning, match="custom gradient"):
            np.testing.assert_allclose(compute(x), expected, rtol=1e-10)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_recurrent_layer_with_silu(jit_compile, rng):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4, 2)), keras.layers.LSTM(3, activation="silu", dtype="float64")])
    x, weights = tf.constant(rng.normal(size=(3, 4, 2))), [v.value for v in model.trainable_variables]
    compute = tf.function(lambda x: tfjac.per_example_jacobian(model(x), weights), jit_compile=jit_compile)
    for found, rows in zip(compute(x), rows_one_at_a_time(model, x, weights)):
        np.testing.assert_allclose(found, rows.reshape(found.shape), rtol=1e-9, atol=1e-12)


@pytest.mark.by_day(None)
def test_products_through_an_inner_silu(rng):
    w, x = tf.Variable(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(5, 4)))
    inner = tf.function(lambda x: tf.nn.silu(x @ w))
    u, v = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    (rows,) = rows_one_at_a_time(inner, x, [w])
    rows = rows.reshape(15, 12)
    np.testing.assert_allclose(tf.reshape(tfjac.vjp(lambda: inner(x), w, u), [-1]), u.reshape(-1) @ rows, rtol=1e-10)
    np.testing.assert_allclose(tf.reshape(tfjac.jvp(lambda: inner(x), w, v), [-1]), rows @ v.reshape(-1), rtol=1e-10)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(inner(x) ** 2)
        gradient = tf.reduce_sum(tape.gradient(loss, w) * v)
    np.testing.assert_allclose(tfjac.hvp(lambda: inner(x) ** 2, w, v), outer.gradient(gradient, w), rtol=1e-10)


class Stepped(tf.Module):
    """A loop with an activation inside."""

    def __init__(self, activation, rng):
        super().__init__()
        self.activation = activation
        self.weight, self.bias = tf.Variable(0.5 * rng.normal(size=(4, 4))), tf.Variable(rng.normal(size=4))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float64)], autograph=False)
    def __call__(self, x):
        def step(k, h):
            return k + 1, self.activation(h @ self.weight + self.bias)

        return tf.while_loop(lambda k, h: k < 3, step, [0, x])[1]


def saved_and_loaded(module, path, **options):
    tf.saved_model.save(module, str(path), options=tf.saved_model.SaveOptions(**options))
    return tf.saved_model.load(str(path))


@pytest.mark.by_day(None)
def test_second_derivatives_through_a_loaded_loop(rng, tmp_path):
    """Each copy of the loop is rewritten by TensorFlow, under a name that was the same for all of them."""
    module, x = Stepped(tf.tanh, rng), tf.constant(rng.normal(size=(3, 4)))
    loaded, vector = saved_and_loaded(module, tmp_path), tf.constant(rng.normal(size=(4, 4)))
    (rows,) = one_gradient_per_row(lambda: module(x), [module.weight])
    expected = tf.linalg.matvec(rows, 2 * tf.linalg.matvec(rows, tf.reshape(vector, [-1])), transpose_a=True)
    tfjac.hvp(lambda: tf.reduce_sum(loaded(x) ** 2), loaded.weight, vector)
    found = tfjac.ggnvp(lambda: loaded(x), lambda y: tf.reduce_sum(y**2), loaded.weight, vector)
    np.testing.assert_allclose(tf.reshape(found, [-1]), expected, rtol=1e-9)


def test_a_function_saved_without_its_custom_gradients_is_refused_by_name(rng, tmp_path):
    """In the process that saved it, where they would go back through the graph that was saved."""
    module, x = Stepped(tf.nn.silu, rng), tf.constant(rng.normal(size=(3, 4)))
    loaded = saved_and_loaded(module, tmp_path, experimental_custom_gradients=False)
    with pytest.raises(ExamplesMix, match="of another graph; was the function saved without it"):
        tfjac.per_example_jacobian(lambda: loaded(x), loaded.weight)
    with pytest.raises(LookupError, match=r"with their custom gradients.*Received: op .*IdentityN"):
        tfjac.hvp(lambda: tf.reduce_sum(loaded(x) ** 2), loaded.weight, tf.ones([4, 4], tf.float64))


def summed_to(x, y, gradient):
    """Return the gradient of `x`, which was broadcast with `y`: summed along the axes in which `x` has one element."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.broadcast_dynamic_shape(tf.shape(y), [1]))
    return tf.reshape(tf.reduce_sum(gradient, axes), tf.shape(x))


@tf.custom_gradient
def product(x, y):
    """A product with a gradient that undoes the broadcast, as special functions of TensorFlow Probability do."""
    return x * y, lambda d: (summed_to(x, y, 2.0 * d * y), summed_to(y, x, 3.0 * d * x))


@tf.custom_gradient
def product_over_all(x, y):
    """In its gradient what was summed is used as it is."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(y))
    return x * y, lambda d: (2.0 * d * tf.reduce_sum(d * y, axes), 3.0 * d)


BROADCASTS = {
    "the same shape": lambda h, w: product(h, tf.sin(h)),
    "a column": lambda h, w: product(h[:, :1], h),
    "fewer axes": lambda h, w: product(w[0, 0], h),
    "a row of weights": lambda h, w: product(w[0], h),
    "an axis in front": lambda h, w: tf.reduce_sum(product(h, w[None, 0]), 1, keepdims=True),
    "more axes": lambda h, w: tf.reduce_sum(product(h[:, :, None], tf.cos(h)[:, None]), 2),
}


@pytest.mark.by_day(one_in=12)
@pytest.mark.parametrize("size", [3, None], ids=["static", "open"])
@pytest.mark.parametrize("name", BROADCASTS)
def test_sums_that_undo_a_broadcast_do_not_mix_examples(name, size, rng):
    w, x = tf.Variable(rng.normal(size=(4, 4))), tf.constant(rng.normal(size=(3, 4)))
    program = lambda x: tf.sin(BROADCASTS[name](tf.tanh(x @ w), w))  # noqa: E731
    rows = tf.function(
        lambda x: tfjac.per_example_jacobian(program(x), w), input_signature=[tf.TensorSpec([size, 4], tf.float64)]
    )
    (expected,) = rows_one_at_a_time(program, x, [w])
    found = rows(x).numpy()
    np.testing.assert_allclose(found.reshape(3, -1, 4, 4), expected, rtol=1e-10, atol=1e-12)


def test_sums_that_may_be_over_examples_are_refused(rng):
    w, x, one = tf.Variable(rng.normal(size=(4, 4))), rng.normal(size=(3, 4)), rng.normal(size=(1, 4))
    program = lambda x, y: product(tf.tanh(x), y @ w)  # noqa: E731
    signature = [tf.TensorSpec(OPEN, tf.float64)] * 2

    @tf.function(input_signature=signature)
    def compute(x, y):
        return tfjac.per_example_jacobian(program(x, y), w)

    expected = rows_one_at_a_time(lambda x: program(x, x), tf.constant(x), [w])[0]
    np.testing.assert_allclose(compute(x, x), expected, rtol=1e-10)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the same number of rows"):
        compute(x, one)
    of_sums = lambda x, y: tfjac.per_example_jacobian(product_over_all(x @ w, y), w)  # noqa: E731
    with pytest.raises(tfjac.ExamplesMix, match="custom gradient"):
        tf.function(of_sums, input_signature=signature)(x, x)


def test_a_backward_that_reads_an_eager_tensor_and_nothing_of_the_graph():
    kept = tf.constant([[5.0, 6.0]])

    @tf.custom_gradient
    def scaled(z):
        return tf.identity(z), lambda gradient: gradient * kept

    x = tf.constant([[0.5, -1.0], [1.0, 2.0]])
    edited = tf.function(lambda x: scaled(x) ** 2)
    found = tfjac.vjp(lambda: edited(x), x)
    np.testing.assert_allclose(found, 2 * x.numpy() * [[5.0, 6.0]])
