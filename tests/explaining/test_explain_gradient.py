"""Why a gradient is missing, or nothing: held to what `tf.GradientTape` gives for the same function."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

V, W = tf.Variable([1.2, 2.0], name="v"), tf.Variable([3.0, 4.0], name="w", trainable=False)


def by_tape(function, x):
    """The gradient of the sum of what a function returns, run eagerly, None where there is none."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function()
    return tape.gradient(y, x)


def assigned():
    W.assign(2.0 * V)
    return tf.reduce_sum(W * W)


LOST = {
    "NumPy": ("python", "PyFunc", lambda: tf.ensure_shape(tf.numpy_function(np.square, [V], tf.float32), [2]) + W),
    "integer": ("integer", "Cast", lambda: tf.cast(tf.cast(V, tf.int32), tf.float32) * W),
    "stopped": ("stop_gradient", "StopGradient", lambda: tf.stop_gradient(V) * W),
    "rounded": ("piecewise constant", "Round", lambda: tf.round(V) * W),
    "compared": ("comparison", "Greater", lambda: tf.where(V > 1.5, W, 0.0)),
    "place": ("integer", "ArgMax", lambda: tf.cast(tf.argmax(V), tf.float32) * W),
}


@pytest.mark.parametrize("case", LOST)
def test_where_a_gradient_is_lost(case):
    kind, op, function = LOST[case]
    report = tfjac.explain_gradient(function, {"v": V, "w": W})
    assert by_tape(function, V) is None and by_tape(function, W) is not None
    assert (report["v"].verdict, report["w"].verdict) == ("lost", "connected") and not report.connected
    (stop,) = report["v"].stops
    assert (stop.kind, stop.type) == (kind, op) and report["v"].remedy
    assert stop.source.file == __file__ and case in stop.source.text
    assert f"stops at op {stop.op!r} of type {op}" in str(report)


def test_op_whose_gradient_is_not_registered():
    def function():
        return tf.raw_ops.Bincount(arr=[0, 1], size=2, weights=V)

    with pytest.raises(LookupError):
        by_tape(function, V)
    (path,) = tfjac.explain_gradient(function, V)
    assert (path.verdict, path.stops[0].kind, path.stops[0].type) == ("lost", "not registered", "Bincount")


def test_assigned_inside_and_nothing_is_assigned():
    W.assign([3.0, 4.0])
    path, other = tfjac.explain_gradient(assigned, [V, W])
    assert path.verdict == "assigned" and "holds" in path.stops[0].reason
    assert "assigned in the function" in other.notes[1] and other.nodes == ()
    np.testing.assert_array_equal(W, [3.0, 4.0])
    assert by_tape(assigned, V) is None
    W.assign([3.0, 4.0])


def test_another_tensor_another_graph_and_integers():
    tensor, count = tf.ones([2]), tf.Variable(1)
    kept = []

    @tf.function
    def elsewhere(x):
        kept.append(x)
        return x

    elsewhere(tensor)
    report = tfjac.explain_gradient(lambda: V * 2.0, [tensor, count, W, kept[0]])
    assert [path.verdict for path in report] == ["not used", "not floating-point", "not used", "another graph"]
    assert "tape.watch" in report[0].notes[0] and "not trainable" in report["w"].notes[0]


def test_variables_made_anew_at_each_call():
    def function():
        return tf.Variable([1.0, 2.0], name="mine") * 2.0

    (path,) = tfjac.explain_gradient(function, V)
    assert path.verdict == "made again" and "mine" in path.reason
    (path,) = tfjac.explain_gradient(lambda: keras.layers.Dense(2)(tf.ones([1, 2])), V)
    assert path.verdict == "made again"


def network():
    layers = keras.layers.Dense(5, "relu", name="hidden"), keras.layers.Dense(3, "sigmoid", name="gate")
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1, name="out")], name="net")
    for layer in layers:
        layer.kernel.assign(np.random.default_rng(1).uniform(0.1, 1.0, layer.kernel.shape))
    return model


def test_norms_are_those_of_the_tape():
    model, x = network(), tf.ones([6, 4])
    report = tfjac.explain_gradient(lambda: tf.reduce_mean(model(x)), model.trainable_variables)
    assert report.connected and len(report) == 6
    for variable, path in zip(model.trainable_variables, report):
        expected = np.linalg.norm(by_tape(lambda: tf.reduce_mean(model(x)), variable.value))
        np.testing.assert_allclose(path.nodes[-1].norm, expected, rtol=1e-5)
        assert path.verdict == "connected" and path.nodes[0].type == "Mean"


