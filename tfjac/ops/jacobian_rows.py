"""Factors to dense rows of the Jacobian."""

from typing import Any

import tensorflow as tf

from tfjac.ops import _factors, _library
from tfjac.types import Tensor


def jacobian_rows(a: list[Any], d: list[Any], layouts: list[str]) -> Tensor:
    """Form the Jacobian from its factors.

        J[n,m,(g,i,o)] = sum_t a[n,t,g,i] d[n,m,t,g,o]        the blocks of all factors side by side

    This is the one op whose result has n·m·p numbers: ask for a product (`jacobian_gram`, `jacobian_kernel`, …)
    instead where one will do.

    Args:
        a: list of K tensors `[n,t,g,i]`, float32 or float64; t, g, i may differ from factor to factor. Half
            precision is computed, and comes back, in float32.
        d: list of K tensors `[n,m,t,g,o]` of the same dtype; o may differ from factor to factor.
        layouts: list of K strings, permutations of "gio": the order in which the axes of the block are flattened.

    Returns:
        `[n, m, p]`, p the sum of g·i·o over the factors.

    Raises:
        TypeError: if a, d or layouts is no list, or the dtypes are not all float32 or all float64.
        ValueError: if shapes that are known while tracing, or layouts, are wrong.
        tf.errors.InvalidArgumentError: if shapes turn out wrong when the op runs.

    Cost: n·m·t·p multiply-adds and one write of the result; for t = 1 the time of the write alone.
    Differentiable with respect to a and d.
    """
    a, d, layouts = _factors.check_factors(a, d, layouts)
    native = _library.native_op("jacobian_rows")
    return native(a=a, d=d, layouts=layouts) if native else twin(a, d, layouts)


def twin(a, d, layouts):
    """Compute `jacobian_rows` in plain TensorFlow."""
    a, d = _factors.agreeing(a, d)
    return tf.concat([_factors.expand(x, y, layout) for x, y, layout in zip(a, d, layouts)], axis=-1)


@_library.register_gradient("TfjacJacobianRows")
def _gradient(op, cotangent):
    a, d = op.inputs[: op.get_attr("K")], op.inputs[op.get_attr("K") :]
    layouts = [layout.decode() for layout in op.get_attr("layouts")]
    return _factors.pull_back(a, d, layouts, cotangent)
