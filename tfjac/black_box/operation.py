"""The op that a black box is in a graph, and its backward pass.

The backward of an estimate is linear in the cotangents, with the measured Jacobian as a constant beside them:

    x̄[n,i] = Σ_k directions[n,k,i] · Σ_o responses[n,k,o] · ȳ[n,o]

So it vectorises over cotangents, has a transpose (forward mode), and shows whether examples stay apart: n counts the
examples where each row is a point of its own, else the one point that all of them are. What is measured stands in an op
without state, which is not run where the gradient is not asked for.
"""

import functools

import numpy as np
import tensorflow as tf

from tfjac.black_box.results import ResultSpec
from tfjac.graph import axes, compiled_by_xla, declare_per_example, explain_mixing, noted_errors
from tfjac.linear.shapes import product, wide_dtype


class Operation:
    """A black box as a function of tensors.

    Args:
        evaluation: `Evaluation`.
        estimator: the `Estimator`, None where the user gave a gradient.
        by_row: whether a row of the inputs is a point.
        name: of the black box.
    """

    def __init__(self, evaluation, estimator, by_row, name):
        self._evaluation, self._estimator, self._by_row, self._name = evaluation, estimator, by_row, name

    def __call__(self, tensors, specs, moving):
        """Return the results, a list of tensors.

        Args:
            tensors: list of the inputs.
            specs: list of `tf.TensorSpec` of the results.
            moving: indices of the inputs that gradients pass to.
        """
        self._check_not_compiled()
        call = _Call(self, tensors, specs, moving)
        if not moving or not any(spec.dtype.is_floating for spec in specs):
            return call.values(tensors)[0]
        return call.differentiable(*(tensors[k] for k in moving))

    def _check_not_compiled(self):
        if not tf.executing_eagerly() and compiled_by_xla(tf.compat.v1.get_default_graph()):
            raise ValueError(
                f"{self._name} calls Python, which XLA cannot compile. In Keras pass compile(..., jit_compile=False); "
                "jit_compile='auto' does so by itself where the black box is a layer of the model, an attribute of it "
                "or of one of its layers, rather than hidden in a loss or a Lambda. Elsewhere, leave jit_compile=True "
                f"off. Received: a call of {self._name} in a function with jit_compile=True"
            )


