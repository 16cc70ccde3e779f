"""What JᵀJ of one variable is next to: a Kronecker product of two small matrices."""

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.factors.forms import DenseFactor, Factor, OuterFactor, by_group
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.types import Tensor


def kronecker_product(factor: Factor) -> tuple[Tensor, Tensor]:
    """Return A `[g,i,i]` and G `[g,o,o]` of a factor with an outer form, with JᵀJ ≈ A ⊗ G in each group g.

        A = Σ_nt a aᵀ / (n·t),    G = Σ_nmt d dᵀ

    Exact for a single position and inputs that are the same in all examples, such as the ones of a bias. Else inputs
    and cotangents are taken to be independent, and positions not to interact.

    Cost: n·t·i² + n·m·t·o² multiply-adds for each group.
    Reference: J. Martens & R. Grosse, "Optimizing neural networks with Kronecker-factored approximate curvature",
    2015; for convolutions R. Grosse & J. Martens, 2016.
    """
    if isinstance(factor, DenseFactor):
        cotangents = by_group(factor.j[:, :, None])
        return tf.ones([1, 1, 1], factor.dtype), tf.matmul(cotangents, cotangents, transpose_a=True)
    a, d, _ = factor.outer_form()
    inputs, cotangents = by_group(a), by_group(d)
    count = tf.cast(tf.maximum(axes(inputs)[1], 1), a.dtype)
    return tf.matmul(inputs, inputs, transpose_a=True) / count, tf.matmul(cotangents, cotangents, transpose_a=True)


def in_bases(factor: Factor, left: Tensor, right: Tensor) -> Factor:
    """Return the factor of the same weight in other bases: J·(U ⊗ V) in each group g, for U `[g,i,i]` and V `[g,o,o]`.

    For eigenvectors of A and G of `block_of`, the squared norms of its columns are the diagonal of JᵀJ there.
    """
    if isinstance(factor, GatherFactor):
        turned = tf.einsum("nmto,ntop->nmtp", factor.d, tf.gather(right, factor.ids))
        return GatherFactor(factor.ids, turned, factor.rows)
    a, d, layout = factor.outer_form()
    return OuterFactor(tf.einsum("ntgi,gij->ntgj", a, left), tf.einsum("nmtgo,gop->nmtgp", d, right), layout)