def test_dead_units_and_saturated_ones():
    model, x = network(), tf.ones([6, 4])
    hidden, gate, _ = model.layers
    gate.bias.assign(200.0 * tf.ones([3]))
    report = tfjac.explain_gradient(lambda: model(x), model.trainable_variables)
    assert report["net/gate/kernel"].verdict == "zero" and report["net/out/kernel"].verdict == "connected"
    assert "layer net/gate" in report["net/gate/kernel"].reason and "saturated" in report["net/gate/kernel"].reason
    gate.bias.assign(tf.zeros([3]))
    hidden.bias.assign(-100.0 * tf.ones([5]))
    report = tfjac.explain_gradient(lambda: model(x), model.trainable_variables)
    assert "type Relu (layer net/hidden" in report["net/hidden/kernel"].reason and "dead units" in str(report)
    assert not np.any(by_tape(lambda: model(x), hidden.kernel.value))
    assert report["net/hidden/kernel"].connected and report["net/hidden/kernel"].nodes[-1].zeros == 1.0


def test_not_finite_vanishing_and_exploding():
    zeros = tf.Variable([0.0, 0.0])
    assert tfjac.explain_gradient(lambda: tf.norm(zeros), zeros)[0].verdict == "not finite"  # though it is mended
    assert np.isnan(by_tape(lambda: tf.norm(zeros), zeros)).all()
    (path,) = tfjac.explain_gradient(lambda: tf.sqrt(V - V), V)
    assert path.verdict == "not finite" and "Sqrt" in path.reason
    (path,) = tfjac.explain_gradient(lambda: tf.tanh(1e-4 * tf.exp(-10.0 * V)), V)
    assert path.verdict == "vanishing"
    (path,) = tfjac.explain_gradient(lambda: tf.exp(20.0 * V), V)
    assert path.verdict == "exploding" and "Exp" in path.reason


@pytest.mark.by_day(None)
@pytest.mark.parametrize("reduction", [lambda y: y, tf.reduce_mean, lambda y: tf.reduce_sum(y) / 64.0])
def test_layers_that_fade_a_gradient_together_are_blamed_together(reduction):
    """Each sigmoid passes a quarter at most. A mean over examples leaves an eighth of the norm, and is not to blame."""
    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(16, activation="sigmoid") for _ in range(15)]
    model = keras.Sequential([keras.Input((10,)), *hidden, keras.layers.Dense(1)])
    x = tf.random.stateless_normal([64, 10], seed=[0, 1])
    report = tfjac.explain_gradient(lambda: reduction(model(x)), model.trainable_variables)
    paths = [report[layer.kernel.path] for layer in model.layers[:3]]
    assert all(path.verdict == "vanishing" for path in paths) and len({path.reason for path in paths}) == 1
    said = paths[0].reason
    assert "falls step by step, at ops of type Sigmoid" in said and f"layer {model.layers[-2].path}" in said, said
    assert str(report).count(said) == 1


def test_one_op_that_fades_a_gradient_is_blamed_alone():
    (path,) = tfjac.explain_gradient(lambda: tf.reduce_mean(tf.tanh(0.05 * tf.tanh(6.0 + V))), V)
    assert path.verdict == "vanishing" and "falls most at op 'Tanh'" in path.reason, path.reason
    assert path.reason.count("op ") == 1 and "step by step" not in path.reason


def test_many_ops_that_blow_a_gradient_up_are_blamed_together():
    def grown():
        y = V
        for _ in range(12):
            y = tf.exp(4.0 + tf.zeros_like(y)) * y
        return tf.reduce_sum(y)

    (path,) = tfjac.explain_gradient(grown, V)
    assert path.verdict == "exploding" and "grows step by step, at ops of type Mul" in path.reason


def test_in_a_function_there_are_no_numbers():
    found = []

    @tf.function
    def function(x):
        y = tf.round(x) * V
        found.append(tfjac.explain_gradient(y, [x, V]))
        return y

    function(tf.ones([2]))
    assert [path.verdict for path in found[0]] == ["lost", "connected"]
    assert all(path.nodes == () for path in found[0])


def test_a_partial_loss_is_said():
    (path,) = tfjac.explain_gradient(lambda: V + tf.round(V), V)
    assert path.verdict == "connected" and [stop.type for stop in path.stops] == ["Round"]


@pytest.mark.by_day(None)
def test_loops_branches_and_inner_functions():
    layer, x = keras.layers.LSTM(3, name="lstm"), tf.ones([2, 4, 3])
    layer(x)
    inner = tf.function(lambda: tf.cond(V[0] > 0.0, lambda: tf.reduce_sum(layer(x)) * V, lambda: V))
    report = tfjac.explain_gradient(inner, [*layer.trainable_variables, V])
    for variable, path in zip([*(v.value for v in layer.trainable_variables), V], report):
        np.testing.assert_allclose(path.nodes[-1].norm, np.linalg.norm(by_tape(inner, variable)), rtol=1e-5)


def test_refusals_and_access():
    report = tfjac.explain_gradient(lambda: V * 2.0, [V])
    assert repr(report) == "GradientReport(v: connected)" and report[0] is report["v"]
    with pytest.raises(KeyError, match="there are"):
        report["q"]
    with pytest.raises(ValueError, match="xs must hold at least one"):
        tfjac.explain_gradient(lambda: V * 2.0, [])
    with pytest.raises(TypeError, match="xs must be tensors"):
        tfjac.explain_gradient(lambda: V * 2.0, [3])
    with pytest.raises(ValueError, match="ys is an eager tensor"):
        tfjac.explain_gradient(V * 2.0, V)


