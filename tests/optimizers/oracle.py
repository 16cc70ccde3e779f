"""Levenberg-Marquardt in plain NumPy, float64, by the formulas of the textbook: nothing here comes from tfjac."""

import dataclasses

import numpy as np

EPS = np.finfo(np.float64).eps


@dataclasses.dataclass
class Oracle:
    """Madsen, Nielsen & Tingleff 2004 with a choice of scaling, over residuals with a known Jacobian.

    `residuals` and `jacobian` are functions of w `[p]`; Λ is diagonal, `prior` `[p]`, around zero.
    """

    residuals: callable
    jacobian: callable
    w: np.ndarray
    prior: np.ndarray
    scaling: str = "identity"
    initial: float = 1e-3
    max_attempts: int = 3
    min_gain: float = 1e-3

    def __post_init__(self):
        self.damping = self.growth = None
        self.largest = np.zeros_like(self.w)
        self.history = []

    def cost(self, w):
        return (self.residuals(w) ** 2).sum() / 2 + (self.prior * w**2).sum() / 2

    def scale(self, diagonal):
        self.largest = np.maximum(self.largest, diagonal)
        chosen = {"identity": np.ones_like(diagonal), "marquardt": diagonal, "more": self.largest}[self.scaling]
        return np.where(chosen > 0, chosen, 1.0)

    def step(self):
        """Take one step; append accepted, attempts, ρ and λ of the last attempt to the history."""
        r, jacobian = self.residuals(self.w), self.jacobian(self.w)
        gram, gradient = jacobian.T @ jacobian, jacobian.T @ r + self.prior * self.w
        scale = self.scale(np.diag(gram))
        curvature = (np.diag(gram) / scale).max()
        if self.damping is None:
            self.damping, self.growth = self.initial * curvature, 2.0
        hessian = gram + np.diag(self.prior)
        attempts, accepted = 0, False
        while attempts < self.max_attempts and not accepted:
            attempts += 1
            damping = self.damping
            step = np.linalg.solve(hessian + damping * np.diag(scale), -gradient)
            predicted = -(gradient @ step + step @ hessian @ step / 2)
            reduction = self.cost(self.w) - self.cost(self.w + step)
            ratio = reduction / predicted if np.isfinite(reduction) and predicted > 0 else -np.inf
            accepted = ratio > self.min_gain
            if accepted:
                self.damping *= max(1 / 3, 1 - (2 * min(max(ratio, 0), 1) - 1) ** 3)
                self.growth = 2.0
                self.w = self.w + step
            else:
                self.damping *= self.growth
                self.growth *= 2
            self.damping = np.clip(self.damping, EPS**2 * curvature, curvature / EPS)
        self.history.append((bool(accepted), attempts, ratio, damping))
