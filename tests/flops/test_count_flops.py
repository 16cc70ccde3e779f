"""Floating-point operations, held to XLA's cost analysis (`tests/data/flops`), and to counts by hand."""

import json
import pathlib

import keras
import pytest
import tensorflow as tf

import tfjac
from tfjac.flops import formulas

DATA = json.loads((pathlib.Path(__file__).parent.parent / "data/flops/xla_flops.json").read_text())["counts"]


def convolution(**options):
    return lambda x, w: tf.nn.convolution(x, w, padding="VALID", **options)


def depthwise(x, w):
    """XLA's kernel of a depthwise convolution is [height, width, 1, inputs x multiplier]."""
    kernel = tf.reshape(w, [*w.shape[:2], x.shape[-1], -1])
    return tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "VALID")


def transposed(x, w):
    shape = [x.shape[0], *(2 * size for size in x.shape[1:3]), w.shape[2]]
    return tf.nn.conv2d_transpose(x, w, shape, 2, "VALID")


PROGRAMS = {
    "matmul": tf.matmul,
    "batch matmul": tf.matmul,
    "attention scores": lambda q, k: tf.einsum("btnh,bsnh->bnts", q, k),
    "convolution": convolution(),
    "strided": convolution(strides=(2, 3)),
    "dilated": lambda x, w: tf.nn.conv2d(x, w, 1, "VALID", dilations=2),
    "grouped": convolution(),
    "depthwise": depthwise,
    "transposed": transposed,
    "volume": convolution(),
}


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", DATA)
def test_products_and_their_gradients_as_xla_counts_them(name):
    case = DATA[name]
    x, w = tf.Variable(tf.ones(case["x"])), tf.Variable(tf.ones(case["w"]))
    by_x, by_w, by_both = (tfjac.count_flops(lambda: PROGRAMS[name](x, w), xs) for xs in (x, w, [x, w]))
    assert [count.forward for count in (by_x, by_w, by_both)] == [case["forward"]] * 3
    assert [by_x.backward, by_w.backward, by_both.backward] == [case["by x"], case["by w"], case["by x"] + case["by w"]]
    assert not by_both.uncounted and by_both.total == by_both.forward + by_both.backward


def test_dense_by_hand():
    layers = keras.layers.Dense(5, "relu", name="a"), keras.layers.Dense(3, name="b")
    model = keras.Sequential([keras.Input((7,)), *layers])
    x = tf.ones([4, 7])
    count = tfjac.count_flops(lambda: model(x), model.trainable_variables)
    rows = {row.name.rpartition("/")[2]: row for row in count.by_layer}
    assert rows["a"].forward == 2 * 4 * 7 * 5 + 4 * 5 + 4 * 5  # product, bias, ReLU
    assert rows["a"].backward == 2 * 4 * 7 * 5 + 3 * 5 + 4 * 5  # kernel, sums over four examples, ReLU; no input
    assert rows["b"].backward == 2 * (2 * 4 * 5 * 3) + 3 * 3  # kernel and input, bias
    assert sum(row.forward for row in count.by_type) == count.forward == sum(row.forward for row in count.by_layer)
    assert [each.type for each in count.pruned] == ["MatMul"]  # the gradient with respect to the data


def lstm(steps=8, batch=4, inputs=2, units=3):
    layer = keras.layers.LSTM(units, name="lstm")
    x = tf.ones([batch, steps, inputs])
    layer(x)
    return layer, x, 2 * batch * (inputs + units) * 4 * units * steps


def test_the_gradient_at_a_node_by_hand():
    """Only what is above the node is gone back through."""
    layers = keras.layers.Dense(5, name="a"), keras.layers.Dense(3, use_bias=False, name="b")
    model, x = keras.Sequential([keras.Input((7,)), *layers]), tf.ones([4, 7])
    assert tfjac.count_flops(lambda: model(x), "a").backward == 2 * 4 * 3 * 5


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    ("make", "gates"),
    [(lambda: keras.layers.GRU(3), 3), (lambda: keras.layers.Bidirectional(keras.layers.LSTM(3)), 2 * 4)],
    ids=["GRU", "both ways"],
)
def test_products_of_recurrent_layers_by_hand(make, gates):
    """Of 4 examples with 2 features, in 5 steps of 3 units; the gradient of data is not needed."""
    layer, x = make(), tf.ones([4, 5, 2])
    layer(x)
    (products,) = (
        row for row in tfjac.count_flops(lambda: layer(x), layer.trainable_variables).by_type if row.name == "MatMul"
    )
    forward = 2 * 4 * 5 * gates * (2 + 3) * 3
    assert products.forward == forward and products.backward == 2 * forward - 2 * 4 * 5 * gates * 2 * 3


