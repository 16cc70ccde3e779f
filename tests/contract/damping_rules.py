"""λ and D in NumPy, by the rules of docs/damping.md: what the oracle damps its steps with."""

from typing import NamedTuple

import numpy as np

EPS, TINY, HUGE = (getattr(np.finfo(np.float64), name) for name in ("eps", "tiny", "max"))


class Verdict(NamedTuple):
    accepted: bool
    ratio: float
    slope: float
    reduction: float


def limits(curvature):
    """Return the smallest and the largest λ."""
    curvature = curvature if curvature > 0 else 1.0
    return max(EPS**2 * curvature, TINY), min(curvature / EPS, HUGE)


class Multiplicative:
    """λ times 0.1 after success, times 10 after failure."""

    def start(self, curvature, length):
        self.value = 1e-3 * curvature

    def propose(self, solve, curvature):
        return solve(float(np.clip(self.value, *limits(curvature))))

    def update(self, proposal, verdict, curvature):
        self.value = float(np.clip(proposal[1] * (0.1 if verdict.accepted else 10), *limits(curvature)))


class Nielsen(Multiplicative):
    """λ·max(⅓, 1 − (2ρ − 1)³) after success, λν after failure, with ν doubled."""

    def start(self, curvature, length):
        super().start(curvature, length)
        self.growth = 2.0

    def update(self, proposal, verdict, curvature):
        surprise = 2 * np.clip(verdict.ratio, 0, 1) - 1
        factor = max(1 - surprise**3, 1 / 3) if verdict.accepted else self.growth
        self.growth = 2.0 if verdict.accepted else min(2 * self.growth, 2.0**16)
        self.value = float(np.clip(proposal[1] * factor, *limits(curvature)))


class TrustRegion:
    """‖D^½ p‖ = Δ to within a tenth, by the secant method on 1/‖D^½ p‖ in a bracket."""

    def start(self, curvature, length):
        self.radius = length if length > 0 else HUGE / 16
        self.value = 1e-3 * curvature

    def propose(self, solve, curvature):
        low, high = limits(curvature)
        newton = solve(low)
        if newton[2] <= 1.1 * self.radius:
            return newton
        lower, upper, count, last = low, high, 1, (0.0, 0.0)
        trial = solve(float(np.clip(self.value, low, high)))
        while count < 12 and lower < upper and abs(trial[2] - self.radius) > 0.1 * self.radius:
            if trial[2] > self.radius:
                lower = trial[1]
            else:
                upper = trial[1]
            inverse, old = 1 / trial[2], (1 / last[1] if last[1] else 0.0)
            slope = (inverse - old) / (trial[1] - last[0])
            guess = trial[1] + (1 / self.radius - inverse) / slope if slope else np.nan
            guess = guess if lower < guess < upper else np.sqrt(lower) * np.sqrt(upper)
            last, trial, count = (trial[1], trial[2]), solve(guess), count + 1
        return trial

    def update(self, proposal, verdict, curvature):
        _, damping, length = proposal
        shrink = 0.5
        if verdict.reduction < 0:
            shrink = max(0.5 * verdict.slope / (verdict.slope + verdict.reduction), 0.1)
        poor = verdict.ratio <= 0.25
        good = verdict.ratio >= 0.75 or damping <= limits(curvature)[0]
        if poor:
            self.radius = shrink * min(self.radius, 10 * length)
        elif good:
            self.radius = 2 * length
        factor = 1 / shrink if poor else 0.5 if good else 1.0
        self.value = float(np.clip(damping * factor, *limits(curvature)))


DAMPINGS = {"nielsen": Nielsen, "multiplicative": Multiplicative, "trust_region": TrustRegion}


def scaled(kind, previous, diagonal):
    """Return D from the last one and diag J̃ᵀJ̃."""
    if kind == "identity":
        return np.ones_like(diagonal)
    found = np.maximum(previous, diagonal) if kind == "more" else diagonal
    return np.where(found > 0, found, 1.0)