class _Call:
    """One call of a black box."""

    def __init__(self, operation, tensors, specs, moving):
        self._evaluation, self._estimator = operation._evaluation, operation._estimator
        self._by_row, self._name = operation._by_row, operation._name
        self._tensors, self._specs, self._moving = tensors, specs, moving
        self._floating = [k for k, spec in enumerate(specs) if spec.dtype.is_floating]
        self._results = [self._result_spec(spec) for spec in specs]

    def differentiable(self, *inputs):
        """Return the results, given the inputs that gradients pass to."""

        @tf.custom_gradient
        def evaluated(*inputs):
            tensors = list(self._tensors)
            for k, tensor in zip(self._moving, inputs):
                tensors[k] = tensor
            results, visit = self.values(tensors)

            def backward(*cotangents):
                given = [tf.zeros_like(results[k]) if cotangents[k] is None else cotangents[k] for k in self._floating]
                pull = self._pulled_by_user if self._estimator is None else self._pulled_through_estimate
                return pull(tensors, results, visit, given)

            return results, backward

        found = evaluated(*inputs)
        if not self._by_row and not tf.executing_eagerly():
            explain_mixing(found[0].op, f"{self._name} takes its inputs as a whole; where row n of its results depends "
                           "on row n of its inputs alone, say so by per_example=True")  # fmt: skip
        return found

    def values(self, tensors):
        """Return the results, a list of tensors, and the number of the visit."""
        if tf.executing_eagerly():
            results, visit = self._evaluation.values([tensor.numpy() for tensor in tensors], self._results)
            return [tf.constant(result) for result in results], visit
        run = functools.partial(_values, self._evaluation, self._results)
        dtypes = [*(spec.dtype for spec in self._specs), tf.int64]
        *results, visit = tf.py_function(run, tensors, dtypes, name=self._name)
        if self._by_row:
            declare_per_example(visit.op)
        shaped = [_shaped(result, spec.shape) for result, spec in zip(results, self._specs)]
        return [tf.stop_gradient(result) for result in shaped], _shaped(visit, [])  # the op has a gradient of its own

    # -------------------------------------------------------------- backward, through an estimate

    def _pulled_through_estimate(self, tensors, results, visit, cotangents):
        dtype = self._wide(tensors)
        responses, directions = self._estimate(tensors, results, visit, dtype)
        n = self._number_of_points(tensors)
        flat = [tf.reshape(tf.cast(each, dtype), [n, self._width(each)]) for each in cotangents]
        weights = tf.einsum("no,nko->nk", flat[0] if len(flat) == 1 else tf.concat(flat, 1), responses)
        gradient = weights if directions is None else tf.einsum("nk,nki->ni", weights, directions)
        inputs = [tensors[k] for k in self._moving]
        parts = tf.split(gradient, [self._width(x) for x in inputs], axis=1) if len(inputs) > 1 else [gradient]
        return [tf.cast(tf.reshape(part, axes(x)), x.dtype) for part, x in zip(parts, inputs)]

    def _estimate(self, tensors, results, visit, dtype):
        """Measure responses and directions; whoever differentiates them in their turn is told that it cannot be."""

        @tf.custom_gradient
        def measured(*inputs):
            return self._measured(tensors, results, visit, dtype), self._refuse("second derivatives")

        outputs = measured(*(tensors[k] for k in self._moving))
        return outputs if self._estimator.has_directions else (outputs, None)

    def _measured(self, tensors, results, visit, dtype):
        if tf.executing_eagerly():
            arrays, replies = ([each.numpy() for each in group] for group in (tensors, results))
            estimate = self._evaluation.jacobian(int(visit), arrays, replies, self._results, self._moving)
            found = [tf.constant(part, dtype) for part in estimate if part is not None]
            return found if len(found) > 1 else found[0]
        given = self._evaluation, self._results, self._moving, len(tensors), dtype.as_numpy_dtype
        run = functools.partial(_estimate, *given)
        dtypes = [dtype] * (2 if self._estimator.has_directions else 1)
        found = tf.numpy_function(run, [visit, *tensors, *results], dtypes, stateful=False, name=self._name)
        i = _static_sum([self._width(tensors[k]) for k in self._moving])
        o = _static_sum([self._width(results[k]) for k in self._floating])
        n, k = _static(self._number_of_points(tensors)), self._estimator.number_of_probes(i)
        found = [_shaped(part, [n, k, last]) for part, last in zip(found, (o, i))]
        return found if len(found) > 1 else found[0]

    # -------------------------------------------------------------- backward, by the user's gradient

    def _pulled_by_user(self, tensors, results, visit, cotangents):
        inputs = [tensors[k] for k in self._moving]

        @tf.custom_gradient
        def pulled(*given):
            return self._products(tensors, results, given[len(inputs) :]), self._refuse(
                "second derivatives or forward mode"
            )

        return pulled(*inputs, *cotangents)

    def _products(self, tensors, results, cotangents):
        specs = [self._result_spec(tf.TensorSpec(tensors[k].shape, tensors[k].dtype)) for k in self._moving]
        if tf.executing_eagerly():
            groups = ([each.numpy() for each in group] for group in (tensors, results, cotangents))
            return [tf.constant(part) for part in self._evaluation.pulled_back(*groups, specs)]
        run = functools.partial(_product, self._evaluation, specs, len(tensors), len(tensors) + len(results))
        dtypes = [spec.dtype for spec in specs]
        given = [*tensors, *results, *cotangents]
        found = tf.numpy_function(run, given, dtypes, stateful=False, name=self._name)
        if self._by_row:
            declare_per_example(found[0].op)
        return [_shaped(part, tensors[k].shape) for part, k in zip(found, self._moving)]

    # -------------------------------------------------------------- sizes

    def _refuse(self, what):
        def refuse(*cotangents):
            raise NotImplementedError(
                f"There are no {what} through {self._name}: its gradient comes from evaluations, or from a function of "
                "the user's, which TensorFlow cannot see into. Received: a gradient of its gradient"
            )

        return refuse

    def _result_spec(self, spec):
        return ResultSpec(self._name, spec.shape[1:] if self._by_row else spec.shape, spec.dtype)

    def _number_of_points(self, tensors):
        return axes(tensors[0])[0] if self._by_row else 1

    def _width(self, tensor):
        return product(axes(tensor)[1:] if self._by_row else axes(tensor))

    def _wide(self, tensors):
        """The dtype of the products: the widest of the inputs and results."""
        dtypes = [tensors[k].dtype for k in self._moving] + [self._specs[k].dtype for k in self._floating]
        return max((wide_dtype(dtype) for dtype in dtypes), key=lambda dtype: dtype.size)


def _shaped(tensor, shape):
    """Say what shape the result of a Python function has; by an op too, which copies in other graphs take along."""
    tensor.set_shape(shape)
    return tf.ensure_shape(tensor, shape)


def _static(size):
    return size if isinstance(size, int) else None


def _static_sum(sizes):
    return sum(sizes) if all(isinstance(size, int) for size in sizes) else None


def _values(evaluation, specs, *tensors):
    """What the op of the values calls, with eager tensors."""
    with noted_errors():
        results, visit = evaluation.values([tensor.numpy() for tensor in tensors], specs)
    return [*results, np.int64(visit)]


def _estimate(evaluation, specs, moving, count, dtype, visit, *arrays):
    """What the op of the estimate calls, with arrays: so many inputs, then the results."""
    with noted_errors():
        found = evaluation.jacobian(int(visit), arrays[:count], arrays[count:], specs, moving)
    return [part.astype(dtype) for part in found if part is not None]


def _product(evaluation, specs, first, second, *arrays):
    """What the op of the user's gradient calls, with arrays: inputs, results, cotangents."""
    with noted_errors():
        return evaluation.pulled_back(arrays[:first], arrays[first:second], arrays[second:], specs)
