"""Jacobians and gradients of each group of rows with respect to weights."""

import tensorflow as tf

from tfjac.graph import in_graph
from tfjac.jacobians.factors.factorize import factorize_segments, rows_like
from tfjac.jacobians.operator import operator_of
from tfjac.jacobians.passes.nests import check_variables
from tfjac.jacobians.per_example import of_rank_one
from tfjac.linear.operator import JacobianOperator
from tfjac.types import Nest, NestLike, Tensor, Tensors, UnusedVariables, Variable


def per_segment_jacobian(
    ys: Tensors,
    variables: Nest[Variable],
    max_rows: int | None = None,
    verify: bool | None = None,
    unconnected_gradients: UnusedVariables = "error",
) -> NestLike:
    """Return the Jacobian of each segment's outputs with respect to each variable: ∂y[s,...]/∂v.

    A segment is a group of rows, such as a graph in a batch for a graph neural network: its nodes are some rows of one
    tensor, its edges some rows of another, and y has one entry per graph. Which row belongs to which segment is read
    off the graph of ops, from the ids that rows are summed by (`tf.math.unsorted_segment_sum` and its like, a product
    with a sparse matrix) and the indices that they are gathered by; it is not asked for.

        J[s,m,(i,o)] = Σ_{rows e of s} a[e,i] · d[e,m,o]

    This is exact where segments do not depend on one another. Gathers are checked for that when the graph runs: a row
    that is part of two segments, as an edge between two graphs would make it, is an InvalidArgumentError. Compiled by
    XLA, which has no assertions, the check is not made, and the caller vouches for it.

    Args:
        ys: tensor `[segments, *outputs]` of the `tf.function` being traced; or a callable without arguments that
            returns it.
        variables: `tf.Variable`, `keras.Variable`, or a nest of them.
        max_rows: the most rows (nodes, edges) that any one segment has, where that is known. XLA needs it.
        verify, unconnected_gradients: as in `tfjac.per_example_jacobian`.

    Returns:
        A nest like `variables`, each entry `[segments, *outputs, *variable.shape]` in the dtype of the variable.

    Raises:
        ExamplesMix: where rows are combined otherwise, for example by a mean over all nodes or by batch normalisation
            in training mode; where segments meet inside a loop or conditional.
        ValueError, TypeError: as `tfjac.jacobian_operator`.

    Cost: m backward passes, vectorised, and one write of the result. Rows of short segments are padded to the longest:
    memory segments · longest · (i + m·o) numbers for each layer [i,o].
    """
    check_variables(variables)

    def compute(y: Tensor, variables: NestLike) -> list[Tensor]:
        flat = tf.nest.flatten(variables)
        factors = factorize_segments([y], flat, max_rows, verify, unconnected_gradients)
        return [rows_like(y, v, factor) for v, factor in zip(flat, factors)]

    return tf.nest.pack_sequence_as(variables, in_graph(compute, ys, xs=variables, is_one=True))


def per_segment_gradients(
    losses: Tensors,
    variables: Nest[Variable],
    max_rows: int | None = None,
    verify: bool | None = None,
    unconnected_gradients: UnusedVariables = "error",
) -> NestLike:
    """Return the gradient of each segment's loss with respect to each variable.

    Args:
        losses: tensor `[segments]`, one loss for each; or a callable that returns it.
        variables: `tf.Variable`, `keras.Variable`, or a nest of them.
        max_rows, verify, unconnected_gradients: as in `per_segment_jacobian`.

    Returns:
        A nest like `variables`, each entry `[segments, *variable.shape]`.

    Raises:
        ValueError: where `losses` is not of rank 1, and as `per_segment_jacobian`.

    Cost: one backward pass and one write of the result. For the norms alone, `segment_operator(losses,
    variables).row_norms()` forms no gradient.
    """
    check_variables(variables)

    def compute(y: Tensor, variables: NestLike) -> NestLike:
        return per_segment_jacobian(of_rank_one(y), variables, max_rows, verify, unconnected_gradients)

    return in_graph(compute, losses, xs=variables, is_one=True)


def segment_operator(
    ys: Tensors,
    variables: Nest[Variable],
    max_rows: int | None = None,
    verify: bool | None = None,
    unconnected_gradients: UnusedVariables = "error",
) -> JacobianOperator:
    """Return the Jacobian of `per_segment_jacobian` as a linear operator that is kept as factors.

    Args:
        ys: tensor `[segments, ...]`, or a list of such tensors, whose outputs then follow one another along m; or a
            callable that returns it.
        variables: `tf.Variable`, `keras.Variable`, or a nest of them; all of one dtype.
        max_rows, verify, unconnected_gradients: as in `per_segment_jacobian`.

    Returns:
        A `JacobianOperator` of shape `[segments·m, p]`.

    Raises:
        ExamplesMix, ValueError, TypeError: as `per_segment_jacobian`.

    Cost: as `tfjac.jacobian_operator`, with all rows of a segment as positions of use.
    """
    return operator_of(
        ys, variables, lambda ys, flat: factorize_segments(ys, flat, max_rows, verify, unconnected_gradients)
    )
