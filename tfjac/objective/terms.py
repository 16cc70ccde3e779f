"""The terms that a loss is a sum of: each gives rows of J, and residuals of which they make its gradient.

A term c·ℓ(z), with ℓ convex, z computed from the variables and H = ∇²(cℓ) = R Rᵀ, adds JᵀHJ to the generalised
Gauss-Newton matrix, where J = ∂z/∂w. That is (RᵀJ)ᵀ(RᵀJ), and RᵀJ is the Jacobian of the tensor Rᵀz in which R counts
as a constant: the engine takes it like any other. Its residuals r solve R r = ∇(cℓ), so that (RᵀJ)ᵀr = Jᵀ∇(cℓ) is the
gradient of the term. For c·u² that is r = √(2c)·u itself.

Where curvature vanishes and the gradient does not, as for saturated logits, there is no such r: curvature is then
lifted to next to nothing. The gradient stays exact, whatever H is.

A batch that is remembered must say something farther off, too. A logit that is far on the wrong side has next to no
curvature, and its r pulls on without end. So the curvature of a batch among others is no less than that of the chord
from z to where Newton's step leads, but no farther than 1 + |z|: (ℓ′(z + d) − ℓ′(z))/d. Of squares it is the same.
Reference: N. N. Schraudolph, "Fast curvature matrix-vector products for second-order gradient descent", 2002.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.types import Tensor


class Term(abc.ABC):
    """What all of them have."""

    root: tf.Tensor
    """The tensor that the term is a function of."""

    uniform: bool
    """Whether its curvature is known to be the same for all elements."""

    of_shares: bool = False
    """Whether its elements are shares of one whole, as probabilities of classes are, or depend on others otherwise."""

    of_errors: bool = False
    """Whether it is of an error alone, in the unit of the targets: a square, or less than one far off."""

    @abc.abstractmethod
    def diagonal(self) -> tuple[Tensor, Tensor] | None:
        """Return the second and first derivatives by each element, flattened; None where elements depend on others."""

    @abc.abstractmethod
    def rows(self, farther: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the tensor whose Jacobian is taken, and the part of r that belongs to it, of the same shape.

        Args:
            farther: scalar bool, whether they must say something farther off as well; None if not.
        """

    def magnitude(self) -> Tensor:
        """Return the length that r would have if nothing in it cancelled: rounding is relative to that."""
        return tf.norm(self.rows()[1])


