"""The Jacobian operator against the dense Jacobian of the oracle: every product, every kind of factor."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time
from tests.precision import floating

N = 4


def sequential(*stack, shape):
    return keras.Sequential([keras.Input(shape), *stack])


MODELS = {
    "mlp": lambda: sequential(layers.Dense(5, "tanh"), layers.Dense(3), shape=(4,)),
    "cnn": lambda: sequential(
        layers.Conv2D(4, 3, groups=2, activation="tanh"), layers.Flatten(), layers.Dense(2), shape=(5, 5, 2)
    ),
    "sequence": lambda: sequential(layers.Dense(4, "tanh"), layers.LayerNormalization(), layers.Dense(2), shape=(3, 4)),
    "embedding": lambda: sequential(
        layers.Embedding(40, 3), layers.Dense(3, "tanh"), layers.GlobalAveragePooling1D(), layers.Dense(2), shape=(6,)
    ),
    "one output": lambda: sequential(layers.Dense(5, "tanh"), layers.Dense(1), shape=(4,)),
}


@functools.cache
def problem_of(name):
    """A model in float64, its input, its variables, and its dense Jacobian [n·m, p] from the oracle."""
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(20260)
    with floating("float64"):
        model = MODELS[name]()
    if name == "embedding":
        x = rng.integers(0, 40, (N, 6)).astype("int32")
    else:
        x = rng.normal(size=(N, *model.inputs[0].shape[1:]))
    variables = model.trainable_variables
    blocks = rows_one_at_a_time(model, x, [v.value for v in variables])
    dense = np.concatenate([b.reshape(b.shape[0] * b.shape[1], -1) for b in blocks], axis=1)
    return model, x, variables, dense


@pytest.fixture(params=MODELS)
def problem(request):
    """Run the test with every model; none changes it."""
    return problem_of(request.param)


def evaluate(problem, function, batch=None, jit_compile=False):
    """Return `function(operator)` from inside a tf.function on the problem's model, as arrays."""
    model, x, variables, _ = problem

    @tf.function(
        input_signature=[tf.TensorSpec([batch, *x.shape[1:]], x.dtype)], jit_compile=jit_compile, autograph=False
    )
    def program(x):
        return function(tfjac.jacobian_operator(model(x), variables))

    return tf.nest.map_structure(lambda t: t.numpy(), program(x))


WAYS = [("native", None, False), ("twin", None, False)]
IN_TURN = [(name, *way) for k, name in enumerate(MODELS) for way in (("native", N, True), WAYS[k % 2])]


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name, implementation, batch, jit_compile", IN_TURN, indirect=["implementation"])
def test_products(name, rng, implementation, batch, jit_compile):
    problem = problem_of(name)
    dense = problem[-1]
    rows, columns = dense.shape
    v, u, residual = rng.normal(size=columns), rng.normal(size=rows), rng.normal(size=rows)
    scales = rng.uniform(0.5, 2.0, size=len(problem[2]))
    sizes = [v.value.shape.num_elements() for v in problem[2]]

    def products(operator):
        return {
            "dense": operator.to_dense(),
            "matvec": operator.matvec(tf.constant(v)),
            "adjoint": operator.matvec(tf.constant(u), adjoint=True),
            "matmul": operator.matmul(tf.constant(np.stack([v, 2 * v], 1))),
            "gram": operator.gram(),
            "gram and gradient": operator.gram_and_gradient(tf.constant(residual)),
            "kernel": operator.kernel(),
            "scaled kernel": operator.kernel(tf.constant(scales)),
            "row norms": operator.row_norms(),
            "column norms": operator.column_norms(),
            "split": operator.split(tf.constant(v)),
        }

    got = evaluate(problem, products, batch, jit_compile)
    parts = np.split(v, np.cumsum(sizes)[:-1])
    scaled = dense * np.sqrt(np.repeat(scales, sizes))
    expected = {
        "dense": dense,
        "matvec": dense @ v,
        "adjoint": dense.T @ u,
        "matmul": dense @ np.stack([v, 2 * v], 1),
        "gram": dense.T @ dense,
        "gram and gradient": (dense.T @ dense, dense.T @ residual),
        "kernel": dense @ dense.T,
        "scaled kernel": scaled @ scaled.T,
        "row norms": np.linalg.norm(dense, axis=1),
        "column norms": np.linalg.norm(dense, axis=0),
        "split": [part.reshape(v.shape) for part, v in zip(parts, problem[2])],
    }
    for name, value in expected.items():
        tf.nest.map_structure(
            lambda a, b, name=name: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=name),
            got[name],
            value,
        )


