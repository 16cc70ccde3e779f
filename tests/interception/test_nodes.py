"""The table of nodes, and the selectors: what is there, and what a selector means."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, network


def test_a_table_of_a_nested_model_with_a_shared_layer():
    table = tfjac.nodes(network(), X)
    layers = [(node.name, node.op_type, node.call) for node in table.where(kind="layer")]
    assert layers == [
        ("net/first", "Dense", 0), ("net/relu", "ReLU", 0), ("net/second", "Dense", 0), ("net/relu", "ReLU", 1),
        ("net/norm", "BatchNormalization", 0), ("net/inner/gate", "Dense", 0), ("net/inner/last", "ReLU", 0),
        ("net/inner", "Sequential", 0), ("net/head", "Dense", 0), ("net", "Functional", 0),
    ]  # fmt: skip
    relus = table.where(op_type="Relu")
    assert [(node.layer, node.call) for node in relus] == [("net/relu", 0), ("net/relu", 1), ("net/inner/last", 0)]
    assert [tuple(node.shape) for node in relus] == [(6, 8), (6, 8), (6, 6)] and relus[0].dtype == tf.float32
    heading, *lines = str(table).splitlines()
    assert heading.split() == list(tfjac.Nodes.columns) and len(lines) == len(table)
    assert len(table[:3]) == 3 and repr(table[:2]) == str(table[:2])


def test_sources_taps_and_bodies():
    def compute(x):
        x = tfjac.tap(tf.sin(x), "wave")  # this line
        x = tf.while_loop(lambda k, v: k < 3, lambda k, v: (k + 1, tf.tanh(v)), (0, x))[1]
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x), lambda: tf.cos(x))

    table = tfjac.nodes(compute, tf.TensorSpec([None, 2]))
    (wave,) = table.where(kind="tap")
    assert wave.name == "wave" and wave.source.text.endswith("# this line") and wave.source.function == "compute"
    inside = {node.op_type: node.inside for node in table if node.op_type in ("Sin", "Tanh", "Exp", "Cos")}
    assert inside.pop("Sin") == "" and "while" in inside.pop("Tanh")
    assert set(inside) == {"Exp", "Cos"} and all("cond" in place for place in inside.values())


@pytest.mark.by_day(None)
def test_nodes_of_functions_and_saved_models(tmp_path):
    model = network()
    inner = tf.function(lambda x: model(x))
    inner(X)  # traced before: layers are known by the names of their ops alone
    tf.saved_model.save(model, tmp_path)
    kept = tf.saved_model.load(tmp_path)  # its variables live as long as it does
    loaded = kept.signatures["serving_default"]
    for function in (inner, lambda x: inner(x) + 1.0, lambda x: next(iter(loaded(x).values())), loaded):
        table = tfjac.nodes(function, X)
        paths = [node.layer for node in table.where(op_type="Relu")]
        assert paths == ["net/relu", "net/relu", "net/inner/last"]


def selected(model, selector):
    """Values at what is selected, by a path of its own."""
    found = tfjac.values_at(model, selector)(X)
    return [np.asarray(each) for each in (found if isinstance(found, list) else [found])]


def test_selectors_that_mean_the_same():
    model, rounding = network(), {"rtol": 1e-5, "atol": 1e-6}
    relu, gate = model.get_layer("relu"), model.get_layer("inner").get_layer("gate")
    first = relu(model.get_layer("first")(X)).numpy()
    second = relu(model.get_layer("second")(first)).numpy()
    for selector in ("net/relu[0]", "relu[0]", tfjac.layer_call(relu, 0), "net_*/relu_1/Relu", "net/relu/Relu[0]"):
        np.testing.assert_allclose(selected(model, selector), [first], **rounding)
    for selector in ("relu", relu, "*/relu", lambda node: node.layer == "net/relu" and node.kind == "layer"):
        np.testing.assert_allclose(selected(model, selector), [first, second], **rounding)
    last = gate(model.get_layer("norm")(second)).numpy()
    for selector in (gate, "gate", "inner/gate", "net/inner/gate"):
        np.testing.assert_allclose(selected(model, selector), [last], **rounding)
    assert len(selected(model, tfjac.op_type("Relu"))) == 3
    plain = model.get_layer("norm")
    np.testing.assert_array_equal(selected(model, plain.output), selected(model, plain))


class Pair(keras.layers.Layer):
    def call(self, x):
        return 2.0 * x, tf.sin(x)


def test_layers_with_several_results():
    """By the name alone, both; with its index, one; by ends and globs as for any other."""
    x = keras.Input((5,))
    inner = keras.Input((5,))
    pair = keras.Model(inner, Pair(name="pair")(inner), name="inner")
    model = keras.Model(x, keras.layers.Add()(pair(x)), name="outer")
    double, wave = 2.0 * X, np.sin(X)
    for selector in ("outer/inner/pair", "inner/pair", "pair", "*/pair", "outer/*/pair", "pair[0]", "*/pair[0]"):
        np.testing.assert_allclose(selected(model, selector), [double, wave], rtol=1e-6)
    for selector in ("outer/inner/pair:1", "inner/pair:1", "pair:1", "*/pair:1", "*pair:1[0]"):
        np.testing.assert_allclose(selected(model, selector), [wave], rtol=1e-6)


@pytest.mark.by_day(None)
def test_layers_of_a_saved_model_by_path(tmp_path):
    model = network()
    tf.saved_model.save(model, tmp_path)
    kept = tf.saved_model.load(tmp_path)  # its variables live as long as it does
    loaded = kept.signatures["serving_default"]
    for selector in ("gate", "inner/gate", "relu[1]", "head", "net/norm"):
        np.testing.assert_allclose(selected(loaded, selector), selected(model, selector), rtol=1e-6)


def test_taps():
    eager = tf.constant([1.0])
    assert tfjac.tap(eager, "a") is eager
    x = keras.Input((5,))
    pair = tfjac.tap((keras.layers.Dense(2)(x), x), "pair")
    model = keras.Model(x, keras.layers.Concatenate()(pair))
    left, right = tfjac.values_at(model, ["pair/0", "pair/1"])(X)
    np.testing.assert_array_equal(tf.concat([left, right], 1), model(X))
    again = keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(tfjac.values_at(again, "pair/0")(X), left)
    for wrong, error in ((3, TypeError), ("", ValueError)):
        with pytest.raises(error, match="Received: "):
            tfjac.tap(eager, wrong)
    with pytest.raises(TypeError, match=r"Only tensors can be tapped. Received: 3"):
        tfjac.tap(3, "three")
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]])
    with pytest.raises(TypeError, match=r"at the one of its values.*with_flat_values.*Received: tf.RaggedTensor"):
        tfjac.values_at(lambda x: tfjac.tap(x, "ragged"), "ragged")(ragged)
    inner = lambda x: x.with_flat_values(tfjac.tap(x.flat_values, "flat"))  # noqa: E731
    np.testing.assert_array_equal(tfjac.values_at(inner, "flat")(ragged), [1.0, 2.0, 3.0])


def test_an_unused_tap_costs_nothing():
    """After TensorFlow's optimiser there are no more ops than without."""

    def ops_run(compute):
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        metadata = tf.compat.v1.RunMetadata()
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, [4])
            session.run(compute(x), {x: np.ones(4)}, options=options, run_metadata=metadata)
        return sorted(node.op for graph in metadata.partition_graphs for node in graph.node)

    assert ops_run(lambda x: tf.sin(tfjac.tap(tf.cos(x), "tap"))) == ops_run(lambda x: tf.sin(tf.cos(x)))


