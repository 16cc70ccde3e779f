"""Graph neural networks: Jacobians of each graph of a batch against the same model fed one graph at a time."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

SIZES = [3, 1, 5, 2]  # nodes of each graph
FEATURES, HIDDEN, OUTPUTS = 4, 5, 3


def batch_of_graphs(rng, sizes=SIZES):
    """Random graphs as one long list of nodes and one of edges, edges in no order."""
    graph_of_node = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    senders, receivers = np.nonzero(
        (graph_of_node[:, None] == graph_of_node) & (rng.random([len(graph_of_node)] * 2) < 0.7)
    )
    order = rng.permutation(len(senders))
    return {
        "nodes": rng.normal(size=(len(graph_of_node), FEATURES)).astype(np.float32),
        "kinds": rng.integers(0, 3, len(graph_of_node)).astype(np.int32),
        "edges": rng.normal(size=(len(senders), 2)).astype(np.float32),
        "senders": senders[order].astype(np.int32),
        "receivers": receivers[order].astype(np.int32),
        "graph_of_node": graph_of_node,
    }


def single(batch, graph):
    """One graph of the batch as a batch of its own."""
    nodes = np.flatnonzero(batch["graph_of_node"] == graph)
    edges = np.flatnonzero(batch["graph_of_node"][batch["senders"]] == graph)
    return {
        "nodes": batch["nodes"][nodes],
        "kinds": batch["kinds"][nodes],
        "edges": batch["edges"][edges],
        "senders": (batch["senders"][edges] - nodes[0]).astype(np.int32),
        "receivers": (batch["receivers"][edges] - nodes[0]).astype(np.int32),
        "graph_of_node": np.zeros(len(nodes), np.int32),
    }


def dense(units, activation="tanh"):
    return keras.layers.Dense(units, activation, bias_initializer="normal")


class MessagePassing(keras.Model):
    """Messages from an MLP on both ends of an edge, summed at the receiver; a readout on the sum over nodes."""

    def __init__(self):
        super().__init__()
        self.kinds = keras.layers.Embedding(3, HIDDEN)
        self.encode, self.read = dense(HIDDEN), dense(OUTPUTS, None)
        self.message = keras.Sequential([dense(HIDDEN), dense(HIDDEN)])
        self.update = dense(HIDDEN)

    def call(self, graph, num_graphs):
        h = self.encode(graph["nodes"]) + self.kinds(graph["kinds"])
        for _ in range(2):  # the same weights twice
            ends = [tf.gather(h, graph["senders"]), tf.gather(h, graph["receivers"]), graph["edges"]]
            messages = self.message(tf.concat(ends, 1))
            received = tf.math.unsorted_segment_sum(messages, graph["receivers"], tf.shape(h)[0])
            h = self.update(tf.concat([h, received], 1))
        return self.read(tf.math.unsorted_segment_mean(h, graph["graph_of_node"], num_graphs))


class Convolutional(keras.Model):
    """Graph convolution: a sparse, normalised adjacency matrix with self loops times nodes times weights."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.read = dense(HIDDEN, None), dense(HIDDEN, None), dense(OUTPUTS, None)

    def call(self, graph, num_graphs):
        count = tf.shape(graph["nodes"])[0]
        loops = tf.stack([tf.range(count)] * 2, 1)
        entries = tf.concat([tf.stack([graph["receivers"], graph["senders"]], 1), loops], 0)
        degree = tf.math.unsorted_segment_sum(tf.ones([tf.shape(entries)[0]]), entries[:, 0], count)
        values = tf.math.rsqrt(tf.gather(degree, entries[:, 0]) * tf.gather(degree, entries[:, 1]))
        adjacency = tf.SparseTensor(tf.cast(entries, tf.int64), values, tf.cast([count, count], tf.int64))
        h = tf.nn.relu(tf.sparse.sparse_dense_matmul(adjacency, self.first(graph["nodes"])))
        h = tf.nn.relu(tf.sparse.sparse_dense_matmul(adjacency, self.second(h)))
        return self.read(tf.math.unsorted_segment_max(h, graph["graph_of_node"], num_graphs))


