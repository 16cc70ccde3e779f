"""The equations of the benchmark: their solutions solve them, and the benchmark runs; no time is asserted."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import equations, solved_equations

EXACT = {
    "poisson": (lambda: equations.poisson(2), lambda x: tf.sin(np.pi * x[0]) * tf.sin(np.pi * x[1])),
    "poisson in five dimensions": (lambda: equations.poisson(5), lambda x: tf.add_n([tf.cos(np.pi * y) for y in x])),
    "helmholtz": (equations.helmholtz, lambda x: tf.sin(np.pi * x[0]) * tf.sin(4 * np.pi * x[1])),
    "heat": (equations.heat, lambda x: tf.exp(-(np.pi**2) / 4 * x[1]) * tf.sin(np.pi * x[0])),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", EXACT)
def test_residuals_are_zero_for_the_exact_solution(name):
    make, formula = EXACT[name]
    equation = make()

    @tf.function
    def residuals():
        def at(points):
            x = tf.unstack(tf.constant(points), axis=1)
            return formula(x), lambda y, k: tf.gradients(y, x[k])[0]

        return list(equation.residuals(at))

    for block in residuals():
        np.testing.assert_allclose(block, 0, atol=1e-11)
    points = equation.points(50)
    np.testing.assert_allclose(equation.solution(points), formula(list(points.T)), atol=1e-14)


SOLUTIONS = {
    "burgers": (equations.burgers_solution, lambda u, x, xx: -u * x + equations.VISCOSITY * xx),
    "allen-cahn": (equations.allen_cahn_solution, lambda u, x, xx: 1e-4 * xx + 5 * u - 5 * u**3),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_without_a_formula_solve_their_equations(name):
    """By central differences, where the solution is smooth."""
    solution, right = SOLUTIONS[name]
    points, step = np.random.default_rng(0).uniform((0.3, 0.2), (0.8, 0.9), (50, 2)), 1e-3
    u = solution(points)
    before, after = (solution(points + sign * np.array([0, step])) for sign in (-1, 1))
    left, other = (solution(points + sign * np.array([step, 0])) for sign in (-1, 1))
    slope, bent = (other - left) / (2 * step), (left - 2 * u + other) / step**2
    np.testing.assert_allclose((after - before) / (2 * step), right(u, slope, bent), atol=1e-3)


def test_curves_are_read():
    curve = [(1.0, 0.5), (2.0, 0.1), (3.0, 0.2)]
    assert solved_equations.seconds_to(curve, 0.15) == 2.0 and solved_equations.seconds_to(curve, 0.05) is None
    assert [solved_equations.error_at(curve, seconds) for seconds in (0.5, 1.0, 2.9, 9.0)] == [0.5, 0.5, 0.1, 0.2]
    dense = [(1 + k / 1000, 1 / (1 + k)) for k in range(100)]
    thin = solved_equations.thinned(dense)
    assert len(thin) == 6 and thin[0] == [1.0, 1.0] and thin[-1] == [1.099, 0.01]


@pytest.mark.by_day(None)
def test_the_quick_mode_runs(capsys, monkeypatch):
    monkeypatch.setattr(solved_equations, "unit", lambda: 1.0)
    assert solved_equations.main(["--quick", "--equation", "burgers, unknown coefficients"]) == 0
    assert "| burgers, unknown coefficients |" in capsys.readouterr().out
