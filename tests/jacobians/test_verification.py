"""Verification at run time: silent where all is right, and an error that says where and by how much where it is not."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians import networks
from tfjac.jacobians.factors.rules import factor_rules
from tfjac.jacobians.passes import random_cotangents


@pytest.fixture
def model():
    return networks.mlp(outputs=2)


@pytest.fixture
def x(rng):
    return tf.constant(rng.normal(size=(4, 3)))


def squares(model, x):
    return tf.reduce_sum(model(x) ** 2, 1)


ALL = {
    "per_example_jacobian": lambda m, x, v: tfjac.per_example_jacobian(lambda: m(x), v, verify=True),
    "chunked": lambda m, x, v: tfjac.per_example_jacobian(lambda: m(x), v, chunk_size=1, verify=True),
    "gradients": lambda m, x, v: tfjac.per_example_gradients(lambda: squares(m, x), v, verify=True),
    "operator": lambda m, x, v: tfjac.jacobian_operator(lambda: [m(x), m(2.0 * x)], v, verify=True).to_dense(),
    "norms": lambda m, x, v: tfjac.per_example_gradient_norms(lambda: squares(m, x), v, verify=True),
    "clipped": lambda m, x, v: tfjac.clipped_gradients(lambda: squares(m, x), v, 0.1, verify=True),
    "jacobian": lambda m, x, v: tfjac.jacobian(lambda: m(x), v, verify=True),
}
OF_INPUTS = {
    "batch_jacobian": lambda m, x: tfjac.batch_jacobian(lambda: m(x), x, verify=True),
    "jacobian": lambda m, x: tfjac.jacobian(lambda: m(x), x, verify=True),
    "forward": lambda m, x: tfjac.jacobian(lambda: m(x), x, mode="forward", verify=True),
    "sparse_jacobian": lambda m, x: tfjac.sparse_jacobian(lambda: m(x), x, verify=True),
}


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", ALL)
def test_what_is_right_passes(name, model, x):
    ALL[name](model, x, model.trainable_variables)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", OF_INPUTS)
def test_what_is_right_passes_by_inputs(name, model, x):
    OF_INPUTS[name](model, x)


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("broken", ["a little too large", "rows of other examples"])
@pytest.mark.parametrize("name", ALL)
def test_a_broken_rule_is_found(name, broken, model, x, monkeypatch):
    rule = factor_rules._RULES["MatMul"]

    def wrong(use):
        factor = rule(use)
        shifted = [factor.a[::-1], factor.d]
        return factor.scaled(1.001) if broken == "a little too large" else factor.with_tensors(shifted)

    monkeypatch.setitem(factor_rules._RULES, "MatMul", wrong)
    words = f"(?s){model.trainable_variables[0].path}.*MatMul.*differs from the gradient by TensorFlow"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        ALL[name](model, x, model.trainable_variables[0])


@pytest.mark.by_day(None)
@pytest.mark.unverified("first it computes what is broken")
def test_switched_on_by_the_environment(model, x, monkeypatch):
    rule = factor_rules._RULES["MatMul"]
    monkeypatch.setitem(factor_rules._RULES, "MatMul", lambda use: rule(use).scaled(1.001))
    compute = lambda **options: tfjac.per_example_jacobian(  # noqa: E731
        lambda: model(x), model.trainable_variables, **options
    )
    compute()
    monkeypatch.setenv("TFJAC_VERIFY", "1")
    with pytest.raises(tf.errors.InvalidArgumentError):
        compute()
    compute(verify=False)
    monkeypatch.setenv("TFJAC_VERIFY", "yes")
    with pytest.raises(ValueError, match="TFJAC_VERIFY must be 0 or 1"):
        compute()


@pytest.mark.unverified("first it computes what is wrong")
def test_a_pattern_that_lacks_entries_is_found(x):
    lacking = np.eye(12)
    ys = lambda: tf.reshape(x**2 + tf.reverse(x, [0]), [-1])  # noqa: E731
    tfjac.sparse_jacobian(ys, x, lacking)
    with pytest.raises(tf.errors.InvalidArgumentError, match="differs from the gradient by TensorFlow"):
        tfjac.sparse_jacobian(ys, x, lacking, verify=True)


@pytest.mark.by_day(None)
def test_what_cancels_is_no_error(rng):
    """The gradient of a bias before a normalisation is rounding alone."""
    keras.utils.set_random_seed(0)
    normalised = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(5), keras.layers.LayerNormalization(), keras.layers.Dense(2)]
    )
    x = tf.constant(rng.normal(size=(8, 6)), tf.float32)
    tfjac.per_example_jacobian(lambda: normalised(100.0 * x), normalised.trainable_variables, verify=True)


def test_rounding_in_half_precision_is_no_error(rng):
    """Also where the variable is in single precision."""
    weight = tf.Variable(rng.normal(size=(3, 2)), dtype=tf.float32)
    x = tf.constant(rng.normal(size=(4, 3)), tf.bfloat16)
    ys = lambda: tf.cast(tf.tanh(x @ tf.cast(weight, tf.bfloat16)), tf.float32)  # noqa: E731
    tfjac.per_example_jacobian(ys, weight, verify=True)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_cancels_everywhere_in_half_precision_is_no_error(seed):
    """A normalisation of two channels leaves their signs: all that lies before has derivatives of rounding alone."""
    keras.utils.set_random_seed(seed)
    convolution = keras.layers.Conv1D(2, 2, dtype="bfloat16")
    normalised = keras.Sequential([keras.Input((4, 2)), convolution, keras.layers.LayerNormalization(dtype="bfloat16")])
    x = tf.constant(np.random.default_rng(seed).normal(size=(1, 4, 2)), tf.bfloat16)
    tfjac.per_example_jacobian(lambda: normalised(x), normalised.trainable_variables, verify=True)


@pytest.mark.unverified("first it computes what is broken")
def test_a_broken_rule_is_found_in_half_precision(model, x, monkeypatch):
    rule, half = factor_rules._RULES["MatMul"], tf.bfloat16
    monkeypatch.setitem(factor_rules._RULES, "MatMul", lambda use: rule(use).scaled(2.0))
    weights = [tf.Variable(tf.cast(v, half)) for v in model.trainable_variables if len(v.shape) == 2]

    def ys():
        hidden = tf.cast(x, half)
        for weight in weights:
            hidden = tf.tanh(hidden @ weight)
        return hidden

    with pytest.raises(tf.errors.InvalidArgumentError, match="differs from the gradient by TensorFlow"):
        tfjac.per_example_jacobian(ys, weights, verify=True)


@pytest.mark.unverified("it counts what verification adds")
def test_nothing_is_added_where_it_is_not_wanted(model, x):
    variables = model.trainable_variables
    plain, verified = (
        tf.function(lambda x, verify=verify: tfjac.per_example_jacobian(model(x), variables, verify=verify))
        .get_concrete_function(x)
        .graph.get_operations()
        for verify in (None, True)
    )
    assert not [op for op in plain if op.type in ("Assert", "StatelessRandomNormalV2")]
    assert [op for op in verified if op.type == "Assert"]


@pytest.mark.by_day(None)
def test_a_seed_gives_the_same_cotangents_again(model, x):
    """They are drawn by Python's `random`, once for each trace."""

    def drawn(seed):
        random.seed(seed)
        trace = tf.function(lambda: tfjac.per_example_jacobian(model(x), model.trainable_variables, verify=True))
        ops = trace.get_concrete_function().graph.get_operations()
        return [tf.get_static_value(op.inputs[0]).tolist() for op in ops if op.type == "StatelessRandomGetKeyCounter"]

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("failure", [LookupError, TypeError])
def test_what_tensorflow_cannot_differentiate_is_not_verified_and_said(failure, model, x, monkeypatch):
    def fails(*_):
        raise failure("no gradient defined")

    monkeypatch.setattr(random_cotangents, "gradients_or_zeros", fails)
    with pytest.warns(UserWarning, match=f"not verified, as TensorFlow itself cannot.*{failure.__name__}: no gradient"):
        tfjac.per_example_jacobian(lambda: model(x), model.trainable_variables, verify=True)


def test_other_failures_of_the_verification_are_raised(model, x, monkeypatch):
    monkeypatch.setattr(random_cotangents, "gradients_or_zeros", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tfjac.per_example_jacobian(lambda: model(x), model.trainable_variables, verify=True)
