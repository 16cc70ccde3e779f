"""A function that is no TensorFlow, as a Keras layer: one that can be called anywhere, and differentiated."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac.black_box.estimators import Estimator, get_estimator
from tfjac.black_box.evaluation import Evaluation
from tfjac.black_box.measurement import ON_FAILURE, Calling, Counts, Measurement
from tfjac.black_box.operation import Operation
from tfjac.black_box.results import Results
from tfjac.graph import as_tf_variable
from tfjac.types import Config, DType, Function, GradientName, NestLike, OnFailure

_UFUNC = "numpy_ufunc"
"""The key under which the configuration has the name of a function of NumPy's."""


@keras.saving.register_keras_serializable("tfjac")
class External(keras.layers.Layer):
    """A NumPy function, simulator or measurement in the middle of a graph; see `tfjac.external`.

    It is a Keras layer without weights, so that a model that holds it knows of it: Keras' `jit_compile="auto"` then
    leaves XLA out, which cannot call Python.

    Attributes:
        counts: `Counts` of what has been asked of the function.
    """

    def __init__(
        self,
        function: Function,
        gradient: GradientName | Estimator | Function = "central",
        output_shape: Any = None,
        per_example: bool = False,
        batched: bool | None = None,
        max_batch: int | None = None,
        workers: int = 1,
        retries: int = 0,
        timeout: float | None = None,
        on_failure: OnFailure = "raise",
        argnums: int | Sequence[int] | None = None,
        call_dtype: DType = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **{"autocast": False, **kwargs})
        self.supports_jit, self.built = False, True
        batched = per_example if batched is None else batched
        calling = Calling(batched, max_batch, workers, retries, timeout, on_failure)
        _check(function, calling, call_dtype)
        options = {
            "function": function, "gradient": gradient, "output_shape": output_shape, "per_example": per_example,
            "batched": batched, "max_batch": max_batch, "workers": workers, "retries": retries, "timeout": timeout,
            "on_failure": on_failure, "argnums": argnums, "call_dtype": call_dtype,
        }  # fmt: skip
        self._parts = _Parts(self.name, calling, options, **options)

    def call(self, *inputs: Any) -> NestLike:
        """Return the results of the function: a tensor, or a nest like `output_shape`."""
        return self._parts(inputs)

    def compute_output_spec(self, *inputs: Any) -> NestLike:
        """Return what the results will be like, without calling the function."""
        return self._parts.specs(inputs, lambda spec: keras.KerasTensor(spec.shape, spec.dtype.name))

    @property
    def counts(self) -> Counts:
        """What has been asked of the function so far, a `Counts`."""
        return self._parts.counts

    def forget(self) -> None:
        """Have an estimator that learns, such as Broyden's, begin again, and set the counts to zero."""
        self._parts.forget()

    def get_config(self) -> Config:
        """Return the arguments of the constructor.

        A model that is saved needs a function that Keras can find again: one registered by
        `keras.saving.register_keras_serializable`, or given in `custom_objects` when it is loaded.
        """
        options = dict(self._parts.options)
        if isinstance(options["gradient"], Estimator):
            options["gradient"] = keras.saving.serialize_keras_object(options["gradient"])
        name = getattr(options["function"], "__name__", "")
        if isinstance(options["function"], np.ufunc) and getattr(np, name, None) is options["function"]:
            options["function"] = {_UFUNC: name}  # as Keras can make nothing of it
        return {**super().get_config(), **options}

    def __deepcopy__(self, memo):
        """Return another one for the same function: Keras would write the function down, and lose what it refers to."""
        return self.from_config(self.get_config())

    @classmethod
    def from_config(cls, config: Config) -> "External":
        """Rebuild from `get_config()`."""
        restored = {
            key: getattr(np, config[key][_UFUNC])
            if _UFUNC in config[key]
            else keras.saving.deserialize_keras_object(config[key])
            for key in ("function", "gradient")
            if isinstance(config[key], dict)
        }
        return cls(**{**config, **restored})


