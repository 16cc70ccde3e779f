"""Where ops come from: layer, call, line. The oracle is the program itself: its layers' names, and its own lines."""

import inspect

import keras
import tensorflow as tf

from tfjac.graph import inline_calls, layer_calls, layer_path, layer_scope, source_line


class Inner(keras.layers.Layer):
    """A layer that calls another one inside a `tf.function`."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = keras.layers.Dense(3, name="deep")

    def call(self, x):
        return self.inner(x)

    @tf.function
    def inner(self, x):
        return self.dense(x)


def model():
    inputs = keras.Input((3,), batch_size=2)
    twice = keras.layers.Dense(3, name="dense_1")
    nested = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, name="inside")], name="block")
    x = nested(twice(twice(inputs)))
    x = keras.layers.Reshape((2, 2), name="split")(x)
    return keras.Model(inputs, keras.layers.LSTM(2, name="lstm")(x), name="net")


def traced(function, *shapes):
    specs = [tf.TensorSpec(shape) for shape in shapes]
    return tf.function(function, autograph=False).get_concrete_function(*specs).graph


def of_type(graph, kind):
    return [op for op in graph.get_operations() if op.type == kind]


def test_layers_and_their_calls():
    net = model()
    graph = traced(lambda x: net(net(x) @ tf.ones([2, 3])), [2, 3])
    ops = graph.get_operations()
    calls, dense = layer_calls(ops), [op for op in of_type(graph, "MatMul") if "dense" in op.name]
    assert [layer_path(op) for op in dense] == ["net/dense_1"] * 4
    assert [calls[layer_scope(op)] for op in dense] == [0, 1, 2, 3]
    assert {layer_path(op) for op in ops} >= {"net/block/inside", "net/split", "net/lstm", "net/lstm/lstm_cell"}
    assert [layer_path(op) for op in of_type(graph, "While")] == ["net/lstm"] * 2
    (body, *_) = [graph._get_function(op.get_attr("body").name).graph for op in of_type(graph, "While")]
    assert {layer_path(op) for op in of_type(body, "MatMul")} == {"net/lstm/lstm_cell"}


def test_scopes_of_the_user_and_no_scope():
    def function(x):
        with tf.name_scope("mine"):
            y = tf.sin(x)
        return tf.cos(y)

    graph = traced(function, [2])
    assert [layer_path(op) for kind in ("Sin", "Cos") for op in of_type(graph, kind)] == ["mine", ""]


def test_of_gradients():
    net = model()
    graph = traced(lambda x: tf.gradients(net(x), x), [2, 3])
    backward = [op for op in of_type(graph, "MatMul") if op.name.startswith("gradients") and "while" not in op.name]
    assert [layer_path(op) for op in backward] == ["net/block/inside"] * 2 + ["net/dense_1"] * 4


def test_source_line_is_of_the_program():
    net = model()

    def function(x):
        y = tf.sin(x)
        return net(y)

    _, first = inspect.getsourcelines(function)
    graph = traced(function, [2, 3])
    sine, product = of_type(graph, "Sin")[0], of_type(graph, "MatMul")[0]
    assert source_line(sine)[:3] == (__file__, first + 1, "function") and source_line(sine).text == "y = tf.sin(x)"
    assert source_line(product).line == first + 2
    assert str(source_line(sine)) == f"test_origins.py:{first + 1}"


def test_copies_come_from_where_their_originals_do():
    layer = Inner(name="outer")
    layer(tf.ones([2, 3]))

    def function(x):
        return inline_calls([layer(x)], draw_again=True)[0]

    graph = traced(function, [2, 3])
    (product,) = of_type(graph, "MatMul")
    assert layer_path(product) == "outer/deep"
    assert source_line(product).text == "return self.dense(x)"


def test_loaded_models_know_their_layers_and_no_lines(tmp_path):
    net = model()
    net.export(str(tmp_path), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path))
    graph = traced(lambda x: inline_calls([loaded.serve(x)], draw_again=True)[0], [2, 3])
    products = of_type(graph, "MatMul")
    assert {layer_path(op) for op in products} >= {"net/dense_1", "net/block/inside"}
    assert {source_line(op) for op in products} == {None}
