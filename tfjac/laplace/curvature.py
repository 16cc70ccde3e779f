"""The curvature of a network's loss over its training examples, and Jacobians of its outputs, chunk by chunk."""

import functools
import hashlib

import numpy as np
import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.graph import as_tf_variable, quiet_function
from tfjac.graph.nodes import mask_of
from tfjac.jacobians import jacobian_operator
from tfjac.laplace.inputs import check_trained, chosen_variables, inputs_like
from tfjac.laplace.likelihoods import likelihood_of
from tfjac.linear.factors.kronecker import in_bases
from tfjac.linear.factors.kronecker_block import KroneckerBlock, block_of

MOST = 256
"""At most so many examples in a chunk."""

LARGEST_SIDE = 8192
"""Of Kronecker factors: a larger matrix takes too long to decompose."""

ELEMENTS = 2**24
"""At most so many elements in a chunk of J, and in one of J·Jᵀ."""


class NetworkCurvature:
    """Latent outputs z of a network, J = ∂z/∂w, and R with R Rᵀ = H, the Hessian of −log p at z.

    H is zero for positions that Keras masks, which are in no loss. The curvature is that of all training examples: with
    A = RᵀJ of these it is AᵀA. Results are NumPy arrays of float64.

    Args:
        caller: name of the function that was called, for errors.
        model, x, variables, likelihood, from_logits, batch_size: as `laplace` is given them.

    Attributes:
        model, likelihood: the network, and the `Likelihood` of its targets.
        x: the training examples, a nest of tensors.
        variables: list of the `tf.Variable`s that w is made of.
        num_parameters: p.
    """

    def __init__(self, caller, model, x, variables, likelihood, from_logits, batch_size):
        check_trained(caller, model, x)
        self.model, self._caller = model, caller
        self.likelihood, self.from_logits = likelihood_of(model, likelihood, from_logits)
        self._chunk = None if batch_size is None else positive_integer("batch_size", batch_size)
        self.variables = [as_tf_variable(each) for each in chosen_variables(model, variables)]
        self.num_parameters = sum(each.shape.num_elements() for each in self.variables)
        self.dtype, self._functions = self.variables[0].dtype, {}
        self.x, self._weights = self.as_inputs(x), fingerprint(model)
        self.weigh_by(np.ones(()), np.ones(()))

    def as_inputs(self, x):
        """Return arrays as tensors like the model's inputs."""
        return inputs_like(x, self.dtype)

    def check_weights(self):
        """Raise ValueError where the model has other weights than it had."""
        if fingerprint(self.model) != self._weights:
            raise ValueError(
                f"The weights of the model are others than when {self._caller} was called: call {self._caller} again. "
                "Received: a model that was changed"
            )

    def weigh_by(self, rows, columns):
        """Divide the rows of A by `rows`, in the shape of the outputs, columns of J by √`columns`, of each variable.

        Each may be one number, 1.
        """
        self._weighing = tf.constant(rows, self.dtype), tf.constant(columns, self.dtype)

    # ------------------------------------------------------------------------------------ of the training examples

    @functools.cached_property
    def _outputs(self):
        return self.outputs(self.x)

    @property
    def latent(self):
        """z, `[n, ...]`."""
        return self._outputs[0]

    @property
    def counts(self):
        """One for each position that counts, `[n, *positions, 1]`, zero where a mask leaves it out."""
        return self._outputs[1]

    @property
    def num_outputs(self):
        """The number of outputs m of an example."""
        return int(np.prod(self.latent.shape[1:]))

    def gram(self):
        """Return AᵀA, `[p, p]`; J is not formed."""
        return sum(self._each("gram", lambda traced: traced.rows.gram(), self.x, self.num_outputs))

    def trace(self):
        """Return tr AᵀA."""
        return sum(self._each("trace", lambda traced: tf.reduce_sum(traced.rows.row_norms() ** 2), self.x))

    def times(self, v):
        """Return AᵀA·v, `[p, k]`, for `v[p, k]`; J is not formed."""

        def product(traced, v):
            return traced.rows.matmul(traced.rows.matmul(v), adjoint=True)

        return sum(self._each("times", product, self.x, v.shape[1], given=[v]))

    def kernel(self):
        """Return AAᵀ, `[n·m, n·m]`, from pairs of chunks; J is not formed."""
        parts = list(self._chunks((self.x, self._ones(self.x)), self.num_outputs, squared=True))
        blocks = [[None] * len(parts) for _ in parts]
        for i, left in enumerate(parts):
            blocks[i][i] = self._run("kernel", _kernel, *left)
            for j in range(i):
                blocks[i][j] = self._between("kernel", _kernel, left, parts[j])[1]
                blocks[j][i] = blocks[i][j].T
        return np.block(blocks)

    def rows_times(self, v):
        """Return A·v, `[n·m, k]`, for `v[p, k]`."""
        per_example = self.num_outputs * v.shape[1]
        parts = self._each("rows_times", lambda traced, v: traced.rows.matmul(v), self.x, per_example, given=[v])
        return np.concatenate([*parts])

    def transpose_times(self, u):
        """Return Aᵀ·u, `[p, k]`, for `u[n·m, k]`."""

        def product(traced, u):
            return traced.rows.matmul(tf.reshape(u, [-1, tf.shape(u)[2]]), adjoint=True)

        by_example = u.reshape(size_of(self.x), self.num_outputs, -1)
        return sum(self._each("transpose_times", product, self.x, by_example[0].size, cut=[by_example]))

    def kronecker(self):
        """Return for each variable a `KroneckerBlock` that AᵀA is next to.

        Its left side is the mean over all uses, the right one the sum over all examples, whatever the chunks are.
        """
        total = None
        for found in self._each("kronecker", self._sides, self.x, self.num_outputs):
            total = found if total is None else tf.nest.map_structure(np.add, total, found)
        n = size_of(self.x)
        return [KroneckerBlock(left / n, right, layout) for (left, right), layout in zip(total, self._layouts)]

    def moments(self, bases):
        """Return the diagonal of AᵀA in other bases, `[p]`, for a `KroneckerBlock` of U and V of each variable.

        No gradient of an example is formed where weights are used in one position.
        """
        sides = [(basis.left, basis.right) for basis in bases]
        return sum(self._each("moments", _squares_in_bases, self.x, self._per_example, given=sides))

    def residuals(self, labels):
        """Return r with R r = −∂ log p/∂z, `[n, m]`, for labels in the shape of z."""

        def residual(traced, labels):
            found = self.likelihood.residual(traced.latent, tf.reshape(labels, tf.shape(traced.latent)))
            return tf.reshape(found, tf.shape(labels))

        labels = labels.reshape(len(labels), -1)
        return np.concatenate([*self._each("residuals", residual, self.x, cut=[labels])])

    # -------------------------------------------------------------------------------------------- of any examples

    def outputs(self, x):
        """Return z, and one for each position that counts, as `latent` and `counts`."""
        parts = self._each("outputs", lambda traced: (traced.latent, traced.counts), x)
        return tuple(np.concatenate(both) for both in zip(*parts))

    def jacobians(self, x):
        """Yield J of the examples, `[chunk, m, p]`."""
        per_example = self.num_outputs * self.num_parameters
        for rows in self._each("jacobians", lambda traced: traced.outputs.to_dense(), x, per_example):
            yield rows.reshape(-1, self.num_outputs, self.num_parameters)

    def halves(self, x):
        """Yield J of the examples, a list with `(a[n,g,i], d[n,m,g,o])` of each variable, of which it is the product.

        Where a weight is used in many positions, `(J[n,m,size],)`. After `kronecker`.
        """
        return self._each("halves", _halves, x, self._per_example)

    def product(self, x, v):
        """Return J·v of the examples, `[n·m, k]`, for `v[p, k]`."""
        per_example = self.num_outputs * v.shape[1]
        parts = self._each("product", lambda traced, v: traced.outputs.matmul(v), x, per_example, given=[v])
        return np.concatenate([*parts])

    def kernels(self, x):
        """Yield, for chunks of `x`, JJᵀ within it, `[chunk·m, chunk·m]`, and J·Aᵀ, `[chunk·m, n·m]`."""
        parts = list(self._chunks((self.x, self._ones(self.x)), self.num_outputs, squared=True))
        for left in self._chunks((x, 0 * self._ones(x)), self.num_outputs, squared=True):
            blocks = [self._between("kernel", _kernel, left, right) for right in parts]
            yield blocks[0][0], np.concatenate([block[1] for block in blocks], axis=1)

    def gradients(self, x, u):
        """Yield g = Σ u[n,m] ∂z[n,m]/∂w of each example, `[chunk, p]`, for `u[n, m]`."""
        return self._each("gradients", lambda traced, u: traced.sums(u).to_dense(), x, self.num_parameters, cut=[u])

    def squared_norms(self, x, u):
        """Return ‖g‖² of each example, `[n]`; g is not formed."""
        return np.concatenate([*self._each("norms", lambda traced, u: traced.sums(u).row_norms(), x, cut=[u])]) ** 2

    def products(self, x, u, others, v):
        """Return g·g′ for all pairs of examples of `x` and `others`, `[n, n']`, from factors; g is not formed."""

        def kernel(traced, u):
            return traced.sums(u).kernel()

        lefts, rights = self._chunks((x, self._tensor(u))), [*self._chunks((others, self._tensor(v)))]
        return np.block([[self._between("products", kernel, left, right)[1] for right in rights] for left in lefts])

    # -------------------------------------------------------------------------------------------- chunk by chunk

    @property
    def _per_example(self):
        """Elements of J, or of its outputs alone where it is not formed. After `kronecker`."""
        return self.num_outputs * (1 if self._single else self.num_parameters)

    def _ones(self, x):
        return tf.ones([size_of(x)], self.dtype)

    def _tensor(self, array):
        return tf.convert_to_tensor(array, self.dtype)

    def _chunks(self, x, per_example=1, squared=False):
        most = int(np.sqrt(ELEMENTS) / 2) if squared else ELEMENTS
        return chunks(x, self._chunk or max(1, min(MOST, most // per_example)))

    def _each(self, name, compute, x, per_example=1, cut=(), given=()):
        """Yield what `_run` returns for chunks of `x` and of the arrays in `cut`, and all that is `given`."""
        for part in self._chunks((x, *map(self._tensor, cut)), per_example):
            yield self._run(name, compute, *part, *given)

    def _between(self, name, compute, left, right):
        """Return the blocks of a kernel of the rows of `left` with themselves, and with those of `right`."""
        both = tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=0), left, right)
        kernel = self._run(name, compute, *both)
        rows = len(kernel) * size_of(left) // size_of(both)
        return kernel[:rows, :rows], kernel[:rows, rows:]

    def _run(self, name, compute, x, *given):
        """Return what `compute(traced, *given)` returns for the examples x, traced once for each name."""
        arguments = self._weighing, tf.nest.map_structure(self._tensor, given)
        key = name, *(each.shape.rank for each in self._weighing)
        if key not in self._functions:
            examples = tf.nest.map_structure(lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype), x)
            weighing = tuple(tf.TensorSpec(each.shape, each.dtype) for each in self._weighing)
            others = tf.nest.map_structure(
                lambda each: tf.TensorSpec([None] * each.shape.rank, each.dtype), arguments[1]
            )
            self._functions[key] = quiet_function(
                lambda x, weighing, given: compute(_Traced(self, x, weighing), *given),
                input_signature=[examples, weighing, others],
            )
        found = self._functions[key](x, *arguments)
        return tf.nest.map_structure(lambda each: each.numpy().astype(float), found)

    def _sides(self, traced):
        blocks = [block_of(factor) for factor in traced.rows.factors]
        for variable, block in zip(self.variables, blocks):
            if block is None or max(block.left.shape[-1], block.right.shape[-1]) > LARGEST_SIDE:
                raise ValueError(
                    f"Kronecker factors are of weights that multiply data, with at most {LARGEST_SIDE:,} inputs or "
                    "outputs: leave this variable out of variables=. "
                    f"Received: {variable.name!r} of shape {tuple(variable.shape)}"
                )
        self._layouts = [block.layout for block in blocks]
        self._single = all(map(is_single, traced.rows.factors))
        counted = tf.cast(tf.shape(traced.latent)[0], self.dtype)
        return [(counted * block.left, block.right) for block in blocks]