class _Parts:
    """What an `External` is made of, out of the sight of Keras, which would track and wrap it."""

    def __init__(self, name, calling, options, function, gradient, output_shape, per_example, argnums, call_dtype, **_):
        given = callable(gradient) and not isinstance(gradient, Estimator)
        self.options, self._name, self._argnums = options, name, argnums
        self._estimator = None if given else get_estimator(gradient)
        self._results = Results(output_shape, name, per_example)
        self._users = NestedFunctions(function, gradient if given else None, self._results, name)
        measurement = Measurement(self._users.values, self._results.flatten, calling, name)
        of_gradient = Measurement(self._users.gradients, self._users.listed, calling, f"the gradient of {name}")
        self._measurements = [measurement, of_gradient] if given else [measurement]
        dtype = None if call_dtype is None else np.dtype(call_dtype)
        self._evaluation = Evaluation(measurement, self._estimator, of_gradient, per_example, dtype, name)
        self._operation = Operation(self._evaluation, self._estimator, per_example, name)

    def __call__(self, inputs):
        tensors = [_as_tensor(x, self._name) for x in self._users.take(inputs)]
        specs = self._results.specs(tensors)
        results = self._operation(tensors, specs, self._moving(tensors))
        return self._results.pack(list(results))

    def specs(self, inputs, make):
        """Return `make(spec)` of the `tf.TensorSpec` of each result, for symbolic inputs."""
        given = [tf.TensorSpec(x.shape, x.dtype) for x in self._users.take(inputs)]
        return self._results.pack([make(spec) for spec in self._results.specs(given)])

    @property
    def counts(self):
        """The counts of both functions together."""
        each = [vars(measurement.counts) for measurement in self._measurements]
        return Counts(**{key: sum(counts[key] for counts in each) for key in each[0]})

    def forget(self):
        """Begin again."""
        self._evaluation.forget()
        for measurement in self._measurements:
            measurement.counts = Counts()

    def _moving(self, tensors):
        """The indices of the inputs that are differentiated."""
        floating = [k for k, tensor in enumerate(tensors) if tensor.dtype.is_floating]
        if self._argnums is None:
            return floating
        chosen = [self._argnums] if isinstance(self._argnums, int) else list(self._argnums)
        if not set(chosen) <= set(floating):
            raise ValueError(
                f"argnums of {self._name} must be indices of floating-point inputs, {floating}. Received: {chosen}"
            )
        return sorted(set(chosen))


def _as_tensor(x, name):
    if isinstance(x, (keras.Variable, tf.Variable)):
        x = as_tf_variable(x)
    if isinstance(x, tf.__internal__.CompositeTensor) and not isinstance(x, tf.Variable):
        raise TypeError(f"{name} takes dense tensors: convert to one before. Received: {x!r}")
    tensor = tf.convert_to_tensor(x)
    if tensor.dtype.is_complex or tensor.dtype in (tf.resource, tf.variant) or tensor.shape.rank is None:
        raise TypeError(
            f"{name} takes tensors of a known rank that are not complex: say the shape by tf.ensure_shape; pass the "
            f"real and the imaginary part as two inputs. Received: {tensor!r}"
        )
    return tensor