@pytest.mark.core
def test_eager_callable_gives_the_same(problem):
    model, x, variables, dense = problem
    operator = tfjac.jacobian_operator(lambda: model(x), variables)
    assert operator.shape == dense.shape
    np.testing.assert_allclose(operator.to_dense(), dense, atol=1e-10)
    np.testing.assert_allclose(operator.gram(), dense.T @ dense, atol=1e-10)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", ["cnn", "embedding"])
def test_conjugate_gradient_takes_the_normal_equations(name, rng):
    """A user's linear operator: (JᵀJ + 1) x = b by TensorFlow's own solver."""
    problem = problem_of(name)
    dense = problem[-1]
    b = rng.normal(size=dense.shape[1])

    def solve(operator):
        class Normal(tf.linalg.LinearOperator):
            def _shape(self):
                return tf.TensorShape([dense.shape[1]] * 2)

            def _shape_tensor(self):
                return tf.constant([dense.shape[1]] * 2)

            def _matmul(self, x, adjoint=False, adjoint_arg=False):
                return x + operator.matmul(operator.matmul(x), adjoint=True)

        normal = Normal(dtype=tf.float64, is_self_adjoint=True, is_positive_definite=True, is_square=True)
        return tf.linalg.experimental.conjugate_gradient(normal, tf.constant(b), max_iter=300, tol=1e-12).x

    expected = np.linalg.solve(dense.T @ dense + np.eye(len(b)), b)
    np.testing.assert_allclose(evaluate(problem, solve), expected, atol=1e-8)


def test_several_outputs_follow_one_another(rng):
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4,))
    hidden = layers.Dense(5, "tanh")(inputs)
    model = keras.Model(inputs, [layers.Dense(2)(hidden), layers.Reshape((3, 1))(layers.Dense(3)(hidden))])
    x = rng.normal(size=(N, 4)).astype("float32")
    variables = model.trainable_variables
    joined = lambda x: tf.concat([tf.reshape(y, [tf.shape(y)[0], -1]) for y in model(x)], axis=1)  # noqa: E731
    blocks = rows_one_at_a_time(joined, x, [v.value for v in variables])
    dense = np.concatenate([b.reshape(N * 5, -1) for b in blocks], axis=1)
    operator = tf.function(lambda x: tfjac.jacobian_operator(model(x), variables).to_dense())
    np.testing.assert_allclose(operator(x), dense, atol=1e-5)


@pytest.mark.by_day(one_in=2)
def test_empty_batch_and_one_example(implementation):
    model = MODELS["mlp"]()
    p = model.count_params()

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def program(x):
        operator = tfjac.jacobian_operator(model(x), model.trainable_variables)
        return operator.to_dense(), operator.gram(), operator.kernel(), operator.row_norms()

    for n in (0, 1):
        found = rows, gram, *_ = program(np.ones((n, 4), "float32"))
        assert [each.shape for each in found] == [(3 * n, p), (p, p), (3 * n, 3 * n), (3 * n,)]
        np.testing.assert_allclose(gram, rows.numpy().T @ rows.numpy(), atol=1e-5)


@pytest.mark.by_day(one_in=3)
def test_a_permuted_batch_permutes_rows(problem, rng):
    model, x, variables, dense = problem
    order = rng.permutation(N)
    permuted = evaluate((model, x[order], variables, None), lambda op: op.to_dense())
    rows = dense.reshape(N, -1, dense.shape[1])[order].reshape(dense.shape)
    np.testing.assert_allclose(permuted, rows, atol=1e-10)