class Attention(keras.Model):
    """Attention over the edges into a node, two heads, self loops added to the edges, a context for the whole graph."""

    def __init__(self):
        super().__init__()
        self.value = keras.layers.EinsumDense("nf,fhd->nhd", (2, 3), bias_axes="hd")
        self.score = self.add_weight(shape=(2, 6), initializer="normal", name="score")
        self.context, self.read = dense(6), dense(OUTPUTS, None)

    def call(self, graph, num_graphs):
        count = tf.shape(graph["nodes"])[0]
        h = self.value(graph["nodes"])
        senders, receivers = (tf.concat([graph[end], tf.range(count)], 0) for end in ("senders", "receivers"))
        pairs = tf.concat([tf.gather(h, senders), tf.gather(h, receivers)], -1)
        logits = tf.nn.leaky_relu(tf.reduce_sum(pairs * self.score, -1))
        logits -= tf.gather(tf.stop_gradient(tf.math.unsorted_segment_max(logits, receivers, count)), receivers)
        weights = tf.exp(logits)
        weights /= tf.gather(tf.math.unsorted_segment_sum(weights, receivers, count), receivers)
        h = tf.scatter_nd(receivers[:, None], weights[:, :, None] * tf.gather(h, senders), tf.shape(h))
        h = tf.reshape(h, [-1, 6])
        context = self.context(tf.math.unsorted_segment_mean(h, graph["graph_of_node"], num_graphs))
        h = tf.tanh(h * tf.gather(context, graph["graph_of_node"]))
        return self.read(tf.math.unsorted_segment_sum(h, graph["graph_of_node"], num_graphs) + context)


MODELS = {"message passing": MessagePassing, "convolution": Convolutional, "attention": Attention}


def built(model):
    keras.utils.set_random_seed(5)
    model(batch_of_graphs(np.random.default_rng(0)), num_graphs=len(SIZES))
    return model


def one_graph_at_a_time(model, batch, num_graphs):
    """For each variable `[graphs, outputs, *variable.shape]`, one backward pass per graph and output."""
    variables = [v.value for v in model.trainable_variables]
    rows = []
    for graph in range(num_graphs):
        with tf.GradientTape(persistent=True) as tape:
            outputs = tf.unstack(model(single(batch, graph), num_graphs=1)[0])
        rows.append([tape.gradient(y, variables, unconnected_gradients="zero") for y in outputs])
    return [
        np.array([[tf.convert_to_tensor(each[k]) for each in graph] for graph in rows]) for k in range(len(variables))
    ]


@pytest.fixture(params=MODELS, scope="module")
def case(request):
    """A model, a batch of graphs, and the Jacobian of each graph."""
    model, batch = built(MODELS[request.param]()), batch_of_graphs(np.random.default_rng(1))
    return model, batch, one_graph_at_a_time(model, batch, len(SIZES))


def open_shapes(batch):
    return {key: tf.TensorSpec([None, *value.shape[1:]], value.dtype) for key, value in batch.items()}


def assert_all_close(found, expected):
    assert len(found) == len(expected) > 0
    for each, wanted in zip(found, expected):
        np.testing.assert_allclose(each, wanted, rtol=2e-4, atol=5e-5)


@pytest.mark.by_day(None)
def test_jacobian(case):
    model, batch, expected = case

    @tf.function(input_signature=[open_shapes(batch)], autograph=False)
    def rows(batch):
        return tfjac.per_segment_jacobian(model(batch, num_graphs=len(SIZES)), model.trainable_variables)

    assert_all_close(rows(batch), expected)


