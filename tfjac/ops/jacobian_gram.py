"""Factors and a residual to the normal equations."""

from typing import Any

import tensorflow as tf

from tfjac.ops import _factors, _forms, _library, _products
from tfjac.ops.jacobian_rows import jacobian_rows
from tfjac.types import Tensor, TensorLike

_RENAMED = str.maketrans("gio", "hjq")  # axis letters of the second factor of a pair


def jacobian_gram(
    a: list[Any], d: list[Any], layouts: list[str], residual: TensorLike | None = None
) -> tuple[Tensor, Tensor]:
    """Compute JᵀJ and Jᵀr from the factors of J, without forming J.

        gram[p,q] = sum_nm J[n,m,p] J[n,m,q]        gradient[p] = sum_nm J[n,m,p] r[n,m]

    For t = 1 the residuals are summed before the product: the block of factors k, l is
    sum_n a_k[n,i] a_l[n,j] C[n,o,q] with C = sum_m d_k[n,m,o] d_l[n,m,q], so that the cost of the product does not
    depend on m (the Khatri-Rao form of the Gauss-Newton matrix; Botev, Ritter & Barber 2017, eq. 6, before its
    approximation).

    Args:
        a: list of K tensors `[n,t,g,i]`, float32 or float64; t, g, i may differ from factor to factor. Half
            precision is computed, and comes back, in float32.
        d: list of K tensors `[n,m,t,g,o]` of the same dtype; o may differ from factor to factor.
        layouts: list of K strings, permutations of "gio": the order in which the axes of a block are flattened.
        residual: `[n,m]` of the same dtype, or None.

    Returns:
        (gram, gradient): `[p, p]`, both triangles filled and exactly symmetric, and `[p]`, zeros where `residual` is
        None.

    Raises:
        TypeError: if a, d or layouts is no list, or the dtypes are not all float32 or all float64.
        ValueError: if shapes that are known while tracing, or layouts, are wrong.
        tf.errors.InvalidArgumentError: if shapes turn out wrong when the op runs.

    Cost: at most n·m·p²/2 multiply-adds; n·p²/4 for one large factor with t = 1, whatever m is. The native op needs a
    few tiles of extra memory, the twin J or n·p·o.
    Differentiable with respect to a, d and residual (through J: n·m·p numbers).
    """
    a, d, layouts = _factors.check_factors(a, d, layouts)
    if residual is not None:
        residual = _check_residual(residual, d[0])
    native = _library.native_op("jacobian_gram")
    if native:
        return tuple(native(a=a, d=d, residual=[] if residual is None else [residual], layouts=layouts))
    return twin(a, d, layouts, residual)


def _check_residual(residual, d):
    residual = _factors.tensor(residual, rank=2)
    if residual.dtype != d.dtype:
        raise TypeError(
            f"`residual` must have the dtype of the factors, {d.dtype.name}. Received: {residual.dtype.name}"
        )
    if not residual.shape.is_compatible_with(d.shape[:2]):
        raise ValueError(
            "`residual` must be [n,m], as the first two axes of d[n,m,t,g,o]. "
            f"Received: shapes {residual.shape} and {d.shape}"
        )
    return residual


def twin(a, d, layouts, residual=None):
    """Compute `jacobian_gram` in plain TensorFlow."""
    a, d = zip(*(_factors.balanced(x, y) for x, y in zip(*_factors.agreeing(a, d, residual))))
    pairs = [(k, other) for k in range(len(a)) for other in range(k + 1)]
    rows = [_factors.expand(x, y, layout) for x, y, layout in zip(a, d, layouts)]
    if any(_folding_pays(a, d, k, other) for k, other in pairs):
        gram = _gram_by_pairs(a, d, layouts, rows)
    else:
        whole = tf.concat(rows, axis=-1)
        gram = _products.einsum("nmp,nmq->pq", whole, whole)
    if residual is None:
        return gram, tf.zeros(_factors.axes(gram)[:1], gram.dtype)
    return gram, tf.concat([_gradient_block(x, y, layout, residual) for x, y, layout in zip(a, d, layouts)], axis=0)


def _folding_pays(a, d, k, other):
    first, second = _factors.sizes(a[k], d[k]), _factors.sizes(a[other], d[other])
    one_position = first.known and second.known and first.t == second.t == 1
    return one_position and _forms.gram_costs(first, second).pairs_pay


def _gram_by_pairs(a, d, layouts, rows):
    blocks = [[None] * len(a) for _ in a]
    for k in range(len(a)):
        for other in range(k + 1):
            if _folding_pays(a, d, k, other):
                block = _folded_block(a[k], d[k], layouts[k], a[other], d[other], layouts[other])
            else:
                block = _products.einsum("nmp,nmq->pq", rows[k], rows[other])
            if k == other:  # the forms are symmetric up to rounding only
                block = tf.linalg.band_part(block, -1, 0)
                block += tf.transpose(tf.linalg.set_diag(block, tf.zeros(_factors.axes(block)[:1], block.dtype)))
            blocks[k][other] = block
            if k != other:
                blocks[other][k] = tf.transpose(block)
    return tf.concat([tf.concat(row, axis=1) for row in blocks], axis=0)


def _folded_block(a, d, layout, a_other, d_other, layout_other):
    columns = layout_other.translate(_RENAMED)
    folded = _products.einsum("nmgo,nmhq->ngohq", d[:, :, 0], d_other[:, :, 0])
    half = _products.einsum("ngi,ngohq->ngiohq", a[:, 0], folded)
    block = _products.einsum(f"ngiohq,nhj->{layout}{columns}", half, a_other[:, 0])
    u, v, w, x, y, z = _factors.axes(block)
    return tf.reshape(block, [u * v * w, x * y * z])


def _gradient_block(a, d, layout, residual):
    block = _products.einsum(f"ntgi,ntgo->{layout}", a, _products.einsum("nmtgo,nm->ntgo", d, residual))
    return tf.reshape(block, [-1])


@_library.register_gradient("TfjacJacobianGram")
def _gradient(op, to_gram, to_gradient):
    count = op.get_attr("K")
    a, d, residual = op.inputs[:count], op.inputs[count : 2 * count], op.inputs[2 * count :]
    layouts = [layout.decode() for layout in op.get_attr("layouts")]
    rows = jacobian_rows(a, d, layouts)  # [n, m, p]
    to_rows = _products.einsum("nmp,pq->nmq", rows, to_gram + tf.transpose(to_gram))
    if not residual:
        return _factors.pull_back(a, d, layouts, to_rows)
    to_rows += residual[0][:, :, None] * to_gradient
    return [*_factors.pull_back(a, d, layouts, to_rows), _products.einsum("nmp,p->nm", rows, to_gradient)]
