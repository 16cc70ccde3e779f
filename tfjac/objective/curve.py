"""A curve through data: the model, the data and their deviations, and the residuals that these make."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import asks_for_values, call_converted
from tfjac.objective.deviations import Deviations, deviations_of, parts_of
from tfjac.types import Array

_NO_TENSOR = (
    "f must return a tensor, computed from the parameters by TensorFlow's functions (tf.exp, not np.exp). What "
    "TensorFlow cannot compute, tfjac.external calls, with a gradient by differences or of your own."
)

_ONE_EACH = "f must return one value for each of ydata."


class ModelFailed(Exception):
    """A model raised the error that is the cause of this one, given tensors."""


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A function of data and of each parameter, and in which form it is given the data.

    Attributes:
        f: callable.
        takes_arrays: whether it is given NumPy arrays, which are constants of a graph, rather than tensors.
        is_complex: whether its values are complex, and their parts are what is fitted.
        places: which of its values are fitted, bool, of their shape; None for all of them.
    """

    f: Callable
    takes_arrays: bool = False
    is_complex: bool = False
    places: Array | None = None

    def data(self, x: Any) -> Any:
        """Return a nest of arrays, tensors and others as what `f` is given."""
        return x if self.takes_arrays else tf.nest.map_structure(_as_tensor, x)

    def __call__(self, x: Any, parameters: Sequence[Any]) -> Any:
        """Return f(x, *parameters) at `places`, a tensor of float64; if it is complex, its parts `[..., 2]`.

        Args:
            x: what `data` returned.
            parameters: list of scalars.

        Raises:
            ModelFailed: if it fails given tensors; given arrays, the user's error is raised as it is.
            TypeError: for anything but a tensor; for a complex one where the data are real, and the other way round.
        """
        try:
            values = call_converted(self.f, x, *parameters)
        except Exception as error:
            if not self.takes_arrays:
                raise ModelFailed(str(error)) from error
            if asks_for_values(error):
                raise TypeError(f"{_NO_TENSOR} Received: {type(error).__name__}: {error}") from error
            raise
        if not tf.is_tensor(values) and not isinstance(values, tf.Variable):
            raise TypeError(f"{_NO_TENSOR} Received: {values!r} of type {type(values).__name__}")
        self._check_kind(values.dtype)
        values = self._at_places(tf.convert_to_tensor(values))
        return parts_of(tf.cast(values, tf.complex128)) if self.is_complex else tf.cast(values, tf.float64)

    def _at_places(self, values: Any) -> Any:
        count = values.shape.num_elements()
        if self.places is None or count == 1:
            return values
        if count is not None and values.shape != self.places.shape:
            raise ValueError(f"{_ONE_EACH} Received: values of {values.shape}, ydata of {self.places.shape}")
        return tf.gather(tf.reshape(values, [-1]), np.flatnonzero(self.places))

    def _check_kind(self, dtype: np.dtype) -> None:
        if dtype.is_complex != self.is_complex:
            raise TypeError(
                "Complex data are fitted by complex values of f, in both parts, and real data by real values: pass "
                "ydata of the same kind, such as ydata.astype(complex), or let f return tf.math.real or tf.abs of what "
                f"it has. Received: {'complex' if self.is_complex else 'real'} ydata, f of {dtype.name}"
            )


def _as_tensor(item: Any) -> Any:
    is_number = isinstance(item, np.ndarray) and item.dtype.kind in "fc"
    return tf.constant(item) if is_number else item


class Curve(NamedTuple):
    """A curve to be fitted.

    Attributes:
        model: a `Model`.
        x: nest of arrays and tensors, and of what else the model is given.
        y: array; of complex data their parts `[..., 2]`.
        deviations: `Deviations` of y.
        label: what to call it among others.
    """

    model: Model
    x: Any
    y: Any
    deviations: Deviations
    label: str = ""

    @classmethod
    def of(cls, model: Model, x: Any, y: Array, sigma: Any, places: Array | None = None, label: str = "") -> "Curve":
        """Return the curve of data as `curve_data` returns them; real and imaginary parts where they are complex."""
        model = dataclasses.replace(model, is_complex=y.dtype.kind == "c", places=places)
        return cls(model, x, parts_of(y) if model.is_complex else y, deviations_of(sigma, y), label)

    def of_arrays(self) -> "Curve":
        """Return it with a model that is given arrays of NumPy."""
        return self._replace(model=dataclasses.replace(self.model, takes_arrays=True))

    def measurements(self) -> Array | None:
        """Return to which of the measurements each residual belongs, `[rows]`; None where a covariance mixes them."""
        parts = 2 if self.model.is_complex else 1
        return None if self.deviations.correlated else np.arange(self.y.size) // parts

    def data(self) -> tuple:
        """Return the data of the graph, a tuple of tensors: xdata, if the model does not take arrays, ydata, sigma."""
        tensors = [each for each in tf.nest.flatten(self.model.data(self.x)) if self.is_data(each)]
        return *tensors, tf.constant(self.y), tf.constant(self.deviations.scale)

    def is_data(self, item: Any) -> bool:
        """Return whether a leaf of `x` is data of the graph, rather than a constant."""
        return not self.model.takes_arrays and isinstance(item, (np.ndarray, tf.Tensor, tf.Variable))

    def residuals(self, parameters: Any, data: Sequence[Any]) -> Any:
        """Return the residuals at `parameters`, a list of scalars, for `data`, which are like `data()`.

        Raises:
            ValueError: for values of another shape than ydata.
        """
        *tensors, y, scale = data
        rest, leaves = iter(tensors), tf.nest.flatten(self.x)
        given = [next(rest) if self.is_data(each) else each for each in leaves]
        values = self.model(tf.nest.pack_sequence_as(self.x, given), parameters)
        self._check_shape(values.shape, y.shape)
        return self.deviations.whiten(values - y, scale)

    def _check_shape(self, found: Any, wanted: Any) -> None:
        if self.model.is_complex:
            found, wanted = found[:-1], wanted[:-1]
        if found != wanted and (found.num_elements() or 0) > 1:
            raise ValueError(
                f"{_ONE_EACH} Received: {self.label and f'{self.label}, '}values of {found}, ydata of {wanted}"
            )