class _Traced:
    """A chunk of examples in the graph that is being traced.

    Attributes:
        latent, counts: z, and what its positions count for.
    """

    def __init__(self, curvature, x, weighing):
        self._curvature, self._weighing = curvature, weighing
        output = curvature.model(x, training=False)
        if not isinstance(output, tf.Tensor):
            raise ValueError(f"The model must have one output. Received: {tf.nest.map_structure(type, output)}")
        self.latent = curvature.likelihood.latent(output, curvature.from_logits)
        self.counts = counts_of(mask_of(output), self.latent)

    @property
    def root(self):
        """Rᵀz, of the shape of z."""
        return self.counts * self._curvature.likelihood.term(self.latent).rows()[0] / self._weighing[0]

    @functools.cached_property
    def outputs(self):
        """J, the `JacobianOperator` of z."""
        return self.jacobian(self.latent)

    @functools.cached_property
    def rows(self):
        """A, the `JacobianOperator` of Rᵀz."""
        return self.jacobian(self.root)

    def sums(self, u):
        """Return the `JacobianOperator` of Σ u[n,m] z[n,m]."""
        return self.jacobian(tf.reduce_sum(u * tf.reshape(self.latent, tf.shape(u)), axis=1))

    def jacobian(self, tensor):
        operator, (_, columns) = jacobian_operator(tensor, self._curvature.variables), self._weighing
        if columns.shape.rank == 0:
            return operator
        return operator.with_factors(operator.scaled_factors(1 / columns), operator.examples_and_outputs[1])


