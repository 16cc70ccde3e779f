"""The example axis: what is called independent must be so in numbers, and what mixes must be refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tfjac.graph import SHARED, ExampleAxis, ExamplesMix, analyse_examples

pytestmark = pytest.mark.core

N = 3


def square(x):
    """[n, 4, 5] → [n, 4, 4]"""
    return tf.matmul(x, x, transpose_b=True)


def input_gradient(function, x):
    return tf.gradients(tf.reduce_sum(function(x) ** 2), x)[0]


INDEPENDENT = {
    "elementwise": lambda x: tf.tanh(x) * x + tf.exp(-tf.square(x)) - x / (1.0 + x * x),
    "broadcast from the right": lambda x: x + tf.range(5.0) + tf.reshape(tf.range(4.0), [4, 1]),
    "where": lambda x: tf.where(x > 0.0, x, 0.1 * x),
    "merge and split axes": lambda x: tf.reshape(tf.reshape(x, [-1, 5]) * 2.0, [-1, 4, 5]),
    "flatten": lambda x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "examples last": lambda x: tf.transpose(tf.transpose(x, [1, 2, 0]) * 2.0, [2, 0, 1]),
    "merged with a position outside": lambda x: tf.transpose(
        tf.reshape(tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, 5]) * 3.0, [4, -1, 5]), [1, 0, 2]
    ),
    "matmul of merged rows": lambda x: tf.reshape(tf.matmul(tf.reshape(x, [-1, 5]), tf.ones([5, 2])), [-1, 4, 2]),
    "batch matmul": lambda x: tf.matmul(x, x, transpose_b=True),
    "batch matmul with a shared matrix": lambda x: tf.matmul(tf.ones([2, 4]), x),
    "einsum": lambda x: tf.einsum("nij,jk->nki", x, tf.ones([5, 2])),
    "einsum with ellipsis": lambda x: tf.einsum("...j,jk->...k", x, tf.ones([5, 2])),
    "examples in the columns": lambda x: tf.transpose(
        tf.matmul(tf.ones([2, 20]), tf.reshape(x, [-1, 20]), transpose_b=True)
    ),
    "reduce": lambda x: tf.reduce_mean(x, [1, -1], keepdims=True) + tf.reduce_max(x, axis=2, keepdims=True),
    "softmax": lambda x: tf.nn.softmax(x, axis=1) + tf.nn.log_softmax(x),
    "concat, stack, unstack, split": lambda x: tf.stack(
        tf.unstack(tf.concat([x, *tf.split(x, 2, axis=1)], 1), axis=2), 1
    ),
    "pad and tile": lambda x: tf.tile(tf.pad(x, [[0, 0], [1, 0], [0, 2]]), [1, 2, 1]),
    "slices": lambda x: x[:, 1:3, ::2] + x[..., 1:3, None, 0] * x[:, 1, :2, tf.newaxis],
    "reverse, cumsum, roll of columns": lambda x: tf.reverse(x, [1]) + tf.cumsum(x, axis=2),
    "gather columns": lambda x: tf.gather(x, [0, 2, 2], axis=1),
    "gather per example": lambda x: tf.gather(x, [[0, 1]] * N, axis=1, batch_dims=1),
    "space to batch and back": lambda x: tf.batch_to_space(
        tf.space_to_batch(x[..., None], [2, 1], [[0, 0], [0, 0]]), [2, 1], [[0, 0], [0, 0]]
    ),
    "pooling": lambda x: tf.nn.max_pool2d(x[..., None], 2, 1, "VALID"),
    "cross-entropy of classes": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([1] * N, x[:, 0]),
    "cross-entropy of distributions": lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.fill([1, 5], 0.2), x[:, 0]),
    "Fourier transform": lambda x: tf.abs(tf.signal.rfft(x) + 1.0) + tf.math.angle(tf.signal.rfft(x) + 9.0),
    "matrices": lambda x: tf.linalg.solve(tf.eye(4) * 9.0 + square(x), x) + tf.linalg.det(square(x))[:, None, None],
    "decompositions": lambda x: tf.linalg.svd(x, compute_uv=False) + tf.linalg.eigvalsh(square(x) + tf.eye(4)),
    "triangular systems, examples last": lambda x: tf.transpose(
        tf.linalg.triangular_solve(tf.eye(4), tf.transpose(x[:, :, 0]))
    ),
    "columns scattered into": lambda x: tf.transpose(
        tf.tensor_scatter_nd_add(tf.transpose(x), [[1], [2]], tf.transpose(x)[:2]), [2, 1, 0]
    ),
    "columns scattered": lambda x: tf.transpose(tf.scatter_nd([[6], [0]], tf.transpose(x)[:2], [7, 4, tf.shape(x)[0]])),
    "columns by pairs of indices": lambda x: tf.transpose(tf.gather_nd(tf.transpose(x), [[1, 2], [0, 0]])),
    "one entry per example": lambda x: tf.gather_nd(x[:, 0], tf.stack([tf.range(tf.shape(x)[0]), [1, 4, 1]], 1)),
    "sequences reversed": lambda x: tf.reverse_sequence(x, [2, 1, 4], seq_axis=1, batch_axis=0),
    "from the first example on": lambda x: tf.slice(x, [0, 1, 0], [tf.shape(x)[0], 2, 3]),
    "quantised": lambda x: tf.quantization.fake_quant_with_min_max_vars(x, -2.0, 2.0),
    "gradient of concat and pooling": lambda x: input_gradient(
        lambda u: tf.nn.max_pool2d(tf.concat([tf.sin(u), u**3], 2)[..., None], 2, 1, "VALID"), x
    ),
    "size made sure": lambda x: tf.ensure_shape(x, [None, 4, 5]),
    "top k": lambda x: tf.math.top_k(x, 2).values,
    "shape used as a number": lambda x: x * tf.cast(tf.shape(x)[0], x.dtype),
    "batch statistics behind stop_gradient": lambda x: x - tf.stop_gradient(tf.reduce_mean(x, 0)),
    "gradient in the graph": lambda x: tf.gradients(tf.reduce_sum(tf.tanh(x) ** 2), x)[0],
}

MIXING = {
    "mean over the batch": lambda x: x - tf.reduce_mean(x, 0),
    "softmax over the batch": lambda x: tf.nn.softmax(x, axis=0),
    "cumsum over the batch": lambda x: tf.cumsum(x, axis=0),
    "reversed batch": lambda x: tf.reverse(x, [0]),
    "shifted batch": lambda x: tf.concat([x[1:], x[:1]], 0),
    "gathered examples": lambda x: tf.gather(x, [2, 0, 1]),
    "batch against batch": lambda x: tf.matmul(tf.reshape(x, [-1, 20]), tf.reshape(x, [-1, 20]), transpose_b=True),
    "einsum over the batch": lambda x: tf.einsum("nij,mij->nm", x, x),
    "regrouped": lambda x: tf.reshape(tf.transpose(x, [1, 0, 2]), tf.shape(x)),
    "repeated batch": lambda x: tf.tile(tf.reverse(x, [0]), [2, 1, 1]),
    "padded batch": lambda x: tf.pad(x, [[1, 0], [0, 0], [0, 0]])[:-1],
    "transposed square": lambda x: tf.transpose(tf.reduce_sum(x[:, :N], -1)),
    "normalised by the batch": lambda x: layers.BatchNormalization()(x, training=True),
    "scattered among examples": lambda x: tf.tensor_scatter_nd_add(x, [[0]], x[1:2]),
    "pairs of indices into examples": lambda x: tf.gather_nd(x[:, 0], [[1, 2], [0, 1], [2, 0]]),
    "batch as the unknowns": lambda x: tf.linalg.solve(tf.ones([N, N]) + tf.eye(N), x[:, 0]),
    "Fourier transform of the batch": lambda x: tf.transpose(
        tf.abs(tf.signal.fft(tf.cast(tf.transpose(x), tf.complex64)))
    ),
    "first examples for all": lambda x: tf.slice(x, [0, 0, 0], [1, 4, 5]) + x,
    "sequence of examples reversed": lambda x: tf.reverse_sequence(x, [3] * 4, seq_axis=0, batch_axis=1),
    "unknown op": lambda x: tf.raw_ops.Roll(input=x, shift=[1], axis=[0]),
}


def analyses_of(function):
    """Trace `function` for an open batch and for one of known size, and analyse both; the second trace runs, too."""
    (open_batch, _), (fixed, concrete) = [analysis_of(function, batch) for batch in (None, N)]
    return [open_batch, fixed], concrete


def analysis_of(function, batch):
    """Trace `function` and analyse it; keras layers are made once outside."""
    graph = {}

    @tf.function(input_signature=[tf.TensorSpec([batch, 4, 5])], autograph=False)
    def trace(x):
        y = function(x)
        try:
            graph["analysis"] = analyse_examples([x], [y])
            graph["axis"] = graph["analysis"].axis(x)
        except ExamplesMix as mix:
            graph["mix"] = mix
        return y

    concrete = trace.get_concrete_function()
    return graph, concrete


def independent_in_numbers(concrete):
    """Change one example after another and see whether the other rows keep their bits."""
    x = np.random.default_rng(3).normal(size=(N, 4, 5)).astype("float32")
    before = concrete(tf.constant(x)).numpy()
    for changed in range(N):
        moved = x.copy()
        moved[changed] += 1.0
        after = concrete(tf.constant(moved)).numpy()
        others = [n for n in range(N) if n != changed]
        if not np.array_equal(before[others], after[others]):
            return False
    return True


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_examples_are_recognised(name):
    graphs, concrete = analyses_of(INDEPENDENT[name])
    for graph in graphs:
        assert "mix" not in graph, str(graph.get("mix"))
        assert graph["axis"] in (
            ExampleAxis(0),
            ExampleAxis(0, inner=None),
        )  # a size that the trace leaves open is checked later
    if "stop_gradient" not in name:  # there the values mix, and the derivatives do not
        assert independent_in_numbers(concrete)


@pytest.mark.parametrize("name", MIXING)
def test_mixing_is_refused_and_named(name):
    function = MIXING[name]
    if "normalised" in name:
        layer = layers.BatchNormalization()
        layer.build((None, 4, 5))
        function = lambda x: layer(x, training=True)  # noqa: E731
    graphs, concrete = analyses_of(function)
    assert not independent_in_numbers(concrete)
    for graph in graphs:
        if graph.get("axis") == SHARED:  # said to be used whole by every example: what mixing means for an input
            continue
        assert graph["mix"].op.name in str(graph["mix"]) and graph["mix"].op.type in str(graph["mix"])


def test_layer_path_is_in_the_message():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="first"), layers.BatchNormalization(name="norm")])

    @tf.function
    def trace(x):
        with pytest.raises(ExamplesMix, match="norm"):
            analyse_examples([x], [model(x, training=True)])
        return x

    trace(tf.ones([2, 4]))


def test_shared_weights_are_shared_also_with_a_static_batch_of_one():
    @tf.function
    def trace(x, w):
        analysis = analyse_examples([x, w], [x * w + x])
        assert analysis.axis(w) == SHARED
        assert analysis.axis(x) == ExampleAxis(0)
        return x

    trace(tf.ones([1, 4]), tf.ones([4]))


def regrouped_by_sizes(x, *order):
    """Merge the first two axes, split them again in some order, and bring the examples to the front."""
    size = tf.shape(x)
    split = tf.reshape(tf.reshape(x, [-1, size[2]]), [*(size[k] for k in order), size[2]])
    return split if order == (0, 1) else tf.transpose(split, [1, 0, 2])


@pytest.mark.parametrize("order, apart", [((0, 1), True), ((1, 0), False)])
def test_regrouping_with_all_sizes_open(order, apart):
    """Which axis is split off first decides whether examples keep together; no size is known by number."""

    @tf.function(input_signature=[tf.TensorSpec([None, None, None])])
    def trace(x):
        y = regrouped_by_sizes(x, *order)
        if apart:
            assert analyse_examples([x], [y]).axis(x) == ExampleAxis(0, inner=None)
        else:
            with pytest.raises(ExamplesMix, match="cannot be told apart"):
                analyse_examples([x], [y])
        return y

    x = np.random.default_rng(3).normal(size=(N, 4, 5)).astype("float32")
    if apart:
        np.testing.assert_array_equal(trace(tf.constant(x)), x)
    else:
        np.testing.assert_array_equal(trace(tf.constant(x)), x.reshape(4, N, 5).transpose(1, 0, 2))
