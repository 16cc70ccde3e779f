"""Levenberg–Marquardt in NumPy, dense and in float64, by the rules of docs/levenberg_marquardt.md and docs/damping.md.

Nothing here comes from tfjac. J is that of `problems`, D, λ and ρ follow the formulas, p comes from `np.linalg.solve`.
"""

from typing import Any, NamedTuple

import numpy as np

from tests.contract.damping_rules import EPS, Alone, Competition, Verdict, damping_rule, scaled


class Run(NamedTuple):
    """What a minimisation comes to: cost and position after it, attempts and accepted steps in it, the first cost."""

    cost: float
    position: np.ndarray
    attempts: int
    accepted: int
    first_cost: float


class Terms(NamedTuple):
    """What is minimised: Σ of a loss of z, and ½ (w − centre)ᵀ Λ (w − centre).

    Attributes:
        problem: a `Problem`.
        loss: "squares", "robust" (Huber's, of scale 0.3), or "convex", the cross-entropy of the labels.
        weight: c of c/2 Σ(z − y)²; for cross-entropies, of each example.
        precision, centre: `[p]`.
        prior_is_data: whether κ and D count the precision.
    """

    problem: Any
    loss: str
    weight: float
    precision: Any = 0.0
    centre: Any = 0.0
    prior_is_data: bool = False

    def cost(self, position):
        """Return F."""
        z = self.problem.values(position)
        if not np.any(self.precision):
            return self._of_outputs(z)
        return self._of_outputs(z) + np.sum(self.precision * (position - self.centre) ** 2) / 2

    def _of_outputs(self, z):
        if self.loss == "convex":
            shifted = z - z.max(axis=1, keepdims=True)
            chosen = shifted[np.arange(len(z)), self.problem.labels]
            return self.weight * (np.log(np.exp(shifted).sum(axis=1)) - chosen).sum()
        squares = (z - self.problem.targets) ** 2
        if self.loss == "robust":
            ratio = squares / SCALE**2
            squares = SCALE**2 * np.where(ratio <= 1, ratio, 2 * np.sqrt(np.maximum(ratio, 1)) - 1)
        return self.weight / 2 * squares.sum()

    def linearised(self, position):
        """Return J̃ `[rows, p]` and r̃ `[rows]` with J̃ᵀr̃ the gradient, J̃ᵀJ̃ the curvature; and z's factor."""
        z = self.problem.values(position)
        n, m = z.shape
        if self.loss == "convex":
            power = np.exp(z - z.max(axis=1, keepdims=True))
            p = power / power.sum(axis=1, keepdims=True)
            hessian = p[:, :, None] * np.eye(m) - p[:, :, None] * p[:, None, :]
            values, vectors = np.linalg.eigh(self.weight * hessian)
            seen = values > 1e-13 * values.max()  # the shift that a softmax takes away is exactly zero
            root = np.sqrt(np.where(seen, values, 0))
            slope = self.weight * (p - np.eye(m)[self.problem.labels])
            along = np.einsum("nmk,nm->nk", vectors, slope)
            residual = np.divide(along, root, out=np.zeros_like(root), where=seen)
            factor = vectors.swapaxes(1, 2) * root[:, :, None]
        else:
            error = z - self.problem.targets
            scale = np.full_like(z, np.sqrt(self.weight))
            if self.loss == "robust":
                scale *= np.maximum(np.abs(error) / SCALE, 1) ** -0.5
            residual, factor = scale * error, scale[:, :, None] * np.eye(m)
        by_output = self.problem.jacobian(position).reshape(n, m, -1)
        jacobian = (
            np.einsum("nkm,nmp->nkp", factor, by_output)
            if self.loss == "convex"
            else (factor.sum(axis=2)[:, :, None] * by_output)
        )
        return jacobian.reshape(n * m, -1), residual.ravel(), factor

    def second_derivative(self, position, step, factor, h=0.1):
        """Return 2(r̃(w + hv) − r̃ − h·J̃v)/h² for a step v, the weights of r̃ held."""
        change = self.problem.values(self.problem.plus(position, h * step)) - self.problem.values(position)
        linear = (self.problem.jacobian(position) @ step).reshape(change.shape)
        return np.einsum("nkm,nm->nk", factor, 2 * (change / h - linear) / h).ravel()


