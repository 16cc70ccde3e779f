"""How the function is called: in batches or one by one, in threads, again where it fails; what it may return."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import tfjac

pytestmark = pytest.mark.core


def gradient(box, *inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = box(*inputs)
    return tape.gradient(y, inputs)


X = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], tf.float64)


class Watched:
    """A function that notes the shapes that it is called with, and how many calls of it run at once."""

    def __init__(self, function, pause=0.0):
        self.function, self.pause, self.shapes, self.running, self.most = function, pause, [], 0, 0
        self.lock = threading.Lock()

    def __call__(self, *arrays):
        with self.lock:
            self.shapes.append([array.shape for array in arrays])
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(self.pause)
        with self.lock:
            self.running -= 1
        return self.function(*arrays)


@pytest.mark.parametrize(
    "options, shapes",
    [
        ({"per_example": True}, [(2, 3), (12, 3)]),
        ({"per_example": True, "max_batch": 5}, [(2, 3), (5, 3), (5, 3), (2, 3)]),
        ({"per_example": True, "batched": False}, [(3,)] * 14),
        ({"per_example": False}, [(2, 3)] * 13),
        ({"per_example": False, "batched": True}, [(1, 2, 3), (12, 2, 3)]),
    ],
)
def test_probes_are_one_call_where_calls_are_batched(options, shapes):
    function = Watched(np.sin)
    box = tfjac.external(function, **options)
    np.testing.assert_allclose(gradient(box, X)[0], np.cos(X), rtol=1e-8)
    assert [call[0] for call in function.shapes] == shapes
    points = 2 if options["per_example"] else 1
    assert vars(box.counts) == {
        "forward": points, "gradient": 12, "calls": len(shapes), "failures": 0
    }  # fmt: skip


def test_measured_once_for_each_forward_pass():
    """Two backward passes ask for the same probes; the value is not measured again."""
    box = tfjac.external(np.sin, "one_sided", per_example=True)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = box(X)
        parts = [y[0, 0], y[1, 1]]
    for part in parts:
        tape.gradient(part, X)
    assert (box.counts.forward, box.counts.gradient) == (2, 6)

    @tf.function
    def function(x):
        y = box(x)
        return [tf.gradients(part, x)[0] for part in (y[0, 0], y[1, 1])]

    function(X)
    assert (box.counts.forward, box.counts.gradient) == (4, 12)

    tf.function(box)(X)  # no gradient is asked for
    assert (box.counts.forward, box.counts.gradient) == (6, 12)


@pytest.mark.parametrize("workers", [1, 3])
def test_so_many_calls_at_once(workers):
    function = Watched(np.sin, pause=0.01)
    box = tfjac.external(function, per_example=True, batched=False, workers=workers)
    threads = [threading.Thread(target=gradient, args=(box, X)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert function.most == workers


class Flaky:
    """A function that fails now and then: by an exception, by not-a-numbers, by not answering."""

    def __init__(self, failure, times):
        self.failure, self.times, self.calls = failure, times, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls > self.times:
            return np.sin(x)
        if self.failure == "exception":
            raise OSError("no carrier")
        if self.failure == "nan":
            y = np.sin(x)
            y.reshape(-1)[0] = np.nan
            return y
        time.sleep(5)


@pytest.mark.parametrize("failure", ["exception", "nan", "no answer"])
@pytest.mark.parametrize("batched", [True, False])
def test_tried_again(failure, batched):
    box = tfjac.external(Flaky(failure, 2), per_example=True, batched=batched, retries=2, timeout=0.1)
    np.testing.assert_allclose(box(X), np.sin(X))
    assert box.counts.failures == 2


WORDS = {
    "exception": "OSError: no carrier",
    "nan": "a result is not finite",
    "no answer": "TimeoutError: no answer within 0.05 s",
}


@pytest.mark.parametrize("failure", WORDS)
def test_failed_for_good(failure):
    box = tfjac.external(Flaky(failure, 99), per_example=True, retries=1, timeout=0.05, name="oven")
    words = rf"oven: the function failed at 2 attempt.*retries=.*on_failure='nan'.*Received: {WORDS[failure]}"
    with pytest.raises(tfjac.MeasurementFailed, match=words):
        box(X)
    with pytest.raises(tf.errors.OpError, match=words):
        tf.function(box)(X)


@pytest.mark.parametrize("failure", WORDS)
def test_not_a_numbers_in_the_place_of_what_failed(failure):
    box = tfjac.external(Flaky(failure, 1), per_example=True, batched=False, timeout=0.1, on_failure="nan")
    y = box(X).numpy()
    assert np.isnan(y[0]).any() and np.isnan(y[0]).all() == (failure != "nan")
    np.testing.assert_allclose(y[1], np.sin(X[1]))


def test_only_rows_that_failed_are_tried_again():
    shapes = []

    def function(x):
        shapes.append(x.shape)
        return np.where((len(shapes) == 1) & (x[:, :1] > 2), np.nan, np.sin(x))

    box = tfjac.external(function, per_example=True, retries=1)
    np.testing.assert_allclose(box(X), np.sin(X))
    assert shapes == [(2, 3), (1, 3)]


@pytest.mark.parametrize("function", [lambda x: x - x.mean(0), lambda x: np.cumsum(x, 0), lambda x: x[::-1] * 2.0])
def test_rows_that_are_not_of_examples_are_found(function, monkeypatch):
    """The declaration is believed, unless what runs is verified."""
    x = tf.random.stateless_normal([4, 3], [1, 2], dtype=tf.float64)
    box = tfjac.external(function, per_example=True, name="oven")
    box(x)
    monkeypatch.setenv("TFJAC_VERIFY", "1")
    with pytest.raises(ValueError, match=r"oven was declared per_example, and gives something else for a row alone"):
        box(x)
    honest = tfjac.external(np.sin, per_example=True)
    np.testing.assert_allclose(gradient(honest, x)[0], np.cos(x), rtol=1e-8)
    assert honest.counts.forward == 4 + 2


def test_masked_results_are_failures():
    def function(x):
        return np.ma.masked_greater(x, 2.0)

    with pytest.raises(tfjac.MeasurementFailed, match="a result is not finite"):
        tfjac.external(function, per_example=True)(X)
    got = tfjac.external(function, per_example=True, on_failure="nan")(X)
    np.testing.assert_array_equal(got, np.where(X > 2, np.nan, X))


def test_a_function_may_write_into_its_arguments_and_keep_its_results():
    kept = np.zeros([2, 3])

    def function(x):
        kept[:] = np.sin(x)
        x[:] = -1
        return kept

    box = tfjac.external(function, per_example=True)
    first, second = box(X), box(2 * X)
    np.testing.assert_allclose(first, np.sin(X))
    np.testing.assert_allclose(second, np.sin(2 * X))
    np.testing.assert_allclose(X[0, 0], 1.0)


@pytest.mark.parametrize("per_example", [True, False])
@pytest.mark.parametrize("graph", [True, False])
def test_several_inputs_and_results(per_example, graph, rng):
    """Nests, integers among them, dtypes of their own; the Jacobian of each result by each input against a formula."""
    a, k = rng.normal(size=(4, 2)), np.array([1, 2, 3, 2])
    b = rng.normal(size=(4, 2, 3)).astype("float32")

    def function(pair, k):
        a, b = pair["a"], pair["b"]
        return {"y": a * b.sum(-1) ** k[:, None], "count": k + 1, "z": np.exp(a.sum(-1))}

    shapes = {"y": (None, 2), "count": tf.TensorSpec([None], tf.int64), "z": tf.TensorSpec([None], tf.float32)}
    box = tfjac.external(function, output_shape=shapes, per_example=per_example, call_dtype="float64")
    run = tf.function(box) if graph else box
    given = [tf.constant(a), tf.constant(b)]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(given)
        found = run({"a": given[0], "b": given[1]}, tf.constant(k))
    total = b.astype("float64").sum(-1)
    np.testing.assert_allclose(found["y"], a * total ** k[:, None], rtol=1e-6)
    np.testing.assert_array_equal(found["count"], k + 1)
    assert [found[key].dtype for key in ("y", "count", "z")] == [tf.float64, tf.int64, tf.float32]
    of_y, of_z = tape.gradient(found["y"], given), tape.gradient(found["z"], given)
    np.testing.assert_allclose(of_y[0], total ** k[:, None], rtol=1e-6)
    slopes = a * k[:, None] * total ** (k[:, None] - 1)
    np.testing.assert_allclose(of_y[1], np.repeat(slopes[..., None], 3, -1), rtol=1e-4)
    np.testing.assert_allclose(of_z[0], np.repeat(np.exp(a.sum(-1))[:, None], 2, -1), rtol=1e-5)
    np.testing.assert_array_equal(of_z[1], np.zeros_like(b))
    assert [each.dtype for each in of_y] == [tf.float64, tf.float32]


def test_inputs_that_are_not_differentiated_cost_nothing():
    box = tfjac.external(lambda t, y: (y - t) ** 2, per_example=True, argnums=1)
    of_t, of_y = gradient(box, X, 2 * X)
    assert of_t is None and box.counts.gradient == 2 * 3 * 2
    np.testing.assert_allclose(of_y, 2 * X, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_widened(dtype):
    seen = []
    box = tfjac.external(lambda x: (seen.append(x.dtype), np.sin(x))[1], per_example=True)
    x = tf.cast(X / 8, dtype)
    (found,) = gradient(box, x)
    assert found.dtype == dtype and set(seen) == {np.dtype("float32")}
    np.testing.assert_allclose(tf.cast(found, tf.float64), np.cos(tf.cast(x, tf.float64)), rtol=1e-2)


@pytest.mark.parametrize("per_example", [True, False])
def test_nothing_to_evaluate(per_example):
    box = tfjac.external(np.sin, per_example=per_example)
    empty = tf.zeros([0, 3])
    assert gradient(box, empty)[0].shape == (0, 3)
    run = tf.function(box, input_signature=[tf.TensorSpec([None, 3])])
    assert run(empty).shape == (0, 3)


def test_what_is_refused():
    def fails(make, error, words):
        with pytest.raises(error, match=words):
            make()

    external, x = tfjac.external, tf.ones([2, 3])
    fails(lambda: external(3.0), TypeError, "must be a callable.*Received: 3.0")
    fails(lambda: external(np.sin, workers=0), ValueError, "workers must be an integer of at least 1. Received: 0")
    fails(lambda: external(np.sin, retries=-1), ValueError, "retries must be an integer of at least 0")
    fails(lambda: external(np.sin, timeout=0), ValueError, "timeout must be a positive number of seconds")
    fails(lambda: external(np.sin, on_failure="zero"), ValueError, "on_failure must be one of")
    fails(lambda: external(np.sin, call_dtype="int32"), ValueError, "call_dtype must be a floating-point dtype")
    fails(lambda: external(np.sin, output_shape=3), TypeError, "output_shape must be a shape.*Received: 3")
    fails(lambda: external(np.sin, output_shape=(3,), per_example=True), ValueError, "output_shape begins with None")
    fails(lambda: external(np.sin, output_shape=tf.TensorSpec([3], tf.complex64)), ValueError, "not complex")
    fails(lambda: external(np.sin)(tf.complex(x, x)), TypeError, "not complex.*imaginary part as two inputs")
    fails(lambda: external(np.sin)(tf.sparse.from_dense(x)), TypeError, "takes dense tensors")
    fails(lambda: external(np.add, per_example=True)(x, x[0]), ValueError, "same examples along axis 0.*broadcast_to")
    fails(lambda: external(np.sin, argnums=1)(x), ValueError, "argnums of .* must be indices of floating-point inputs")
    fails(lambda: external(lambda x: x.sum())(x), ValueError, r"results of shape \(2, 3\).*output_shape.*shape \(\)")
    fails(lambda: external(np.sum, per_example=True)(x), ValueError, "for no point.* where there were 2")
    fails(lambda: external(lambda x: [[1, 2], [3]], name="oven")(x), ValueError, r"oven: .*can become an array.*\[3\]")
    fails(lambda: external(lambda x: x + 1j)(x), TypeError, "what can become float32.*complex")
    fails(lambda: external(lambda x: x, output_shape=[(2, 3), (2, 3)])(x), TypeError, "must return 2 arrays in a nest")
    open_rows = tf.function(external(np.add, per_example=True), input_signature=[tf.TensorSpec([None])] * 2)
    fails(lambda: open_rows(x[0], x[1, :2]), tf.errors.InvalidArgumentError, "same examples along axis 0")
    box = external(np.sin)
    box(x)
    fails(lambda: box([x, x]), ValueError, "same number and nest of inputs each time")


def fit_of(box):
    b = tf.Variable(X)
    return lambda: tfjac.least_squares(lambda: box(b) - 1, b)


def fits_of(box):
    b = tf.Variable(X)
    return lambda: tfjac.least_squares(lambda b: box(b) - 1, b, batch_dims=1)


def step_of(box):
    b = tf.Variable(X)
    return lambda: tfjac.LevenbergMarquardt().minimize(lambda: box(b) - 1, [b])


@pytest.mark.parametrize("run", [fit_of, fits_of, step_of])
def test_minimisations_show_the_error_of_the_function_first(run):
    box = tfjac.external(Flaky("exception", 99), per_example=True, name="oven")
    with pytest.raises(tfjac.MeasurementFailed, match=r"^oven.*Received: OSError: no carrier") as raised:
        run(box)()
    assert isinstance(raised.value.__cause__, OSError)
    assert any(entry.path.name == "test_calls.py" for entry in raised.traceback), "where it was called is in the calls"
