"""The Jacobian as a linear operator: `jacobian_operator`."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph import axes, in_graph
from tfjac.jacobians.factors.factorize import factorize
from tfjac.jacobians.passes.nests import check_variables, like
from tfjac.linear.factors.forms import Factor
from tfjac.linear.operator import JacobianOperator
from tfjac.linear.shapes import product
from tfjac.types import Mixing, NestLike, Sources, Tensor, Tensors, UnusedVariables


def jacobian_operator(
    ys: Tensors,
    variables: Sources,
    examples_mix: Mixing = "error",
    verify: bool | None = None,
    unconnected_gradients: UnusedVariables = "error",
) -> JacobianOperator:
    """Return the per-example Jacobian of `ys` with respect to `variables` as a linear operator that is kept as factors.

    J[(n,m),p] = ∂y[n,m]/∂θ[p]. The graph of `ys` is read: at each place where a weight meets the data, the input
    there and the cotangents of the output are the Jacobian, in fewer numbers than its rows have.

    Args:
        ys: tensor `[n, ...]` of the `tf.function` being traced, or a list of such tensors with the same n, whose
            outputs then follow one another along m; or a callable without arguments that returns it, anywhere.
        variables: as in `per_example_jacobian`; all of one dtype.
        examples_mix, verify, unconnected_gradients: as in `per_example_jacobian`.

    Returns:
        A `JacobianOperator` of shape `[n·m, p]`.

    Raises:
        ExamplesMix: (a `ValueError`) where examples mix, naming the op.
        ValueError, TypeError: for ys that is eager, of another graph, not floating, without a known rank; for a
            variable that ys does not depend on.

    Cost: one backward pass for each of the m outputs, vectorised; memory n·(i + m·o) numbers per layer [i,o].

    Example:
        >>> w, x = tf.Variable([[1.0], [2.0]]), tf.constant([[3.0, 4.0], [0.0, 1.0]])
        >>> operator = tfjac.jacobian_operator(lambda: x @ w, w)
        >>> operator.gram().numpy().tolist()  # JᵀJ
        [[9.0, 12.0], [12.0, 17.0]]
    """

    def factors_of(ys: list[Tensor], flat: list) -> list[Factor]:
        return factorize(ys, flat, examples_mix, verify=verify, unconnected_gradients=unconnected_gradients)

    return operator_of(ys, variables, factors_of)


def operator_of(
    ys: Tensors, variables: Sources, factors_of: Callable[[list[Tensor], list], Sequence[Factor]]
) -> JacobianOperator:
    """Return the `JacobianOperator` of the factors that `factors_of(list of ys, list of variables)` gives."""
    check_variables(variables)
    shapes: list[tf.TensorShape] = []

    def compute(ys: NestLike, variables: NestLike) -> tuple[Sequence[Factor], int | Tensor, int | Tensor]:
        ys, flat = tf.nest.flatten(ys), tf.nest.flatten(variables)
        factors = factors_of(ys, flat)
        shapes[:] = [like(x).shape for x in flat]
        return factors, axes(ys[0])[0], sum(product(axes(y)[1:]) for y in ys)

    factors, n, m = in_graph(compute, ys, xs=variables)
    n, m = (int(size) if tf.is_tensor(size) and not tf.is_symbolic_tensor(size) else size for size in (n, m))
    return JacobianOperator(factors, shapes, n, m)
