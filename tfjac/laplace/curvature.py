"""The curvature of a network's loss over all examples, and Jacobians of its outputs, chunk by chunk."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable, quiet_function
from tfjac.graph.nodes import mask_of
from tfjac.jacobians import JacobianOperator, jacobian_operator
from tfjac.linear.factors.kronecker import in_bases
from tfjac.linear.factors.kronecker_block import KroneckerBlock, block_of

MOST = 256
"""At most so many examples in a chunk."""

LARGEST_SIDE = 8192
"""Of Kronecker factors: a larger matrix takes too long to decompose."""

ELEMENTS = 2**24
"""At most so many elements in a chunk of J, and in one of J·Jᵀ."""


class NetworkCurvature:
    """Latent outputs z of a network, J = ∂z/∂w, and R with R Rᵀ = H, the Hessian of the loss at z.

    H is zero for positions that Keras masks, which are in no loss.

    `weigh_by` divides rows and columns by numbers of each output and of each variable.

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
        self._dtype = as_tf_variable(variables[0]).dtype
        self._specs = tf.nest.map_structure(lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype), x)
        self._latent = quiet_function(self._trace_latent, input_signature=[self._specs])
        self._layouts: list[str] = []
        self._formed: list[bool] = []
        self._weighing: Any = None
        self.weigh_by(np.ones(()), np.ones(()))

    def weigh_by(self, rows, columns):
        """Divide the rows of RᵀJ by `rows`, in the shape of the outputs, columns of J by √`columns`, of each variable.

        Each may be one number, 1.
        """
        before, self._weighing = self._weighing, (tf.constant(rows, self._dtype), tf.constant(columns, self._dtype))
        shapes = tuple(tf.TensorSpec(each.shape, self._dtype) for each in self._weighing)
        if before is not None and tuple(each.shape for each in before) == tuple(spec.shape for spec in shapes):
            return
        common, vectors = [self._specs, shapes], tf.TensorSpec([None, None], self._dtype)
        self._rows = quiet_function(self._trace_rows, input_signature=common)
        self._product = quiet_function(self._trace_product, input_signature=[*common, vectors])
        self._gram = quiet_function(self._trace_gram, input_signature=common)
        self._kernel = quiet_function(self._trace_kernel, input_signature=[*common, tf.TensorSpec([None], tf.float32)])
        bases = [(tf.TensorSpec([None] * 3, self._dtype),) * 2 for _ in self._variables]
        self._moments = quiet_function(self._trace_moments, input_signature=[*common, bases])
        self._halves = quiet_function(self._trace_halves, input_signature=common)
        self._pairs = quiet_function(self._trace_pairs, input_signature=common)
        self._weighed = quiet_function(self._trace_weighed, input_signature=[*common, vectors])
        self._adjoint = quiet_function(self._trace_adjoint, input_signature=[*common, vectors])

    def latent(self, x):
        """Return z, `[n, ...]`, float64."""
        return self.latent_and_counts(x)[0]

    def latent_and_counts(self, x):
        """Return z, and one for each position that counts, `[n, *positions, 1]`, zero where a mask leaves it out."""
        parts = [self._latent(part) for part in chunks(x, MOST)]
        return tuple(np.concatenate([each.numpy() for each in both]).astype(float) for both in zip(*parts))

    def gram(self, x, num_outputs):
        """Return Σ JᵀHJ, `[p, p]`, float64; J is not formed."""
        return sum(self._gram(part, self._weighing).numpy().astype(float) for part in self._chunks(x, num_outputs))

    def rows(self, x, num_outputs, num_parameters):
        """Yield J of the examples, `[chunk, m, p]`, float64."""
        for part in self._chunks(x, num_outputs * num_parameters):
            jacobian = self._rows(part, self._weighing).numpy().astype(float)
            yield jacobian.reshape(-1, num_outputs, num_parameters)

    def weighed_kernel(self, x, num_outputs):
        """Return RᵀJJᵀR, `[n·m, n·m]`, float64, from pairs of chunks; J is not formed."""
        parts = list(self._chunks(x, num_outputs, squared=True))
        blocks: list[list[Any]] = [[None] * len(parts) for _ in parts]
        for i, left in enumerate(parts):
            blocks[i][i] = self._kernel(left, self._weighing, tf.ones([size_of(left)])).numpy().astype(float)
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

    def kronecker(self, x, num_outputs):
        """Return for each variable a `KroneckerBlock`, float64, with JᵀHJ ≈ A ⊗ G.

        A is the mean over all uses, G the sum over all examples, whatever the chunks are.
        """
        total = None
        for part in self._chunks(x, num_outputs):
            n = size_of(part)
            found = [
                (n * a.numpy().astype(float), g.numpy().astype(float)) for a, g in self._pairs(part, self._weighing)
            ]
            total = found if total is None else [(a + b, g + h) for (a, g), (b, h) in zip(total, found)]
        return [KroneckerBlock(a / size_of(x), g, layout) for (a, g), layout in zip(total, self._layouts)]

    def moments(self, x, num_outputs, num_parameters, bases):
        """Return the diagonal of Σ JᵀHJ in other bases, `[p]`, float64, for U `[g,i,i]`, V `[g,o,o]` of each variable.

        After `kronecker`. No gradient of an example is formed where weights are used in one position.
        """
        bases = [tuple(tf.constant(side, self._dtype) for side in pair) for pair in bases]
        parts = self._chunks(x, num_outputs * num_parameters if any(self._formed) else num_outputs)
        return sum(self._moments(part, self._weighing, bases).numpy().astype(float) for part in parts)

    def halves(self, x, num_outputs, num_parameters):
        """Yield for chunks of `x` a list with `(a[n,g,i], d[n,m,g,o])` for each variable, J = a ⊗ d, float64.

        Or `(J[n,m,q],)` of a variable that is used in several positions, or of a table.
        """
        per_example = num_outputs * num_parameters if any(self._formed) else num_outputs
        for part in self._chunks(x, per_example):
            found = self._halves(part, self._weighing)
            yield [tuple(each.numpy().astype(float) for each in half) for half in found]

    def product(self, x, vectors, num_outputs):
        """Return J·v of the examples, `[n·m, r]`, float64, for `v[p, r]`; J is not formed."""
        v = tf.constant(vectors, self._dtype)
        parts = self._chunks(x, num_outputs * vectors.shape[1])
        return np.concatenate([self._product(part, self._weighing, v).numpy() for part in parts]).astype(float)

    def weighed_product(self, x, vectors, num_outputs):
        """Return RᵀJ·v, `[n·m, r]`, float64, for `v[p, r]`."""
        v = tf.constant(vectors, self._dtype)
        parts = self._chunks(x, num_outputs * vectors.shape[1])
        return np.concatenate([self._weighed(part, self._weighing, v).numpy() for part in parts]).astype(float)

    def weighed_adjoint(self, x, vectors, num_outputs):
        """Return JᵀR·u, `[p, r]`, float64, for `u[n·m, r]`."""
        u, total = tf.constant(vectors.reshape(-1, num_outputs, vectors.shape[1]), self._dtype), 0.0
        for part, each in self._chunks((x, u), num_outputs * vectors.shape[1]):
            rows = tf.reshape(each, [-1, vectors.shape[1]])
            total = total + self._adjoint(part, self._weighing, rows).numpy().astype(float)
        return total

    def _between(self, left, right, num_outputs, weighed):
        """Return the kernel of `left` with itself, and with `right`, which is weighed by R; `left` if it is said."""
        both = tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=0), left, right)
        flags = tf.concat([tf.fill([size_of(left)], float(weighed)), tf.ones([size_of(right)])], axis=0)
        kernel, rows = self._kernel(both, self._weighing, flags).numpy().astype(float), size_of(left) * num_outputs
        return kernel[:rows, :rows], kernel[:rows, rows:]

    def _chunks(self, x, per_example, squared=False):
        most = int(np.sqrt(ELEMENTS) / 2) if squared else ELEMENTS
        return chunks(x, self._chunk or max(1, min(MOST, most // per_example)))

    # -------------------------------------------------------------- traced

    def traced_latent(self, x):
        """Return z `[n, ...]` of the graph that is being traced."""
        return self._trace_latent(x)[0]

    def traced_rows(self, x):
        """Return what RᵀJ is the Jacobian of, in the shape of z."""
        latent, counts = self._trace_latent(x)
        return counts * self._likelihood.term(latent).rows()[0]

    def _trace_latent(self, x):
        output = self._model(x, training=False)
        if not isinstance(output, tf.Tensor):
            raise ValueError(f"The model must have one output. Received: {tf.nest.map_structure(type, output)}")
        latent = self._likelihood.latent(output, self._from_logits)
        return latent, counts_of(mask_of(output), latent)

    def _trace_gram(self, x, weighing):
        return self._weighed_operator(x, weighing).gram()

    def _trace_pairs(self, x, weighing):
        factors = self._weighed_operator(x, weighing).factors
        blocks = [block_of(factor) for factor in factors]
        for variable, block in zip(self._variables, blocks):
            if block is None or max(block.left.shape[-1], block.right.shape[-1]) > LARGEST_SIDE:
                raise ValueError(
                    f"Kronecker factors are of weights that multiply data, with at most {LARGEST_SIDE:,} inputs or "
                    "outputs: leave this variable out of variables=. "
                    f"Received: {variable.name!r} of shape {tuple(variable.shape)}"
                )
        self._layouts = [block.layout for block in blocks]
        self._formed = [not is_single(factor) for factor in factors]
        return [(block.left, block.right) for block in blocks]

    def _trace_moments(self, x, weighing, bases):
        factors = self._weighed_operator(x, weighing).factors
        turned = [in_bases(factor, *pair) for factor, pair in zip(factors, bases)]
        return tf.concat([factor.squared_column_norms() for factor in turned], axis=0)

    def _trace_halves(self, x, weighing):
        found = []
        for factor in self._operator(self.traced_latent(x), weighing).factors:
            if is_single(factor):
                a, d, _ = factor.outer_form()
                found.append((a[:, 0], d[:, :, 0]))
            else:
                found.append((factor.dense(),))
        return found

    def _trace_product(self, x, weighing, vectors):
        return self._operator(self.traced_latent(x), weighing).matmul(vectors)

    def _trace_weighed(self, x, weighing, vectors):
        return self._weighed_operator(x, weighing).matmul(vectors)

    def _trace_adjoint(self, x, weighing, vectors):
        return self._weighed_operator(x, weighing).matmul(vectors, adjoint=True)

    def _trace_rows(self, x, weighing):
        return self._operator(self.traced_latent(x), weighing).to_dense()

    def _trace_kernel(self, x, weighing, weighed):
        latent, counts = self._trace_latent(x)
        rows = counts * self._likelihood.term(latent).rows()[0] / weighing[0]
        weighed = tf.reshape(tf.cast(weighed, latent.dtype), [-1] + [1] * (latent.shape.rank - 1))
        return self._operator(weighed * rows + (1 - weighed) * latent, weighing).kernel()

    def _weighed_operator(self, x, weighing):
        return self._operator(self.traced_rows(x) / weighing[0], weighing)

    def _operator(self, tensor, weighing):
        operator, (_, columns) = jacobian_operator(tensor, self._variables), weighing
        if columns.shape.rank == 0:
            return operator
        shapes = [variable.shape for variable in self._variables]
        return JacobianOperator(operator.scaled_factors(1 / columns), shapes, *operator.examples_and_outputs)


def counts_of(mask, latent):
    """Return `[n, *positions, 1]`, in the dtype of z: zero where the mask of Keras leaves a position out, else one.

    Raises:
        ValueError: for a mask that is not one of the positions.
    """
    if mask is None:
        return tf.ones([tf.shape(latent)[0], *[1] * (latent.shape.rank - 1)], latent.dtype)
    if mask.shape.rank != latent.shape.rank - 1 or not mask.shape.is_compatible_with(latent.shape[:-1]):
        raise ValueError(
            "The mask of the model's output must have the axes of that output but the last, as Keras' losses need. "
            f"Received: a mask of shape {mask.shape} for outputs of shape {latent.shape}"
        )
    return tf.cast(mask, latent.dtype)[..., None]


def is_single(factor):
    """Whether a factor is a ⊗ d for each example, with one position."""
    return factor.has_outer_form and factor.outer_form()[1].shape[2] == 1


def chunks(x, size):
    """Yield parts of a nest of tensors, of at most `size` examples."""
    for start in range(0, size_of(x), size):
        yield tf.nest.map_structure(lambda part, first=start: part[first : first + size], x)


def size_of(x):
    """Return the number of examples in a nest of tensors."""
    return len(tf.nest.flatten(x)[0])