SCALE = 0.3
"""Of Huber's loss."""


class Where(NamedTuple):
    """What steps must observe.

    Attributes:
        lower, upper: `[p]`.
        moving: `[p]`, bool: False for parameters that are fixed.
        left_out: whether those that are fixed count in no length either, as weights that are not trained.
        normals, target: A and b of A w = b; None for none.
    """

    lower: Any = -np.inf
    upper: Any = np.inf
    moving: Any = True
    left_out: bool = False
    normals: Any = None
    target: Any = None

    def free(self, position, gradient):
        held = ((position <= self.lower) & (gradient >= 0)) | ((position >= self.upper) & (gradient <= 0))
        return ~held & self.moving

    @property
    def is_box(self):
        return np.any(np.isfinite(self.lower)) or np.any(np.isfinite(self.upper))

    def contains(self, position):
        return np.all((position >= self.lower) & (position <= self.upper))

    def project(self, position):
        """Return the nearest point that fulfils the equations."""
        gap = self.normals @ position - self.target
        return position - self.normals.T @ np.linalg.solve(self.normals @ self.normals.T, gap)

    def shortened(self, position, step, reduction):
        """Return where bounds let a step lead, exactly, and the reduction that the model predicts of it."""
        full = np.clip(position + step, self.lower, self.upper)
        bound = np.where(step > 0, self.upper, self.lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step == 0, np.inf, (bound - position) / step)
        first = min(room.min(), 1)
        short = np.clip(np.where(room <= first, bound, position + first * step), self.lower, self.upper)
        gains = reduction(full - position), reduction(short - position)
        return full if gains[0] >= gains[1] else short, max(gains)


class Model:
    """F to second order around a position, in the free parameters, or in the plane."""

    def __init__(self, terms, where, position):
        jacobian, self.residual, self.factor = terms.linearised(position)
        self.precision = np.broadcast_to(terms.precision, [jacobian.shape[1]])
        pull = self.precision * (position - terms.centre) if np.any(terms.precision) else np.zeros(jacobian.shape[1])
        gradient = jacobian.T @ self.residual + pull
        self.free = where.free(terms.problem.coordinates(position), gradient)
        self.jacobian, self.pull = jacobian * self.free, pull * self.free
        self.gradient, self.normals = gradient * self.free, where.normals
        self.diagonal = (self.jacobian**2).sum(axis=0)

    def reduction(self, step):
        curvature = np.sum((self.jacobian @ step) ** 2) + np.sum(self.precision * self.free * step**2)
        return -(self.gradient @ step + curvature / 2)

    def solve(self, damping, scaling, residual=None):
        """Return p with (J̃ᵀJ̃ + λD + Λ) p = −g, or −J̃ᵀu for `residual` u."""
        if self.normals is not None:
            return self._in_plane(damping, scaling, residual)
        j, mass = self.jacobian[:, self.free], (damping * scaling + self.precision)[self.free]
        right = self.residual if residual is None else residual
        pull = self.pull[self.free] if residual is None else np.zeros(j.shape[1])
        step = np.zeros(len(self.free))
        step[self.free] = damped(j, right, mass, pull)
        return step

    def _in_plane(self, damping, scaling, residual):
        root = np.sqrt(scaling)
        across = np.linalg.qr((self.normals * self.free / root).T)[0]
        scaled = self.jacobian / root
        scaled = scaled - (scaled @ across) @ across.T
        damping = max(damping, EPS * (self.diagonal / scaling).max())
        right = self.residual if residual is None else residual
        y = damped(scaled, right, np.full(len(root), damping), np.zeros(len(root)))
        return (y - across @ (across.T @ y)) / root * self.free


