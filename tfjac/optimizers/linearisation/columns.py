"""The Jacobian of residuals that depend on some of the variables only, as one with columns for all of them."""

import tensorflow as tf


class SomeColumns:
    """A Jacobian operator with columns of zeros added, for variables that its residuals do not depend on.

    Args:
        operator: `JacobianOperator` with respect to the variables numbered `present`.
        present: increasing list of indices.
        sizes: number of elements of each of all variables.
    """

    def __init__(self, operator, present, sizes):
        self.operator, self.present, self.sizes = operator, present, sizes

    def gram_and_gradient(self, residual):
        """Return JᵀJ `[p, p]` and Jᵀr `[p]`."""
        gram, gradient = self.operator.gram_and_gradient(residual)
        return self._widen(self._widen(gram, axis=0), axis=1), self._widen(gradient)

    def kernel(self, scales):
        """Return Σ_v scales[v]·J_v J_vᵀ, `[rows, rows]`."""
        return self.operator.kernel(tf.gather(scales, self.present))

    def column_norms(self):
        """Return the norms of the columns, `[p]`."""
        return self._widen(self.operator.column_norms())

    def matvec(self, vector, adjoint=False):
        """Return J v `[rows]`, or Jᵀ u `[p]`."""
        if adjoint:
            return self._widen(self.operator.matvec(vector, adjoint=True))
        parts = tf.split(vector, self.sizes)
        return self.operator.matvec(tf.concat([parts[index] for index in self.present], axis=0))

    def to_dense(self):
        """Return J, `[rows, p]`."""
        return self._widen(self.operator.to_dense(), axis=1)

    def _widen(self, tensor, axis=0):
        """Put zeros where the missing variables stand along `axis`."""
        parts = dict(zip(self.present, tf.split(tensor, [self.sizes[index] for index in self.present], axis=axis)))
        shape = tf.unstack(tf.shape(tensor))
        for index, size in enumerate(self.sizes):
            if index not in parts:
                parts[index] = tf.zeros([*shape[:axis], size, *shape[axis + 1 :]], tensor.dtype)
        return tf.concat([parts[index] for index in range(len(self.sizes))], axis=axis)
