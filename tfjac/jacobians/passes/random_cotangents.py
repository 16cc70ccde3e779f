"""Jacobians verified at run time: Σ u·J against one backward pass of TensorFlow's with the same u.

Both are linear in J, and u is random: a wrong entry, one in another's place, or a row of another example shows in
almost every u. What shows in none is where TensorFlow's own gradient is wrong.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import (
    axes,
    between,
    first_not_linear,
    is_variable,
    largest_of,
    resolution_of,
    verification_wanted,
    verified,
)
from tfjac.graph.facts import facts_of
from tfjac.jacobians.passes.linearise import gradients_or_zeros
from tfjac.linear.shapes import product
from tfjac.types import Tensor, Variable

_NO_GRADIENT = (LookupError, NotImplementedError, TypeError, ValueError)
"""What TensorFlow raises where it cannot differentiate: no gradient, not this case of it, a tensor of another graph."""


def verify_jacobian(
    verify: bool | None,
    given: Sequence[Tensor],
    ys: Sequence[Tensor],
    sources: Sequence[Tensor | Any],
    jacobian: Callable[[list[Tensor]], Sequence[tuple[Tensor, Tensor]]],
    xs: Sequence[Variable | Tensor],
) -> None:
    """Add a check to the graph being traced, if it is wanted.

    Args:
        verify: True, False, or None for what TFJAC_VERIFY says.
        given: list of tensors `[n, ...]`, as the user gave them.
        ys: the same with calls inlined, which the Jacobian is of; TensorFlow differentiates some calls wrongly, and
            loops in those of a SavedModel not at all.
        sources: list of the tensors, or handles of variables, that they were differentiated by.
        jacobian: function from a list of cotangents like `ys` to pairs, one for each source: Σ u·∂y/∂s, of as many
            elements as the source, and ‖∂y/∂s‖, the scale of rounding.
        xs: list of what the user calls these sources, variables or tensors.

    Two u are tried: one for all examples, and one that is zero for a random half of them. Where the two sides differ
    by more than rounding, an InvalidArgumentError says by how much. In functions that XLA compiles nothing is checked,
    nor where TensorFlow's gradient raises, nor where a custom gradient is not linear in what flows back, as one that
    clips: no matrix J has both its rows and its Σ u·J. Warnings say so.

    Cost: three backward passes, and two products with Jᵀ.
    """
    if not sources or not verification_wanted(verify):
        return
    path = between(sources, ys)
    if not _is_linear(path):
        return
    resolution = max(resolution_of(dtype) for dtype in _dtypes(path, ys))
    for copy, y in zip(ys, given):
        if copy is not y:
            what = f"the Jacobian is that of a copy of {y.name}, which differs"
            verified(copy, y, tf.reduce_max(tf.abs(y)), what, resolution)
    every, some = _random(ys, False), _random(ys, True)
    expected = [_gradients_by_tensorflow(ys, sources, u) for u in (every, some, [u / 3 for u in every])]
    known = [gradients for gradients in expected if gradients is not None]
    if len(known) < len(expected):
        return
    lost = [largest_of(whole - 3 * third) for whole, _, third in zip(*known)]
    for name, cotangents, gradients in (("all examples", every, known[0]), ("some examples", some, known[1])):
        length = tf.add_n([tf.norm(tf.cast(u, tf.float64)) for u in cotangents])
        found = jacobian(cotangents)
        scales = [tf.cast(norm, tf.float64) * length for _, norm in found]
        widest = tf.reduce_max(tf.stack(scales))
        for (ours, _), theirs, scale, loss, source, x in zip(found, gradients, scales, lost, sources, xs):
            what = f"for {_described(x, source)}, Σ u·J of random u for {name} differs from the gradient by TensorFlow"
            ours = tf.cast(tf.reshape(ours, tf.shape(theirs)), theirs.dtype)
            verified(ours, theirs, scale, what, resolution, loss, widest)


def _dtypes(path: Iterable[tf.Operation], ys: Sequence[Tensor]) -> set[tf.DType]:
    """The dtypes that are computed in on the way to ys."""
    tensors = [*ys, *(output for op in path for output in op.outputs)]
    return {tensor.dtype for tensor in tensors if tensor.dtype.is_floating or tensor.dtype.is_complex}


def _is_linear(path: Sequence[tf.Operation]) -> bool:
    """Whether cotangents flow back along the ops of a path linearly; where they do not, warn of it."""
    other = first_not_linear(path)
    if other is not None:
        _warn(
            "a custom gradient is not linear in what flows back, or not known to be, that of op "
            f"{other.name!r} of type {other.type}."
        )
    return other is None


def _gradients_by_tensorflow(
    ys: Sequence[Tensor], sources: Sequence[Tensor | Any], cotangents: Sequence[Tensor]
) -> list[Tensor] | None:
    """TensorFlow's gradients; None, with a warning, where it has none, as of some loops that are copies."""
    try:
        return gradients_or_zeros(ys, sources, cotangents)
    except _NO_GRADIENT as failure:
        _warn(f"TensorFlow itself cannot differentiate this graph: {type(failure).__name__}: {failure}")
        return None


