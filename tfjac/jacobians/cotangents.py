"""One backward pass per output of an example, all at once: ∂y[n,m]/∂z for every z that is asked for."""

import tensorflow as tf

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
    n, *rest = axes(y)
    m = product(rest)

    def one_pass(k):
        seed = tf.broadcast_to(tf.reshape(tf.one_hot(k, m, dtype=y.dtype), [1, *rest]), [n, *rest])
        return gradients_or_zeros(y, tensors, seed)

    if isinstance(m, int) and m == 1:
        return [tensor[None] for tensor in gradients_or_zeros(y, tensors, tf.ones_like(y))]
    stacked = tf.vectorized_map(one_pass, tf.range(m))
    for result, tensor in zip(stacked, tensors):
        result.set_shape([m if isinstance(m, int) else None, *tensor.shape])
    return stacked


def gradients_or_zeros(y, tensors, seed, stop=()):
    """`tf.gradients` with dense results, zeros where there is no path."""
    results = tf.gradients(y, tensors, grad_ys=seed, stop_gradients=list(stop) or None, unconnected_gradients="zero")
    return [tf.convert_to_tensor(result) for result in results]
