"""Every rule of sparsity against differences, or one tape.gradient per row: what it finds, and that it is needed."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import one_gradient_per_row
from tests.jacobians.sparsity_cases import CASES
from tfjac.jacobians.sparsity.rules import index_set_rules


def drawn(case, seed):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.uniform(case.low, case.high, case.shape))


def differences(function, x, step=1e-5):
    """∂f/∂x by central differences."""
    moves = step * np.eye(x.shape.num_elements()).reshape(-1, *x.shape)
    return np.stack([np.ravel(function(x + move) - function(x - move)) / (2 * step) for move in moves], 1)


def rows(function, x):
    """∂f/∂x by one `tape.gradient` per row."""
    return one_gradient_per_row(lambda: function(x), [x])[0].numpy()


@functools.cache
def expected(name):
    """The dense Jacobians at two values of x."""
    case = CASES[name]
    in_graph = tf.function(case.function, autograph=False)  # once for both, and for all differences
    return [
        rows(case.function, x) if case.by_rows else differences(in_graph, x)
        for x in (drawn(case, seed) for seed in (1, 2))
    ]


@functools.cache
def traced(name):
    """A case in a graph: the concrete function, and y and x in it."""
    case, ends = CASES[name], []
    variable = tf.Variable(drawn(case, 1)) if case.variable else None

    @tf.function(autograph=False)
    def function(x):
        x = x if variable is None else variable
        ends[:] = [case.function(x), x]
        return ends[0]

    return function.get_concrete_function(drawn(case, 1)), *ends


def pattern_of(name):
    concrete, y, x = traced(name)
    with concrete.graph.as_default():
        return tfjac.sparsity(y, x)


def entries_of(name):
    """The entries at two values of x."""
    case = CASES[name]
    if not case.variable:
        jacobian = tf.function(lambda x: tfjac.sparse_jacobian(case.function(x), x).values, autograph=False)
        return [jacobian(drawn(case, seed)).numpy() for seed in (1, 2)]
    x, entries = tf.Variable(drawn(case, 1)), []
    jacobian = tf.function(lambda: tfjac.sparse_jacobian(lambda: case.function(x), x).values, autograph=False)
    for seed in (1, 2):
        x.assign(drawn(case, seed))
        entries.append(jacobian().numpy())
    return entries


def rules_met(name, monkeypatch, change=lambda sets: sets, types=None):
    """The pattern of a case, and the types of ops whose rules were asked, with what rules of `types` give changed."""
    met = set()

    def recording(op_type, function):
        def rule(step):
            result = function(step)
            met.add(op_type)
            return [change(sets) for sets in result] if types is None or op_type in types else result

        return rule

    with monkeypatch.context() as patch:
        for op_type, (function, covers) in list(index_set_rules._RULES.items()):
            patch.setitem(index_set_rules._RULES, op_type, (recording(op_type, function), covers))
        return pattern_of(name), met


@functools.cache
def pattern_and_rules(name):
    with pytest.MonkeyPatch.context() as patch:
        return rules_met(name, patch)


@pytest.mark.parametrize("name", CASES)
def test_rules(name):
    """Values are right for two x, nothing is missing from the pattern, and nothing is in it that need not be."""
    case, (pattern, _) = CASES[name], pattern_and_rules(name)
    found = pattern.csr().toarray()
    tolerance = 1e-5 if case.by_rows else 1e-7
    for entries, jacobian in zip(entries_of(name), expected(name)):
        assert not (~found & (np.abs(jacobian) > tolerance)).any()
        values = pattern.csr(entries).toarray()
        np.testing.assert_allclose(values, jacobian, rtol=10 * tolerance, atol=tolerance)
    assert pattern.opaque_ops == ()
    needed = np.any([np.abs(jacobian) > tolerance for jacobian in expected(name)], 0)
    assert bool(case.larger) == (pattern.num_entries > np.count_nonzero(needed)), case.larger


def test_every_rule_is_exercised():
    met = set().union(*(pattern_and_rules(name)[1] for name in CASES))
    assert set(index_set_rules._RULES) - met == set()
