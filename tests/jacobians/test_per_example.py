"""Per-example Jacobians and gradients: properties that hold whatever the model, and what is live at once."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians import networks
from tests.jacobians.oracles_full import assert_all_close, full_jacobian

LIMITS = [{"chunk_size": 1}, {"chunk_size": 9}, {"memory_budget": 500}]


@pytest.mark.parametrize("name", ["mlp", "grouped_cnn", "embedding"])
def test_chunked_equals_whole(name, rng):
    model = getattr(networks, name)()
    x = {"mlp": rng.normal(size=(4, 3)), "grouped_cnn": rng.normal(size=(2, 4, 4, 3))}.get(name)
    x = tf.constant(rng.integers(0, 50, (3, 5)), tf.int32) if x is None else tf.constant(x)
    expected = full_jacobian(lambda: model(x), [v.value for v in model.trainable_variables])
    signature = [tf.TensorSpec([None, *x.shape[1:]], x.dtype)]
    for limits in LIMITS:
        compute = tf.function(
            lambda x, limits=limits: tfjac.per_example_jacobian(model(x), model.trainable_variables, **limits),
            input_signature=signature,
        )
        results = compute(x)
        assert_all_close(results, expected, 1e-11)
    assert [tuple(r.shape) for r in compute(x[:0])] == [(0, 2, *v.shape) for v in model.trainable_variables]


def test_chunked_under_xla(rng):
    model, x = networks.mlp(outputs=5), tf.constant(rng.normal(size=(4, 3)))
    expected = full_jacobian(lambda: model(x), [v.value for v in model.trainable_variables])
    compute = tf.function(
        lambda x: tfjac.per_example_jacobian(model(x), model.trainable_variables, chunk_size=2), jit_compile=True
    )
    assert_all_close(compute(x), expected, 1e-11)


@pytest.mark.parametrize("limits", [{}, {"chunk_size": 3}])
def test_mixing_examples_in_full(limits, rng):
    model, x = networks.normalised(), tf.constant(rng.normal(size=(4, 3)))
    expected = full_jacobian(lambda: model(x, training=True), [v.value for v in model.trainable_variables])
    with pytest.warns(UserWarning, match="examples mix"):
        results = tfjac.per_example_jacobian(
            lambda: model(x, training=True), model.trainable_variables, examples_mix="full", **limits
        )
    assert_all_close(results, expected, 1e-10)


def test_sum_of_examples_is_the_batch_gradient(rng):
    model, x = networks.grouped_cnn(), tf.constant(rng.normal(size=(4, 4, 4, 3)))

    def losses():
        return tf.reduce_sum(tf.square(model(x)), axis=1)

    with tf.GradientTape() as tape:
        loss = tf.function(lambda: tf.reduce_sum(losses()))()
    batch = tape.gradient(loss, [v.value for v in model.trainable_variables])
    per_example = tfjac.per_example_gradients(losses, model.trainable_variables)
    assert_all_close([tf.reduce_sum(g, 0) for g in per_example], [g.numpy() for g in batch], 1e-11)


def test_permuted_batch_permutes(rng):
    model, x = networks.mlp(), tf.constant(rng.normal(size=(6, 3)))
    order = rng.permutation(6)
    compute = tf.function(lambda x: tfjac.per_example_jacobian(model(x), model.trainable_variables))
    assert_all_close(compute(tf.gather(x, order)), [j.numpy()[order] for j in compute(x)], 1e-13)


def test_the_jacobian_is_differentiated_again(rng):
    """½‖J‖² of y = sin(x·w): J[n] = cos(x[n]·w) x[n], so the gradient is −Σ sin·cos·‖x[n]‖²·x[n]."""
    x, weight = rng.normal(size=(4, 3)), tf.Variable(rng.normal(size=(3, 1)))
    for limits in ({}, {"chunk_size": 1}):
        with tf.GradientTape() as tape:
            rows = tfjac.per_example_jacobian(lambda: tf.sin(x @ weight), weight, **limits)
            energy = tf.reduce_sum(rows**2) / 2
        z = (x @ weight.numpy())[:, 0]
        expected = -np.einsum("n,ni->i", np.sin(z) * np.cos(z) * np.sum(x**2, 1), x)[:, None]
        assert_all_close(tape.gradient(energy, weight), expected, 1e-12)