@pytest.mark.by_day(None)
def test_operator(case):
    model, batch, expected = case
    flat = np.concatenate([rows.reshape(len(SIZES) * OUTPUTS, -1) for rows in expected], 1)

    @tf.function(autograph=False)
    def products():
        operator = tfjac.segment_operator(model(batch, num_graphs=len(SIZES)), model.trainable_variables)
        return operator.gram(), operator.kernel(), operator.row_norms()

    gram, kernel, norms = products()
    np.testing.assert_allclose(gram, flat.T @ flat, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(kernel, flat @ flat.T, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(norms, np.linalg.norm(flat, axis=1), rtol=1e-4)


@pytest.mark.by_day(one_in=3)
def test_gradients(case):
    model, batch, expected = case

    def losses():
        return tf.reduce_sum(model(batch, num_graphs=len(SIZES)), 1)

    found = tfjac.per_segment_gradients(losses, model.trainable_variables)
    assert_all_close(found, [rows.sum(1) for rows in expected])


@pytest.mark.by_day(None)
def test_compiled_by_xla():
    model, batch = built(Attention()), batch_of_graphs(np.random.default_rng(1))

    @tf.function(jit_compile=True)
    def rows(batch):
        return tfjac.per_segment_jacobian(model(batch, num_graphs=len(SIZES)), model.trainable_variables, max_rows=30)

    found = rows({key: tf.constant(value) for key, value in batch.items()})
    assert_all_close(found, one_graph_at_a_time(model, batch, len(SIZES)))


def ragged(h, graph, num_graphs):
    return tf.reduce_mean(tf.RaggedTensor.from_value_rowids(h, graph["graph_of_node"], num_graphs), axis=1)


def neighbours(h, graph, num_graphs):
    """A fixed number of neighbours per node: the first and the last node of its graph."""
    nodes = tf.range(tf.shape(h)[0])
    ends = [tf.math.segment_min(nodes, graph["graph_of_node"]), tf.math.segment_max(nodes, graph["graph_of_node"])]
    near = tf.gather(tf.stack(ends, 1), graph["graph_of_node"])  # [nodes, 2]
    h = h * tf.reduce_sum(tf.sin(tf.gather(h, near)), axis=1)
    return tf.math.segment_sum(h, graph["graph_of_node"])


def chosen(h, graph, num_graphs):
    """Nodes of one kind only, and a sum scattered into place."""
    mask = graph["kinds"] != 1
    kept, of_kept = tf.boolean_mask(h, mask), tf.boolean_mask(graph["graph_of_node"], mask)
    return tf.tensor_scatter_nd_add(tf.zeros([num_graphs, HIDDEN]), of_kept[:, None], kept**2)


def picked(h, graph, num_graphs):
    """The first node of each graph."""
    return tf.gather_nd(h**2, tf.math.segment_min(tf.range(tf.shape(h)[0]), graph["graph_of_node"])[:, None])


def pairs(h, graph, num_graphs):
    """Two rows gathered for each node, side by side afterwards."""
    nodes = tf.range(tf.shape(h)[0])
    both = tf.reshape(tf.gather(h, tf.repeat(nodes, 2)), [-1, 2, HIDDEN])
    return tf.math.unsorted_segment_prod(both[:, 0] * tf.cos(both[:, 1]), graph["graph_of_node"], num_graphs)


def against_the_edges(h, graph, num_graphs):
    """From receivers to senders, by the transposed adjacency matrix, nodes below their features and features aside."""
    count = tf.shape(h)[0]
    edges = tf.cast(tf.stack([graph["receivers"], graph["senders"]], 1), tf.int64)
    adjacency = tf.SparseTensor(edges, graph["edges"][:, 0], tf.cast([count, count], tf.int64))
    sent = tf.sparse.sparse_dense_matmul(adjacency, h, adjoint_a=True)
    both = tf.concat([tf.gather(sent, [2, 0, 2], axis=1), tf.sin(h)[:, :3]], -2)
    of_both = tf.tile(graph["graph_of_node"], [2])
    return tf.math.unsorted_segment_sum(both**2, of_both, num_graphs)


def both_ends(h, graph, num_graphs):
    """All senders, then all receivers, gathered at once."""
    ends = tf.reshape(tf.gather(h, tf.concat([graph["senders"], graph["receivers"]], 0)), [2, -1, HIDDEN])
    of_edge = tf.gather(graph["graph_of_node"], graph["senders"])
    return tf.math.unsorted_segment_sum(ends[0] * tf.sin(ends[1]), of_edge, num_graphs)


def features_moved(h, graph, num_graphs):
    """What moves rows elsewhere moves features, where nodes run along the last axis."""
    features = tf.gather(tf.transpose(h), [4, 2, 0, 1, 2, 3])
    features = tf.concat([tf.math.unsorted_segment_sum(features, [0, 1, 0, 1, 0, 1], 2), features**2], 0)
    features = tf.scatter_nd([[0], [2], [3], [1], [0], [0], [1], [2]], features, [4, tf.shape(h)[0]])
    return tf.math.segment_sum(tf.transpose(features), graph["graph_of_node"])


WAYS = [ragged, neighbours, chosen, picked, pairs, against_the_edges, both_ends, features_moved]


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("pool", WAYS)
@pytest.mark.parametrize("sizes_open", [False, True], ids=["known sizes", "open sizes"])
def test_ways_to_move_rows(pool, sizes_open, rng):
    layer, batch = dense(HIDDEN), batch_of_graphs(rng)

    def outputs(graph, num_graphs):
        return pool(layer(graph["nodes"]), graph, num_graphs)

    def rows(graph):
        return tfjac.per_segment_jacobian(lambda: outputs(graph, len(SIZES)), layer.trainable_variables)

    outputs(batch, len(SIZES))
    rows = tf.function(rows, input_signature=[open_shapes(batch)]) if sizes_open else rows
    found = rows({key: tf.constant(value) for key, value in batch.items()})
    one = tf.function(lambda graph: outputs(graph, 1), input_signature=[open_shapes(batch)])
    for graph in range(len(SIZES)):
        with tf.GradientTape(persistent=True) as tape:
            y = one(single(batch, graph))
        expected = tape.jacobian(y, layer.trainable_variables, experimental_use_pfor=False)
        assert_all_close([rows[graph] for rows in found], [rows[0] for rows in expected])


@pytest.mark.by_day(None)
def test_empty_graphs(rng):
    """A graph without nodes has a Jacobian too: that of its readout."""
    model = built(MessagePassing())
    batch = batch_of_graphs(rng, [2, 0, 3])
    per_graph = tfjac.per_segment_jacobian(lambda: model(batch, num_graphs=3), model.trainable_variables)
    for variable, rows in zip(model.trainable_variables, per_graph):
        of_readout = any(variable is each for each in model.read.weights)
        assert (of_readout and variable.ndim == 1) or not np.any(rows[1])
        assert np.all(np.isfinite(rows))


@pytest.mark.by_day(None)
def test_edge_between_two_graphs_is_refused(rng):
    model = built(MessagePassing())
    batch = batch_of_graphs(rng)
    batch["senders"][0], batch["receivers"][0] = 0, len(batch["nodes"]) - 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="segments depend on one another"):
        tfjac.per_segment_jacobian(lambda: model(batch, num_graphs=len(SIZES)), model.trainable_variables)


def test_too_many_rows_are_refused(rng):
    layer, batch = dense(HIDDEN), batch_of_graphs(rng)

    def outputs():
        return tf.math.segment_sum(layer(batch["nodes"]), batch["graph_of_node"])

    outputs()
    with pytest.raises(tf.errors.InvalidArgumentError, match="more rows than max_rows"):
        tfjac.per_segment_jacobian(outputs, layer.trainable_variables, max_rows=2)


@pytest.mark.parametrize(
    "mix",
    [
        lambda h: h - tf.reduce_mean(h, 0),
        lambda h: tf.while_loop(lambda k, h: k < 2, lambda k, h: (k + 1, h[::-1]), [0, h])[1],
        lambda h: tf.gather_nd(h, [[node, 0] for node in range(sum(SIZES))])[:, None],
    ],
    ids=["mean over all nodes", "loop", "entries"],
)
def test_other_mixing_is_refused(mix, rng):
    layer, batch = dense(HIDDEN), batch_of_graphs(rng)

    def outputs():
        return tf.math.unsorted_segment_sum(mix(layer(batch["nodes"])), batch["graph_of_node"], len(SIZES))

    outputs()
    with pytest.raises(tfjac.ExamplesMix, match=r"examples mix at op .* combined by gathers"):
        tfjac.per_segment_jacobian(outputs, layer.trainable_variables)


def test_no_variables_are_refused(rng):
    model, batch = MessagePassing(), batch_of_graphs(rng)
    with pytest.raises(ValueError, match="at least one variable"):
        tfjac.per_segment_jacobian(lambda: model(batch, num_graphs=len(SIZES)), model.trainable_variables)


def test_without_segments_it_is_the_jacobian_of_each_example(rng):
    x = tf.constant(rng.normal(size=(6, 4)).astype(np.float32))
    model = keras.Sequential([dense(3), dense(2)])
    model(x)
    for found, wanted in zip(
        tfjac.per_segment_jacobian(lambda: model(x), model.trainable_variables),
        tfjac.per_example_jacobian(lambda: model(x), model.trainable_variables),
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("joined", [False, True], ids=["apart", "joined by an edge"])
def test_full_where_examples_may_mix(joined):
    """The same function for both: that graphs are apart shows when it runs."""
    model, batch = built(MessagePassing()), batch_of_graphs(np.random.default_rng(1))

    @tf.function(input_signature=[open_shapes(batch)], autograph=False)
    def rows(batch):
        y = model(batch, num_graphs=len(SIZES))
        return tfjac.per_example_jacobian(y, model.trainable_variables, examples_mix="full")

    if joined:
        batch["senders"][0], batch["receivers"][0] = 0, len(batch["nodes"]) - 1
    with tf.GradientTape(persistent=True) as tape:
        y = model(batch, num_graphs=len(SIZES))
    expected = tape.jacobian(y, model.trainable_variables, experimental_use_pfor=False, unconnected_gradients="zero")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_all_close(rows(batch), expected)


def test_full_of_what_has_no_segments_says_what_it_costs(rng):
    layer, batch = dense(HIDDEN), batch_of_graphs(rng)
    layer(batch["nodes"])

    def outputs(nodes):
        h = layer(nodes)
        return tf.math.segment_sum(h - tf.reduce_mean(h, 0), batch["graph_of_node"])

    @tf.function(input_signature=[tf.TensorSpec([None, FEATURES])], autograph=False)
    def rows(nodes):
        return tfjac.per_example_jacobian(outputs(nodes), layer.trainable_variables, examples_mix="full")

    with tf.GradientTape(persistent=True) as tape:
        y = outputs(batch["nodes"])
    expected = tape.jacobian(y, layer.trainable_variables, experimental_use_pfor=False)
    with pytest.warns(UserWarning, match="every row costs a backward pass"):
        assert_all_close(rows(batch["nodes"]), expected)


@pytest.mark.by_day(None)
def test_a_row_that_goes_nowhere_by_a_number_below_all_int32(rng):
    """A plain cast of -2³² would put it into the first graph, and it is in the last."""
    layer, batch = dense(HIDDEN), batch_of_graphs(rng)
    places = np.arange(sum(SIZES), dtype=np.int64)
    places[-1] = -(2**32)

    def outputs(graph, places):
        h = layer(graph["nodes"])
        both = h + tf.math.unsorted_segment_sum(tf.square(h), places, len(places))
        return tf.math.unsorted_segment_sum(both, graph["graph_of_node"], graph["graph_of_node"].max() + 1)

    outputs(batch, places)
    found = tfjac.per_segment_jacobian(lambda: outputs(batch, places), layer.trainable_variables)
    for number, size in enumerate(SIZES):
        stays = np.arange(size, dtype=np.int64)
        stays[-1] = -1 if number == len(SIZES) - 1 else stays[-1]
        graph = single(batch, number)
        alone = tfjac.jacobian(lambda graph=graph, stays=stays: outputs(graph, stays)[0], layer.trainable_variables)
        assert_all_close([each[number] for each in found], alone)