def _warn(reason: str) -> None:
    warn(f"tfjac: this Jacobian is not verified, as {reason}")


def verify_factors(
    verify: bool | None,
    given: Sequence[Tensor],
    ys: Sequence[Tensor],
    sources: Sequence[Tensor | Any],
    factors: Sequence[Any],
    variables: Sequence[Variable | Tensor],
) -> None:
    """`verify_jacobian` for the factors of stacked ys with respect to variables."""

    def products(cotangents: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        n = axes(cotangents[0])[0]
        flat = [tf.reshape(u, [n, product(axes(u)[1:])]) for u in cotangents]
        u = flat[0] if len(flat) == 1 else tf.concat(flat, 1)
        return [
            (factor.adjoint_matmul(tf.cast(u, factor.dtype)[:, :, None]), _root_of_sum(factor.squared_row_norms()))
            for factor in factors
        ]

    verify_jacobian(verify, given, ys, sources, products, variables)


def verify_blocks(
    verify: bool | None,
    given: Tensor,
    y: Tensor,
    sources: Sequence[Tensor | Any],
    blocks: Sequence[Tensor | None],
    xs: Sequence[Variable | Tensor],
    by_example: bool,
) -> None:
    """`verify_jacobian` for dense blocks: `[n, *outputs, *inputs]` where `by_example`, else `[*y.shape, *x.shape]`."""

    present = [k for k, block in enumerate(blocks) if block is not None and sources[k] is not None]
    formed: list[Tensor] = [blocks[k] for k in present]
    sources, xs = ([each[k] for k in present] for each in (sources, xs))

    def products(cotangents: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        (u,) = cotangents
        found = []
        for block in formed:
            sizes = axes(block)
            rows = [sizes[0]] if by_example else []
            width = product(sizes[y.shape.rank :])
            matrix = tf.reshape(block, [*rows, product(sizes[len(rows) : y.shape.rank]), width])
            u_of = tf.cast(tf.reshape(u, [*rows, 1, product(axes(u)[len(rows) :])]), block.dtype)
            found.append((tf.matmul(u_of, matrix), _root_of_sum(tf.square(tf.cast(block, tf.float64)))))
        return found

    verify_jacobian(verify, [given], [y], sources, products, xs)


def _described(x: Variable | Tensor, source: Tensor) -> str:
    """Name an x, and the op by which it enters the graph."""
    name = getattr(x, "path", None) or (x.name if is_variable(x) else f"x of shape {x.shape}")
    readers = [op for op in source.consumers() if facts_of(op).kind == "read"] or [source.op]
    users = [user for reader in readers for output in reader.outputs for user in output.consumers()]
    return f"{name} (used first by op {users[0].name} of type {users[0].type})" if users else name


def _root_of_sum(squares: Tensor) -> Tensor:
    return tf.sqrt(tf.reduce_sum(tf.cast(squares, tf.float64)))


def _random(ys: Sequence[Tensor], halved: bool) -> list[Tensor]:
    """Random cotangents; zero for a random half of the examples where `halved`."""
    seed = [random.getrandbits(31), random.getrandbits(31)]
    cotangents = []
    for y in ys:
        u = tf.random.stateless_normal(axes(y), seed, dtype=tf.float64)
        if halved and y.shape.rank:
            n, *rest = axes(y)
            u *= tf.cast(tf.random.stateless_uniform([n, *[1] * len(rest)], seed, 0, 2, dtype=tf.int32), tf.float64)
        cotangents.append(tf.cast(u, y.dtype))
    return cotangents
