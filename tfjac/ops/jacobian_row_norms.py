"""Factors to the squared norms of the rows of the Jacobian."""

from typing import Any

import tensorflow as tf

from tfjac.ops import _factors, _forms, _library, _products
from tfjac.ops.jacobian_rows import jacobian_rows
from tfjac.types import Tensor


def jacobian_row_norms(a: list[Any], d: list[Any]) -> Tensor:
    """Compute the squared Euclidean norm of each row of J from its factors, without forming J.

        norms[n,m] = sum_k sum_gio J_k[n,m,(g,i,o)]²

    For t = 1 that is ‖a[n]‖² ‖d[n,m]‖² (Goodfellow 2015, "Efficient per-example gradient computations"); for t > 1
    either the sum over pairs of positions of (a_t·a_s)(d_t·d_s), the "ghost norm" (Li, Tramèr, Liang & Hashimoto 2022,
    section 4), or the row itself, whichever takes fewer multiply-adds.

    Args:
        a: list of K tensors `[n,t,g,i]`, float32 or float64; t, g, i may differ from factor to factor. Half
            precision is computed, and comes back, in float32.
        d: list of K tensors `[n,m,t,g,o]` of the same dtype; o may differ from factor to factor.

    Returns:
        `[n, m]`: the squared norms (take the square root for the norms).

    Raises:
        TypeError: if a or d is no list, or the dtypes are not all float32 or all float64.
        ValueError: if shapes that are known while tracing are wrong.
        tf.errors.InvalidArgumentError: if shapes turn out wrong when the op runs.

    Cost: for t = 1 one reading of the factors.
    Differentiable with respect to a and d (through J: n·m·p numbers).
    """
    a, d, _ = _factors.check_factors(a, d)
    native = _library.native_op("jacobian_row_norms")
    return native(a=a, d=d) if native else twin(a, d)


def twin(a, d):
    """Compute `jacobian_row_norms` in plain TensorFlow."""
    return tf.add_n([_norms_of_factor(x, y) for x, y in zip(*_factors.agreeing(a, d))])


def _norms_of_factor(a, d):
    """Give `[n,m]` in the cheaper form."""
    a, d = _factors.balanced(a, d)
    s = _factors.sizes(a, d)
    if s.t == 1:
        return _products.einsum("ng,nmg->nm", tf.reduce_sum(a[:, 0] ** 2, -1), tf.reduce_sum(d[:, :, 0] ** 2, -1))
    if s.known and _forms.norm_costs(s).pairs_pay:
        of_a, of_d = _products.einsum("ntgi,nsgi->ntsg", a, a), _products.einsum("nmtgo,nmsgo->nmtsg", d, d)
        return _products.einsum("ntsg,nmtsg->nm", of_a, of_d)
    return tf.reduce_sum(_factors.expand(a, d, "gio") ** 2, axis=-1)


@_library.register_gradient("TfjacJacobianRowNorms")
def _gradient(op, cotangent):
    a, d = op.inputs[: op.get_attr("K")], op.inputs[op.get_attr("K") :]
    layouts = ["gio"] * len(a)
    return _factors.pull_back(a, d, layouts, 2 * cotangent[:, :, None] * jacobian_rows(a, d, layouts))
