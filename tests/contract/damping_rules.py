"""λ and D in NumPy, by the rules of docs/damping.md: what the oracle damps its steps with."""

from typing import NamedTuple

import numpy as np

EPS, TINY, HUGE = (getattr(np.finfo(np.float64), name) for name in ("eps", "tiny", "max"))


class Verdict(NamedTuple):
    accepted: bool
    ratio: float
    slope: float
    reduction: float
    cost: float

    @property
    def shrink(self):
        """By which factor the radius shrinks if ρ is poor."""
        if self.reduction >= 0:
            return 0.5
        return max(0.5 * self.slope / (self.slope + self.reduction), 0.1)


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
        if self.radius == HUGE / 16:
            damped = solve(float(np.clip(self.value, low, high)))
            return newton if newton[2] <= 10 * damped[2] else damped
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
        _, damping, length, _ = proposal
        shrink = verdict.shrink
        poor = verdict.ratio <= 0.25
        good = verdict.ratio >= 0.75 or damping <= limits(curvature)[0]
        self.radius = min(self.radius, 10 * length)
        if poor:
            self.radius *= shrink
        elif good:
            self.radius = 2 * length
        factor = 1 / shrink if poor else 0.5 if good else 1.0
        self.value = float(np.clip(damping * factor, *limits(curvature)))


class Radius(Multiplicative):
    """‖D^½ p‖ within a factor of 1.5 of Δ, by λ times (‖D^½ p‖/Δ)^1.5 in a bracket."""

    first = 1e-3

    def start(self, curvature, length):
        self.value = self.first * curvature
        self.radius, self.waited = 0.0, 0

    def propose(self, solve, curvature):
        lower, upper = low, high = limits(curvature)
        trial, count = solve(float(np.clip(self.value, low, high))), 1
        while count < 6 and self.radius > 0:
            guess = trial[1] * np.clip(trial[2] / self.radius, 0.01, 100) ** 1.5
            if trial[2] > 1.5 * self.radius and trial[1] < high:
                lower = trial[1]
            elif trial[2] * 1.5 < self.radius and trial[1] > low:
                if trial[1] * trial[2] ** 2 * (trial[1] / guess - 1) <= 0.01 * trial[3]:
                    break
                upper = trial[1]
            else:
                break
            trial = solve(guess if lower < guess < upper else np.sqrt(lower) * np.sqrt(upper))
            count += 1
        return trial

    def update(self, proposal, verdict, curvature):
        _, damping, length, _ = proposal
        shrink = verdict.shrink
        self.waited = self.waited + 1 if verdict.accepted and verdict.ratio < 0.75 else 0
        forced = self.waited >= 3 and verdict.ratio > 0.25
        if verdict.ratio <= 0.1:
            self.radius, factor = shrink * length, 1 / shrink
        elif verdict.ratio >= 0.75 or forced:
            self.radius, factor = max(self.radius, 2 * length), 0.5
        else:
            self.radius, factor = max(self.radius, length), 1.0
        self.waited = 0 if forced else self.waited
        self.value = float(np.clip(damping * factor, *limits(curvature)))


class RadiusOfSparse(Radius):
    """The first step is nearly a Gauss–Newton step."""

    first = 1e-9


DAMPINGS = {"nielsen": Nielsen, "multiplicative": Multiplicative, "trust_region": TrustRegion, "radius": Radius}


def damping_rule(kind, solver):
    """Return the class of a rule, whose first λ may depend on the solver."""
    return RadiusOfSparse if (kind, solver) == ("radius", "sparse") else DAMPINGS[kind]


class Alone:
    """A damping, for steps that the D of the scaling measures."""

    remeasured = False

    def __init__(self, kind):
        self.kinds, self.rules, self.used = kind, {}, "scaling"

    def metric(self, scaling):
        return scaling

    def resume(self, curvature, length):
        if self.used not in self.rules:
            self.rules[self.used] = self.kinds()
            self.rules[self.used].start(curvature, length)

    def propose(self, solve, curvature):
        return self.rules[self.used].propose(solve, curvature)

    def update(self, proposal, verdict, curvature):
        self.rules[self.used].update(proposal, verdict, curvature)


class Competition(Alone):
    """D = I, until a step with the other D, on trial after 1, 1, 2, 4, … steps, has divided the cost by much more."""

    def __init__(self, kind):
        super().__init__(kind)
        self.used = self.favourite = "identity"
        self.gain = self.steps = self.lost = self.rejected = 0
        self.gave_up = self.remeasured = False

    def metric(self, scaling):
        return scaling if self.used == "scaling" else np.ones_like(scaling)

    def update(self, proposal, verdict, curvature):
        super().update(proposal, verdict, curvature)
        other = "identity" if self.used == "scaling" else "scaling"
        self.remeasured = False
        if not verdict.accepted:
            self.rejected += 1
            if (self.rejected >= 8 or proposal[1] >= limits(curvature)[1]) and not self.gave_up:
                self.used = self.favourite = other
                self.gain = self.steps = self.lost = self.rejected = 0
                self.gave_up = self.remeasured = True
            return
        self.rejected, self.gave_up = 0, False
        gained = -np.log(1 - np.clip(verdict.reduction / abs(verdict.cost), 0, 1 - 1e-7))
        if self.used == self.favourite:
            self.gain, self.steps = gained, self.steps + 1
        elif gained > self.gain * (2 if self.used == "scaling" else 0.5):
            self.favourite, self.gain, self.lost, self.steps = self.used, gained, 0, 0
        else:
            self.lost, self.steps = self.lost + 1, 0
        other = "identity" if self.favourite == "scaling" else "scaling"
        self.used = other if self.steps >= min(2**self.lost, 32) else self.favourite


def scaled(kind, previous, diagonal):
    """Return D from the last one and diag J̃ᵀJ̃."""
    if kind == "identity":
        return np.ones_like(diagonal)
    remembered = {"marquardt": 0.0, "more": 1.0, "auto": 0.25}[kind]
    found = np.maximum(remembered * previous, diagonal)
    return np.where(found > 0, found, 1.0)
