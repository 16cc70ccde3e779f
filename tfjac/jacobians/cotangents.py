"""One backward pass per output of an example, all at once: ∂y[n,m]/∂z for every z that is asked for."""

import tensorflow as tf

from tfjac.jacobians.chunks import in_chunks, unless_empty, vectorised_map
from tfjac.jacobians.linearise import pull_back
from tfjac.jacobians.shapes import axes, product


def stacked_cotangents(ys, tensors):
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


def _passes_of(y, tensors):
    m = product(axes(y)[1:])

    def one_pass(k):
        return gradients_or_zeros(y, tensors, _seed(y, k, m))

    if isinstance(m, int) and m == 1:
        return [tensor[None] for tensor in gradients_or_zeros(y, tensors, tf.ones_like(y))]
    shapes, dtypes = [[m, *axes(tensor)] for tensor in tensors], [tensor.dtype for tensor in tensors]
    static_shapes = [tensor.shape for tensor in tensors]
    return unless_empty(y, lambda: vectorised_map(one_pass, tf.range(m), static_shapes), shapes, dtypes)


def _seed(y, k, m):
    """Ask for output k of every example."""
    n, *rest = axes(y)
    return tf.broadcast_to(tf.reshape(tf.one_hot(k, m, dtype=y.dtype), [1, *rest]), [n, *rest])


def cotangents_in_chunks(y, tensors, rows, specs, chunk_size):
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
    backward = pull_back([y], tensors)
    static_shapes = [tensor.shape for tensor in tensors]

    def one_pass(k):
        results = backward(_seed(y, k, m))
        return [tf.zeros_like(z) if result is None else result for z, result in zip(tensors, results)]

    def chunk(indices):
        return rows(vectorised_map(one_pass, indices, static_shapes))

    shapes = [[axes(y)[0], m, spec.shape[2]] for spec in specs]
    return unless_empty(
        y, lambda: in_chunks(chunk, m, specs, chunk_size, axis=1), shapes, [spec.dtype for spec in specs]
    )


def gradients_or_zeros(y, tensors, seed, stop=()):
    """`tf.gradients` with dense results, zeros where there is no path."""
    results = tf.gradients(y, tensors, grad_ys=seed, stop_gradients=list(stop) or None, unconnected_gradients="zero")
    return [tf.convert_to_tensor(result) for result in results]