def test_lstm_by_hand():
    layer, x, products = lstm()
    count = tfjac.count_flops(lambda: layer(x), layer.trainable_variables)
    by_type = {row.name: row for row in count.by_type}
    cell = 4 * 3 * 8  # examples, units, steps
    of_inputs = 2 * 4 * 2 * 4 * 3 * 8  # examples, inputs, gates, steps: data, whose gradient is not needed
    assert (by_type["MatMul"].forward, by_type["MatMul"].backward) == (products, 2 * products - of_inputs)
    assert [by_type[name].forward for name in ("Sigmoid", "Tanh", "Mul")] == [3 * cell, 2 * cell, 3 * cell]
    assert (by_type["SigmoidGrad"].backward, by_type["TanhGrad"].backward) == (9 * cell, 6 * cell)
    assert {each.times for each in count.ops if each.type == "MatMul"} == {8} and not count.uncounted
    assert "lstm/lstm_cell" in [row.name for row in count.by_layer]


def test_attention_by_hand():
    layer, x = keras.layers.MultiHeadAttention(2, 4, use_bias=False), tf.ones([3, 5, 8])
    layer(x, x)
    count = tfjac.count_flops(lambda: layer(x, x), layer.trainable_variables)
    projection, scores = 2 * 3 * 5 * 8 * 8, 2 * 3 * 2 * 5 * 5 * 4
    products = [row for row in count.by_type if row.name in ("Einsum", "MatMul", "BatchMatMulV2")]
    assert sum(row.forward for row in products) == 4 * projection + 2 * scores
    assert sum(row.backward for row in products) == 5 * projection + 4 * scores  # three have data as their input


def test_steps_that_the_graph_leaves_open():
    v, limit = tf.Variable(tf.ones([3, 3])), tf.Variable(5)
    many = tf.function(
        lambda: tf.while_loop(lambda k, a: k < limit, lambda k, a: (k + 1, a @ v), [0, v])[1], autograph=False
    )
    count = tfjac.count_flops(many, v)
    assert count.forward == 2 * 27 and {each.type for each in count.uncounted} >= {"MatMul"}
    assert all("unknown length" in each.reason for each in count.uncounted)
    assert "unknown length" in str(count)


def test_costliest_branch():
    v = tf.Variable(tf.ones([3, 3]))
    count = tfjac.count_flops(lambda: tf.cond(v[0, 0] > 0.0, lambda: v @ v @ v, lambda: v + v), v)
    assert [row.forward for row in count.by_type if row.name == "MatMul"] == [2 * 2 * 27]
    assert {"costliest" in each.reason for each in count.uncounted} == {True}


def test_nested_loops_multiply():
    v = tf.Variable(tf.ones([3, 3]))

    def times(steps, step):
        return lambda a: tf.while_loop(lambda k, a: k < steps, lambda k, a: (k + 1, step(a)), [0, a])[1]

    count = tfjac.count_flops(lambda: times(4, times(5, lambda a: a @ v))(v), v)
    assert [(each.times, each.flops) for each in count.ops if each.type == "MatMul"][:1] == [(20, 20 * 54)]


def test_open_sizes_and_ops_without_a_formula_are_listed():
    v = tf.Variable(tf.ones([3, 3]))
    found = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def function(x):
        found.append(tfjac.count_flops(x @ v, v))
        return x

    function.get_concrete_function()
    (open_size, *_) = found[-1].uncounted
    assert (open_size.type, open_size.flops) == ("MatMul", None) and "open shape (None, 3)" in open_size.reason
    count = tfjac.count_flops(lambda: tf.linalg.svd(v, compute_uv=False), v)
    assert [each.reason for each in count.uncounted if each.type == "Svd"] == ["no formula"] * 2
    assert "Svd" in str(count) and "no formula" in str(count)