def test_training_mode_batch_normalisation_is_refused_unless_asked_for(rng):
    keras.utils.set_random_seed(3)
    model = sequential(
        layers.Dense(3, name="first"), layers.BatchNormalization(name="norm"), layers.Dense(2), shape=(4,)
    )
    x = rng.normal(size=(5, 4)).astype("float32")
    variables = model.trainable_variables
    with pytest.raises(tfjac.ExamplesMix, match=r"norm.*Received|norm.*full"):
        tf.function(lambda: tfjac.per_example_jacobian(model(x, training=True), variables))()

    jacobian = tf.function(
        lambda: tfjac.per_example_jacobian(model(x, training=True), variables, examples_mix="full")
    )()
    with tf.GradientTape(persistent=True) as tape:
        outputs = tf.unstack(tf.reshape(model(tf.constant(x), training=True), [-1]))
    for k in range(len(variables)):
        rows = np.stack([tape.gradient(y, variables)[k].numpy() for y in outputs])
        np.testing.assert_allclose(jacobian[k].numpy().reshape(rows.shape), rows, atol=1e-5)


def test_a_weight_without_a_rule_takes_the_exact_fallback(rng):
    """tf.linalg.solve has no rule; its own gradient is taken example by example, and said so once."""
    matrix = tf.Variable(np.eye(3) + 0.1 * rng.normal(size=(3, 3)))
    x = rng.normal(size=(4, 3))

    def model(x):
        return tf.tanh(tf.math.xlogy(1.0 + tf.square(x), tf.exp(matrix[0]))) * tf.nn.l2_loss(matrix)

    oracle = rows_one_at_a_time(model, x, [matrix])
    jacobian = tf.function(lambda: tfjac.per_example_jacobian(model(tf.constant(x)), matrix))()
    np.testing.assert_allclose(jacobian.numpy().reshape(oracle[0].shape), oracle[0], atol=1e-10)


class TestBadInput:
    """Every refusal says what is wrong, what was received, and what to do."""

    @pytest.fixture
    def weight(self):
        return tf.Variable(tf.ones([3, 2]))

    def test_eager_tensor(self, weight):
        with pytest.raises(ValueError, match=r"eager tensor.*callable.*Received"):
            tfjac.per_example_jacobian(tf.matmul(tf.ones([2, 3]), weight), weight)

    def test_neither_tensor_nor_callable(self, weight):
        with pytest.raises(TypeError, match=r"ys must be a tensor.*Received: 3"):
            tfjac.per_example_jacobian(3, weight)

    def test_tensor_of_another_graph(self, weight):
        leaked = []
        tf.function(lambda: leaked.append(tf.matmul(tf.ones([2, 3]), weight)) or 0.0)()
        with pytest.raises(ValueError, match=r"being traced.*Received"):
            tf.function(lambda: tfjac.per_example_jacobian(leaked[0], weight))()

    def test_integer(self, weight):
        with pytest.raises(TypeError, match=r"floating-point.*Received.*int32"):
            tfjac.per_example_jacobian(lambda: tf.cast(tf.matmul(tf.ones([2, 3]), weight), tf.int32), weight)

    def test_unconnected_variable(self, weight):
        other = tf.Variable(1.0, name="other")
        with pytest.raises(ValueError, match=r"does not depend on this variable.*Received.*other"):
            tfjac.per_example_jacobian(lambda: tf.matmul(tf.ones([2, 3]), weight), [weight, other])

    def test_behind_stop_gradient(self, weight):
        with pytest.raises(ValueError, match=r"StopGradient"):
            tfjac.per_example_jacobian(lambda: tf.stop_gradient(tf.matmul(tf.ones([2, 3]), weight)), weight)

    def test_scalar(self, weight):
        with pytest.raises(ValueError, match=r"axis 0.*Received.*\(\)"):
            tfjac.per_example_jacobian(lambda: tf.reduce_sum(weight), weight)

    def test_no_variables(self, weight):
        with pytest.raises(ValueError, match=r"at least one variable"):
            tfjac.jacobian_operator(lambda: tf.matmul(tf.ones([2, 3]), weight), [])

    def test_not_a_variable(self, weight):
        with pytest.raises(TypeError, match=r"tf.Variable or a keras.Variable.*Received"):
            tfjac.per_example_jacobian(lambda: tf.matmul(tf.ones([2, 3]), weight), 3.0)

    def test_losses_of_wrong_rank(self, weight):
        with pytest.raises(ValueError, match=r"shape \[n\].*Received"):
            tfjac.per_example_gradients(lambda: tf.matmul(tf.ones([2, 3]), weight), weight)

    def test_unknown_examples_mix(self, weight):
        with pytest.raises(ValueError, match=r"examples_mix.*'some'"):
            tfjac.per_example_jacobian(lambda: tf.matmul(tf.ones([2, 3]), weight), weight, examples_mix="some")
