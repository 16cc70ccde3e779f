"""The user's functions, called with nests as the user writes them, behind lists of arrays as the ops pass them."""

import tensorflow as tf


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
