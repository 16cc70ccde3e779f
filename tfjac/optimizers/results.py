"""What a minimisation found."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.optimizers.statuses import Status


@dataclasses.dataclass(frozen=True)
class LeastSquaresResult:
    """The result of `least_squares`.

    Attributes:
        x: the values found, NumPy arrays in the nest of the variables; the variables hold them too.
        cost: F = ½‖r‖² there.
        gradient_norm: max |∂F/∂x| there.
        status: a `Status`, why it stopped.
        steps: number of steps, accepted or not.
        evaluations: number of evaluations of the residuals at trial points.
        jacobians: number of linearisations.
        damping: λ of the last step.
        jacobian: callable without arguments, the Jacobian of the residuals `[rows, p]`, NumPy, at the values found
            and for the data then, whatever the variables hold now. Computed when it is called.
    """

    x: Any
    cost: float
    gradient_norm: float
    status: Status
    steps: int
    evaluations: int
    jacobians: int
    damping: float
    jacobian: Callable[[], np.ndarray] = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(cls, outcome, unit, jacobian):
        """Return the result that an `Outcome` of eager tensors tells of, with its residuals measured in `unit`."""
        square = float(unit) ** 2
        return cls(
            x=tf.nest.map_structure(lambda tensor: tensor.numpy(), outcome.x),
            cost=float(outcome.cost) * square,
            gradient_norm=float(outcome.gradient_norm) * square,
            status=Status(int(outcome.status)),
            steps=int(outcome.steps),
            evaluations=int(outcome.evaluations),
            jacobians=int(outcome.jacobians),
            damping=float(outcome.damping),
            jacobian=jacobian,
        )

    @property
    def success(self):
        """Whether a tolerance was met."""
        return self.status.converged

    @property
    def message(self):
        """One sentence on why it stopped."""
        return self.status.message

    def covariance(self):
        """Return the covariance matrix of the parameters, `[p, p]`, NumPy: s²(JᵀJ)⁻¹ with s² = ‖r‖²/(rows − p).

        It holds for residuals of equal variance and a model that is nearly
        linear within the errors. From the singular values of J, so that the condition number is not squared.

        Raises:
            ValueError: where there are no more residuals than parameters, or J does not determine the parameters.

        Cost: one Jacobian, formed, and its singular value decomposition.
        Reference: G. A. F. Seber, C. J. Wild, "Nonlinear Regression", 1989, section 2.1.
        """
        jacobian = self.jacobian()
        rows, columns = jacobian.shape
        if rows <= columns:
            raise ValueError(
                "The errors of parameters can be estimated only from more residuals than parameters. "
                f"Received: {rows} residuals, {columns} parameters"
            )
        norms = np.linalg.norm(jacobian, axis=0)
        _, singular, basis = np.linalg.svd(jacobian / np.where(norms > 0, norms, 1), full_matrices=False)
        if singular[-1] <= rows * np.finfo(jacobian.dtype).eps * singular[0]:
            raise ValueError(
                "The residuals do not determine all parameters: a combination of them can change without effect. Fix "
                "one, or add a residual for it. "
                f"Received: a Jacobian whose singular values, columns scaled, go down to {singular[-1]:.3g}"
            )
        root = basis.T / singular / norms[:, None]
        return 2 * self.cost / (rows - columns) * root @ root.T

    def standard_errors(self):
        """Return the standard deviations of the parameters, in the nest of `x`: roots of diag(`covariance()`)."""
        flat = [np.asarray(value) for value in tf.nest.flatten(self.x)]
        parts = np.split(np.sqrt(np.diag(self.covariance())), np.cumsum([value.size for value in flat])[:-1])
        shaped = [part.reshape(value.shape) for part, value in zip(parts, flat)]
        return tf.nest.pack_sequence_as(self.x, shaped)

    def __str__(self):
        return (
            f"{self.message}\n"
            f"status {self.status.name}, cost {self.cost:.10g}, largest gradient {self.gradient_norm:.3g}, "
            f"{self.steps} steps, {self.evaluations} evaluations, {self.jacobians} Jacobians, "
            f"damping {self.damping:.3g}"
        )
