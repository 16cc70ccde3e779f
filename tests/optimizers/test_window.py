"""A non-monotone window, against the rule written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import LevenbergMarquardt, NielsenDamping, Status, least_squares

from . import more_garbow_hillstrom

START = np.array([-1.2, 1.0])
X = tf.Variable(START)
OPTIONS = {"damping": NielsenDamping(1e-9), "scaling": "identity", "max_attempts": 50}


def rosenbrock(x):
    return 10 * (x[1] - x[0] ** 2), 1 - x[0]


def fit(**options):
    X.assign(START)
    return least_squares(lambda: tf.stack(rosenbrock(X)), X, **{**OPTIONS, **options})


def by_hand(size, steps):
    """Costs after each step: Nielsen's damping, Toint's ratio."""
    w, damping, growth = START, None, 2.0
    costs, promised, trace = [np.sum(np.square(rosenbrock(w))) / 2], [0.0], []
    for _ in range(steps):
        r, jacobian = np.array(rosenbrock(w)), np.array([[-20 * w[0], 10.0], [-1.0, 0.0]])
        gram, gradient, cost = jacobian.T @ jacobian, jacobian.T @ r, costs[-1]
        damping = 1e-9 * np.diag(gram).max() if damping is None else damping
        while True:
            p = np.linalg.solve(gram + damping * np.eye(2), -gradient)
            predicted = -(gradient @ p + p @ gram @ p / 2)
            new = np.sum(np.square(rosenbrock(w + p))) / 2
            last = slice(-size, None)
            highest = len(costs[last]) - 1 - np.argmax(costs[last][::-1])
            reference, since = costs[last][highest], sum(promised[last][highest + 1 :])
            ratio = max((cost - new) / predicted, (reference - new) / (predicted + since))
            if ratio > 1e-3:
                break
            damping, growth = damping * growth, 2 * growth
        w, damping, growth = w + p, damping * max(1 - (2 * np.clip(ratio, 0, 1) - 1) ** 3, 1 / 3), 2.0
        costs.append(new)
        promised.append(predicted)
        trace.append(new)
    return np.array(trace)


@pytest.mark.by_day(None)
def test_the_rule_by_hand():
    expected = by_hand(4, 9)
    found = fit(window=4, max_steps=9, ftol=0, xtol=0, gtol=0)
    np.testing.assert_allclose(found.history.cost, expected, rtol=1e-5, atol=1e-12)
    assert (np.diff(expected) > 0).any() and not np.allclose(by_hand(1, 9), expected), "a case that can fail"


@pytest.mark.by_day(None)
def test_it_ends_at_the_best_point_however_it_ends(tmp_path):
    start = np.sum(np.square(rosenbrock(START))) / 2
    rising = int(np.argmax(np.diff(by_hand(4, 9), prepend=start) > 0)) + 1
    ends = [
        {"max_steps": rising},
        {"callback": lambda state: state.steps == rising},
        {"max_steps": rising, "checkpoint": tmp_path / "run"},
    ]
    for options in ends:
        found = fit(window=4, **options)
        best = min(start, *found.history.cost)
        assert found.steps == rising and found.history.cost[-1] > best
        np.testing.assert_allclose(found.cost, best, rtol=1e-12)
        np.testing.assert_allclose(np.sum(np.square(rosenbrock(X.numpy()))) / 2, best, rtol=1e-12)
        np.testing.assert_array_equal(found.x, X.numpy())
    whole = fit(window=4)
    rest = fit(window=4, checkpoint=tmp_path / "run")
    assert rest.x.tobytes() == whole.x.tobytes() and rest.steps == whole.steps > rising
    assert whole.success and all(np.array_equal(*pair) for pair in zip(rest.history, whole.history))


@pytest.mark.by_day(None)
def test_it_does_not_stop_at_a_point_that_it_passed():
    """From the second step on all lead away, to a minimum that is higher: the best point so far is no minimum."""
    x = tf.Variable([5.888936618894665], dtype=tf.float64)

    def residuals():
        return [1.4918797178835632 * tf.sin(1.6119245168651655 * x + 5.627430651815936) - 2.431339929832998,
                0.054654444239146824 * (x + 2.12495035603226)]  # fmt: skip

    options = {"damping": "radius", "scaling": "auto", "initial_damping": 1e-9, "acceleration": "geodesic"}
    found = least_squares(residuals, x, window=5, **options)
    assert found.success and found.cost < 0.52311 and found.steps < 30
    assert (np.diff(found.history.cost) > 0).sum() >= 2, "a case that can fail"


def test_after_an_exception_in_a_callback_it_is_at_the_best_point():
    costs = []

    def fails(state):
        costs.append(state.cost)
        if len(costs) > 1 and costs[-1] > min(costs):
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fit(window=4, callback=fails)
    best = min(np.sum(np.square(rosenbrock(START))) / 2, *costs)
    np.testing.assert_allclose(np.sum(np.square(rosenbrock(X.numpy()))) / 2, best, rtol=1e-12)


@pytest.mark.by_day(None)
def test_in_a_graph():
    @tf.function(jit_compile=True)
    def run():
        X.assign(START)
        return least_squares(lambda: tf.stack(rosenbrock(X)), X, window=4, **OPTIONS)

    outcome = run()
    np.testing.assert_allclose(outcome.x, [1.0, 1.0], rtol=1e-6)
    assert Status(int(outcome.status)).converged


def test_bad_input():
    with pytest.raises(ValueError, match=r"integer of at least 1. Received: window=0"):
        fit(window=0)
    with pytest.raises((TypeError, ValueError), match=r"losses of other batches"):
        LevenbergMarquardt(window=3)


@pytest.mark.by_day(None)
def test_it_ends_where_the_cost_is_but_rounding():
    """At Bard's minimum, where the cost that was judged and the one that is linearised differ in the last digit."""
    function, start = more_garbow_hillstrom.PROBLEMS["Bard"]
    x = tf.Variable(np.array(start))
    tight = dict.fromkeys(("ftol", "xtol", "gtol"), 1e-15)
    found = least_squares(lambda: function(x), x, 100, damping="trust_region", window=5, time_limit=60, **tight)
    np.testing.assert_allclose(found.cost, 0.00821487 / 2, rtol=1e-5)
