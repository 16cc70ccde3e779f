"""Running cases: rows of Jacobians against one gradient per row, and examples that mix against finite differences."""

import functools
import warnings

import numpy as np
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import one_gradient_per_row
from tests.rules.case import N
from tfjac.graph import SHARED, ExamplesMix, analyse_examples, analyse_segments


@functools.cache
def expected(case):
    """Return ∂y/∂v for each weight, side by side, as an array `[n · m, p]`, by one `tape.gradient` per row."""
    x, weights = case.make()

    def rows():
        return tf.concat(one_gradient_per_row(lambda: case(x, *weights), weights), 1)

    return (tf.function(rows, jit_compile=True, autograph=False) if case.jit else rows)().numpy()


def check(*cases):
    """Check the rows for cases added up, each with weights of its own, so that one graph serves for many.

    Raises:
        AssertionError: naming the case; also where no rule makes a factor though one should.
        ExamplesMix: where the examples are said to mix.
    """
    oracle = [expected(case) for case in cases]
    dense, messages = _dense_rows(cases)
    refused = [message for message in messages if "no factor" in message]
    wanted = len(cases) if cases[0].refused else 0  # a refusal names its op, one of each case
    assert len(refused) == wanted, refused or f"{cases[0].name}: a rule took what it was to refuse"
    columns = np.cumsum([rows.shape[1] for rows in oracle])[:-1]
    for case, rows, wanted in zip(cases, np.split(dense, columns, 1), oracle):
        assert np.all(np.isfinite(wanted)), f"{case.name}: the oracle is not finite"
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(rows / scale, wanted / scale, rtol=0, atol=case.tolerance, err_msg=case.name)


def _dense_rows(cases):
    """The rows `[n · m, p]`, and the warnings that were given."""
    made = [case.make() for case in cases]
    operator = tfjac.segment_operator if cases[0].of_groups else tfjac.jacobian_operator

    @tf.function(jit_compile=cases[0].jit or None, autograph=False, input_signature=[[spec_of(case) for case in cases]])
    def rows(xs):
        y = tf.add_n([case(x, *weights) for case, x, (_, weights) in zip(cases, xs, made)])
        return operator(y, [v for _, weights in made for v in weights]).to_dense()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dense = rows([x for x, _ in made]).numpy()
    return dense, [str(warning.message) for warning in caught]


def spec_of(case):
    """What the trace knows of the examples."""
    return tf.TensorSpec([None if case.open else case.rows, *case.shape], tf.float64)


def check_mixes(case):
    """Check that examples mix, by differences, and that the analysis does not take them for independent.

    Where examples are groups of rows, which ops may move at will, the analysis is only to refuse.
    """
    x, weights = case.make()
    before = case(x, *weights).numpy()
    order = np.arange(len(before))
    moved = [case(tf.tensor_scatter_nd_add(x, [[n]], tf.ones([1, *case.shape], x.dtype)), *weights) for n in range(N)]
    others = [(before != after.numpy())[order != n].any() for n, after in enumerate(moved)]
    assert case.of_groups or any(others), f"{case.name}: no example depends on another"
    assert _is_said_to_mix(case), f"{case.name}: the examples mix, but are said to be apart"


def _is_said_to_mix(case):
    _, weights = case.make()
    answers = []
    analyse = functools.partial(analyse_segments, num_segments=N) if case.of_groups else analyse_examples

    @tf.function(jit_compile=case.jit or None, autograph=False)
    def trace(x):
        y = case(x, *weights)
        try:
            answers.append(analyse([x], [y]).axis(x) is SHARED)
        except ExamplesMix:
            answers.append(True)
        return y

    trace.get_concrete_function(spec_of(case))
    return all(answers)