def damped(jacobian, residual, mass, pull):
    """Return p with (JᵀJ + M) p = −Jᵀr − q, M = diag(mass); by J M⁻¹ Jᵀ where that is smaller, and M is not too."""
    rows, columns = jacobian.shape
    least = mass.min()
    if rows >= columns and mass.max() <= 1e-10 * (jacobian**2).sum(axis=0).max() and not pull.any():
        # What J does not see, as the shift that a softmax takes away, is rounding in JᵀJ: without squaring it is zero.
        root = np.sqrt(least / mass)
        stacked = np.concatenate([jacobian * root, np.sqrt(least) * np.eye(columns)])
        step, _, rank, _ = np.linalg.lstsq(stacked, np.append(residual, np.zeros(columns)))
        if rank < columns:
            return -root * step
    if rows >= columns:
        return np.linalg.solve(jacobian.T @ jacobian + np.diag(mass), -jacobian.T @ residual - pull)
    scaled = jacobian * (least / mass)
    inner = least * np.eye(rows) + scaled @ jacobian.T
    weights = np.linalg.solve(inner, residual - jacobian @ (pull / mass))
    return -pull / mass - scaled.T @ weights


# ------------------------------------------------------------------ steps


class Options(NamedTuple):
    damping: str
    solver: str
    scaling: str
    accelerated: bool
    steps: int
    max_attempts: int
    streamed: bool = False  # each step is an attempt: D stays until one is accepted


def minimise(terms, where, position, options):
    """Take so many steps, and return a `Run`."""
    rule = Competition if options.scaling == "auto" else Alone
    damping = rule(damping_rule(options.damping, options.solver))
    if where.normals is not None:
        position = where.project(position)
    first_cost = cost = terms.cost(position)
    attempts = accepted = 0
    previous = None
    for _ in range(options.steps):
        model = Model(terms, where, position)
        if not model.gradient.any():
            break
        data = model.diagonal + (model.precision * model.free if terms.prior_is_data else 0)
        before = np.zeros_like(data) if previous is None else previous
        of_scaling = scaled(options.scaling, before, data)
        scaling = damping.metric(of_scaling)
        curvature = (data / scaling).max()
        damping.resume(curvature, _length(terms.problem.coordinates(position), scaling, where))
        following = np.where(model.free, of_scaling, before)
        for _ in range(options.max_attempts):
            taken = _attempt(terms, where, position, cost, model, scaling, curvature, damping, options)
            attempts += 1
            if taken is not None:
                position, cost = taken
                accepted += 1
            if taken is not None or damping.remeasured:
                break
        if taken is not None or not options.streamed:
            previous = following
    return Run(cost, position, attempts, accepted, first_cost)


def _length(position, scaling, where):
    counted = where.moving if where.left_out else True
    return np.sqrt(np.sum(scaling * position**2 * counted))


def _attempt(terms, where, position, cost, model, scaling, curvature, damping, options):
    """Return position and cost after one attempt, None where it is rejected."""

    def solve(value):
        step = model.solve(value, scaling)
        return step, value, np.sqrt(np.sum(scaling * step**2)), model.reduction(step)

    proposal = damping.propose(solve, curvature)
    step, value, length, _ = proposal
    predicted = model.reduction(step)
    bend = np.zeros_like(step)
    if options.accelerated:
        bend = model.solve(value, scaling, terms.second_derivative(position, step, model.factor)) / 2
        if 2 * np.sqrt(np.sum(scaling * bend**2)) > 0.75 * length:
            bend = np.zeros_like(step)
    end = terms.problem.plus(position, step + bend)
    if where.is_box:
        straight, curved = position + step, end
        end, predicted = where.shortened(position, step, model.reduction)
        step = end - position
        if options.accelerated and where.contains(straight) and where.contains(curved):
            end = curved
    if where.normals is not None:
        end = where.project(end)
    after = terms.cost(end)
    ratio = (cost - after) / predicted if predicted > 0 and np.isfinite(after) else -np.inf
    verdict = Verdict(ratio > 1e-3, ratio, model.gradient @ step, cost - after, cost)
    damping.update(proposal, verdict, curvature)
    return (end, after) if verdict.accepted else None
