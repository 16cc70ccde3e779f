"""Names for the types in signatures, for type checkers and for readers. Nothing of tfjac is imported here.

TensorFlow and Keras ship no types. Where a checker knows none from elsewhere, `tf.Tensor` is `Any` to it, and so is all
that is made of it; names of options, numbers and the classes of tfjac are checked.

A result of the type `X | Any` is an `X`, but for a case that types do not tell, such as a call inside a `tf.function`.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from typing_extensions import TypeAliasType

T = TypeVar("T")

Tensor: TypeAlias = tf.Tensor
Variable: TypeAlias = tf.Variable | keras.Variable
Array: TypeAlias = np.ndarray
ArrayLike = TypeAliasType("ArrayLike", npt.ArrayLike)
TensorLike = TypeAliasType("TensorLike", Tensor | Variable | ArrayLike)
"""What converts to a tensor. Signatures show both by these names: written out, NumPy's is 400 characters."""

Scalar: TypeAlias = float | np.number | Tensor | Variable
"""A number, or a scalar tensor or variable."""

Nest: TypeAlias = T | Sequence[Any] | Mapping[Any, Any]
"""A T, or lists, tuples and dicts of them, as deep as you like: what `tf.nest` takes. Checkers see one level."""

NestLike: TypeAlias = Any
"""A nest like an argument: one tensor where that was one. Checkers do not follow nests, so that it is `Any`."""

Tensors: TypeAlias = Nest[Tensor] | Callable[[], Any]
"""A tensor of the `tf.function` being traced, or a nest of these; or a callable without arguments that returns it."""

Selector: TypeAlias = Any
"""What selects a node: a tensor, variable, layer or name, `op_type(...)`, `layer_call(...)`, a function of a `Node`."""

Sources: TypeAlias = Nest[Selector]
"""What is differentiated with respect to: a tensor, variable or selector, or a nest of these."""

Residuals: TypeAlias = Callable[..., Any] | Sequence[Callable[..., Any]]
"""A callable that returns a tensor or a nest of them, or a list of such callables."""

Numbers: TypeAlias = Nest[TensorLike | None]
"""A number, or a nest like the variables of numbers, arrays and None."""

Pair: TypeAlias = tuple[Numbers, Numbers] | list[Any]
Data: TypeAlias = tuple[Any, ...] | list[Any]
"""Nests of tensors, arrays and numbers."""

Handler: TypeAlias = Callable[..., Any]
"""A function of the gradient, of gradient and value, or of gradient, value and `Node`, that returns a gradient."""

Function: TypeAlias = Callable[..., Any]
Config: TypeAlias = dict[str, Any]
"""The arguments of a constructor, as Keras saves them."""

Copies: TypeAlias = dict[Any, Tensor]
"""From the `ref()` of tensors to those that stand for them in a copy."""

TensorPairs: TypeAlias = Iterable[tuple[Tensor, Tensor]]
"""Tensors of a graph that is copied, each with what stands for it."""

OpEdit: TypeAlias = Callable[[tf.Operation, list[Tensor], Callable[[], Sequence[Tensor]]], Sequence[Tensor]]
"""From an op, the inputs of its copy, and a function that makes the copy, to what stands for the outputs of the op."""

Logs: TypeAlias = dict[str, Any] | None
Path: TypeAlias = str | os.PathLike[str]
Axes: TypeAlias = Any
"""A `matplotlib.axes.Axes`. Matplotlib need not be installed."""

DType: TypeAlias = Any
"""What `tf.as_dtype` takes."""

JacobianMode: TypeAlias = Literal["auto", "reverse", "forward"]
Unconnected: TypeAlias = Literal["none", "zero"] | tf.UnconnectedGradients
UnusedVariables: TypeAlias = Literal["error", "zero"]
Mixing: TypeAlias = Literal["error", "full"]
GradientName: TypeAlias = Literal["central", "one_sided", "spsa", "evolution_strategies", "broyden"]
OnFailure: TypeAlias = Literal["raise", "nan"]
LikelihoodName: TypeAlias = Literal["gaussian", "categorical", "bernoulli"]
Side: TypeAlias = Literal["weights", "examples"]
StructureName: TypeAlias = Literal["full", "kronecker"]
AverageName: TypeAlias = Literal["probit", "monte_carlo"]
DampingName: TypeAlias = Literal["radius", "trust_region", "nielsen", "multiplicative"]
ScalingName: TypeAlias = Literal["auto", "identity", "marquardt", "more"]
SolverName: TypeAlias = Literal["auto", "cholesky", "kernel", "qr", "svd", "cg", "lsmr", "schur", "schur_cg", "sparse"]
LossName: TypeAlias = Literal["huber", "soft_l1", "cauchy", "arctan", "tukey", "welsch", "geman_mcclure"]
PreconditionerName: TypeAlias = Literal["kronecker", "block_diagonal", "diagonal"]
BlocksName: TypeAlias = Literal["schur_jacobi", "block_jacobi"]
AccelerationName: TypeAlias = Literal["auto", "geodesic"]
GramDType: TypeAlias = Literal["float64"]
MemoryBudget: TypeAlias = float | Literal["auto"] | None
