"""Gradients of uᵀz of each example by the weights, for any u: dense, or as products of which none forms them."""

import numpy as np
import tensorflow as tf

from tfjac.graph import quiet_function
from tfjac.jacobians import jacobian_operator
from tfjac.laplace.curvature import ELEMENTS, MOST, chunks, size_of


class OutputGradients:
    """g[n] = Σ u[n,m] ∂z[n,m]/∂w. If u is the slope of the loss, that is the gradient of the loss of each example.

    Args:
        latent: function from inputs to z, `[n, ...]`, of a graph being traced.
        rows: function from inputs to what RᵀJ is the Jacobian of, likewise.
        likelihood: see `tfjac.laplace.likelihoods`.
        variables: list of the variables that w is made of.
        x: nest of tensors, of which a chunk shows what the others are like.
        chunk: examples at a time; None to follow from the sizes.
    """

    def __init__(self, latent, rows, likelihood, variables, x, chunk=None):
        self._latent, self._rows, self._likelihood, self._variables, self._chunk = (
            latent,
            rows,
            likelihood,
            variables,
            chunk,
        )
        self._dtype = variables[0].dtype
        specs = tf.nest.map_structure(lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype), x)
        u, columns = tf.TensorSpec([None, None], self._dtype), tf.TensorSpec([None, None], self._dtype)
        self._dense = quiet_function(self._trace_dense, input_signature=[specs, u])
        self._kernel = quiet_function(self._trace_kernel, input_signature=[specs, u])
        self._norms = quiet_function(self._trace_norms, input_signature=[specs, u])
        self._curved = quiet_function(self._trace_curved, input_signature=[specs, columns])
        self._trace = quiet_function(self._trace_trace, input_signature=[specs])
        self._residual = quiet_function(self._trace_residual, input_signature=[specs, u])

    def dense(self, x, u, per_example):
        """Yield slices of examples and their g, `[chunk, p]`, float64, for chunks of at most ELEMENTS/per_example."""
        for part, rows, at in self._parts(x, u, max(1, ELEMENTS // per_example)):
            yield at, self._dense(part, rows).numpy().astype(float)

    def squared_norms(self, x, u):
        """Return ‖g‖² of each example, `[n]`; g is not formed."""
        return np.concatenate([self._norms(part, rows).numpy() for part, rows, _ in self._parts(x, u, MOST)]) ** 2.0

    def products(self, x, u, others, v):
        """Return g·g′ for all pairs of examples of `x` and `others`, `[n, n']`, from factors; g is not formed."""
        found = []
        for left, rows, _ in self._parts(x, u, MOST):
            blocks = []
            for right, columns, _ in self._parts(others, v, MOST):
                both = tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=0), left, right)
                kernel = self._kernel(both, tf.concat([rows, columns], axis=0)).numpy().astype(float)
                blocks.append(kernel[: len(rows), len(rows) :])
            found.append(np.concatenate(blocks, axis=1))
        return np.concatenate(found)

    def curved(self, x, columns):
        """Return JᵀHJ·V for `columns` V `[p, k]`, float64, summed over all examples; J is not formed."""
        columns = tf.constant(columns, self._dtype)
        most = max(1, min(MOST, ELEMENTS // columns.shape[1]))
        return sum(self._curved(part, columns).numpy().astype(float) for part in chunks(x, self._chunk or most))

    def curvature_trace(self, x):
        """Return tr JᵀHJ, summed over all examples."""
        return sum(float(self._trace(part)) for part in chunks(x, self._chunk or MOST))

    def residuals(self, x, labels):
        """Return r with R r = −∂ log p/∂z, `[n, m]`, float64."""
        labels = labels.reshape(len(labels), -1)
        parts = self._parts(x, labels, MOST)
        return np.concatenate([self._residual(part, rows).numpy().astype(float) for part, rows, _ in parts])

    def _parts(self, x, u, most):
        size = self._chunk or min(MOST, most)
        for k, part in enumerate(chunks(x, size)):
            at = slice(k * size, k * size + size_of(part))
            yield part, tf.constant(u[at], self._dtype), at

    # -------------------------------------------------------------- traced

    def _curvature_rows(self, x):
        return self._operator(self._rows(x))

    def _operator(self, tensor):
        return jacobian_operator(tensor, self._variables)

    def _sums(self, x, u):
        latent = self._latent(x)
        return self._operator(tf.reduce_sum(u * tf.reshape(latent, tf.shape(u)), axis=1))

    def _trace_dense(self, x, u):
        return self._sums(x, u).to_dense()

    def _trace_kernel(self, x, u):
        return self._sums(x, u).kernel()

    def _trace_norms(self, x, u):
        return self._sums(x, u).row_norms()

    def _trace_curved(self, x, columns):
        rows = self._curvature_rows(x)
        return rows.matmul(rows.matmul(columns), adjoint=True)

    def _trace_trace(self, x):
        return tf.reduce_sum(tf.square(self._curvature_rows(x).row_norms()))

    def _trace_residual(self, x, labels):
        latent = self._latent(x)
        found = self._likelihood.residual(latent, tf.reshape(labels, tf.shape(latent)))
        return tf.reshape(found, tf.shape(labels))
