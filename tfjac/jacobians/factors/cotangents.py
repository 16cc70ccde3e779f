"""One backward pass per output of an example, all at once: ∂y[n,m]/∂z for every z that is asked for."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph import axes, references
from tfjac.jacobians.passes.chunks import in_chunks, unless_empty
from tfjac.jacobians.passes.linearise import gradients_or_zeros, pull_back
from tfjac.linear.shapes import product
from tfjac.types import Tensor


def stacked_cotangents(ys: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Compute ∂(Σ_n y[n,m])/∂z for each output m of `ys` and each tensor z of `tensors`.

    Where examples do not mix below z, slice n of the result is ∂y[n,m]/∂z[n].

    Args:
        ys: list of tensors `[n, ...]` with the same n; their outputs follow one another along m.
        tensors: list of tensors that `ys` are computed from.

    Returns:
        A list of tensors `[m, *z.shape]`.

    Cost: m backward passes from `ys` to `tensors`, vectorised over m.
    """
    passes = [_passes_of(y, tensors) for y in ys]
    return passes[0] if len(passes) == 1 else [tf.concat(parts, 0) for parts in zip(*passes)]


def _passes_of(y: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    m = product(axes(y)[1:])
    if isinstance(m, int) and m == 1:
        found = gradients_or_zeros(y, tensors, tf.ones_like(y))
        stacked = {ref: tf.expand_dims(ref.deref(), 0) for ref in references(found)}  # ops that add have the same one
        return [stacked[tensor.ref()] for tensor in found]
    shapes, dtypes = [[m, *axes(tensor)] for tensor in tensors], [tensor.dtype for tensor in tensors]
    backward = pull_back([y], tensors).with_zeros(tensors)
    return unless_empty(y, lambda: backward.on_stacks(asking_for(y, tf.range(m))), shapes, dtypes)


def asking_for(y: Tensor, outputs: Tensor) -> Tensor:
    """Return the cotangents of y `[c, *y.shape]` that ask for these outputs `[c]` of every example at once.

    Examples do not meet on the way back. For an output that y does not have they are zero.
    """
    n, *rest = axes(y)
    (c,) = axes(outputs)
    chosen = tf.one_hot(outputs, product(rest), dtype=y.dtype)
    return tf.broadcast_to(tf.reshape(chosen, [c, 1, *rest]), [c, n, *rest])


def cotangents_in_chunks(
    y: Tensor, tensors: Sequence[Tensor], rows: Callable, specs: Sequence[tf.TensorSpec], chunk_size: int | Tensor
) -> list[Tensor]:
    """Compute rows from the cotangents of some of the m outputs of `y` at a time, so that only these are live.

    Args:
        y: tensor `[n, ...]` of m outputs per example.
        tensors: list of tensors that y is computed from.
        rows: function of a list of cotangents `[c, *z.shape]`, one per tensor z, that returns a list of `[n,c,q]`.
        specs: list of `tf.TensorSpec` of `[n, None, q]`, what `rows` returns.
        chunk_size: c, an integer or a scalar tensor.

    Returns:
        A list of tensors `[n,m,q]`.

    Cost: m backward passes, c at a time.
    """
    m = product(axes(y)[1:])
    backward = pull_back([y], tensors).with_zeros(tensors)

    def chunk(outputs: Tensor) -> list[Tensor]:
        return rows(backward.on_stacks(asking_for(y, outputs)))

    shapes = [[axes(y)[0], m, spec.shape[2]] for spec in specs]
    return unless_empty(
        y, lambda: in_chunks(chunk, m, specs, chunk_size, axis=1), shapes, [spec.dtype for spec in specs]
    )
