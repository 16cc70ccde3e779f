"""The models that the questions are asked about, and TensorFlow's own ways of differentiating them per example."""

import importlib.util
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

HAS_JAX = importlib.util.find_spec("jax") is not None


def mlp(sizes: Sequence[int], dtype: str = "float32") -> keras.Model:
    """A perceptron of tanh layers with a linear output, e.g. (784, 128, 10)."""
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(size, activation="tanh", dtype=dtype) for size in sizes[1:-1]]
    return keras.Sequential(
        [keras.Input((sizes[0],), dtype=dtype), *hidden, keras.layers.Dense(sizes[-1], dtype=dtype)]
    )


def small_cnn(outputs: int = 10) -> keras.Model:
    """Two convolutions and a dense layer on 16×16 images."""
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="tanh"),
            keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(outputs),
        ]
    )


def recurrent(cell: type[keras.layers.Layer], inputs: int, units: int, outputs: int) -> keras.Model:
    """One recurrent layer and a dense one."""
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((None, inputs)), cell(units), keras.layers.Dense(outputs)])


class GraphNetwork(keras.Model):
    """Two rounds of messages along edges, and a readout of the mean over the nodes of each graph."""

    def __init__(self, width: int):
        keras.utils.set_random_seed(1)
        super().__init__()
        self.encode, self.message, self.update = (keras.layers.Dense(width, "tanh") for _ in range(3))
        self.read = keras.layers.Dense(1)

    def call(self, batch):
        h = self.encode(batch["nodes"])
        for _ in range(2):
            ends = tf.concat([tf.gather(h, batch["senders"]), tf.gather(h, batch["receivers"])], 1)
            received = tf.math.unsorted_segment_sum(self.message(ends), batch["receivers"], tf.shape(h)[0])
            h = self.update(tf.concat([h, received], 1))
        return self.read(tf.math.unsorted_segment_mean(h, batch["graph_of_node"], batch["graphs"]))


def batch_of_graphs(graphs: int) -> dict:
    """Graphs of 5 to 30 nodes, each a ring with as many chords: one long list of nodes, and one of edges."""
    random = np.random.default_rng(0)
    sizes = random.integers(5, 31, graphs)
    graph_of_node, first = np.repeat(np.arange(graphs), sizes), np.repeat(np.cumsum(sizes) - sizes, sizes)
    size, place = sizes[graph_of_node], np.arange(sizes.sum()) - first
    receivers = np.concatenate([first + (place + 1) % size, first + random.integers(0, size)])
    return {
        "graphs": tf.constant(graphs),
        "nodes": inputs(len(place), 8),
        "senders": tf.constant(np.tile(np.arange(len(place)), 2), tf.int32),
        "receivers": tf.constant(receivers, tf.int32),
        "graph_of_node": tf.constant(graph_of_node, tf.int32),
    }


def joined_by_an_edge(batch: dict) -> dict:
    """The same with an edge between the first and the last graph."""
    ends = {"senders": 0, "receivers": len(batch["nodes"]) - 1}
    return batch | {name: tf.concat([batch[name], [end]], 0) for name, end in ends.items()}


def inputs(*shape: int, dtype: str = "float32") -> tf.Tensor:
    """Standard normal numbers, the same every time."""
    return tf.constant(np.random.default_rng(0).standard_normal(shape), dtype)


def values(model: keras.Model) -> list[tf.Variable]:
    """The model's weights as TensorFlow variables."""
    return [variable.value for variable in model.trainable_variables]


def tape_jacobian(model: keras.Model, x: tf.Tensor) -> Callable[[], list[tf.Tensor]]:
    """`tape.jacobian` of the whole batch: `[n, m, …v]` for each variable."""
    variables = values(model)

    def jacobian():
        with tf.GradientTape() as tape:
            y = model(x)
        return tape.jacobian(y, variables)

    return jacobian


def vectorized_jacobian(model: keras.Model, x: tf.Tensor) -> Callable[[], list[tf.Tensor]]:
    """`tf.vectorized_map` over the examples, one gradient per output: `[n, m, …v]` for each variable."""
    variables = values(model)

    def one_example(row):
        with tf.GradientTape(persistent=True) as tape:
            outputs = tf.unstack(model(row[None])[0])
        rows = [tape.gradient(output, variables) for output in outputs]
        return [tf.stack(parts) for parts in zip(*rows, strict=True)]

    return lambda: tf.vectorized_map(one_example, x)


def nested_jacobian(model: keras.Model, x: tf.Tensor) -> Callable[[], list[tf.Tensor]]:
    """`tf.vectorized_map` over the examples of `tape.jacobian` over the outputs: `[n, m, …v]` for each variable."""
    variables = values(model)

    def one_example(row):
        with tf.GradientTape() as tape:
            y = model(row[None])[0]
        return tape.jacobian(y, variables)

    return lambda: tf.vectorized_map(one_example, x)


def jax_mlp_jacobian(model: keras.Model, x: tf.Tensor) -> Callable[[], list]:
    """`jax.vmap(jax.jacrev(…))` under `jax.jit`, of the perceptron with the same weights."""
    import jax
    import jax.numpy as jnp

    weights = [jnp.asarray(variable.numpy()) for variable in model.trainable_variables]
    rows = jnp.asarray(x.numpy())

    def forward(weights, row):
        *hidden, (kernel, bias) = zip(weights[::2], weights[1::2], strict=True)
        for w, b in hidden:
            row = jnp.tanh(row @ w + b)
        return row @ kernel + bias

    jacobian = jax.jit(jax.vmap(jax.jacrev(forward), in_axes=(None, 0)))
    return lambda: jacobian(weights, rows)
