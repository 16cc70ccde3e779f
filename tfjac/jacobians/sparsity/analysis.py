"""The pattern of a Jacobian, by carrying index sets from x to y through the ops between them."""

import dataclasses

import scipy.sparse
import tensorflow as tf

from tfjac.graph import Dependence, in_graph, inline_calls, is_variable
from tfjac.jacobians.passes.connectedness import check_connected
from tfjac.jacobians.passes.nests import like, sources_of
from tfjac.jacobians.sparsity.index_sets import each_its_own, empty
from tfjac.jacobians.sparsity.known import Known
from tfjac.jacobians.sparsity.pattern import SparsityPattern
from tfjac.jacobians.sparsity.propagation import Propagation
from tfjac.linear.shapes import product
from tfjac.progress import shown
from tfjac.types import NestLike, Sources, Tensor, Tensors, Variable


def sparsity(ys: Tensors, xs: Sources) -> SparsityPattern:
    """Return where the Jacobian ∂ys/∂xs may differ from zero, from the graph alone.

    For each element of each tensor between xs and ys, the set of elements of xs that it depends on is carried along:
    exactly through ops that act element by element, move elements, reduce, multiply, convolve or scatter, with
    constants taken into account (zeros of a stencil, of a mask, of a differentiation matrix; indices of a gather), and
    through the bodies of loops and branches. For other ops, and custom gradients, the structure of their gradient is
    followed. What is then still not known is taken to depend on everything, so the pattern may be too large but is
    never too small. It holds for all values of xs, also where these are eager tensors.

    Args:
        ys: tensor of the `tf.function` being traced, of any shape, or a nest of them, whose elements then follow one
            another; or a callable without arguments that returns it.
        xs: a variable, a tensor of that `tf.function`, or a nest of them, whose elements then follow one another. With
            a callable, an eager tensor that it uses. Or selectors of nodes, see `tfjac.nodes`.

    Returns:
        A `SparsityPattern` of shape `[elements of ys, elements of xs]`.

    Raises:
        ValueError: where a shape between xs and ys is not known while tracing, or ys does not depend on xs.
        TypeError: for ys or xs that are not floating-point, or no tensors at all.

    Cost: while tracing, time and memory in proportion to the sizes of the index sets, summed over the tensors between
    xs and ys, and over the steps of loops. Nothing when the graph runs.
    """
    found = []

    def compute(ys: NestLike, xs: NestLike) -> Tensor:
        found.append(Ends.of(ys, xs).pattern())
        return tf.constant(0)

    with shown("tfjac.sparsity"):
        in_graph(compute, ys, xs=xs)
    return found[0]


@dataclasses.dataclass
class Ends:
    """What a pattern is found between.

    Attributes:
        ys: list of tensors, without function calls on the way to them.
        sources: what stands for each x in their graph.
        sizes: number of elements of each x.
        walk: the `Propagation` in their graph.
    """

    ys: list[Tensor]
    sources: list[Tensor]
    sizes: list[int]
    walk: Propagation

    @classmethod
    def of(cls, ys: NestLike, xs: NestLike) -> "Ends":
        """Read the arguments of a user.

        Raises:
            ValueError: for an x that no y depends on, or whose shape is not known while tracing.
        """
        xs, sources = tf.nest.flatten(xs), sources_of(xs)
        ys = inline_calls(tf.nest.flatten(ys), depends_on=[source for source in sources if source is not None])
        check_connected(ys, xs, Dependence(sources), "ys does not depend on this x")
        eager = [x for x in xs if not is_variable(x) and not tf.is_symbolic_tensor(x)]
        walk = Propagation(Known(tf.compat.v1.get_default_graph(), xs=[*sources, *eager]), [])
        sizes = [product(_static_shape(x)) for x in xs]
        return cls(ys, sources, sizes, walk)

    def pattern(self) -> SparsityPattern:
        """Return the `SparsityPattern` of the ys.

        Raises:
            ValueError: where a shape between xs and ys is not known while tracing.
        """
        rows = self.walk.carry(each_its_own(self.sources, self.sizes), self.ys)
        total = sum(self.sizes)
        rows = [empty(self.walk.size(y), total) if sets is None else sets for y, sets in zip(self.ys, rows)]
        return SparsityPattern(scipy.sparse.vstack(rows, format="csr"), self.walk.opaque)

    def sized(self) -> "Ends":
        """Return the same, with the shapes of the ys known."""
        if not all(y.shape.is_fully_defined() for y in self.ys):
            self.pattern()
        return self

    def with_static_ys(self) -> "Ends":
        """Return the same with ys of static shapes; `pattern` may have found some that the graph does not show."""
        ys = [y if y.shape.is_fully_defined() else tf.ensure_shape(y, self.walk.shape(y)) for y in self.ys]
        return dataclasses.replace(self, ys=ys)


def _static_shape(x: Variable | Tensor) -> list[int]:
    shape = like(x).shape
    if not shape.is_fully_defined():
        raise ValueError(
            "A sparsity pattern needs xs of static shapes: give the tf.function an input_signature, or fix the shape "
            f"with tf.ensure_shape. Received: {x!r}"
        )
    return shape.as_list()
