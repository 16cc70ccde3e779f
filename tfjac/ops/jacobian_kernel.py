"""Factors to the kernel J Jᵀ."""

import tensorflow as tf

from tfjac.ops import _factors, _forms, _library
from tfjac.ops.jacobian_rows import jacobian_rows


def jacobian_kernel(a, d):
    """Compute J Jᵀ from the factors of J, without forming J.

        kernel[(n,m),(x,y)] = sum_k sum_gio J_k[n,m,(g,i,o)] J_k[x,y,(g,i,o)]

    also known as the empirical neural tangent kernel. For t = 1 a factor adds (a aᵀ) ∘ (d dᵀ) (Novak, Sohl-Dickstein
    & Schoenholz 2022, "Fast Finite Width Neural Tangent Kernel", section 3.2, structured derivatives); for t > 1 either
    the contraction over pairs of positions or the rows of that factor, whichever takes fewer multiply-adds.

    Args:
        a: list of K tensors `[n,t,g,i]`, float32 or float64; t, g, i may differ from factor to factor. Half
            precision is computed, and comes back, in float32.
        d: list of K tensors `[n,m,t,g,o]` of the same dtype; o may differ from factor to factor.

    Returns:
        `[n·m, n·m]`, both triangles filled; row (n, m) at position n·m_size + m.

    Raises:
        TypeError: if a or d is no list, or the dtypes are not all float32 or all float64.
        ValueError: if shapes that are known while tracing are wrong.
        tf.errors.InvalidArgumentError: if shapes turn out wrong when the op runs.

    Cost: n²·(i + m²·o)/2 multiply-adds per factor for t = 1, against n²·m²·i·o/2 through J. The native op needs a few
    tiles of extra memory, the twin that of two or three results.
    Differentiable with respect to a and d (through J: n·m·p numbers).
    """
    a, d, layouts = _factors.check_factors(a, d)
    native = _library.native_op("jacobian_kernel")
    return native(a=a, d=d) if native else twin(a, d, layouts)


def twin(a, d, layouts=None):
    """Compute `jacobian_kernel` in plain TensorFlow."""
    a, d = _factors.agreeing(a, d)
    n, m = _factors.axes(d[0])[:2]
    return tf.add_n([tf.reshape(_kernel_of_factor(x, y), [n * m, n * m]) for x, y in zip(a, d)])


def _kernel_of_factor(a, d):
    """Give `[n,m,n,m]` in the cheaper form."""
    a, d = _factors.balanced(a, d)
    s = _factors.sizes(a, d)
    if s.known and _forms.kernel_costs(s).pairs_pay:
        if s.t == 1:
            return _hadamard(a[:, 0], d[:, :, 0])
        products = tf.einsum("ntgi,xsgi->ntxsg", a, a)
        return tf.einsum("nmtgo,ntxygo->nmxy", d, tf.einsum("ntxsg,xysgo->ntxygo", products, d))
    rows = _factors.expand(a, d, "gio")
    return tf.einsum("nmp,xyp->nmxy", rows, rows)


def _hadamard(a, d):
    if a.shape[1] == 1:  # one group: no axis to sum over
        return tf.einsum("ni,xi->nx", a[:, 0], a[:, 0])[:, None, :, None] * tf.einsum("nmgo,xygo->nmxy", d, d)
    return tf.einsum("nxg,nmxyg->nmxy", tf.einsum("ngi,xgi->nxg", a, a), tf.einsum("nmgo,xygo->nmxyg", d, d))


@_library.register_gradient("TfjacJacobianKernel")
def _gradient(op, cotangent):
    a, d = op.inputs[: op.get_attr("K")], op.inputs[op.get_attr("K") :]
    layouts = ["gio"] * len(a)
    rows = jacobian_rows(a, d, layouts)
    n, m, p = _factors.axes(rows)
    to_rows = tf.matmul(cotangent + tf.transpose(cotangent), tf.reshape(rows, [n * m, p]))
    return _factors.pull_back(a, d, layouts, tf.reshape(to_rows, [n, m, p]))