def test_selectors_that_select_nothing_or_too_much():
    model = network()
    with pytest.raises(ValueError, match=r"No node is selected by 'relju'. The nearest names are 'net/relu'"):
        selected(model, "relju")
    with pytest.raises(ValueError, match=r"layer 'dense.*is known where it is called.*Received: .*'net/head'"):
        selected(model, keras.layers.Dense(2))
    with pytest.raises(ValueError, match=r"No node is selected by .*tfjac.nodes lists.*Received: .*'Relu6'"):
        selected(model, tfjac.op_type("Relu6"))
    with pytest.raises(ValueError, match=r"called once. Use tfjac.layer_call\(layer, "):
        selected(model, model.get_layer("second").input)
    with pytest.raises(TypeError, match=r"A node is selected by a name.*Received: <class .*Dense'> of type"):
        selected(model, keras.layers.Dense)
    of_keras_2 = type("Dense", (), {"__module__": "tf_keras.layers", "name": "second", "__call__": print})()
    with pytest.raises(TypeError, match=r"tf_keras, which is Keras 2, is selected by its name.*pass 'second'"):
        selected(model, of_keras_2)
    with pytest.raises(TypeError, match=r"A node is selected by a name.*Received: 3 of type int"):
        selected(model, 3)
    twice = keras.Sequential([keras.Input((5,)), *(keras.Sequential([keras.layers.Dense(5, name="d")]) for _ in "ab")])
    with pytest.raises(ValueError, match=r"'d' is the end of several names.*Received: 'd', which may be .*/d', .*/d'"):
        selected(twice, "d")
    assert len(selected(twice, "*/d")) == 2
