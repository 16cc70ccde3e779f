"""The curvature of a network's loss over all examples, and Jacobians of its outputs, chunk by chunk."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import quiet_function
from tfjac.jacobians import jacobian_operator

MOST = 256
"""At most so many examples in a chunk."""

ELEMENTS = 2**24
"""At most so many elements in a chunk of J, and in one of J·Jᵀ."""


class NetworkCurvature:
    """Latent outputs z of a network, J = ∂z/∂w, and R with R Rᵀ = H, the Hessian of the loss at z.

    Args:
        model: a Keras model, called in inference mode.
        variables: list of its variables that w is made of.
        likelihood, from_logits: see `likelihood_of`.
        x: array or nest of arrays, of which a chunk shows what the others are like.
        chunk: examples at a time; None to follow from the sizes.
    """

    def __init__(self, model, variables, likelihood, from_logits, x, chunk=None):
        self._model, self._variables, self._likelihood = model, variables, likelihood
        self._from_logits, self._chunk = from_logits, chunk
        specs = tf.nest.map_structure(lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype), x)
        weighed = tf.TensorSpec([None], tf.float32)
        self._latent = quiet_function(self.traced_latent, input_signature=[specs])
        self._gram = quiet_function(self._trace_gram, input_signature=[specs])
        self._rows = quiet_function(self._trace_rows, input_signature=[specs])
        self._kernel = quiet_function(self._trace_kernel, input_signature=[specs, weighed])

    def latent(self, x):
        """Return z, `[n, ...]`, float64."""
        return np.concatenate([self._latent(part).numpy() for part in chunks(x, MOST)]).astype(float)

    def gram(self, x, num_outputs):
        """Return Σ JᵀHJ, `[p, p]`, float64; J is not formed."""
        return sum(self._gram(part).numpy().astype(float) for part in self._chunks(x, num_outputs))

    def rows(self, x, num_outputs, num_parameters):
        """Yield J of the examples, `[chunk, m, p]`, float64."""
        for part in self._chunks(x, num_outputs * num_parameters):
            jacobian = self._rows(part).numpy().astype(float)
            yield jacobian.reshape(-1, num_outputs, num_parameters)

    def weighed_kernel(self, x, num_outputs):
        """Return RᵀJJᵀR, `[n·m, n·m]`, float64, from pairs of chunks; J is not formed."""
        parts = list(self._chunks(x, num_outputs, squared=True))
        blocks: list[list[Any]] = [[None] * len(parts) for _ in parts]
        for i, left in enumerate(parts):
            blocks[i][i] = self._kernel(left, tf.ones([size_of(left)])).numpy().astype(float)
            for j in range(i):
                blocks[i][j] = self._between(left, parts[j], num_outputs, weighed=True)[1]
                blocks[j][i] = blocks[i][j].T
        return np.block(blocks)

    def kernels(self, x, others, num_outputs):
        """Yield, for chunks of `x`, JJᵀ within it, `[chunk·m, chunk·m]`, and JJᵀR with `others`, `[chunk·m, rows]`."""
        parts = list(self._chunks(others, num_outputs, squared=True))
        for left in self._chunks(x, num_outputs, squared=True):
            blocks = [self._between(left, right, num_outputs, weighed=False) for right in parts]
            yield blocks[0][0], np.concatenate([block[1] for block in blocks], axis=1)

    def _between(self, left, right, num_outputs, weighed):
        """Return the kernel of `left` with itself, and with `right`, which is weighed by R; `left` if it is said."""
        both = tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=0), left, right)
        flags = tf.concat([tf.fill([size_of(left)], float(weighed)), tf.ones([size_of(right)])], axis=0)
        kernel, rows = self._kernel(both, flags).numpy().astype(float), size_of(left) * num_outputs
        return kernel[:rows, :rows], kernel[:rows, rows:]

    def _chunks(self, x, per_example, squared=False):
        most = int(np.sqrt(ELEMENTS) / 2) if squared else ELEMENTS
        return chunks(x, self._chunk or max(1, min(MOST, most // per_example)))

    # -------------------------------------------------------------- traced

    def traced_latent(self, x):
        """Return z `[n, ...]` of the graph that is being traced."""
        output = self._model(x, training=False)
        if not isinstance(output, tf.Tensor):
            raise ValueError(f"The model must have one output. Received: {tf.nest.map_structure(type, output)}")
        return self._likelihood.latent(output, self._from_logits)

    def _trace_gram(self, x):
        return self._operator(self._likelihood.term(self.traced_latent(x)).rows()[0]).gram()

    def _trace_rows(self, x):
        return self._operator(self.traced_latent(x)).to_dense()

    def _trace_kernel(self, x, weighed):
        latent = self.traced_latent(x)
        rows = self._likelihood.term(latent).rows()[0]
        weighed = tf.reshape(tf.cast(weighed, latent.dtype), [-1] + [1] * (latent.shape.rank - 1))
        return self._operator(weighed * rows + (1 - weighed) * latent).kernel()

    def _operator(self, tensor):
        return jacobian_operator(tensor, self._variables)


def chunks(x, size):
    """Yield parts of a nest of tensors, of at most `size` examples."""
    for start in range(0, size_of(x), size):
        yield tf.nest.map_structure(lambda part, first=start: part[first : first + size], x)


def size_of(x):
    """Return the number of examples in a nest of tensors."""
    return len(tf.nest.flatten(x)[0])
