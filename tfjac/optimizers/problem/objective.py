"""The function that a step lowers: F(w) = ½‖r(w)‖² + ½ (w−w₀)ᵀΛ(w−w₀), linearised where the variables are."""

import math

import tensorflow as tf

from tfjac.graph import replay


class Objective:
    """F, its linearisation at the current values of the variables, and how to evaluate it elsewhere.

    Rows are those of all blocks, stacked; columns the elements of all variables, flattened and concatenated.

    Args:
        cost: scalar tensor, F as the graph computes it.
        blocks: list of pairs of a `JacobianOperator` and its residuals `[rows]`.
        prior: a `Prior`.
        variables: the variables, `tf.Variable` or `keras.Variable`, in the order of the columns.
    """

    def __init__(self, cost, blocks, prior, variables):
        self.cost, self.prior = cost, prior
        self.variables = list(variables)
        self.operators = [operator for operator, _ in blocks]
        self.residuals = [residual for _, residual in blocks]
        self.sizes = [math.prod(variable.shape) for variable in self.variables]
        self.num_parameters = sum(self.sizes)
        self.dtype = cost.dtype

    # -------------------------------------------------------------- the variables

    def values(self):
        """Return what the variables hold now, as a list of tensors."""
        return [_value(variable).read_value() for variable in self.variables]

    def flatten(self, tensors):
        """Return tensors of the variables' shapes as one vector `[p]`."""
        return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)

    def split(self, vector):
        """Return a vector `[p]` as a list of tensors of the variables' shapes."""
        parts = tf.split(vector, self.sizes)
        return [tf.reshape(part, variable.shape) for part, variable in zip(parts, self.variables)]

    def move(self, start, step):
        """Assign `start` + `step` to the variables, projected by the constraints that Keras variables may have."""
        for variable, value, change in zip(self.variables, start, self.split(step)):
            constraint = getattr(variable, "constraint", None)
            _value(variable).assign(value + change if constraint is None else constraint(value + change))

    def restore_unless(self, accepted, start):
        """Assign `start` to the variables, bit for bit, unless `accepted`."""

        def restore():
            for variable, value in zip(self.variables, start):
                _value(variable).assign(value)
            return False

        tf.cond(accepted, lambda: True, restore)

    def evaluate(self):
        """Return F at what the variables hold at this point of the program: a replay of the graph of the cost."""
        return tf.ensure_shape(replay([self.cost], reread=self.variables)[0], [])

    # -------------------------------------------------------------- sizes

    @property
    def num_rows(self):
        """Number of residuals, a scalar tensor."""
        return tf.add_n([tf.size(residual) for residual in self.residuals]) if self.residuals else tf.constant(0)

    @property
    def static_num_rows(self):
        """Number of residuals where the graph fixes it, else None."""
        sizes = [residual.shape.num_elements() for residual in self.residuals]
        return None if None in sizes else sum(sizes)

    def averages(self, vector):
        """Return the mean of `vector` `[p]` over each variable, `[num_variables]`."""
        return tf.stack([tf.reduce_mean(part) for part in tf.split(vector, self.sizes)])

    def spread(self, numbers):
        """Return `[num_variables]` numbers, each repeated for the elements of its variable, `[p]`."""
        return tf.repeat(numbers, self.sizes)

    # -------------------------------------------------------------- the linearisation

    def residual(self):
        """Return r, `[rows]`."""
        return self.residuals[0] if len(self.residuals) == 1 else tf.concat([*self.residuals, self._nothing()], axis=0)

    def gradient(self):
        """Return g = Jᵀr + Λ(w−w₀), `[p]`."""
        return self.adjoint(self.residual()) + self.prior.gradient

    def gram_and_gradient(self):
        """Return JᵀJ `[p, p]` and g `[p]`; J is not formed."""
        pairs = [operator.gram_and_gradient(residual) for operator, residual in zip(self.operators, self.residuals)]
        if not pairs:
            return tf.zeros([self.num_parameters] * 2, self.dtype), self.prior.gradient
        gram = pairs[0][0] if len(pairs) == 1 else tf.add_n([pair[0] for pair in pairs])
        return gram, tf.add_n([*(pair[1] for pair in pairs), self.prior.gradient])

    def kernel(self, scales):
        """Return Σ_v scales[v]·J_v J_vᵀ, `[rows, rows]`."""
        if len(self.operators) == 1:
            return self.operators[0].kernel(scales)
        rows = self.to_dense() * tf.sqrt(self.spread(scales))
        return tf.matmul(rows, rows, transpose_b=True)

    def column_norms_squared(self):
        """Return diag(JᵀJ), `[p]`."""
        norms = [tf.square(operator.column_norms()) for operator in self.operators]
        return tf.add_n([*norms, tf.zeros([self.num_parameters], self.dtype)])

    def matvec(self, vector):
        """Return J v, `[rows]`."""
        return tf.concat([*(operator.matvec(vector) for operator in self.operators), self._nothing()], axis=0)

    def adjoint(self, vector):
        """Return Jᵀ u, `[p]`."""
        if len(self.operators) == 1:
            return self.operators[0].matvec(vector, adjoint=True)
        parts = tf.split(vector, tf.stack([tf.size(residual) for residual in self.residuals])) if self.residuals else []
        products = [operator.matvec(part, adjoint=True) for operator, part in zip(self.operators, parts)]
        return tf.add_n([*products, tf.zeros([self.num_parameters], self.dtype)])

    def to_dense(self):
        """Return J, `[rows, p]`."""
        if len(self.operators) == 1:
            return self.operators[0].to_dense()
        nothing = tf.zeros([0, self.num_parameters], self.dtype)
        return tf.concat([*(operator.to_dense() for operator in self.operators), nothing], axis=0)

    def quadratic(self, step):
        """Return pᵀ(JᵀJ + Λ)p by one product with J."""
        return tf.reduce_sum(tf.square(self.matvec(step))) + tf.reduce_sum(self.prior.precision * tf.square(step))

    def _nothing(self):
        return tf.zeros([0], self.dtype)


def _value(variable):
    """Return the `tf.Variable` that holds the values."""
    return variable if isinstance(variable, tf.Variable) else variable.value
