"""Convex losses of the user's own, marked where they are computed."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.graph import call_converted, curvature_mark, mark_curvature, replay
from tfjac.objective.terms import DenseTerm, SeparableTerm, none_if_turned
from tfjac.types import Function, Tensor


def register_curvature(
    function: Function | None = None, *, hessian: Function | None = None, hessian_root: Function | None = None
) -> Function:
    """Declare the function that a loss is of outputs, so that `LevenbergMarquardt` minimises losses that contain it.

        @tfjac.register_curvature
        def log_sum(y_true, y_pred):
            return tf.reduce_logsumexp(y_pred - y_true, axis=-1)

        model.compile(optimizer=tfjac.LevenbergMarquardt(), loss=log_sum)

    Whatever acts element by element, and cross-entropies, are found without. Sums, means and weights outside of the
    function are seen through; they do not belong inside, where examples would depend on one another. A smooth function
    need not be convex, as the negative logarithm of a mixture of densities: the positive part of its Hessian is taken.

    Args:
        function: of any arguments, smooth in the last positional one, z `[..., m]`, along its last axis. What it
            returns is of the shape of z, for a function of single numbers, or of its shape without the last axis or
            without several. Left out, a decorator is returned.
        hessian: function of the same arguments that returns the second derivatives, `[..., m, m]`, or `[..., m]` where
            they are a diagonal; another matrix, such as the Fisher information, may stand in for them. Where left out,
            the function is differentiated twice, at m backward passes of it.
        hessian_root: function of the same arguments that returns, instead, R `[..., m, k]` with R Rᵀ the Hessian.

    Returns:
        The function, which computes what it did, with the mark that `LevenbergMarquardt` looks for.

    Raises:
        TypeError: for what is not callable, or both a Hessian and its root.
        ValueError: while tracing, for a Hessian of another shape.

    Cost: an eigendecomposition of m×m for each vector z. Negative eigenvalues count as none; the gradient is always
    that of the function, and with `verify=True` compared.
    """
    given = [each for each in (function, hessian, hessian_root) if each is not None]
    if not all(map(callable, given)) or None not in (hessian, hessian_root):
        raise TypeError(
            "register_curvature takes a function, and one function for its Hessian or for a root of it at most. "
            f"Received: function={function!r}, hessian={hessian!r}, hessian_root={hessian_root!r}"
        )
    if function is None:
        return functools.partial(register_curvature, hessian=hessian, hessian_root=hessian_root)

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Tensor:
        value = tf.convert_to_tensor(call_converted(function, *args, **kwargs))
        if not tf.is_symbolic_tensor(value) or not args:
            return value
        point = tf.convert_to_tensor(args[-1])
        curvature = [] if hessian is None else [tf.convert_to_tensor(call_converted(hessian, *args, **kwargs))]
        if hessian_root is not None:
            root = tf.convert_to_tensor(call_converted(hessian_root, *args, **kwargs))
            curvature = [tf.matmul(root, root, transpose_b=True)]
        for given in curvature:
            _check_shape(given, point)
        return mark_curvature(value, point, *curvature)

    return marked


def _check_shape(curvature: Any, point: Any) -> None:
    full = point.shape.concatenate(point.shape[-1:])
    if not (curvature.shape.is_compatible_with(point.shape) or curvature.shape.is_compatible_with(full)):
        raise ValueError(
            f"A Hessian must have the shape of what it is with respect to, {point.shape}, where it is a diagonal, or "
            f"else {full}. Received: one of shape {curvature.shape}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class DeclaredFunction:
    """A marked value as a function of `root`.

    Attributes:
        output: the tensor whose op is the mark.
        value, root: what is marked, and z.
        hessian: its Hessian, or None.
    """

    output: tf.Tensor
    value: tf.Tensor
    root: tf.Tensor
    hessian: tf.Tensor | None

    def term(self, gradient: Tensor) -> Any:
        """Return the term gradient·value, given ∂loss/∂output."""
        weight, point = tf.stop_gradient(gradient), tf.stop_gradient(self.root)
        (copy,) = replay([self.value], [(self.root, point)])
        (slope,) = tf.gradients(copy, point, grad_ys=weight)
        hessian = self._derivative(slope, point) if self.hessian is None else self._weighed(weight)
        hessian = none_if_turned(hessian, weight)
        if hessian.shape.rank == point.shape.rank:
            return SeparableTerm(self.root, slope, tf.maximum(hessian, 0))
        return DenseTerm(self.root, slope, hessian)

    def _weighed(self, weight: Tensor) -> Tensor:
        """The Hessian times ∂loss/∂output, which may have fewer axes."""
        hessian = tf.convert_to_tensor(self.hessian)
        missing = len(hessian.shape) - weight.shape.rank
        return hessian * tf.reshape(weight, tf.concat([tf.shape(weight), [1] * missing], axis=0))

    def _derivative(self, slope: Any, point: Tensor) -> Tensor:
        """Differentiate the slope, element by element of the last axis where they depend on one another."""
        if self.value.shape.rank == point.shape.rank:
            return tf.gradients(slope, point, unconnected_gradients="zero")[0]
        size = point.shape[-1]
        if size is None:
            raise ValueError(
                "The last axis of what a function is convex in must be known while tracing, for its Hessian to be "
                f"taken; or give a hessian. Received: {point.shape}"
            )
        rows = [tf.gradients(slope[..., k], point, unconnected_gradients="zero")[0] for k in range(size)]
        return tf.stack(rows, axis=-2)


def declared_function(tensor: Tensor) -> "DeclaredFunction | None":
    """Return the `DeclaredFunction` that `tensor` is marked to be, or None."""
    found = curvature_mark(tensor)
    return None if found is None else DeclaredFunction(tensor, *found)


def fisher_of_normal(parameters: Callable[[Tensor], tuple[Any, Any]]) -> Function:
    """Return a root of the Fisher information of a normal distribution, for `register_curvature`.

        def parameters(z):
            return z[..., :1], tf.nn.softplus(z[..., 1:])

        def nll(y, z):
            mean, deviation = parameters(z)
            return tf.reduce_sum(tf.math.log(deviation) + 0.5 * ((y - mean) / deviation) ** 2, axis=-1)

        loss = tfjac.register_curvature(nll, hessian_root=tfjac.fisher_of_normal(parameters))

    The Fisher information is what the Hessian of the negative logarithm of the likelihood is expected to be,

        Σ_k (∂µ[k] ∂µ[k]ᵀ + 2 ∂σ[k] ∂σ[k]ᵀ) / σ[k]²

    It is never negative, which the Hessian may be, and needs no derivatives of second order.

    Args:
        parameters: function of the outputs z `[..., m]` that returns the mean and the standard deviation, `[..., k]`.
            The loss is a sum over the k.

    Returns:
        A function `(y_true, y_pred)` of the graph being traced that returns R `[..., m, 2 k]`, the root.

    Cost: 2 k backward passes of `parameters`.
    """

    def root(*args: Any) -> Tensor:
        outputs = tf.identity(tf.stop_gradient(args[-1]))
        mean, deviation = (tf.convert_to_tensor(each) for each in parameters(outputs))
        columns = []
        for tensor, factor in ((mean, 1.0), (deviation, math.sqrt(2.0))):
            for k in range(tensor.shape[-1]):
                slope = tf.gradients(tensor[..., k], outputs, unconnected_gradients="zero")[0]
                columns.append(factor * slope / deviation[..., k, None])
        return tf.stack(columns, axis=-1)

    return root
