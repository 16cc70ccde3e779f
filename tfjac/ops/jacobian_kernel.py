"""Factors to the kernel J Jᵀ."""

from typing import Any

import tensorflow as tf

from tfjac.ops import _factors, _forms, _library, _products
from tfjac.ops.jacobian_rows import jacobian_rows
from tfjac.types import Tensor


def jacobian_kernel(a: list[Any], d: list[Any], blocks: int = 1) -> Tensor:
    """Compute J Jᵀ from the factors of J, without forming J.

        kernel[(n,m),(x,y)] = sum_k sum_gio J_k[n,m,(g,i,o)] J_k[x,y,(g,i,o)]

    also known as the empirical neural tangent kernel. For t = 1 a factor adds (a aᵀ) ∘ (d dᵀ) (Novak, Sohl-Dickstein
    & Schoenholz 2022, "Fast Finite Width Neural Tangent Kernel", section 3.2, structured derivatives); for t > 1 either
    the contraction over pairs of positions or the rows of that factor, whichever takes fewer multiply-adds.

    J may consist of several blocks of rows, one below the other, each with examples and residuals of its own: equations
    inside a domain and conditions on its border, say. What rows of different blocks have to do with one another is then
    in the kernel, too.

    Args:
        a: list of K tensors `[n,t,g,i]`, float32 or float64; t, g, i may differ from factor to factor. Half
            precision is computed, and comes back, in float32. Of several blocks: K tensors for each, one block after
            the other.
        d: list of as many tensors `[n,m,t,g,o]` of the same dtype; o may differ from factor to factor.
        blocks: number of blocks. Each has its own n and m. The k-th factors of all blocks are of the same columns, in
            the same order; they agree in g, i and o, and may have different t: 0 where a block does not depend on
            these columns.

    Returns:
        `[rows, rows]`, both triangles filled; row (n, m) at position n·m_size + m after the rows of the blocks before.

    Raises:
        TypeError: if a or d is no list, or the dtypes are not all float32 or all float64.
        ValueError: if shapes that are known while tracing are wrong, or there are not as many factors for each block.
        tf.errors.InvalidArgumentError: if shapes turn out wrong when the op runs.

    Cost: n²·(i + m²·o)/2 multiply-adds per factor for t = 1, against n²·m²·i·o/2 through J. The native op needs a few
    tiles of extra memory, the twin that of two or three results.
    Differentiable with respect to a and d (through J: n·m·p numbers).
    """
    a, d = _checked(a, d, blocks)
    native = _library.native_op("jacobian_kernel")
    return native(a=a, d=d, blocks=blocks) if native else twin(a, d, blocks)


def twin(a, d, blocks=1):
    """Compute `jacobian_kernel` in plain TensorFlow."""
    parts = _factors.agreeing_columns([_factors.agreeing(*part) for part in _parts(a, d, blocks)])
    parts = [[_factors.balanced(*factor) for factor in zip(*part)] for part in parts]
    products = [[_product(part, other) for other in parts[: k + 1]] for k, part in enumerate(parts)]
    rows = [
        tf.concat([*left, *(tf.transpose(below[k]) for below in products[k + 1 :])], axis=1)
        for k, left in enumerate(products)
    ]
    return tf.concat(rows, axis=0)


def _checked(a, d, blocks):
    """Give the factors as tensors, all blocks in one list, checked as far as tracing allows."""
    if blocks == 1:
        return _factors.check_factors(a, d)[:2]
    if not isinstance(blocks, int) or blocks < 1:
        raise ValueError(f"`blocks` must be a positive integer. Received: {blocks!r}")
    _factors.check_lists(a, d)
    if len(a) % blocks:
        raise ValueError(f"All blocks must have as many factors. Received: {len(a)} factors, blocks={blocks}")
    parts = [_factors.check_factors(*part)[:2] for part in _parts(a, d, blocks)]
    a, d = ([tensor for part in parts for tensor in part[side]] for side in (0, 1))
    _factors.check_dtypes(a + d)
    _factors.check_same_columns(parts)
    return a, d


def _parts(a, d, blocks):
    """Give the lists a and d of each block."""
    count = len(a) // blocks
    return [(a[k : k + count], d[k : k + count]) for k in range(0, len(a), count)]


def _product(part, other):
    """Give the rows of a block times those of another, `[rows, rows of the other]`."""
    (n, m), (x, y) = (_factors.axes(factors[0][1])[:2] for factors in (part, other))
    kernels = [_kernel_of_factor(*factor, *another) for factor, another in zip(part, other)]
    return tf.add_n([tf.reshape(kernel, [n * m, x * y]) for kernel in kernels])


def _kernel_of_factor(a, d, other_a, other_d):
    """Give `[n,m,x,y]` in the cheaper form."""
    s, other = _factors.sizes(a, d), _factors.sizes(other_a, other_d)
    if s.known and other.known and _forms.kernel_costs(s, other).pairs_pay:
        if s.t == other.t == 1:
            return _hadamard(a[:, 0], d[:, :, 0], other_a[:, 0], other_d[:, :, 0])
        products = _products.einsum("ntgi,xsgi->ntxsg", a, other_a)
        return _products.einsum("nmtgo,ntxygo->nmxy", d, _products.einsum("ntxsg,xysgo->ntxygo", products, other_d))
    return _products.einsum("nmp,xyp->nmxy", _factors.expand(a, d, "gio"), _factors.expand(other_a, other_d, "gio"))


def _hadamard(a, d, other_a, other_d):
    if a.shape[1] == 1:  # one group: no axis to sum over
        products = _products.einsum("ni,xi->nx", a[:, 0], other_a[:, 0])
        return products[:, None, :, None] * _products.einsum("nmgo,xygo->nmxy", d, other_d)
    products = _products.einsum("ngi,xgi->nxg", a, other_a)
    return _products.einsum("nxg,nmxyg->nmxy", products, _products.einsum("nmgo,xygo->nmxyg", d, other_d))


@_library.register_gradient("TfjacJacobianKernel")
def _gradient(op, cotangent):
    a, d = op.inputs[: op.get_attr("K")], op.inputs[op.get_attr("K") :]
    parts = _parts(a, d, op.get_attr("blocks"))
    rows = [jacobian_rows(inputs, outputs, ["gio"] * len(inputs)) for inputs, outputs in parts]
    shapes = [_factors.axes(block) for block in rows]
    jacobian = tf.concat([tf.reshape(block, [n * m, p]) for block, (n, m, p) in zip(rows, shapes)], axis=0)
    to_rows = _products.matmul(cotangent + tf.transpose(cotangent), jacobian)
    to_blocks = tf.split(to_rows, [n * m for n, m, _ in shapes]) if len(parts) > 1 else [to_rows]
    to_factors = [
        _factors.pull_back(inputs, outputs, ["gio"] * len(inputs), tf.reshape(to_block, shape))
        for (inputs, outputs), to_block, shape in zip(parts, to_blocks, shapes)
    ]
    count = len(a) // len(parts)
    return [x for to_block in to_factors for x in to_block[:count]] + [
        x for to_block in to_factors for x in to_block[count:]
    ]