@dataclasses.dataclass(frozen=True, eq=False)
class SquaredTerm(Term):
    """One place in a loss where a square is taken.

    Attributes:
        root: u, the tensor that is squared.
        weight: c = ∂loss/∂(u²), of the shape of u.
        uniform: whether c is known to be the same for all elements: everything is summed with nothing in between.
    """

    root: tf.Tensor
    weight: tf.Tensor
    uniform: bool
    of_errors: bool = True

    def rows(self, farther: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the tensor whose Jacobian is taken, and r: both are √(2c)·u, zero where c is, whatever u."""
        scaled = tf.math.multiply_no_nan(self.root, tf.sqrt(2 * tf.cast(self.weight, self.root.dtype)))
        return scaled, scaled

    def diagonal(self) -> tuple[Tensor, Tensor]:
        """Return the second and the first derivative with respect to each element of u, flattened."""
        precision = 2 * tf.reshape(self.weight, [-1])
        return precision, precision * tf.reshape(self.root, [-1])


@dataclasses.dataclass(frozen=True, eq=False)
class SeparableTerm(Term):
    """A sum of functions of single numbers.

    Attributes:
        root: z, the tensor of these numbers.
        slope, curvature: the first and the second derivative with respect to each, of the shape of z, the second not
            negative.
        uniform: False: the curvature differs from element to element.
        slope_at: function from other numbers to the first derivative there, but for a constant; None where curvature
            holds far off.
        of_errors, of_shares: see `Term`.
    """

    root: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor
    uniform: bool = False
    slope_at: Callable | None = None
    of_errors: bool = False
    of_shares: bool = False

    def rows(self, farther: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return √h·z, whose Jacobian is taken, and r = ∂/√h."""
        curvature = lifted(self.curvature, self.slope, self.root)
        if farther is not None and self.slope_at is not None:
            chord = self._chord(self.slope_at, curvature)
            curvature = tf.where(farther & tf.math.is_finite(chord), tf.maximum(curvature, chord), curvature)
        root, scale = self.root, tf.stop_gradient(tf.sqrt(curvature))
        return tf.math.multiply_no_nan(root, scale), tf.math.divide_no_nan(self.slope, scale)

    def _chord(self, slope_at: Callable, curvature: Tensor) -> Tensor:
        """Return the curvature of the chord from z to where Newton's step leads, of the shape of z."""
        root = tf.stop_gradient(self.root)
        step = -tf.math.divide_no_nan(self.slope, curvature)
        step = tf.clip_by_value(step, -1 - tf.abs(root), 1 + tf.abs(root))
        return tf.math.divide_no_nan(slope_at(root + step) - slope_at(root), step)

    def diagonal(self) -> tuple[Tensor, Tensor]:
        """Return the second and the first derivative with respect to each element of z, flattened."""
        return tf.reshape(self.curvature, [-1]), tf.reshape(self.slope, [-1])


@dataclasses.dataclass(frozen=True, eq=False)
class CrossEntropyTerm(Term):
    """−Σ y·log softmax(z) over the last axis: with s = Σy and p = softmax(z), gradient s·p − y, H = s(diag p − ppᵀ).

    R = √s (I − p1ᵀ) diag √p has R Rᵀ = H, and r = (s·p − y)/√(s·p) has R r = s·p − y, also where p under the root and
    in the divisor is another, as it is kept away from zero.

    Attributes:
        root: z, `[..., classes]`.
        labels: y, of the shape of z, weights included; they need not add up to one.
    """

    root: tf.Tensor
    labels: tf.Tensor
    uniform = False
    of_shares = True

    def rows(self, farther: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return Rᵀz, whose Jacobian is taken, and r: zeros of one class alone, whatever rounding would make of it."""
        if self.root.shape[-1] == 1:
            return tf.zeros_like(self.root), tf.zeros_like(self.root)
        probability, total, scale = self._probability()
        mean = tf.reduce_sum(tf.math.multiply_no_nan(self.root, probability), -1, keepdims=True)
        rows = tf.math.multiply_no_nan(self.root - mean, tf.stop_gradient(scale))
        return rows, tf.math.divide_no_nan(total * probability - self.labels, scale)

    def magnitude(self) -> Tensor:
        """Return ‖r‖ over the share of s·p + y that is left of s·p − y: where labels are met, both r and Rᵀz cancel."""
        probability, total, scale = self._probability()
        terms, left = total * probability + tf.abs(self.labels), total * probability - self.labels
        lost = tf.reduce_max(tf.math.divide_no_nan(terms, tf.abs(left)))
        return lost * tf.norm(tf.math.divide_no_nan(left, scale))

    def _probability(self) -> tuple[Tensor, Tensor, Tensor]:
        """p, s, and √(s·p)."""
        probability = tf.nn.softmax(tf.stop_gradient(self.root))
        total = tf.reduce_sum(self.labels, -1, keepdims=True)
        return probability, total, tf.sqrt(total * tf.maximum(probability, _epsilon(probability)))

    def diagonal(self) -> None:
        """Return None: classes depend on one another."""
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class DenseTerm(Term):
    """A function of vectors along the last axis, with their Hessians.

    With H = QΛQᵀ, R = Q√Λ and r = Λ^(−½)Qᵀ∇; negative eigenvalues count as none.

    Attributes:
        root: z, `[..., m]`.
        slope: the gradient with respect to z, `[..., m]`.
        curvature: H, `[..., m, m]`, symmetric.
    """

    root: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor
    uniform = False
    of_shares = True

    def rows(self, farther: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return Rᵀz, whose Jacobian is taken, and r."""
        values, vectors = tf.linalg.eigh(tf.stop_gradient(self.curvature))
        slope = tf.linalg.matvec(vectors, self.slope, transpose_a=True)
        scale = tf.sqrt(lifted(tf.maximum(values, 0), slope, self.root))
        rows = tf.linalg.matvec(tf.stop_gradient(vectors), self.root, transpose_a=True) * tf.stop_gradient(scale)
        return rows, tf.math.divide_no_nan(slope, scale)

    def diagonal(self) -> None:
        """Return None: elements depend on one another."""
        return None


def are_errors(objective: Any) -> bool:
    """Return whether all that an objective sums up is of errors in the unit of the targets."""
    return objective.sums_squares or (bool(objective.terms) and all(term.of_errors for term in objective.terms))


def none_if_turned(curvature: Tensor, weight: Tensor) -> Tensor:
    """Return `curvature`, or what is not finite if a weight of a convex function is below zero, as of a sample.

    The loss is not convex then. A square says the same by the root of its weight.
    """
    turned = tf.reduce_any(tf.stop_gradient(weight) < 0)
    return tf.where(turned, tf.constant(np.nan, curvature.dtype), curvature)


def lifted(curvature: Tensor, slope: Tensor, root: Tensor) -> Tensor:
    """Return `curvature` raised to where Newton's step in any one number is at most the largest of `root` over √ε."""
    size = tf.where(tf.math.is_finite(root), tf.abs(tf.stop_gradient(root)), 0)
    largest = tf.reduce_max(tf.concat([tf.reshape(size, [-1]), tf.zeros([1], size.dtype)], axis=0))
    floor = np.sqrt(_epsilon(root)) * tf.abs(slope) / tf.where(largest > 0, largest, tf.ones_like(largest))
    return tf.maximum(curvature, floor)


def _epsilon(tensor: Tensor) -> float:
    return float(np.finfo(tensor.dtype.as_numpy_dtype).eps)
