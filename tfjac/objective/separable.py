"""Convex functions that act element by element, whichever ops they are written in: found, tried out, differentiated.

A loss such as z·(−y) + softplus(z) has several paths from z to its value. Going back from the value through elementwise
ops, the places are found where all paths run through one tensor: of that tensor alone, with data, the value is a
function φ, element by element, and so a separable one, with a diagonal Hessian. φ is copied onto numbers and
differentiated twice there. The place that is taken is the farthest from the loss at which φ is convex: behind a sigmoid
or an exponential rather than before it, where the generalised Gauss-Newton matrix is the Fisher information. What lies
behind a kink of straight lines is not looked at: |exp z − y| bends by the exponential alone, which the minimum, at the
kink, knows nothing of.

Two kinds of φ have a curvature that is better than φ″ and, like it, changes nothing about the gradient:

- even functions of one number u, without data, that grow no faster than its square, as Huber's, log-cosh and Cauchy's
  of an error: φ′/u, the weight of iteratively reweighted least squares, which bounds φ from above where φ″ vanishes;
- functions that fall with a probability q, where all q add up to one, as −y·log q and its focal relatives: s/q with
  s = Σ y over the classes and y = −q·φ′. For a cross-entropy it is what φ″ = y/q² is expected to be, and gives the
  matrix of its logits.

Reference: M. Grant, S. Boyd, Y. Ye, "Disciplined convex programming", 2006; P. W. Holland, R. E. Welsch, "Robust
regression using iteratively reweighted least-squares", 1977.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import Dependence, between, has_custom_gradient, replay, transplant
from tfjac.graph.op_types import ELEMENTWISE
from tfjac.objective.cross_entropy import keeps_last_axis
from tfjac.objective.terms import SeparableTerm, none_if_turned
from tfjac.types import Array, Tensor

FLAT = 0.1
"""Negative curvature up to this part of the largest counts as none: what clipping and focal factors leave."""

_STRAIGHT = 1e-3
"""Curvature up to this part of the largest slope counts as none, and so do slopes that differ by no more."""


@dataclasses.dataclass(frozen=True, eq=False)
class SeparableFunction:
    """φ, convex: `output` as a function of `root` alone.

    Attributes:
        output, root: tensors.
        robust: whether φ is an even function that grows no faster than a square.
        share: how the shares of a whole that root holds are found: the axis along which they add up to one, where φ
            falls with them; None where it is no such function.
        sign: 1 where φ is convex, −1 where −φ is, 0 where that is not known.
    """

    output: tf.Tensor
    root: tf.Tensor
    robust: bool = False
    share: int | None = None
    sign: int = 1

    def term(self, gradient: Tensor) -> SeparableTerm:
        """Return the `SeparableTerm` of gradient·φ, given ∂loss/∂output: not finite where that has the wrong sign.

        So has a sample weight below zero, with which the loss is not convex.
        """
        root, weight = tf.stop_gradient(self.root), tf.stop_gradient(gradient)
        slope, curvature = _derivatives(self.output, self.root, root, weight)
        curvature = tf.maximum(curvature, 0)
        if self.robust:
            small = float(np.sqrt(np.finfo(root.dtype.as_numpy_dtype).eps))
            curvature = tf.where(tf.abs(root) > small, tf.math.divide_no_nan(slope, root), curvature)
        if self.share is not None:
            whole = tf.maximum(tf.reduce_sum(-slope * root, self.share, keepdims=True), 0)
            share = tf.maximum(root, float(np.finfo(root.dtype.as_numpy_dtype).eps))
            slope, curvature = slope + whole, whole / share  # as they add up to one, the same for all changes nothing
        curvature = none_if_turned(curvature, self.sign * gradient)
        if self.robust or self.share is not None:
            return SeparableTerm(self.root, slope, curvature, of_errors=self.robust, of_shares=not self.robust)
        slope_at = lambda values: _derivatives(self.output, self.root, values, weight)[0]  # noqa: E731
        return SeparableTerm(self.root, slope, curvature, slope_at=slope_at)


def separable_function(tensor: Tensor, sign: int, dependence: Dependence) -> "SeparableFunction | None":
    """Return `tensor` as a `SeparableFunction` of the farthest place at which sign·tensor is convex; None for none.

    Args:
        tensor: a floating-point tensor that depends on the variables.
        sign: 1 or −1; data that it is multiplied by further on are taken not to be negative.
        dependence: `Dependence` on the variables.
    """
    farthest = None
    for root, trial in _trials(tensor, sign, dependence):
        if trial.is_robust:
            return SeparableFunction(tensor, root, robust=True, sign=sign)
        if trial.is_convex:
            shares = _axis_of_shares(root) if trial.falls else None
            farthest = SeparableFunction(tensor, root, share=shares, sign=sign)
    return farthest


def convex_places(tensor: Tensor, dependence: Dependence) -> Iterator[Tensor]:
    """Yield the tensors of which `tensor`, or −`tensor`, is an elementwise and convex function, near to far."""
    for root, trial in _trials(tensor, 1, dependence):
        if trial.is_convex or trial.is_concave:
            yield root


def _trials(tensor: Tensor, sign: int, dependence: Dependence) -> Iterator[tuple[Tensor, "_Trial"]]:
    """Yield the places of which sign·`tensor` is an elementwise function, near to far, and what trying tells of it.

    They end before the first place that curves, where straight lines with a kink lie between.
    """
    straight: list[Tensor] = []
    for root in _narrow_places(tensor, dependence):
        trial = _Trial(tensor, root, sign)
        if trial.is_straight:
            straight.append(root)
        elif any(_has_kink(tensor, place, root) for place in straight):
            return
        yield root, trial


def dead_end(tensor: Tensor, dependence: Dependence) -> tf.Operation | None:
    """Return the op that makes numbers below zero zero, where the slope of `tensor` grows without bounds; or None.

    As behind a `relu` before a logarithm: what is zero there has a large loss, and no gradient that leads away.
    """
    for place in _narrow_places(tensor, dependence):
        source = place
        while source.op.type in _RESHAPING:
            source = source.op.inputs[0]
        if source.op.type in _CLAMPS and _has_pole(tensor, place):
            return source.op
    return None


def _has_pole(output: Tensor, root: Tensor) -> bool:
    """Return whether the slope of `output` by `root` grows like 1/root, or faster, towards zero from above."""
    near, far = _slopes(output, root, root)[len(_HALF) + 1 : len(_HALF) + 3]
    return bool(np.isfinite(near) and abs(near) > _POLE * abs(far))


def _has_kink(output: Tensor, place: Tensor, root: Tensor) -> bool:
    """Return whether `output`, straight lines of `place`, takes several of them where only `root` varies."""
    slopes = _slopes(output, place, root)
    slopes = slopes[np.isfinite(slopes)]
    return slopes.size > 0 and bool(np.ptp(slopes) > _STRAIGHT * np.abs(slopes).max())


def _slopes(output: Tensor, place: Tensor, root: Tensor) -> Array:
    """Return the slopes of `output` by `place` where only `root` varies, for each of the numbers."""
    with tf.Graph().as_default() as graph:
        given = [(x, _level(x)) for x in _elementwise_sources(output, root)]
        at = tf.constant(_NUMBERS + 3e-4, root.dtype)  # past zero, where |z²| touches its kink
        copies = transplant([output], [(root, at), *given])
        (slope,) = tf.gradients(copies[output.ref()], copies[place.ref()])
    with tf.compat.v1.Session(graph=graph) as session, np.errstate(all="ignore"):
        return np.asarray(session.run(slope), float) if slope is not None else np.zeros(len(_NUMBERS))


def _level(tensor: Tensor) -> Tensor:
    """Return what stands for data that do not vary: the constant that it is, or one number."""
    constant = _one_number(tensor)
    level = constant if constant is not None else _LEVEL if tensor.dtype.is_floating else 1
    return tf.fill([len(_NUMBERS)], tf.cast(level, tensor.dtype))


def _one_number(tensor: Tensor) -> Any:
    """Return the number that all elements of a constant are, or None."""
    constant = tf.get_static_value(tensor)
    same = constant is not None and np.size(constant) and (np.ravel(constant) == np.ravel(constant)[0]).all()
    return np.ravel(constant)[0] if same else None


def _derivatives(output: Tensor, root: Tensor, value: Tensor, weight: Any) -> tuple[Tensor, Tensor]:
    """Return the first and second derivatives of weight·output with respect to `root`, at `value`."""
    (copy,) = replay([output], [(root, value)])
    (slope,) = tf.gradients(copy, value, grad_ys=weight)
    (curvature,) = tf.gradients(slope, value)
    return slope, curvature


def _narrow_places(tensor: Tensor, dependence: Dependence) -> Iterator[Tensor]:
    """Yield the tensors through which all paths of gradients to `tensor` run, by elementwise ops, near to far."""
    position = {op.name: number for number, op in enumerate(tensor.graph.get_operations())}
    frontier = {tensor.ref(): tensor}
    while True:
        last = max(frontier.values(), key=lambda x: position[x.op.name])
        if last.op.type not in ELEMENTWISE or has_custom_gradient(last.op):
            return
        del frontier[last.ref()]
        frontier |= {x.ref(): x for x in last.op.inputs if dependence.reaches(x)}
        if len(frontier) == 1:
            (place,) = frontier.values()
            if place.dtype != tensor.dtype or any(op.type not in ELEMENTWISE for op in between([place], [tensor])):
                return
            yield place


class _Trial:
    """φ at some numbers: what can be told of a function by trying.

    Args:
        output, root, sign: φ is `sign`·`output` as a function of `root`. Data are taken to be between 0 and 1.
    """

    def __init__(self, output: Tensor, root: Tensor, sign: int) -> None:
        data = _elementwise_sources(output, root)
        self.numbers = _NUMBERS
        with tf.Graph().as_default() as graph:
            self._fixed = True
            at = tf.constant(self.numbers, root.dtype)
            given = [(root, at)] + [(x, self._stand_in(x)) for x in data]
            value = sign * transplant([output], given)[output.ref()]
            (slope,) = tf.gradients(value, at)
            (curvature,) = tf.gradients(slope, at)
            found = [tf.zeros_like(at) if x is None else x for x in (value, slope, curvature)]
        with tf.compat.v1.Session(graph=graph) as session, np.errstate(all="ignore"):
            self.value, self.slope, self.curvature = (np.asarray(x, float) for x in session.run(found))

    def _stand_in(self, tensor: Tensor) -> Tensor:
        """Return what stands for data: the constant that it is, or numbers between 0 and 1, 0 and 1 among them."""
        constant = _one_number(tensor)
        if constant is not None:
            return tf.fill([len(self.numbers)], tf.constant(constant, tensor.dtype))
        self._fixed = False
        drawn = np.random.default_rng(0).uniform(-0.5, 1.5, len(self.numbers)).clip(0, 1)
        return tf.cast(tf.constant(drawn if tensor.dtype.is_floating else drawn > 0.5), tensor.dtype)

    @property
    def is_convex(self) -> bool:
        """Whether φ″ is nowhere negative, and not zero everywhere: without curvature there is no step to solve for."""
        return _is_positive(self.curvature)

    @property
    def is_concave(self) -> bool:
        """Whether −φ is convex."""
        return _is_positive(-self.curvature)

    @property
    def is_straight(self) -> bool:
        """Whether φ″ is zero at all numbers, but for rounding."""
        curvature, slope = (x[np.isfinite(x)] for x in (self.curvature, self.slope))
        return bool(np.abs(curvature).max(initial=0) <= _STRAIGHT * np.abs(slope).max(initial=0))

    @property
    def is_robust(self) -> bool:
        """Whether φ is even, without data, and φ′/u is positive and does not grow with |u|, from φ″(0) downwards."""
        half = len(_HALF)
        weight = self.slope[half + 1 : 2 * half] / _HALF[1:]
        falling = (np.diff(weight) <= 1e-3 * np.abs(weight[:-1])).all() and (weight >= 0).all()
        bounded = 0 < weight[0] <= 2 * self.curvature[half]
        return self._fixed and falling and bounded and np.allclose(self.value[:half], self.value[half : 2 * half], 1e-5)

    @property
    def falls(self) -> bool:
        """Whether φ falls between 0 and 1."""
        return (self.slope[len(_SYMMETRIC) :] <= 0).all()


def _is_positive(curvature: Array) -> bool:
    found = curvature[np.isfinite(curvature)]
    return found.size > 8 and found.max() > 0 and found.min() >= -FLAT * found.max()


def _elementwise_sources(output: Tensor, root: Tensor) -> list[Tensor]:
    """Return what `output` is computed from besides `root`, by elementwise ops: a list of tensors."""
    pending, seen, sources = [output], {root.ref()}, []
    while pending:
        tensor = pending.pop()
        if tensor.ref() in seen:
            continue
        seen.add(tensor.ref())
        if tensor.op.type in ELEMENTWISE:
            pending += tensor.op.inputs
        else:
            sources.append(tensor)
    return sources


_HALF = np.concatenate([[0, 1e-3], np.linspace(0.125, 6, 48)])
_SYMMETRIC = np.concatenate([-_HALF, _HALF])
_NUMBERS = np.concatenate([_SYMMETRIC, np.linspace(0.02, 0.98, 49)])
"""Numbers and their negatives, then numbers between 0 and 1."""

_POLE = 50
"""So many times as large is a slope at 0.0013 as at 0.125 if it grows like 1/z: 96 times."""

_CLAMPS = {"Relu", "Relu6"}
_RESHAPING = {"Identity", "Reshape", "Squeeze", "ExpandDims", "Cast"}

_LEVEL = 0.7
"""What stands for data that do not vary: no end, and no middle, of what labels are."""


def _axis_of_shares(tensor: Tensor) -> int | None:
    """Return the axis along which the elements of `tensor` are made to add up to one, None where they are not."""
    op = tensor.op
    if op.type == "Softmax":
        return -1
    if keeps_last_axis(op):
        axis = _axis_of_shares(op.inputs[0])
        return -1 if axis in (-1, op.inputs[0].shape.rank - 1) else None
    total = op.inputs[1].op if op.type == "RealDiv" else None
    if total is not None and total.type == "Sum" and total.inputs[0] is op.inputs[0] and total.get_attr("keep_dims"):
        axis = tf.get_static_value(total.inputs[1])
        return int(axis) if np.size(axis) == 1 else None
    return None
