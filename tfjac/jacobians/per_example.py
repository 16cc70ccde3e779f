"""Jacobians and gradients of each example with respect to weights."""

import tensorflow as tf

from tfjac.graph import in_graph
from tfjac.jacobians.factors.factorize import factorize, real_source_in, rows_like
from tfjac.jacobians.passes.chunks import bytes_of_pass, passes_at_once
from tfjac.jacobians.passes.nests import check_variables
from tfjac.types import Mixing, NestLike, Sources, Tensor, Tensors, UnusedVariables


def per_example_jacobian(
    ys: Tensors,
    variables: Sources,
    examples_mix: Mixing = "error",
    chunk_size: int | None = None,
    memory_budget: int | None = None,
    verify: bool | None = None,
    unconnected_gradients: UnusedVariables = "error",
) -> NestLike:
    """Return the Jacobian of each example's outputs with respect to each variable: ∂y[n,...]/∂v.

    Args:
        ys: tensor `[n, *outputs]` of the `tf.function` being traced; or a callable without arguments that returns it.
        variables: `tf.Variable`, `keras.Variable`, tensor that all examples share, with a callable a selector of such
            a node, or a nest of them.
        examples_mix: "error", or "full" to allow examples that depend on one another, at n·m backward passes; or
            at one for each shared value, where they do so through a few, as the means of a batch normalisation.
        chunk_size: how many of the m backward passes are live at once; all where None. Smaller is slower; the result
            is the same.
        memory_budget: in place of `chunk_size`: bytes that the passes may take at once, by the sizes of the tensors
            between variables and ys. The result itself comes on top.
        verify: True to check the result when the graph runs against TensorFlow's gradient for random cotangents, by two
            backward passes more; None for what the environment variable TFJAC_VERIFY says.
        unconnected_gradients: "error" refuses a variable that ys do not depend on; "zero" gives zeros for it.

    Returns:
        A nest like `variables`, each entry `[n, *outputs, *variable.shape]` in the dtype of the variable.

    Example:
        >>> w = tf.Variable([[1.0], [2.0]])
        >>> x = tf.constant([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> jacobian = tfjac.per_example_jacobian(lambda: tf.square(x @ w), w)  # of y[n, 0] = (x[n]·w)²
        >>> jacobian.shape
        TensorShape([3, 1, 2, 1])
        >>> jacobian.numpy().reshape(3, 2).tolist()
        [[2.0, 0.0], [0.0, 4.0], [6.0, 6.0]]

    Raises:
        ExamplesMix, ValueError, TypeError: as `jacobian_operator`; ValueError for a wrong chunk size.

    Cost: m backward passes, vectorised, and one write of the result. Outside of a `tf.function` a callable is traced in
    every call, which takes tens of milliseconds: for repeated calls make a `tf.function`, which is traced once.
    """
    passes_at_once(chunk_size, memory_budget, lambda: 1)
    check_variables(variables)

    def compute(y: Tensor, variables: NestLike) -> list[Tensor]:
        flat = tf.nest.flatten(variables)
        sources = [source for source in (real_source_in(y.graph, v) for v in flat) if source is not None]
        at_once = passes_at_once(chunk_size, memory_budget, lambda: bytes_of_pass(sources, y))
        factors = factorize([y], flat, examples_mix, at_once, verify, unconnected_gradients)
        return [rows_like(y, v, factor) for v, factor in zip(flat, factors)]

    return tf.nest.pack_sequence_as(variables, in_graph(compute, ys, xs=variables, is_one=True))


def per_example_gradients(
    losses: Tensors,
    variables: Sources,
    examples_mix: Mixing = "error",
    verify: bool | None = None,
    unconnected_gradients: UnusedVariables = "error",
) -> NestLike:
    """Return the gradient of each example's loss with respect to each variable.

    Args:
        losses: tensor `[n]`, one loss per example (a Keras loss with `reduction="none"`); or a callable that returns
            it.
        variables, examples_mix, verify, unconnected_gradients: as in `per_example_jacobian`.

    Returns:
        A nest like `variables`, each entry `[n, *variable.shape]`.

    Raises:
        ValueError: where `losses` is not of rank 1, and as `per_example_jacobian`.

    Cost: one backward pass and one write of the result.

    Example:
        >>> w, x = tf.Variable([1.0, 2.0]), tf.constant([[1.0, 0.0], [0.0, 1.0]])
        >>> tfjac.per_example_gradients(lambda: tf.reduce_sum(tf.square(x * w), axis=1), w).numpy().tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    check_variables(variables)

    def compute(y: Tensor, variables: NestLike) -> NestLike:
        return per_example_jacobian(
            of_rank_one(y), variables, examples_mix, verify=verify, unconnected_gradients=unconnected_gradients
        )

    return in_graph(compute, losses, xs=variables, is_one=True)


def of_rank_one(losses: Tensor) -> Tensor:
    if losses.shape.rank != 1:
        raise ValueError(
            "losses must have one entry per example, shape [n]: use a loss with reduction='none', and reduce what is "
            "left per example. "
            f"Received: {losses.name} of shape {losses.shape}"
        )
    return losses
