"""The kinds of factor that a Jacobian is a list of, with one interface.

A factor is the block of columns of J[n,m,p] that belongs to one variable. Axis names: n example, m output within an
example, t position of use, g group, i and o input and output features of a layer, q column of the block, r column of
a matrix that is multiplied.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac import ops
from tfjac.graph import axes
from tfjac.linear.shapes import Size, product, reordered, widened
from tfjac.types import Tensor


class Factor(tf.experimental.ExtensionType):
    """One variable's columns of the Jacobian, kept so that products need not form them.

    Factors are values like tensors: functions, loops and branches of TensorFlow take and return them.

    Its numbers are of single precision or better, whatever the graph computes in. Those with respect to a complex
    weight are complex, in TensorFlow's convention: the column of w holds ∂y/∂Re w + i·∂y/∂Im w. On the way back to a
    real variable they become real again (`real`, `imag`); products and norms are of real factors.
    """

    @property
    @abc.abstractmethod
    def dtype(self) -> tf.DType:
        """The dtype of the columns."""

    @property
    @abc.abstractmethod
    def num_columns(self) -> Size:
        """Number q of columns: an integer, or a scalar tensor where it is open while tracing."""

    @property
    def has_outer_form(self) -> bool:
        """Whether there is an `outer_form`."""
        return True

    @property
    def mixes_examples(self) -> bool:
        """Whether some of its tensors are made of all examples, and are other ones for other examples."""
        return False

    def outer_form(self) -> tuple[Tensor, Tensor, str]:
        """Return `(a[n,t,g,i], d[n,m,t,g,o], layout)` as the native ops take them."""
        raise NotImplementedError

    @abc.abstractmethod
    def matmul(self, x: Tensor) -> Tensor:
        """Multiply with `x[q,r]`: `[n,m,r]`."""

    @abc.abstractmethod
    def adjoint_matmul(self, u: Tensor) -> Tensor:
        """Multiply the transpose with `u[n,m,r]`: `[q,r]`."""

    def tensors(self) -> list[Tensor]:
        """Return a list of the tensors that the factor is made of."""
        return tf.nest.flatten(self, expand_composites=True)

    def with_tensors(self, tensors: Sequence[Tensor]) -> Any:
        """Return a factor of the same kind made of a list of other tensors."""
        return tf.nest.pack_sequence_as(self, [widened(tensor) for tensor in tensors], expand_composites=True)

    @abc.abstractmethod
    def axes_of_tensors(self) -> tuple[str, ...]:
        """Return the names of the axes of each of `tensors()`, strings in a tuple."""

    def sizes_of_tensors(self) -> list[dict]:
        """Return for each of `tensors()` its sizes by the names of its axes, None where the graph leaves one open."""
        return [dict(zip(names, tensor.shape)) for names, tensor in zip(self.axes_of_tensors(), self.tensors())]

    def of_examples(self, kept: Tensor) -> "Factor":
        """Return the same factor with rows of zeros for the examples of which `kept[n]` is false."""

        def masked(tensor: Tensor, axes: str) -> Tensor:
            if axes[:1] != "n" or tensor.dtype.is_integer:
                return tensor
            return tf.where(tf.reshape(kept, [-1] + [1] * (len(axes) - 1)), tensor, tf.zeros_like(tensor))

        return self.with_tensors(list(map(masked, self.tensors(), self.axes_of_tensors())))

    def combined(self, weights: Tensor) -> "Factor":
        """Return the factor of one row for each example, the sum of its rows times `weights[n,m]`."""

        def added_up(tensor: Tensor, axes: str) -> Tensor:
            if axes[:2] != "nm":
                return tensor
            given = tf.reshape(weights, tf.concat([tf.shape(weights), [1] * (len(axes) - 2)], 0))
            return tf.reduce_sum(tensor * given, axis=1, keepdims=True)

        return self.with_tensors(list(map(added_up, self.tensors(), self.axes_of_tensors())))

    def cast(self, dtype: tf.DType) -> "Factor":
        """Return the same factor in another floating-point dtype, but in no less than single precision."""
        return self._mapped(lambda x: tf.cast(x, dtype))

    def real(self) -> "Factor":
        """Return the real part of the columns as a factor."""
        return self._mapped(tf.math.real)

    def imag(self) -> "Factor":
        """Return the imaginary part of the columns as a factor."""
        return self._mapped(tf.math.imag) if self.dtype.is_complex else self.scaled(0)

    def conjugated(self) -> "Factor":
        """Return the complex conjugate of the columns as a factor."""
        return self._mapped(tf.math.conj)

    def _mapped(self, function: Callable) -> "Factor":
        """The factor with `function` of each of its tensors but integers."""
        return self.with_tensors([x if x.dtype.is_integer else function(x) for x in self.tensors()])

    @abc.abstractmethod
    def scaled(self, scale: Any) -> "Factor":
        """Return the factor times a scalar."""

    @abc.abstractmethod
    def joined(self, *others: Any) -> "Factor | None":
        """Return the sum of this factor and others alike as one factor of this kind, or None where none can be."""

    @property
    def likeness(self) -> tuple:
        """What factors of one variable must have in common to be `joined`."""
        return type(self), self.dtype

    def dense(self) -> Tensor:
        """Form the columns: `[n,m,q]`. One write of the result."""
        if self.dtype.is_complex:
            return tf.complex(self.real().dense(), self.imag().dense())
        return ops.jacobian_rows(*listed(self))

    def kernel(self) -> Tensor:
        """Multiply the columns with their own transpose: `[n·m, n·m]`."""
        a, d, _ = listed(self)
        return ops.jacobian_kernel(a, d)

    def squared_row_norms(self) -> Tensor:
        """Return `[n,m]`, the squared norm of each row."""
        a, d, _ = listed(self)
        return ops.jacobian_row_norms(a, d)

    def squared_column_norms(self) -> Tensor:
        """Return `[q]`, the squared norm of each column."""
        return tf.reduce_sum(tf.square(self.dense()), axis=[0, 1])


def listed(*factors: "Factor") -> tuple[list[Tensor], list[Tensor], list[str]]:
    """Return the outer forms of `factors` as three lists, the way the ops take them."""
    a, d, layouts = zip(*(factor.outer_form() for factor in factors))
    return list(a), list(d), list(layouts)


class OuterFactor(Factor):
    """J[n,m,(g,i,o)] = Σ_t a[n,t,g,i] · d[n,m,t,g,o]: a weight that multiplies the data, in any linear layer.

    Args:
        a: `[n,t,g,i]`, the inputs of the uses.
        d: `[n,m,t,g,o]`, the cotangents of their outputs.
        layout: permutation of "gio", the order in which the variable flattens the three axes.
    """

    a: tf.Tensor
    d: tf.Tensor
    layout: str

    def __init__(self, a: Tensor, d: Tensor, layout: str = "gio") -> None:
        self.a, self.d, self.layout = widened(a), widened(d), layout

    @property
    def dtype(self) -> tf.DType:
        return self.d.dtype

    @property
    def num_columns(self) -> Size:
        return product(axes(self.a)[2:] + axes(self.d)[4:])

    def axes_of_tensors(self) -> tuple[str, ...]:
        return "ntgi", "nmtgo"

    def outer_form(self) -> tuple[Tensor, Tensor, str]:
        return self.a, self.d, self.layout

    def _sizes(self) -> list:
        """The sizes of g, i, o in the order of the layout."""
        by_name = dict(zip("gio", axes(self.a)[2:] + axes(self.d)[4:]))
        return [by_name[name] for name in self.layout]

    def matmul(self, x: Tensor) -> Tensor:
        (n, t, g, i), o, r = axes(self.a), axes(self.d)[4], axes(x)[-1]
        order = [*map(self.layout.index, "gio"), 3]
        weights = reordered(tf.reshape(x, [*self._sizes(), r]), order, [g, i, o * r])
        moved = tf.matmul(by_group(self.a), weights)
        moved = reordered(tf.reshape(moved, [g, n, t, o, r]), [1, 2, 0, 3, 4], [n, t * g * o, r])
        if self.d.shape[1] == 1:  # one output: many products of tiny matrices take longer
            return tf.reduce_sum(self._only_cotangent() * moved, axis=1, keepdims=True)
        return tf.matmul(self._cotangents(), moved)

    def adjoint_matmul(self, u: Tensor) -> Tensor:
        (n, t, g, i), o, r = axes(self.a), axes(self.d)[4], axes(u)[-1]
        one_output = self.d.shape[1] == 1
        pulled = self._only_cotangent() * u if one_output else tf.matmul(self._cotangents(), u, transpose_a=True)
        pulled = reordered(tf.reshape(pulled, [n, t, g, o, r]), [2, 0, 1, 3, 4], [g, n * t, o * r])
        result = tf.matmul(by_group(self.a), pulled, transpose_a=True)
        order = [*map("gio".index, self.layout), 3]
        return reordered(tf.reshape(result, [g, i, o, r]), order, [self.num_columns, r])

    def _cotangents(self) -> Tensor:
        """d as matrices `[n, m, t·g·o]`."""
        n, m, t, g, o = axes(self.d)
        return tf.reshape(self.d, [n, m, t * g * o])

    def _only_cotangent(self) -> Tensor:
        """d of one output as columns `[n, t·g·o, 1]`."""
        n, _, t, g, o = axes(self.d)
        return tf.reshape(self.d, [n, t * g * o, 1])

    def squared_column_norms(self) -> Tensor:
        if self.a.shape[1] != 1:
            return super().squared_column_norms()
        inputs = tf.square(tf.squeeze(self.a, 1))
        outputs = tf.reduce_sum(tf.square(tf.squeeze(self.d, 2)), axis=1)
        if self.a.shape[2] != 1:
            return tf.reshape(tf.einsum(f"ngi,ngo->{self.layout}", inputs, outputs), [-1])
        first, second = sorted(((inputs, "i"), (outputs, "o")), key=lambda each: self.layout.index(each[1]))
        return tf.reshape(tf.matmul(tf.squeeze(first[0], 1), tf.squeeze(second[0], 1), transpose_a=True), [-1])

    def real(self) -> "Factor":
        """Re(a·d) = Re a · Re d - Im a · Im d: twice the positions."""
        if not self.dtype.is_complex:
            return self
        a, d = self.a, self.d
        both = tf.concat([tf.math.real(a), -tf.math.imag(a)], 1), tf.concat([tf.math.real(d), tf.math.imag(d)], 2)
        return self.with_tensors(both)

    def imag(self) -> "Factor":
        """Im(a·d) = Re(a · (-i·d))."""
        if not self.dtype.is_complex:
            return self.scaled(0)
        return self.with_tensors([self.a, self.d * tf.constant(-1j, self.dtype)]).real()

    def scaled(self, scale: Any) -> "OuterFactor":
        return OuterFactor(self.a * scale, self.d, self.layout)

    @property
    def likeness(self) -> tuple:
        return *super().likeness, self.layout, *self.a.shape[2:], self.d.shape[4]

    def joined(self, *others: "OuterFactor") -> "OuterFactor":
        a, d = zip(*((factor.a, factor.d) for factor in (self, *others)))
        return OuterFactor(tf.concat(a, 1), tf.concat(d, 2), self.layout)

    def transposed(self, shape: tf.TensorShape) -> "OuterFactor | None":
        """Return the factor of the transpose of a weight of this shape, or None where that is no matrix of i and o."""
        if self.a.shape[2] != 1 or shape.rank != 2:
            return None
        sizes = {"i": self.a.shape[3], "o": self.d.shape[4]}
        order = self.layout.replace("g", "")
        if [sizes[name] for name in order] != shape.as_list():
            return None
        return OuterFactor(self.a, self.d, "g" + order[::-1])


def by_group(tensor: Tensor) -> Tensor:
    """Return `a[n,t,g,i]` as matrices `[g, n·t, i]`, or `d` likewise: einsums of five axes take the slow way round."""
    others, (g, i) = range(tensor.shape.rank - 2), tensor.shape[-2:]
    sizes = [g, -1, i]
    if not (g and i):
        *rows, g, i = axes(tensor)
        sizes = [g, product(rows), i]
    return reordered(tensor, [len(others), *others, len(others) + 1], sizes)


COPIES = 3
"""Of a dense block of J, that are live while it is made: it is the sum of those of its uses."""


class DenseFactor(Factor):
    """The columns themselves, `j[n,m,q]`: biases and scales, and what no rule covers."""

    j: tf.Tensor

    def __init__(self, j: Tensor) -> None:
        self.j = widened(j)

    @property
    def dtype(self) -> tf.DType:
        return self.j.dtype

    @property
    def num_columns(self) -> Size:
        return axes(self.j)[2]

    def axes_of_tensors(self) -> tuple[str, ...]:
        return ("nmq",)

    def outer_form(self) -> tuple[Tensor, Tensor, str]:
        n, m, q = axes(self.j)
        return tf.ones([n, 1, 1, 1], self.j.dtype), tf.reshape(self.j, [n, m, 1, 1, q]), "gio"

    def dense(self) -> Tensor:
        return self.j

    def matmul(self, x: Tensor) -> Tensor:
        n, m, q = axes(self.j)
        return tf.reshape(tf.matmul(tf.reshape(self.j, [n * m, q]), x), [n, m, axes(x)[1]])

    def adjoint_matmul(self, u: Tensor) -> Tensor:
        n, m, q = axes(self.j)  # as matrices: tf.einsum would copy J in another order, at four times the time
        return tf.matmul(tf.reshape(self.j, [n * m, q]), tf.reshape(u, [n * m, axes(u)[2]]), transpose_a=True)

    def scaled(self, scale: Any) -> "DenseFactor":
        return DenseFactor(self.j * scale)

    def joined(self, *others: "DenseFactor") -> "DenseFactor":
        return DenseFactor(tf.add_n([self.j, *(other.j for other in others)]))


def joined(factors: "Sequence[Factor]") -> "Factor":
    """Return the sum of `factors` of the same variable as one factor, formed only where their kinds differ.

    A tied weight stays exact: its uses stand side by side along t.
    """
    parts = sums(factors)
    return parts[0] if len(parts) == 1 else DenseFactor(tf.add_n([factor.dense() for factor in parts]))


def sums(factors: "Sequence[Factor]") -> "list[Factor]":
    """Return fewer factors of the same variable with the same sum: those that can be one are joined, all at once."""
    alike: dict[tuple, list] = {}
    for factor in factors:
        alike.setdefault(factor.likeness, []).append(factor)
    return [part for each in alike.values() for part in _joined_or_apart(each)]


def _joined_or_apart(alike: "Sequence[Factor]") -> "Sequence[Factor]":
    one = alike[0].joined(*alike[1:]) if len(alike) > 1 else None
    return alike if one is None else [one]


def concatenated(factors: "Sequence[Factor]") -> "Factor":
    """Return factors of one kind, of the same variable and other examples each, as one: example after example."""
    factors = [DenseFactor(factor.dense()) if factor.mixes_examples else factor for factor in factors]
    first, tensors = factors[0], zip(*(factor.tensors() for factor in factors))
    pairs = zip(tensors, first.axes_of_tensors())
    return first.with_tensors([_after_one_another(each) if axes[:1] == "n" else each[0] for each, axes in pairs])


def _after_one_another(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate along the first axis tensors whose others are equal, whatever they seem to be where there is none."""
    shape = tf.reduce_max([tf.shape(tensor) for tensor in tensors], axis=0)
    aligned = [tf.reshape(tensor, tf.concat([tf.shape(tensor)[:1], shape[1:]], 0)) for tensor in tensors]
    return tf.ensure_shape(tf.concat(aligned, 0), [None, *tensors[0].shape[1:]])


def squared_row_norms(factors: "Sequence[Factor]") -> Tensor:
    """Return `[n,m]`, the squared norm of each row of factors of one dtype that stand side by side."""
    return _summed(factors, ops.jacobian_row_norms, lambda factor: factor.squared_row_norms())


def kernel(factors: "Sequence[Factor]") -> Tensor:
    """Return `[n·m, n·m]`, the product with their own transpose of factors of one dtype that stand side by side."""
    return _summed(factors, ops.jacobian_kernel, lambda factor: factor.kernel())


def _summed(factors: "Sequence[Factor]", op: Callable, of_one: Callable) -> Tensor:
    """Add up what one call of `op` gives for all factors with an outer form, and `of_one` for each of the others."""
    parts = [of_one(factor) for factor in factors if not factor.has_outer_form]
    outer = [factor for factor in factors if factor.has_outer_form]
    if outer:
        a, d, _ = listed(*outer)
        parts.append(op(a, d))
    return parts[0] if len(parts) == 1 else tf.add_n(parts)
