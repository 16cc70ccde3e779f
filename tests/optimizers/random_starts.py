"""Minimisations from random starts, and what must hold of each: nothing raises, no NaN is left in a variable, and the
status is true."""

import numpy as np
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, Status

KINDS = ("free", "bounds", "robust")
SCALE = 0.1
"""Of Cauchy's loss."""


class RandomStarts:
    """One problem, minimised from anywhere.

    Args:
        function: of a tensor `[p]` in float64, its residuals.
        start: `[p]`, around which starts are drawn.
        kind: "free", "bounds" (around the start), or "robust" (Cauchy's loss).
        max_steps: integer.
    """

    def __init__(self, function, start, kind, max_steps=150):
        self.function, self.start, self.kind, self.max_steps = function, np.array(start), kind, max_steps
        self.lower, self.upper = self.start - 2 * np.abs(self.start) - 1, self.start + np.abs(self.start) + 0.5
        options = {"free": {}, "bounds": {"bounds": (self.lower, self.upper)}}
        options["robust"] = {"loss": "cauchy", "loss_scale": SCALE}
        self._x = tf.Variable(self.start)
        self._problem = LeastSquaresProblem(lambda: function(self._x), self._x, max_steps=max_steps, **options[kind])

    def run(self, spread, rng):
        """Minimise from a start that far away, and return the result; raise AssertionError where it is not true."""
        first = self.start * rng.normal(scale=spread, size=self.start.size) + rng.normal(size=self.start.size)
        first = np.clip(first, self.lower, self.upper) if self.kind == "bounds" else first
        self._x.assign(first)
        result = self._problem.solve()
        found = self._x.numpy()
        assert np.isfinite(found).all(), f"variables that are not finite: {found}"
        assert (result.history.reduction[result.history.accepted] > 0).all(), "an accepted step that raised the cost"
        assert self.kind != "bounds" or ((self.lower <= found) & (found <= self.upper)).all(), f"out of bounds: {found}"
        np.testing.assert_array_equal(result.x, found)
        self._check_status(result)
        return result

    def _check_status(self, result):
        """Hold what the status claims against the residuals and their gradient, taken by a tape."""
        cost, gradient, residuals = self._evaluate(result.x)
        if result.status is Status.NOT_FINITE:
            with np.errstate(over="ignore"):
                assert not (np.isfinite(residuals**2).all() and np.isfinite(gradient).all()), "it is finite"
            return
        np.testing.assert_allclose(result.cost, cost, rtol=1e-9, atol=1e-20)
        norms = np.linalg.norm(result.jacobian(), axis=0)
        known = np.finfo(float).eps * norms @ np.abs(result.x)  # residuals are, where their terms cancel, to no more
        rounding = norms.max() * (1e-8 * np.linalg.norm(residuals) + known)  # the terms of Jᵀr may cancel
        np.testing.assert_allclose(result.gradient_norm, np.abs(gradient).max(), rtol=1e-5, atol=rounding)
        assert result.status is not Status.MAX_STEPS or result.steps == self.max_steps
        assert result.success == result.status.converged

    def _evaluate(self, position):
        """Return the cost, its gradient, zero where a bound holds a parameter against it, and the residuals."""
        x = tf.constant(position)
        with tf.GradientTape() as tape:
            tape.watch(x)
            r = self.function(x)
            squares = SCALE**2 * tf.math.log1p((r / SCALE) ** 2) if self.kind == "robust" else r**2
            cost = tf.reduce_sum(squares) / 2
        gradient = tape.gradient(cost, x).numpy()
        if self.kind == "bounds":
            held = (position <= self.lower) & (gradient > 0) | (position >= self.upper) & (gradient < 0)
            gradient = np.where(held, 0, gradient)
        return cost.numpy(), gradient, r.numpy()
