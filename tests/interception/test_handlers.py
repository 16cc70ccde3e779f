"""Each handler against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import network
from tfjac import handlers

D = np.random.default_rng(2).normal(size=(4, 3)).astype("float32")


def passed_on(handler, gradient=D, jit_compile=False, dtype="float32"):
    """What a handler makes of a gradient at the argument of a function."""
    edited = tfjac.intercept(lambda x: tfjac.tap(x, "here"), {"here": handler})

    @tf.function(jit_compile=jit_compile)
    def traced(x, upstream):
        return tf.gradients(edited(x), x, upstream)[0]

    return traced(tf.zeros(gradient.shape, dtype), tf.cast(gradient, dtype)).numpy()


def clipped(gradient, norm, axis):
    size = np.sqrt(np.sum(np.square(gradient), axis=axis, keepdims=True))
    return gradient * np.minimum(1, norm / size)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (handlers.scale(0.1), 0.1 * D),
        (handlers.scale(tf.constant(0.1)), 0.1 * D),
        (handlers.reverse(), -D),
        (handlers.reverse(0.3), -0.3 * D),
        (handlers.stop(), 0 * D),
        (handlers.replace(np.arange(3.0)), np.tile(np.arange(3.0), (4, 1))),
        (handlers.clip_by_value(-0.2, 0.3), np.clip(D, -0.2, 0.3)),
        (handlers.clip_by_norm(0.7), clipped(D, 0.7, 1)),
        (handlers.clip_by_norm(0.7, per_example=False), clipped(D, 0.7, None)),
        (handlers.clip_by_global_norm(0.7), clipped(D, 0.7, None)),
        (handlers.sequence(handlers.clip_by_value(-0.2, 0.3), lambda d, value: d + value), np.clip(D, -0.2, 0.3)),
        (handlers.check_finite(halt=False), D),
    ],
)
def test_values(handler, expected, jit_compile):
    np.testing.assert_allclose(passed_on(handler, jit_compile=jit_compile), expected, rtol=1e-6)


def test_numbers_are_not_rounded_to_single_precision():
    d = D.astype("float64")
    for handler, expected in [
        (handlers.scale(0.1), 0.1 * d),
        (handlers.reverse(0.3), -0.3 * d),
        (handlers.replace(0.1), np.full_like(d, 0.1)),
        (handlers.clip_by_norm(0.7), clipped(d, 0.7, 1)),
        (handlers.clip_by_value(-0.1, 0.3), np.clip(d, -0.1, 0.3)),
    ]:
        np.testing.assert_allclose(passed_on(handler, d, dtype="float64"), expected, rtol=1e-15)


def test_clipping_where_squares_leave_the_range():
    for dtype, size in (("float16", 300.0), ("float32", 1e25), ("float32", 1e-25)):
        got = passed_on(handlers.clip_by_norm(0.5 * size), size * D, dtype=dtype).astype("float64")
        np.testing.assert_allclose(got, clipped(size * D.astype("float64"), 0.5 * size, 1), rtol=3e-3)
    np.testing.assert_array_equal(passed_on(handlers.clip_by_norm(1.0), 0 * D), 0 * D)


def test_complex_gradients():
    """What flows back may be complex: parts, or sizes, are what counts."""
    complex_d = (D + 1j * D[::-1]).astype("complex64")
    sizes = np.sqrt(np.sum(np.abs(complex_d) ** 2, 1, keepdims=True))
    found = []
    for handler, expected in [
        (handlers.scale(0.1), 0.1 * complex_d),
        (handlers.clip_by_norm(0.7), complex_d * np.minimum(1, 0.7 / sizes)),
        (handlers.check_finite(into=found), complex_d),
    ]:
        got = passed_on(handler, complex_d, dtype="complex64")
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert found == []
    broken = complex_d.copy()
    broken[0, 0] = complex(1.0, np.inf)
    passed_on(handlers.check_finite(halt=False, into=found), broken, dtype="complex64")
    assert found == ["here"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="The gradient at tap 'here' of type Identity is not"):
        passed_on(handlers.check_finite(), broken, dtype="complex64")
    noise = passed_on(handlers.add_noise(0.5, seed=1), np.zeros([50, 40]), dtype="complex64")
    np.testing.assert_allclose([noise.real.std(), noise.imag.std()], 0.5, rtol=0.1)
    with pytest.raises(TypeError, match=r"Complex numbers have no order.*clip_by_norm.*Received: tap 'here'"):
        passed_on(handlers.clip_by_value(-1.0, 1.0), complex_d, dtype="complex64")


def test_noise():
    edited = tfjac.intercept(lambda x: tfjac.tap(x, "here"), {"here": handlers.add_noise(0.5, seed=1)})
    zeros = tf.zeros([50, 40])
    traced = tf.function(lambda x: tf.gradients(edited(x), x, zeros)[0])
    noise = np.stack([traced(zeros), traced(zeros)])
    np.testing.assert_allclose(noise.std(), 0.5, rtol=0.05)
    np.testing.assert_allclose(noise.mean(), 0.0, atol=0.03)
    assert not np.array_equal(noise[0], noise[1])


def test_a_condition_on_the_step():
    step = tf.Variable(0)
    edited = tfjac.intercept(
        lambda x: tfjac.tap(x, "here"), {"here": handlers.when(lambda s: s < 2, handlers.stop(), step=step)}
    )
    odd = handlers.when(lambda s: s % 2 == 0, handlers.stop())
    counted = tfjac.intercept(lambda x: tfjac.tap(x, "here"), {"here": odd})
    for function, expected in ((edited, [0, 0, 1, 1]), (counted, [0, 1, 0, 1])):
        step.assign(0)
        traced = tf.function(lambda x, function=function: tf.gradients(function(x), x)[0])
        got = []
        for _ in expected:
            got.append(float(traced(tf.constant(1.0))))
            step.assign_add(1)
        assert got == expected


@pytest.mark.by_day(None)
def test_records_of_training():
    model, into = network(), []
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x, y = np.ones((6, 5), "float32"), np.ones((6, 3), "float32")
    handler = handlers.record(into, every=2, step=model.optimizer.iterations, reduce=tf.norm)
    with tfjac.hook(model.get_layer("head"), backward=handler):
        weights = [w.copy() for w in model.get_weights()]
        model.fit(x, y, batch_size=6, epochs=5, verbose=0)
    assert [(each.node, each.step) for each in into] == [("head", 0), ("head", 2), ("head", 4)]
    model.set_weights(weights)
    expected = np.linalg.norm(2 * (model(x, training=True) - y) / y.size)
    np.testing.assert_allclose(into[0].value, expected, rtol=1e-5)


def test_python_under_xla():
    """A hook turns XLA off where its handler calls Python; elsewhere this is refused."""
    model, into = network(), []
    model.compile("sgd", "mse", jit_compile=True)
    x, y = np.ones((6, 5), "float32"), np.ones((6, 3), "float32")
    with tfjac.hook(model.get_layer("head"), backward=handlers.record(into)):
        assert not model.jit_compile
        model.fit(x, y, verbose=0)
    assert model.jit_compile and [each.value.shape for each in into] == [(6, 3)]
    with pytest.raises(ValueError, match=r"calls Python when it runs, which XLA cannot compile: use jit_compile=False"):
        passed_on(handlers.record(into), jit_compile=True)


def eager_gradient(edited):
    """By a tape around the function, whose backward pass TensorFlow makes a function of."""
    x = tf.constant(D)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = edited(x)
    return tape.gradient(y, x, D)


@pytest.mark.by_day(None)
def test_what_is_done_besides_under_an_eager_tape(tmp_path):
    """In the handler itself, in its branches, in a loop, in a rule, and where the function was intercepted again."""
    into, compute = [], lambda x: tfjac.tap(tf.nn.relu(x), "here")
    record, writer = handlers.record(into), tf.summary.create_file_writer(str(tmp_path))
    looped = lambda x: tf.while_loop(lambda k, v: k < 3, lambda k, v: (k + 1, compute(v)), (0, x))[1]  # noqa: E731

    def rule(op, d):
        tf.numpy_function(lambda: into.append("rule"), [], [])
        return d

    for function, times in [
        (tfjac.intercept(compute, {"here": record}), 1),
        (tfjac.intercept(tfjac.intercept(compute, {"here": record}), {"here": handlers.scale(2.0)}), 1),
        (tfjac.intercept(compute, {"here": handlers.when(lambda step: step < 1, record)}), 1),
        (tfjac.intercept(looped, {"here": record}), 3),
        (tfjac.intercept(compute, rules={"Relu": rule}), 1),
    ]:
        into.clear()
        eager_gradient(function)
        assert len(into) == times
    eager_gradient(tfjac.intercept(compute, {"here": handlers.summary(writer, tf.Variable(3))}))
    writer.flush()
    (file,) = tmp_path.iterdir()
    assert b"gradient_norms/here" in file.read_bytes()


def test_summaries(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    step = tf.Variable(4, dtype=tf.int64)
    np.testing.assert_array_equal(passed_on(handlers.summary(writer, step)), D)
    writer.flush()
    (file,) = tmp_path.iterdir()
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(file))]
    values = {value.tag: (event.step, value) for event in events for value in event.summary.value}
    assert set(values) == {"gradients/here", "gradient_norms/here"} and values["gradients/here"][0] == 4
    norm = tf.make_ndarray(values["gradient_norms/here"][1].tensor)
    np.testing.assert_allclose(norm, np.linalg.norm(D), rtol=1e-6)


def test_the_first_node_that_is_not_finite():
    found = []
    watch = handlers.check_finite(halt=False, into=found)

    def compute(x):
        low = tfjac.tap(tf.sqrt(x), "low")
        return tfjac.tap(tfjac.tap(low * 2.0, "middle") + 1.0, "high")

    edited = tfjac.intercept(compute, dict.fromkeys(["low", "middle", "high"], watch))
    infinite = tfjac.intercept(edited, {"middle": lambda d: d / 0.0})
    x = tf.constant([1.0])
    for function, expected in ((edited, []), (infinite, ["middle", "low"])):
        found.clear()
        tfjac.vjp(lambda function=function: function(x), x)
        assert found == expected, "in the order of the backward pass"
    halting = tfjac.intercept(compute, {"low": handlers.check_finite()})
    message = "The gradient at tap 'low' of type Identity is not finite"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tfjac.vjp(lambda: halting(x), x, np.float32([np.inf]))


def test_a_handler_may_return_a_tensor_from_outside():
    weights, given = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[5.0, 6.0]])
    x = tf.constant([[0.5, -1.0]])
    edited = tfjac.intercept(lambda x: tfjac.tap(x @ weights, "here") ** 3, {"here": lambda gradient: given})
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = edited(x)
    np.testing.assert_allclose(tape.gradient(y, x), np.array([[5.0, 6.0]]) @ np.array([[1.0, 3.0], [2.0, 4.0]]))
    np.testing.assert_allclose(tfjac.vjp(lambda: edited(x), x), [[17.0, 39.0]])


@pytest.mark.parametrize("make", [handlers.clip_by_norm, handlers.clip_by_global_norm])
def test_a_negative_norm_would_turn_gradients_around(make):
    with pytest.raises(ValueError, match=r"must not be negative. Received: clip_norm=-1.0"):
        make(-1.0)
    assert callable(make(tf.constant(1.0))) and callable(make(tf.Variable(1.0)))
