"""Which ops between points and scores are linear there, so that their own gradient says what each input contributes."""

from tfjac.graph import Dependence, as_computed, has_custom_gradient
from tfjac.graph.facts import facts_of
from tfjac.graph.op_types import affine_inputs, linear_inputs


class Path:
    """The ops from the points to the scores of a `Program`, with custom gradients undone.

    Attributes:
        ops: list of them, inputs before consumers, of those whose results are floating-point numbers.
    """

    def __init__(self, program, method):
        """Undo the custom gradients on the way; raise ValueError if that cannot be done.

        Args:
            program: `Program`; its scores become those without custom gradients.
            method: what it is for, in messages.
        """
        try:
            (program.scores,) = as_computed([program.scores], program.points)
        except LookupError as error:
            raise ValueError(
                f"{method} cannot look into custom gradients in loops: use tfjac.explanations.integrated_gradients. "
                f"Received: {error}"
            ) from error
        self._dependence = Dependence(program.points, by_value=True)
        self.ops = [op for op in program.path() if any(y.dtype.is_floating for y in op.outputs)]

    def reaches(self, tensor):
        """Return whether a tensor depends on the points."""
        return self._dependence.reaches(tensor)

    def alive(self, op):
        """List the indices of the inputs that depend on the points."""
        return [index for index, below in enumerate(op.inputs) if self.reaches(below)]

    def is_linear(self, op):
        """Return whether the results are linear, or affine, in the inputs that depend on the points together."""
        alive, facts = self.alive(op), facts_of(op)
        if facts.list in ("item read", "items read"):  # that loops wrote
            return True
        if has_custom_gradient(op) or not all(op.inputs[index].dtype.is_floating for index in alive):
            return False
        if set(alive) <= set(affine_inputs(op)):
            return True
        outputs = [y for y in op.outputs if y.dtype.is_floating]
        found = [linear_inputs(y, self.reaches) for y in outputs]
        return all(each is not None for each in found) and set(alive) <= {k for each in found for k in each}