def test_nothing_runs_and_nothing_is_added():
    v, runs, sizes = tf.Variable(2.0), tf.Variable(0), []

    def function():
        runs.assign_add(1)
        return v * v

    tfjac.count_flops(function, v)
    assert runs.numpy() == 0

    @tf.function
    def surrounding():
        y = v * v
        graph = y.graph
        sizes.append(len(graph.get_operations()))
        count = tfjac.count_flops(y, v)
        sizes.append(len(graph.get_operations()))
        assert count.forward == 1
        return y

    surrounding()
    assert sizes[0] == sizes[1]


def test_inner_functions_and_loaded_models_count_the_same(tmp_path):
    layer = keras.layers.Dense(4, "tanh", name="dense")
    model, x = keras.Sequential([keras.Input((5,), batch_size=3), layer], name="net"), tf.ones([3, 5])
    model.export(str(tmp_path), verbose=False)
    loaded, inner = tf.saved_model.load(str(tmp_path)), tf.function(model)
    straight = tfjac.count_flops(lambda: model(x), x)
    assert straight.forward == 2 * 3 * 5 * 4 + 2 * 12 and straight.backward == 3 * 12 + 2 * 3 * 5 * 4
    for other in (inner, loaded.serve):
        count = tfjac.count_flops(lambda other=other: other(x), x)
        assert (count.forward, count.backward) == (straight.forward, straight.backward)
        assert [row.name for row in count.by_layer] == ["net/dense"]


def test_calls_of_a_shared_layer():
    layer, x = keras.layers.Dense(3, name="shared"), tf.ones([2, 3])
    layer(x)
    count = tfjac.count_flops(lambda: layer(layer(x)), layer.kernel)
    forward = [each for each in count.ops if each.type == "MatMul" and not each.backward]
    assert [(each.layer, each.call) for each in forward] == [("shared", 0), ("shared", 1)]
    assert forward[0].source.file == __file__


def test_complex_products():
    a = tf.Variable(tf.complex(tf.ones([3, 3]), tf.ones([3, 3])))
    assert tfjac.count_flops(lambda: a @ a + a, a).forward == 4 * 54 + 2 * 9


def test_no_path_is_no_work():
    v, w = tf.Variable(1.0), tf.Variable(1.0)
    assert tfjac.count_flops(lambda: v * v, w).backward == 0


def test_refusals():
    v = tf.Variable(1.0)
    assert (tfjac.count_flops(lambda: v * v, []).forward, tfjac.count_flops(lambda: v * v, []).backward) == (1, 0)
    with pytest.raises(TypeError, match="ys must be a tensor"):
        tfjac.count_flops(lambda: "text", v)
    with pytest.raises(ValueError, match="ys is an eager tensor"):
        tfjac.count_flops(v * v, v)


def test_formulas_are_of_ops_that_exist():
    names = {*formulas._FORMULAS, *formulas._FREE, *formulas._COMPLEX}
    assert [name for name in sorted(names) if not hasattr(tf.raw_ops, name)] == []
    assert not set(formulas._FREE) & set(formulas._FORMULAS)


def test_measured_time_and_memory():
    layer, x, _ = lstm()
    ran = tf.Variable(0)
    big = keras.layers.Dense(1000, name="big")
    big(tf.ones([1, 3]))

    def function():
        ran.assign_add(1)
        return big(layer(x))

    count = tfjac.count_flops(function, [*layer.trainable_variables, *big.trainable_variables], measure=True)
    found = {each.layer: each for each in count.measurements}
    assert set(found) >= {"", "lstm/lstm_cell", "big"} and ran.numpy() == 0
    for layer in ("lstm/lstm_cell", "big"):
        assert min(found[layer].forward_seconds, found[layer].backward_seconds) > 0.0
    assert found["big"].forward_bytes >= 4 * 1000 * 4  # the product of four examples, in float32
    assert found["big"].backward_bytes >= 4 * 3 * 1000 and "backward ms" in str(count)
    with pytest.raises(ValueError, match="pass a callable"):
        tf.function(lambda x: tfjac.count_flops(x * x, x, measure=True)).get_concrete_function(tf.TensorSpec([2]))


def test_a_model_without_trainable_weights_has_a_forward_pass_alone():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, use_bias=False)])
    model.trainable = False
    data = tf.ones([5, 4])
    for count in (
        tfjac.count_flops(lambda: model(data), model.trainable_variables),
        tfjac.count_flops(lambda: model(data)),
    ):
        assert (count.forward, count.backward) == (2 * 5 * 4 * 3, 0)
    assert tfjac.count_flops(lambda: model(data), measure=True).measurements
