"""The Jacobian as a linear operator, kept as factors."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac import ops
from tfjac.graph import axes
from tfjac.linear.factors.forms import DenseFactor, kernel, listed, squared_row_norms
from tfjac.types import DType, Tensor


class JacobianOperator(tf.linalg.LinearOperator):
    """J[(n,m),p] = ∂y[n,m]/∂θ[p] as a `tf.linalg.LinearOperator`, which is never formed unless asked for.

    Rows run over examples, then outputs within an example; columns over the variables in the order given, each
    flattened row-major. Its dtype is that of the variables, float32 for half precision. It works wherever TensorFlow
    takes a linear operator, for example in `tf.linalg.experimental.conjugate_gradient`. Made by `jacobian_operator`.
    """

    def __init__(
        self,
        factors: Sequence[Any],
        shapes: Sequence[tf.TensorShape],
        num_examples: int | Tensor,
        num_outputs: int | Tensor,
        name: str = "JacobianOperator",
    ) -> None:
        """Wrap one factor per variable.

        Args:
            factors: list of `Factor`, all of the same dtype.
            shapes: static shapes of the variables.
            num_examples, num_outputs: n and m, integers or scalar tensors.
            name: name of the operator.
        """
        dtypes = {factor.dtype for factor in factors}
        if len(dtypes) > 1:
            raise TypeError(
                "All variables of one operator must have the same dtype; make one operator for each. "
                f"Received: {sorted(dtype.name for dtype in dtypes)}"
            )
        self._factors, self._shapes = list(factors), [tf.TensorShape(shape) for shape in shapes]
        self._n, self._m = num_examples, num_outputs
        parameters = {"factors": factors, "shapes": shapes, "num_examples": num_examples, "num_outputs": num_outputs}
        super().__init__(dtype=dtypes.pop(), is_square=False, parameters={**parameters, "name": name}, name=name)

    def __repr__(self) -> str:
        n, m = (size if isinstance(size, int) else "?" for size in (self._n, self._m))
        kinds = ", ".join(dict.fromkeys(type(factor).__name__ for factor in self._factors))
        rows = n * m if isinstance(n, int) and isinstance(m, int) else "?"
        return (
            f"<JacobianOperator [{rows}, {self.num_parameters}]: {n} examples of {m} outputs, "
            f"{len(self._shapes)} variables, {self.dtype.name}, as {kinds}>"
        )

    @property
    def num_rows(self) -> int | Tensor:
        """n·m: an integer where it is known while tracing, else a scalar tensor."""
        return self._n * self._m

    @property
    def examples_and_outputs(self) -> tuple[int | Tensor, int | Tensor]:
        """(n, m): integers where they are known while tracing, else scalar tensors."""
        return self._n, self._m

    @property
    def num_probes(self) -> None:
        """None: factors have a row for each output, not random combinations of them."""
        return None

    @property
    def num_parameters(self) -> int:
        """p, an integer."""
        return sum(shape.num_elements() for shape in self._shapes)

    @property
    def factors(self) -> list[Any]:
        """The factors, one per variable."""
        return list(self._factors)

    def cast(self, dtype: DType) -> "JacobianOperator":
        """Return the same operator with its factors in another dtype."""
        return self.with_factors([factor.cast(dtype) for factor in self._factors], self._m)

    def with_factors(self, factors: Sequence[Any], num_outputs: int | Tensor) -> "JacobianOperator":
        """Return the operator of other factors of the same variables and examples."""
        return JacobianOperator(factors, self._shapes, self._n, num_outputs, self.name)

    def split(self, x: Tensor) -> list[Tensor]:
        """Cut `x[p]` (or `[p, ...]`, keeping the trailing axes) into tensors of the variables' shapes."""
        parts = tf.split(x, [shape.num_elements() for shape in self._shapes], axis=0)
        return [tf.reshape(part, [*shape, *axes(x)[1:]]) for part, shape in zip(parts, self._shapes)]

    def gram(self) -> Tensor:
        """Return Jᵀ J `[p,p]`. Cost: n·p²/2 multiply-adds at most, whatever m is."""
        return ops.jacobian_gram(*self._listed())[0]

    def gram_and_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return Jᵀ J `[p,p]` and Jᵀ·residual `[p]` for `residual[n·m]`, in one pass."""
        a, d, layouts = self._listed()
        return ops.jacobian_gram(a, d, layouts, tf.reshape(residual, [self._n, self._m]))

    def kernel(self, scales: Tensor | None = None) -> Tensor:
        """Return J·S·Jᵀ `[n·m, n·m]`, the neural tangent kernel; S scales the columns of each variable.

        Args:
            scales: `[number of variables]`, non-negative, one scale for all columns of a variable; all one where left
                out.

        Cost: structured, see `tfjac.ops.jacobian_kernel`; p does not enter except through the sizes of the layers.
        """
        return kernel(self.factors if scales is None else self.scaled_factors(scales))

    def scaled_factors(self, scales: Tensor) -> list[Any]:
        """Return the factors of J·√S, one per variable; S scales the columns of each, as in `kernel`."""
        return [factor.scaled(tf.sqrt(scales[k])) for k, factor in enumerate(self._factors)]

    def row_norms(self) -> Tensor:
        """Return the norms of the rows, `[n·m]`."""
        return tf.sqrt(tf.reshape(squared_row_norms(self._factors), [self.num_rows]))

    def column_norms(self) -> Tensor:
        """Return the norms of the columns, `[p]`."""
        return tf.sqrt(self.column_norms_squared())

    def column_norms_squared(self) -> Tensor:
        """Return the squared norms of the columns, diag(JᵀJ), `[p]`."""
        return tf.concat([factor.squared_column_norms() for factor in self._factors], 0)

    def _listed(self) -> tuple:
        return listed(*(factor if factor.has_outer_form else DenseFactor(factor.dense()) for factor in self._factors))

    def _shape(self) -> tf.TensorShape:
        rows = self.num_rows if isinstance(self.num_rows, int) else None
        return tf.TensorShape([rows, self.num_parameters])

    def _shape_tensor(self) -> Tensor:
        return tf.stack([self.num_rows, self.num_parameters])

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x = tf.linalg.adjoint(x) if adjoint_arg else x
        columns = axes(x)[-1]
        if adjoint:
            u = tf.reshape(x, [self._n, self._m, columns])
            return tf.concat([factor.adjoint_matmul(u) for factor in self._factors], 0)
        parts = tf.split(x, [shape.num_elements() for shape in self._shapes], axis=0)
        result = tf.add_n([factor.matmul(part) for factor, part in zip(self._factors, parts)])
        return tf.reshape(result, [self.num_rows, columns])

    def _to_dense(self) -> Tensor:
        return tf.reshape(ops.jacobian_rows(*self._listed()), [self.num_rows, self.num_parameters])
