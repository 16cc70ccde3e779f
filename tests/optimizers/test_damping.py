"""Damping and scaling, number by number."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from tests.optimizers import more_garbow_hillstrom as mgh
from tests.optimizers import nist
from tfjac.optimizers import (
    AutoScaling,
    IdentityScaling,
    LeastSquaresProblem,
    LevenbergMarquardt,
    MarquardtScaling,
    MoreScaling,
    MultiplicativeDamping,
    NielsenDamping,
    RadiusDamping,
    TrustRegionDamping,
    least_squares,
)
from tfjac.steps.damping import Competition, Proposal, Verdict, get_damping
from tfjac.steps.damping.scaling import get_scaling

EPS = np.finfo(np.float64).eps
ONE = tf.constant(1.0, tf.float64)


def proposal(damping, length=1.0):
    scalars = (tf.constant(value, tf.float64) for value in (damping, length, 1.0))
    return Proposal(tf.zeros([1], tf.float64), tf.constant(True), *scalars)


def verdict(ratio, slope=-1.0, reduction=None, cost=4.0):
    reduction = ratio if reduction is None else reduction
    numbers = (tf.constant(value, tf.float64) for value in (ratio, slope, reduction, cost))
    return Verdict(tf.constant(ratio > 1e-3), *numbers)


def numbers(state):
    return [float(value) for value in state]


@pytest.mark.core
def test_nielsen_by_the_formula():
    damping = NielsenDamping(initial=1e-2)
    curvature = tf.constant(50.0, tf.float64)
    state = damping.resume((tf.zeros([], tf.float64),) * 2, curvature, ONE)
    assert numbers(state) == [0.5, 2.0]
    expected, growth = 0.5, 2.0
    for ratio in (0.9, 0.6, -1.0, 0.0, -np.inf, 0.2, 1.0, 5.0):
        state = damping.update(state, proposal(expected), verdict(ratio), curvature)
        if ratio > 1e-3:
            expected, growth = expected * max(1 / 3, 1 - (2 * min(ratio, 1) - 1) ** 3), 2.0
        else:
            expected, growth = expected * growth, growth * 2
        np.testing.assert_allclose(numbers(state), [expected, growth])


@pytest.mark.core
def test_multiplicative_by_the_formula():
    damping = MultiplicativeDamping(initial=1e-2, decrease=0.2, increase=5)
    state = damping.update((ONE,), proposal(1.0), verdict(0.5), ONE)
    np.testing.assert_allclose(numbers(state), [0.2])
    np.testing.assert_allclose(numbers(damping.update(state, proposal(0.2), verdict(-1.0), ONE)), [1.0])


@pytest.mark.by_day(None)
@hypothesis.given(
    ratios=strategies.lists(strategies.sampled_from([-np.inf, -1.0, 0.0, 0.3, 1.0, 100.0]), min_size=80, max_size=80),
    damping=strategies.sampled_from([NielsenDamping(), MultiplicativeDamping(), TrustRegionDamping(), RadiusDamping()]),
    curvature=strategies.sampled_from([1e-20, 1.0, 1e20]),
)
@hypothesis.settings(max_examples=10)
def test_bounded_whatever_happens(ratios, damping, curvature):
    curvature = tf.constant(curvature, tf.float64)
    state = damping.resume((tf.zeros([], tf.float64),) * len(damping.state_names), curvature, ONE)
    for ratio in ratios:
        value = float(state[damping.state_names.index("damping")])
        assert EPS**2 * curvature <= value * (1 + EPS) and value <= curvature / EPS
        state = damping.update(state, proposal(value), verdict(ratio), curvature)
        assert np.isfinite(numbers(state)).all() and min(numbers(state)[:2]) > 0


SPECTRUM = np.array([1e-3, 0.1, 1.0, 20.0])
GRADIENT = np.array([1.0, -2.0, 3.0, 4.0])


def solver_of(spectrum):
    """Return the function from λ `[...]` to the damped step of a diagonal system with the diagonal `[..., 4]`."""

    def solve(damping):
        step = -tf.constant(GRADIENT) / (spectrum + damping[..., tf.newaxis])
        slope = tf.reduce_sum(GRADIENT * step, axis=-1)
        return Proposal(step, tf.math.is_finite(damping), damping, tf.norm(step, axis=-1), slope)

    return solve


def solve(damping):
    """The damped step of one system."""
    return solver_of(tf.constant(SPECTRUM))(damping)


@pytest.mark.core
@pytest.mark.parametrize("radius", [1e-3, 0.1, 1.0, 10.0, 500.0])
@pytest.mark.parametrize("guess", [1e-12, 1e-3, 1e6])
def test_trust_region_fills_the_radius(radius, guess):
    state = (tf.constant(radius, tf.float64), tf.constant(guess, tf.float64))
    found = TrustRegionDamping().propose(state, solve, tf.constant(20.0, tf.float64))
    assert abs(float(found.length) - radius) <= 0.1 * radius
    np.testing.assert_allclose(found.step, solve(found.damping).step)


@pytest.mark.core
def test_trust_region_takes_the_gauss_newton_step_where_it_fits():
    found = TrustRegionDamping().propose((tf.constant(1e6, tf.float64), ONE), solve, tf.constant(20.0, tf.float64))
    np.testing.assert_allclose(found.step, -GRADIENT / SPECTRUM, rtol=1e-9)


def updated_by(damping):
    """Return the function from a verdict on a step of length 1.9 to the radius, 2 before, and λ, 1 before."""
    state = (ONE * 2, ONE, 0 * ONE)[: len(damping.state_names)]
    return lambda *args: numbers(damping.update(state, proposal(1.0, length=1.9), verdict(*args), ONE))


@pytest.mark.core
def test_trust_region_radius_by_the_formula():
    after = updated_by(TrustRegionDamping())
    np.testing.assert_allclose(after(0.9), [3.8, 0.5])
    np.testing.assert_allclose(after(0.5), [2.0, 1.0])
    np.testing.assert_allclose(after(0.1), [1.0, 2.0])
    shrink = 0.5 * -1.0 / (-1.0 - 3.0)
    np.testing.assert_allclose(after(-2.0, -1.0, -3.0), [2 * shrink, 1 / shrink])
    np.testing.assert_allclose(after(-np.inf, -1.0, -np.inf), [0.2, 10.0])


@pytest.mark.parametrize("radius", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("guess", [1e-3, 1e3])
def test_a_radius_is_met_within_its_slack(radius, guess):
    state = (tf.constant(radius, tf.float64), tf.constant(guess, tf.float64), 0 * ONE)
    found = RadiusDamping().propose(state, solve, tf.constant(20.0, tf.float64))
    assert radius / 1.5 <= float(found.length) <= 1.5 * radius
    np.testing.assert_allclose(found.step, solve(found.damping).step)


@pytest.mark.parametrize("damping", [RadiusDamping(), TrustRegionDamping()])
def test_the_search_of_one_fit_does_not_depend_on_other_fits(damping):
    """The first fit ends at once, the second where a smaller λ gains nothing, the others search on."""
    spectra = tf.constant([SPECTRUM, 10 + SPECTRUM, SPECTRUM, 1e-3 * SPECTRUM, SPECTRUM])

    radii, guesses = np.array([2.0, 5.0, 1e-4, 40.0, 1e3]), np.array([1.0, 1e-2, 1e-3, 1e3, 1e3])
    state = [tf.constant(value) for value in (radii, guesses, 0 * radii)[: len(damping.state_names)]]
    found = damping.propose(tuple(state), solver_of(spectra), tf.fill([5], ONE * 20))
    for k, each in enumerate(zip(*state)):
        alone = damping.propose(each, solver_of(spectra[k]), ONE * 20)
        np.testing.assert_allclose(float(found.damping[k]), float(alone.damping), rtol=1e-12)
        np.testing.assert_allclose(found.step[k], alone.step, rtol=1e-12)


def test_a_step_that_fits_is_solved_for_once():
    solved = []

    def counted(damping):
        solved.append(float(damping))
        return solve(damping)

    length = float(solve(ONE).length)
    curvature = tf.constant(20.0, tf.float64)
    RadiusDamping().propose((tf.constant(1.2 * length, tf.float64), ONE, 0 * ONE), counted, curvature)
    RadiusDamping().propose((0 * ONE, ONE, 0 * ONE), counted, curvature)  # there is no radius at first
    assert solved == [1.0, 1.0]


@hypothesis.given(
    spectrum=strategies.lists(strategies.floats(1e-12, 1e3), min_size=4, max_size=4),
    damping=strategies.floats(1e-9, 1e3),
    radius=strategies.floats(1e-3, 1e9),
)
def test_a_search_that_is_left_out_gains_less_than_a_hundredth(spectrum, damping, radius):
    system = solver_of(tf.constant(np.array(spectrum)))
    solved = []

    def counted(damping):
        solved.append(system(damping))
        return solved[-1]

    state = tf.constant(radius, tf.float64), tf.constant(damping, tf.float64), 0 * ONE
    rule, curvature = RadiusDamping(), tf.constant(1e3, tf.float64)
    found = rule.propose(state, counted, curvature)
    if (
        len(solved) < rule.max_solves
        and float(found.length) * 1.5 < radius
        and found.damping > rule.bounds(curvature)[0]
    ):
        smaller = system(found.damping * max(float(found.length) / radius, 0.01) ** 1.5)

        def promise(step):
            return -float(tf.reduce_sum((GRADIENT + np.array(spectrum) * step / 2) * step))

        assert promise(smaller.step) <= 1.01 * promise(found.step) * (1 + 1e-9)


def test_radius_by_the_formula():
    after = updated_by(RadiusDamping())
    np.testing.assert_allclose(after(0.9), [3.8, 0.5, 0])
    np.testing.assert_allclose(after(0.5), [2.0, 1.0, 1])
    np.testing.assert_allclose(after(0.2), [2.0, 1.0, 1])
    np.testing.assert_allclose(after(0.1), [0.95, 2.0, 1])
    shrink = 0.5 * -1.0 / (-1.0 - 3.0)
    np.testing.assert_allclose(after(-2.0, -1.0, -3.0), [1.9 * shrink, 1 / shrink, 0])


@pytest.mark.parametrize("ratios, factors", [([0.3] * 6, [1, 1, 2, 1, 1, 2]), ([0.2] * 4, [1] * 4),
                                             ([0.3, 0.3, 0.9, 0.3, 0.3, 0.3], [1, 1, 2, 1, 1, 2]),
                                             ([0.3, 0.3, 0.0, 0.3, 0.3, 0.3], [1, 1, 0.5, 1, 1, 2])])  # fmt: skip
def test_a_radius_that_has_waited_for_three_steps_grows(ratios, factors):
    damping, state = RadiusDamping(), (ONE, ONE, 0 * ONE)
    for ratio, factor in zip(ratios, factors):
        radius = float(state[0])
        state = damping.update(state, proposal(1.0, length=radius), verdict(ratio), ONE)
        np.testing.assert_allclose(float(state[0]), radius * factor)


def test_a_first_damping_that_the_user_names_is_kept():
    for rule in (RadiusDamping(), Competition(RadiusDamping())):
        started, named = rule.starting_with(1e-9), rule.starting_with(1e-9).starting_with(1e-2)
        for damping, expected in ((rule, 1e-3), (started, 1e-9), (named, 1e-9), (rule.starting_with(None), 1e-3)):
            np.testing.assert_allclose(numbers(damping.start(ONE, ONE))[:2], [0.0, expected])
    assert NielsenDamping().starting_with(1e-9).initial == 1e-3


def test_a_competition_is_won_by_what_lowers_the_cost_more():
    """F is divided by 2 with D = I and by 8 with the other D; then, as that is in use, by 1.01."""
    rule, curvature, scaling = Competition(NielsenDamping()), ONE, tf.constant([3.0])
    state, used = (tf.zeros([], tf.float64),) * len(rule.state_names), []
    for _ in range(14):
        metric = float(rule.metric(state, scaling)[0])
        used.append(metric)
        part = 0.5 if metric == 1 else 7 / 8 if len(used) < 6 else 0.01
        state = rule.resume(state, curvature, ONE)
        state = rule.update(state, proposal(float(state[0])), verdict(0.5, -1.0, 4 * part), curvature)
    assert used == [1, 3, 3, 1, 3, 3, 1, 1, 3, 1, 1, 3, 1, 1]


def test_a_metric_is_given_up_after_eight_rejected_attempts_in_a_row():
    """λ is doubled by each, and by twice as much by the next; the other metric begins with its own, and is not left."""
    rule, scaling, metrics = Competition(NielsenDamping()), tf.constant([3.0]), []
    state = (tf.zeros([], tf.float64),) * len(rule.state_names)
    for attempt in range(20):
        state = rule.resume(state, ONE, ONE)
        metrics.append(float(rule.metric(state, scaling)[0]))
        before, state = state, rule.update(state, proposal(float(state[0])), verdict(-1.0), ONE)
        assert bool(rule.remeasures(before, state)) == (attempt == 7)
        if attempt < 7:
            np.testing.assert_allclose(float(state[0]), 1e-3 * 2 ** ((attempt + 1) * (attempt + 2) / 2))
    assert metrics == [1] * 8 + [3] * 12


@pytest.mark.core
@pytest.mark.parametrize("damping", ["nielsen", "multiplicative", "trust_region", "radius"])
def test_the_units_of_the_residuals_do_not_matter(damping):
    rate, x = tf.Variable(0.5, dtype=tf.float64), np.linspace(0, 3, 20)
    residuals = lambda scale: scale * (tf.exp(-x / rate) - np.exp(-x / 1.3))  # noqa: E731
    problem = LeastSquaresProblem(residuals, rate, damping=damping)
    for scale in (1e100, 1e35, 1e-35, 1e-100):
        rate.assign(0.5)
        result = problem.solve(scale)
        assert result.success and result.steps < 20
        np.testing.assert_allclose(result.x, 1.3, rtol=1e-6)


@pytest.mark.core
def test_scalings():
    diagonal, earlier = np.array([4.0, 0.0, 1.0]), np.array([1.0, 0.0, 9.0])
    np.testing.assert_array_equal(IdentityScaling().update(earlier, tf.constant(diagonal)), [1, 1, 1])
    np.testing.assert_array_equal(MarquardtScaling().update(earlier, tf.constant(diagonal)), [4, 1, 1])
    np.testing.assert_array_equal(MoreScaling().update(earlier, tf.constant(diagonal)), [4, 1, 9])
    np.testing.assert_array_equal(AutoScaling().update(earlier, tf.constant(diagonal)), [4, 1, 9 / 4])


@pytest.mark.core
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NielsenDamping(initial=0), "initial must be a positive number. Received: initial=0"),
        (lambda: NielsenDamping(minimum=2, maximum=1), "minimum must be below maximum"),
        (lambda: MultiplicativeDamping(decrease=2), "decrease must be a number between 0 and 1. Received: decrease=2"),
        (lambda: MultiplicativeDamping(increase=0.5), "increase must be larger than 1"),
        (
            lambda: get_damping("newton"),
            "Unknown damping; choose one of 'radius', 'trust_region', 'nielsen', 'mult",
        ),
        (lambda: get_scaling("unit"), "Unknown scaling; .*Received: scaling='unit'"),
    ],
)
def test_bad_options(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_options_of_the_wrong_type():
    with pytest.raises(TypeError, match=r"Received: damping=0.1 of type float"):
        get_damping(0.1)


BOXBOD = nist.load("BoxBOD")
FAR = {
    "BoxBOD": (BOXBOD.residuals, BOXBOD.starts[0], BOXBOD.certified),
    "MGH10": (mgh.meyer, [2.0, 400000.0, 25000.0], [5.6096364710e-03, 6.1813463463e03, 3.4522363462e02]),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", FAR)
def test_the_default_finds_certified_parameters_from_far(name):
    """NIST's first starts, from which Nielsen's rule finds neither within so many steps."""
    function, start, certified = FAR[name]
    x = tf.Variable(start, dtype=tf.float64)
    result = least_squares(lambda: function(x), x, ftol=1e-15, xtol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(result.x, certified, rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.parametrize(("size", "rules"), [(256, ("trust_region", "more")), (257, ("radius", "auto"))])
def test_the_default_rules_go_by_the_number_of_parameters(size, rules):
    x, scale = tf.Variable(np.zeros(size)), np.linspace(1, 2, size)

    def history(*rules):
        x.assign(np.zeros(size))
        options = dict(zip(("damping", "scaling"), rules))
        return least_squares(lambda: tf.exp(scale * x) - 3.0, x, max_steps=4, **options).history

    np.testing.assert_array_equal(history().damping, history(*rules).damping)
    for other in (("radius", "more"), ("trust_region", "auto")):
        assert not np.array_equal(history().damping, history(*other).damping)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("rule", ["radius", "nielsen", "multiplicative"])
def test_the_first_damping_is_an_argument(rule):
    """One step of λ₀ = τ·max diag JᵀJ from the normal equations, in NumPy, and none of its successors."""
    design, target = np.vander(np.linspace(0, 1, 9), 3), np.linspace(2, 3, 9) ** 2
    damped = design.T @ design + 0.7 * np.max(np.sum(design**2, axis=0)) * np.eye(3)
    expected = np.linalg.solve(damped, design.T @ target)
    x = tf.Variable(np.zeros(3))
    options = {"damping": rule, "initial_damping": 0.7, "scaling": "identity"}
    least_squares(lambda: tf.linalg.matvec(design, x) - target, x, max_steps=1, **options)
    np.testing.assert_allclose(x, expected, rtol=1e-10)
    optimizer = LevenbergMarquardt.from_config(LevenbergMarquardt(**options).get_config())
    x.assign(np.zeros(3))
    optimizer.minimize(lambda: tf.linalg.matvec(design, x) - target, [x])
    np.testing.assert_allclose(x, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["lam", "mu", "initial_lambda", "lambda_", "lambda"])
@pytest.mark.parametrize("call", [lambda **o: least_squares(lambda: None, [], **o), LevenbergMarquardt])
def test_what_others_call_the_first_damping_suggests_ours(name, call):
    with pytest.raises(TypeError, match=rf"Did you mean 'initial_damping'\? Received: {name}=0.1"):
        call(**{name: 0.1})


def test_the_first_damping_does_not_go_with_everything():
    with pytest.raises(ValueError, match=r"begins with a radius.*'radius'.*Received: initial_damping=0.1"):
        LevenbergMarquardt("trust_region", initial_damping=0.1)
    with pytest.raises(ValueError, match=r"NielsenDamping\(initial=.*Received: initial_damping=0.1"):
        LevenbergMarquardt(NielsenDamping(), initial_damping=0.1)
    with pytest.raises(ValueError, match=r"initial_damping must be a positive number.*initial_damping=-1"):
        LevenbergMarquardt(initial_damping=-1)
    with pytest.raises(TypeError, match=r"A number is the first λ: initial_damping=….*no learning rate.*damping=0.01"):
        LevenbergMarquardt(0.01)
    with pytest.raises(TypeError, match=r"one method.*leave method out.*Received: method='trf'"):
        least_squares(lambda: None, [], method="trf")
