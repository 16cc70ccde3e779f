"""What is traced as few ops: one constant for each number, and the scalars of a loop as one vector for each dtype."""

import numpy as np
import tensorflow as tf

from tfjac.graph import cond, inline_calls, lean_function, shared_constants, while_loop


def _constants(graph):
    """Return the values of the constants of a graph, as often as they are there."""
    return [tf.get_static_value(op.outputs[0]).tolist() for op in graph.get_operations() if op.type == "Const"]


def test_an_integer_is_one_constant_and_a_number_that_may_be_differentiated_by_is_not():
    bodies = []

    def product(x):
        bodies.append(tf.compat.v1.get_default_graph())
        return tf.reduce_sum(x, axis=-1) * tf.reduce_max(x, axis=-1)

    @tf.function(autograph=False)
    def sums(x):
        before = tf.reduce_sum(x, axis=-1)
        with shared_constants():
            zeros = tf.zeros([3]), tf.zeros([3])
            with tf.control_dependencies([before]), tf.device("CPU:0"):
                ordered = tf.reduce_min(x, axis=-1)
            inside = tf.reduce_sum(x, axis=-1) + tf.reduce_max(x, axis=-1) + ordered
            slopes = tf.gradients(tf.reduce_sum(zeros[0] * x), zeros)
            branch = cond(tf.reduce_all(x > 0), lambda: product(x), lambda: inside)
        return before + tf.reduce_prod(x, axis=-1), inside, branch, slopes[0]

    x = tf.constant([[1.0, 2.0, 4.0], [3.0, 5.0, 2.0]])
    concrete = sums.get_concrete_function(x)
    values = x.numpy()
    inside = values.sum(1) + values.max(1) + values.min(1)
    expected = values.sum(1) + values.prod(1), inside, values.sum(1) * values.max(1), values.sum(0)
    for found, wanted in zip(sums(x), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert _constants(concrete.graph).count(-1) == 4  # before, inside, in order, and after
    assert _constants(concrete.graph).count([0.0] * 3) == 2
    assert _constants(bodies[0]).count(-1) == 1


def test_numbers_of_python_are_one_constant_and_those_that_were_asked_for_are_not():
    asked = []

    @lean_function
    def slopes(x):
        asked.extend([tf.constant(2.0), tf.constant(2.0), tf.ones([]), tf.zeros([])])
        held = tf.stack(asked)
        y = 2 * x * asked[0] + 2.0 * asked[1] + x**2.0 + tf.maximum(x, 0.0) * asked[3] + 1.0 * asked[2]
        return tf.gradients(y, asked), tf.gradients(y, x)[0], held

    found, slope, _ = slopes(tf.constant(3.0))
    np.testing.assert_allclose(found, [6, 2, 1, 3])
    np.testing.assert_allclose(slope, 4 + 6)
    assert _constants(asked[0].graph).count(2.0) == 3  # both that were asked for, and one of Python's


def test_a_loop_carries_its_scalars_as_one_vector_for_each_dtype():
    def run(x):
        def once(count, is_odd, state):
            total, product, each = state
            return count + 1, ~is_odd, (total + 1.5, product * 2.0, each + total)

        start = tf.constant(0), tf.constant(False), (x[0], x[1], x)
        return while_loop(lambda count, *_: count < 3, once, start)

    x = tf.constant([1.0, 3.0])
    traced = tf.function(run, autograph=False)
    for count, is_odd, (total, product, each) in (run(x), traced(x)):
        assert (int(count), bool(is_odd)) == (3, True)
        np.testing.assert_allclose([total, product], [5.5, 24.0])
        np.testing.assert_allclose(each, [8.5, 10.5])

    library = traced.get_concrete_function(x).graph.as_graph_def().library.function
    (loop,) = (node for function in library for node in function.node_def if node.op in ("While", "StatelessWhile"))
    carried = [(tf.as_dtype(dtype), len(shape.dim)) for dtype, shape in zip(*_carried(loop))]
    state = [each for each in carried if each != (tf.int32, 0)]  # besides what TensorFlow counts
    assert state == [(tf.bool, 0), (tf.float32, 1), (tf.float32, 1)]


def test_branches_hand_on_their_scalars_as_one_vector_for_each_dtype():
    def run(x):
        first = lambda: (x[0], x[1] * 2, x, True, ())  # noqa: E731
        return cond(x[0] > 0, first, lambda: (3.0 * x[1], 4.0, x + 1, False, ()))

    traced = tf.function(run, autograph=False)
    for x, expected in (([1.0, 3.0], (1, 6, [1, 3], True)), ([-1.0, 3.0], (9, 4, [0, 4], False))):
        for found in (run(tf.constant(x)), traced(tf.constant(x))):
            assert found[-1] == ()
            for one, other in zip(found, expected):
                np.testing.assert_allclose(one, other)
    ops = traced.get_concrete_function(tf.constant([1.0, 3.0])).graph.get_operations()
    (choice,) = (op for op in ops if op.type in ("If", "StatelessIf"))
    assert sorted(output.shape.rank for output in choice.outputs) == [0, 1, 1]


def _carried(loop):
    """Return dtypes and shapes of what a loop carries."""
    return loop.attr["T"].list.type, loop.attr["output_shapes"].list.shape


def test_a_size_is_one_op():
    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32)])
    def function(x, numbers):
        with shared_constants():
            sizes = [tf.shape(x)[0] * 2, tf.shape(x)[0] * 2, tf.shape(x)[0] * 3, tf.shape(numbers)[0] * 2]
            products = [x[:, 0] * x[:, 1], x[:, 0] * x[:, 1]]
        return sizes, products

    kinds = [op.type for op in function.get_concrete_function().graph.get_operations()]
    assert (kinds.count("Shape"), kinds.count("Mul")) == (2, 3 + 2)
    sizes, products = function(tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tf.constant([1, 2, 3]))
    assert [int(size) for size in sizes] == [4, 4, 6, 6]
    np.testing.assert_allclose(products, [[2, 20]] * 2)


def test_a_root_that_no_gradient_reaches_leaves_other_products_alone():
    """Those by which zero wins take the time of several, as in each step on the scaled residuals of a cross-entropy."""

    def types_of_ops(read):
        with tf.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(tf.float64, [3])
            values = x * x * tf.sqrt(read(x)) + tf.math.squared_difference(x, tf.constant(1.0, tf.float64))
            tf.gradients(inline_calls([values], depends_on=[x]), x)
        return {op.type for op in graph.get_operations()}

    assert "MulNoNan" in types_of_ops(tf.identity)
    assert "MulNoNan" not in types_of_ops(tf.stop_gradient)