def test_nodes_by_selectors():
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, "tanh", name="hidden"), keras.layers.Dense(1, name="out")]
    model = keras.Sequential([keras.Input((3,)), *layers], name="net")
    x = tf.random.stateless_normal([5, 3], [0, 1])
    hidden = layers[0](x)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        loss = tf.reduce_sum(layers[1](hidden) ** 2)
    report = tfjac.explain_gradient(lambda: tf.reduce_sum(model(x) ** 2), ["hidden", layers[1], model.variables[0]])
    assert [path.verdict for path in report] == ["connected"] * 3 and report["hidden"].nodes[-1].op == "hidden"
    np.testing.assert_allclose(report["hidden"].nodes[-1].norm, tf.norm(tape.gradient(loss, hidden)), rtol=1e-4)
    (lost,) = tfjac.explain_gradient(lambda: tf.stop_gradient(model(x)) + x[:, :1], "hidden")
    assert lost.verdict == "lost" and [stop.kind for stop in lost.stops] == ["stop_gradient"]
    with pytest.raises(ValueError, match=r"Each of xs must be one node.*Received: '\*', which selects"):
        tfjac.explain_gradient(lambda: model(x), "*")


def test_what_is_to_be_done_about_python_that_passes_zeros():
    v = tf.Variable([0.5, 2.0])
    (path,) = tfjac.explain_gradient(lambda: tf.py_function(lambda x: np.sin(x.numpy()), [v], tf.float32), v)
    assert path.verdict == "zero" and path.remedy.startswith("compute it by TensorFlow's ops")


def test_the_tree_branches_where_ways_part():
    """Two layers in a row and one aside; norms are those of a tape at the same places."""
    first, second, aside = (keras.layers.Dense(3, activation, name=name) for name, activation in LAYERS)
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 2)), tf.float32)
    unused = tf.Variable(1.0, name="unused")

    def total():
        return tf.reduce_sum(second(first(x)) + aside(x))

    total()
    weights = [layer.kernel.value for layer in (first, second, aside)]
    with tf.GradientTape(persistent=True) as tape:
        hidden = first(x)
        value = tf.reduce_sum(second(hidden) + aside(x))
    norms = [f"{np.linalg.norm(tape.gradient(value, each)):.3g}" for each in (*weights, hidden)]
    lines = tfjac.explain_gradient(total, [first.kernel, second.kernel, aside.kernel, unused]).tree().splitlines()
    assert lines[0].split() == ["gradient", "at", "norm"]
    depth = {line.strip("│├└─ ").split(" ")[0]: len(line) - len(line.lstrip("│├└─ ")) for line in lines}
    shown = {line.strip("│├└─ ").split(" ")[0]: line.split()[-1] for line in lines}
    assert depth["first/kernel"] == depth["second/kernel"] > depth["aside/kernel"] >= depth["aside"] > depth["Sum"] == 0
    assert [shown[f"{name}/kernel"] for name, _ in LAYERS] == norms[:3] and shown["first"] == norms[3]
    assert lines[-1] == "no way to unused: not used"


LAYERS = (("first", "tanh"), ("second", None), ("aside", "sigmoid"))


INSIDE = {
    "a branch": lambda v: tf.cond(tf.reduce_sum(v) > 0, lambda: 2 * tf.stop_gradient(v), lambda: v),
    "both branches": lambda v: tf.cond(
        tf.reduce_sum(v) > 0, lambda: 2 * tf.stop_gradient(v), lambda: tf.stop_gradient(v)
    ),
    "a loop": lambda v: tf.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, tf.stop_gradient(z) * 2), (0, v + 0))[1],
    "a map": lambda v: tf.map_fn(lambda row: tf.stop_gradient(row) * 2, v * 1.0),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", INSIDE)
def test_what_stops_gradients_inside_of_bodies_is_named(name):
    v = tf.Variable([0.5, 2.0])
    (path,) = tfjac.explain_gradient(lambda: INSIDE[name](v), v)
    assert path.verdict == "zero" and path.nodes[-1].norm == 0
    assert {stop.type for stop in path.stops} == {"StopGradient"} and "tf.stop_gradient" in path.remedy


def test_a_branch_that_is_not_taken_is_named_too():
    v = tf.Variable([0.5, 2.0])
    (path,) = tfjac.explain_gradient(lambda: INSIDE["a branch"](v - 9.0), v)
    assert path.verdict == "connected" and [stop.kind for stop in path.stops] == ["stop_gradient"]


def test_notebooks_show_the_whole_report():
    pretty = pytest.importorskip("IPython.lib.pretty", reason="ipykernel brings it").pretty
    v = tf.Variable([0.5, 2.0])
    report = tfjac.explain_gradient(lambda: tf.round(v), v)
    assert pretty(report) == str(report) and "to do" in pretty(report)
    count = tfjac.count_flops(lambda: tf.reduce_sum(v * v), v)
    assert pretty(count) == str(count)