def _check(function, calling, call_dtype):
    if not callable(function):
        raise TypeError(f"The function must be a callable, of NumPy arrays. Received: {function!r}")
    for name, least in (("workers", 1), ("retries", 0), ("max_batch", 1)):
        value = getattr(calling, name)
        if (value is not None or name != "max_batch") and not (_is_integer(value) and value >= least):
            raise ValueError(f"{name} must be an integer of at least {least}. Received: {value!r}")
    if calling.timeout is not None and not calling.timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, or None. Received: {calling.timeout!r}")
    if calling.on_failure not in ON_FAILURE:
        raise ValueError(f"on_failure must be one of {ON_FAILURE}. Received: {calling.on_failure!r}")
    if call_dtype is not None and np.dtype(call_dtype).kind != "f":
        raise ValueError(f"call_dtype must be a floating-point dtype, or None. Received: {call_dtype!r}")


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def external(function: Function, gradient: GradientName | Estimator | Function = "central", **options: Any) -> External:
    """Return a function that TensorFlow cannot see into, as a layer with a gradient.

        device = tfjac.external(measure, gradient="central", per_example=True)
        y = device(x)                                 # eagerly, in a tf.function, in a Keras model
        keras.Sequential([..., device, ...]).fit(x, y)
        tfjac.least_squares(lambda: device(x) - y, x)

    What is measured is called once for each forward pass; evaluations for the gradient are made when it is first asked
    for, once for each forward pass, however many backward passes follow. Forward mode and all Jacobians work; second
    derivatives do not, and XLA cannot compile it: both are refused by name.

    Args:
        function: callable of NumPy arrays, one for each input, that returns an array, or a nest like `output_shape`.
        gradient: how to find the Jacobian. `"central"`, `"one_sided"`, `"spsa"`, `"evolution_strategies"`, `"broyden"`,
            or an object of `tfjac.estimators` with options of its own; or the user's function `(*inputs, outputs,
            cotangents)` of arrays that returns Jᵀ·cotangents, an array for each floating-point input (of `argnums`).

    Keyword Args:
        output_shape: shape of the result, None for sizes that are open; `tf.TensorSpec` to say its dtype too; a
            list, tuple or dict of these for several. The shape of the first input where left out, and the dtype of
            the first floating-point one. It is checked at every call.
        per_example: whether row n of the results depends on row n of every input alone. Declared by you: it cannot
            be seen. With TFJAC_VERIFY=1 in the environment the first and the last row are measured again, alone, at
            each forward pass, and must give the same. Inputs and `output_shape` have the axis of examples in front
            then. Without it, the functions for per-example Jacobians refuse it by name.
        batched: whether one call of `function` takes many points stacked along axis 0. A point is a row where
            `per_example`, and all inputs together where not. Default: as `per_example`. All evaluations for a
            gradient are then one call.
        max_batch: at most so many points in one call.
        workers: at most so many calls at once, in threads. With 1, there are never two at once.
        retries: how often a point is tried again whose call raised, timed out, or gave what is not finite.
        timeout: seconds that a call may take. One that takes longer is left behind in its thread.
        on_failure: `"raise"`, or `"nan"` for not-a-numbers in the place of what could not be had: least squares
            rejects such a step.
        argnums: indices of the inputs to differentiate; the others are constants, which costs no evaluations.
        call_dtype: dtype in which `function` is called, such as `"float64"`, in which differences are far more
            accurate; None for that of the inputs, half precision widened to float32.
        name, dtype: as for Keras layers.

    Returns:
        An `External`.

    Raises:
        ValueError, TypeError: for options, inputs and results that do not fit; for a call inside a function that XLA
            compiles; NotImplementedError for second derivatives.
        MeasurementFailed: eagerly, where an evaluation fails at every attempt; in a graph a `tf.errors.OpError` with
            the same words.

    Cost: see the estimators; for i inputs of a point, `"central"` makes 2i evaluations, `"one_sided"` i, `"spsa"` 2,
    `"broyden"` none but at the start.

    Example:
        >>> device = tfjac.external(lambda x: np.sin(x))  # NumPy: TensorFlow cannot differentiate it
        >>> x = tf.Variable([0.0, 1.0])
        >>> with tf.GradientTape() as tape:
        ...     y = device(x)
        >>> print(np.round(tape.gradient(y, x), 3))
        [1.   0.54]
    """
    return External(function, gradient, **options)


class NestedFunctions:
    """The function, and the gradient where there is one, with the nests that they take and return.

    Args:
        function: from arrays, or nests of them, to an array or a nest of them.
        gradient: the user's `(*inputs, outputs, cotangents) -> gradients`, or None.
        results: `Results`.
        name: what errors call them.
    """

    def __init__(self, function, gradient, results, name):
        self.function, self.gradient, self._results, self._name = function, gradient, results, name
        self._structure = None

    def take(self, inputs):
        """Note what the function is called with, a tuple of nests, and return it as a list.

        Raises:
            ValueError: for another nest than in an earlier call.
        """
        structure = tf.nest.map_structure(lambda _: 0, inputs)
        if self._structure is not None and structure != self._structure:
            raise ValueError(
                f"{self._name} must be called with the same number and nest of inputs each time. Received: "
                f"{structure}, after {self._structure} (0 for an array)"
            )
        self._structure = structure
        flat = tf.nest.flatten(inputs)
        if not flat:
            raise ValueError(f"{self._name} must be called with at least one tensor. Received: none")
        return flat

    def values(self, arrays):
        """Call the function with a list of arrays."""
        return self.function(*self._nested(arrays))

    def gradients(self, arrays):
        """Call the gradient, with a list of inputs, results, and cotangents of floating-point results."""
        count = len(tf.nest.flatten(self._structure))
        inputs, rest = arrays[:count], arrays[count:]
        outputs = rest[: self._results.count]
        given = iter(rest[self._results.count :])
        cotangents = [next(given) if output.dtype.kind == "f" else None for output in outputs]
        return self.gradient(*self._nested(inputs), self._results.pack(outputs), self._results.pack(cotangents))

    @staticmethod
    def listed(gradients):
        """Return what the gradient returned as a list, one for each input."""
        return list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]

    def _nested(self, arrays):
        return tf.nest.pack_sequence_as(self._structure, arrays)
