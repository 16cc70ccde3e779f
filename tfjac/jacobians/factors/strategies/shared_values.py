"""Examples that depend on one another through few values alone, as those of a batch normalisation through its mean.

Let s be these values, each a function of the data of all examples. Then ∂y/∂θ = ∂y/∂θ|s + ∂y/∂s · ds/dθ. In the first
two terms examples are apart, as s is shared like a weight. The third takes a backward pass for each element of s.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, compiled_by_xla, replay, shared_values
from tfjac.jacobians.factors.strategies.apart import APART
from tfjac.jacobians.factors.strategies.problem import Problem, first_of
from tfjac.jacobians.passes.chunks import bytes_of_pass, in_chunks, passes_at_once
from tfjac.jacobians.passes.linearise import pull_back
from tfjac.jacobians.passes.nests import like
from tfjac.linear.factors.forms import Factor
from tfjac.linear.factors.shared_factor import SharedFactor
from tfjac.linear.shapes import wide_dtype
from tfjac.types import Tensor

MEMORY = 2**28
"""Bytes that backward passes may take at once."""


def by_shared_values(problem: Problem) -> list[Factor] | None:
    """The `Strategy` of examples that depend on one another through fewer values than there are rows."""
    try:
        shared = SharedValues(problem.ys, problem.dependence)
        if shared.size is None or (problem.num_rows is not None and shared.size >= problem.num_rows):
            return None
        return shared.factors(problem.variables, problem.chunk_size)
    except ValueError:
        return None


class SharedValues:
    """The values through which alone the examples of `ys` depend on one another.

    Args:
        ys: list of tensors `[n, ...]`.
        dependence: the `Dependence` on what the Jacobian is taken with respect to.

    Attributes:
        size: number of their elements, None if the trace leaves it open.

    Raises:
        ExamplesMix: where examples depend on one another in another way.
    """

    def __init__(self, ys: Sequence[Tensor], dependence: Dependence) -> None:
        self._ys, self._dependence, self._values = ys, dependence, shared_values(dependence, ys)
        sizes = [value.shape.num_elements() for value in self._values]
        self.size = None if None in sizes else sum(sizes)

    def factors(self, variables: list, chunk_size: int | Tensor | None = None) -> list[Factor]:
        """Return the factor of each variable.

        Args:
            variables: list of variables, one for each source of the dependence.
            chunk_size: as for `factorize`.

        Raises:
            ExamplesMix: where examples still depend on one another with these values given.
            ValueError: where what must be computed again draws random numbers.
        """
        given = [tf.stop_gradient(value) for value in self._values]
        ys = replay(self._ys, list(zip(self._values, given)))
        around = Dependence([*self._dependence.sources, *given])
        connected = sorted(around.sources_of_any(ys))
        all_variables = [*variables, *given]
        inner = Dependence([around.sources[index] for index in connected])
        given_shared = Problem(ys, [all_variables[index] for index in connected], inner, chunk_size=chunk_size)
        apart = first_of(APART, given_shared)
        count = len(variables)
        factors = dict(zip(connected, apart))
        shared = [index for index in connected if index >= count]
        blocks = [factors[index].dense() for index in shared]
        widest = max((block.dtype for block in blocks), key=lambda dtype: dtype.size)
        of_shared = tf.concat([tf.cast(block, widest) for block in blocks], axis=2)
        moved = self._moved([self._values[index - count] for index in shared], variables, chunk_size)
        return [_total(factors.get(index), of_shared, moved.get(index)) for index in range(count)]

    def _moved(self, values: Sequence[Tensor], variables: list, chunk_size: int | Tensor) -> dict:
        """Return ds/dθ of values as matrices `[s,q]`, by the indices of the variables that these depend on.

        All values are seeds of one backward pass, so that its trace is not longer for many layers.
        """
        indices = sorted(self._dependence.sources_of_any(values))
        sources = [self._dependence.sources[index] for index in indices]
        backward = pull_back(values, sources).with_zeros(sources)
        likes = [like(variables[index]) for index in indices]
        sizes = [value.shape.num_elements() for value in values]

        def rows(positions: Any) -> list[Tensor]:
            basis = tf.split(tf.one_hot(positions, sum(sizes), dtype=values[0].dtype), sizes, axis=1)
            seeds = [tf.reshape(tf.cast(part, v.dtype), [-1, *v.shape]) for part, v in zip(basis, values)]
            return backward.on_stacks(*seeds)

        if not backward.vectorises():
            chunk_size = 1
        elif chunk_size is None and not compiled_by_xla(values[0].graph):
            chunk_size = passes_at_once(None, MEMORY, lambda: bytes_of_pass(sources, *values))
        specs = [tf.TensorSpec([None, *x.shape], x.dtype) for x in likes]
        blocks = in_chunks(rows, sum(sizes), specs, chunk_size)
        return {
            index: tf.reshape(tf.cast(block, wide_dtype(block.dtype)), [sum(sizes), x.shape.num_elements()])
            for index, block, x in zip(indices, blocks, likes)
        }


def _total(apart: Factor | None, of_shared: Tensor, moved: Tensor | None) -> Any:
    """The factor of a variable, given that with the shared values as they are, and how it moves these; or None."""
    if moved is None:
        return apart
    of_shared = tf.cast(of_shared, moved.dtype)
    if apart is None:
        return SharedFactor.of_shared_alone(of_shared, moved)
    return SharedFactor(apart.cast(moved.dtype), of_shared, moved)