def _kernel(traced, weighed):
    """Return the kernel of rows of J, and of A where `weighed` `[n]` is one."""
    weighed = tf.reshape(tf.cast(weighed, traced.latent.dtype), [-1] + [1] * (traced.latent.shape.rank - 1))
    return traced.jacobian(weighed * traced.root + (1 - weighed) * traced.latent).kernel()


def _squares_in_bases(traced, *bases):
    turned = [in_bases(factor, *pair) for factor, pair in zip(traced.rows.factors, bases)]
    return tf.concat([factor.squared_column_norms() for factor in turned], axis=0)


def _halves(traced):
    found = []
    for factor in traced.outputs.factors:
        if is_single(factor):
            a, d, _ = factor.outer_form()
            found.append((a[:, 0], d[:, :, 0]))
        else:
            found.append((factor.dense(),))
    return found


def is_single(factor):
    """Whether a factor is a ⊗ d for each example, with one position."""
    return factor.has_outer_form and factor.outer_form()[1].shape[2] == 1


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


def chunks(x, size):
    """Yield parts of a nest of tensors, of at most `size` examples."""
    for start in range(0, size_of(x), size):
        yield tf.nest.map_structure(lambda part, first=start: part[first : first + size], x)


def size_of(x):
    """Return the number of examples in a nest of tensors."""
    return len(tf.nest.flatten(x)[0])


def fingerprint(model):
    """Return what changes with any weight of a model."""
    digest = hashlib.sha1()
    for weight in model.get_weights():
        digest.update(np.ascontiguousarray(weight).tobytes())
    return digest.hexdigest()
