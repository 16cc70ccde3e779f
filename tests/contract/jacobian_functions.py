"""Each public function with the options it has, how users call it, and what the oracle expects of it."""

import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tfjac


class Setting(NamedTuple):
    """What a function is called with."""

    ys: Any  # a tensor of the graph, or a callable
    x: tf.Tensor
    variables: list
    options: dict
    oracle: Any

    def losses(self):
        """½ Σ_m c_m y_m² of each example, as `ys` are given."""
        return (lambda: self._losses_of(self.ys())) if callable(self.ys) else self._losses_of(self.ys)

    def _losses_of(self, y):
        y = tf.cast(y, tf.float32) if y.dtype == tf.bfloat16 else y
        return tf.reduce_sum(tf.constant(self.oracle.scales, y.dtype) * tf.square(y), 1) / 2

    def losses_dtype(self):
        """That of the losses: no less than single precision."""
        return tf.as_dtype(self.x.dtype if self.x.dtype.is_floating else self.variables[0].dtype)

    def outputs_dtype(self):
        """That of y."""
        return self.ys.dtype if tf.is_tensor(self.ys) else self.ys().dtype

    def tangents(self):
        """One per variable, in the dtype of the variables."""
        return [tf.constant(v, self.variables[0].dtype) for v in self.oracle.tangents]

    def flat(self, dtype):
        """The tangents, one after another, and the cotangents, one row after another."""
        return tf.constant(self.oracle.flat_tangents(), dtype), tf.constant(self.oracle.cotangents.ravel(), dtype)


class Function(NamedTuple):
    """A function or a group of methods under test."""

    compute: Any  # of a Setting
    expected: Any  # of an Oracle, a nest like the result
    options: tuple  # names of `OPTIONS`
    on_inputs: bool = False  # with respect to inputs rather than weights


OPTIONS = {
    "default": {},
    "chunk": {"chunk_size": 2},
    "budget": {"memory_budget": 100_000},
    "verify": {"verify": True},
    "full": {"examples_mix": "full"},
    "forward": {"mode": "forward"},
    "norms": {"return_norms": True},
    "zero": {"unconnected_gradients": "zero"},
}


def _operator(s):
    return tfjac.jacobian_operator(s.ys, s.variables, **s.options)


def _products(s):
    operator = _operator(s)
    v, u = s.flat(operator.dtype)
    return [operator.matvec(v), operator.matvec(u, adjoint=True), *operator.split(v)]


def _expected_products(o):
    v, u = o.flat_tangents(), o.cotangents.ravel()
    return [o.dense() @ v, o.dense().T @ u, *o.tangents]


def _squares(s):
    operator = _operator(s)
    return [operator.gram(), operator.kernel()]


def _rows(s):
    operator = _operator(s)
    return [operator.row_norms(), operator.column_norms(), operator.to_dense()]


def _expected_rows(o):
    return [np.linalg.norm(o.dense(), axis=1), np.linalg.norm(o.dense(), axis=0), o.dense()]


def _clipped(s):
    return tfjac.clipped_gradients(s.losses(), s.variables, s.oracle.clip_norm, **s.options)


def _expected_clipped(o, options):
    gradients = o.summed(np.minimum(1, o.clip_norm / o.norms()))
    return [*gradients, o.norms()] if "return_norms" in options else gradients


def _weighted(s):
    weights = tf.constant(s.oracle.weights, s.losses_dtype())
    return tfjac.weighted_gradients(s.losses(), s.variables, weights, **s.options)


def _of_forward_mode(variables, options):
    """In forward mode every element of every variable is a pass: the last two variables only."""
    return variables[-2:] if options.get("mode") == "forward" else variables


def _sparse(s):
    result = tfjac.sparse_jacobian(s.ys, s.x, **s.options)
    return tf.scatter_nd(result.indices, result.values, result.dense_shape)


def _gauss_newton(s):
    return tfjac.ggnvp(s.ys, lambda z: tf.reduce_logsumexp(z, 1), s.variables, s.tangents(), **s.options)


def _batch_of_inputs(o):
    return o.of_inputs


_PASSES = ("chunk", "budget", "verify")
FUNCTIONS = {
    "per_example_jacobian": Function(
        lambda s: tfjac.per_example_jacobian(s.ys, s.variables, **s.options),
        lambda o: o.jacobians,
        ("default", *_PASSES, "full", "zero"),
    ),
    "per_example_gradients": Function(
        lambda s: tfjac.per_example_gradients(s.losses(), s.variables, **s.options),
        lambda o: o.gradients(),
        ("default", "verify", "full", "zero"),
    ),
    "per_example_gradient_norms": Function(
        lambda s: tfjac.per_example_gradient_norms(s.losses(), s.variables, **s.options),
        lambda o: o.norms(),
        ("default", "verify", "zero"),
    ),
    "clipped_gradients": Function(_clipped, _expected_clipped, ("default", "norms", "verify", "zero")),
    "weighted_gradients": Function(_weighted, lambda o: o.summed(o.weights), ("default", "zero")),
    "jacobian_operator: matvec, adjoint, split": Function(
        _products, _expected_products, ("default", "verify", "full", "zero")
    ),
    "jacobian_operator: gram, kernel": Function(
        _squares, lambda o: [o.dense().T @ o.dense(), o.dense() @ o.dense().T], ("default", "verify", "full", "zero")
    ),
    "jacobian_operator: norms, to_dense": Function(_rows, _expected_rows, ("default", "verify", "full", "zero")),
    "batch_jacobian": Function(
        lambda s: tfjac.batch_jacobian(s.ys, s.x, **s.options), _batch_of_inputs, ("default", *_PASSES), on_inputs=True
    ),
    "jacobian": Function(
        lambda s: tfjac.jacobian(s.ys, _of_forward_mode(s.variables, s.options), **s.options),
        lambda o, options: _of_forward_mode(o.jacobians, options),
        ("default", *_PASSES, "forward"),
    ),
    "jvp": Function(
        lambda s: tfjac.jvp(s.ys, s.variables, s.tangents(), **s.options),
        lambda o: (o.dense() @ o.flat_tangents()).reshape(o.y.shape),
        ("default", "zero"),
    ),
    "vjp": Function(
        lambda s: tfjac.vjp(s.ys, s.variables, tf.cast(s.oracle.cotangents, s.outputs_dtype()), **s.options),
        lambda o: o.split(o.dense().T @ o.cotangents.ravel()),
        ("default", "zero"),
    ),
    "hvp": Function(
        lambda s: tfjac.hvp(s.losses(), s.variables, s.tangents(), **s.options),
        lambda o: o.hessian_product(),
        ("default", "zero"),
    ),
    "ggnvp": Function(_gauss_newton, lambda o: o.gauss_newton_product(), ("default", "zero")),
    "sparse_jacobian": Function(_sparse, lambda o: o.of_all_inputs(), ("default", *_PASSES, "forward"), on_inputs=True),
}


@functools.cache
def expected(name, option, oracle_of, family):
    """What the oracle says, a flat list of arrays."""
    function = FUNCTIONS[name]
    takes_options = function.expected.__code__.co_argcount == 2
    oracle = oracle_of(family)
    return tf.nest.flatten(function.expected(oracle, OPTIONS[option]) if takes_options else function.expected(oracle))


def options_in_words():
    """For the name of each function, the options it has, as the page has them."""
    given = {
        name: [
            f"`{key}={value!r}`".replace("'", '"')
            for option in function.options
            for key, value in OPTIONS[option].items()
        ]
        for name, function in FUNCTIONS.items()
    }
    return {name: ", ".join(options) or "none" for name, options in given.items()}
