"""`"auto"`: the solver that the sizes of the problem ask for."""

import keras
import tensorflow as tf

from tfjac.optimizers.options import positive
from tfjac.optimizers.solvers.base import Solver
from tfjac.optimizers.solvers.cholesky import CholeskySolver
from tfjac.optimizers.solvers.conjugate_gradient import ConjugateGradientSolver
from tfjac.optimizers.solvers.kernel import KernelSolver
from tfjac.optimizers.solvers.qr import QRSolver

SMALL = 256
"""So few parameters that JᵀJ costs next to nothing, whatever the number of residuals."""

QR_ELEMENTS = 2**22
"""In float64, a J of up to so many elements is factored itself rather than squared."""


@keras.saving.register_keras_serializable("tfjac")
class AutoSolver(Solver):
    """Chooses by the number of residuals nm, of parameters p, the dtype, and a memory budget.

    - float64, p ≤ 256, nm known and ≥ p, J of at most 2²² elements: `"qr"`;
    - p ≤ nm, or p ≤ 256: `"cholesky"`;
    - p > nm: `"kernel"` (not with a regulariser that weighs the elements of one variable differently);
    - the matrix that this would need is over the budget: the other of the two, or else `"cg"`.

    Where the batch size is open while tracing, as in `fit`, and both would do, both are traced and the batch
    decides as it comes.

    Args:
        memory_budget: bytes that the matrix and its factor may take.

    Attributes:
        chosen: name of the solver of the last trace, `"kernel or cholesky"` where the batch decides; None before.
    """

    name = "auto"

    def __init__(self, memory_budget=4 * 2**30):
        self.memory_budget = positive("memory_budget", memory_budget)
        self.chosen = None

    def prepare(self, objective):
        """Return the system of the solver chosen by static shapes."""
        return self._candidates(objective)[0].prepare(objective)

    def run(self, objective, step):
        """Run `step` with the solver chosen, by static shapes or in the graph."""
        candidates = self._candidates(objective)
        self.chosen = " or ".join(solver.name for solver in candidates)
        if len(candidates) == 1:
            return candidates[0].run(objective, step)
        small, large = candidates
        return tf.cond(
            objective.num_rows < objective.num_parameters,
            lambda: small.run(objective, step),
            lambda: large.run(objective, step),
        )

    def _candidates(self, objective):
        """Return the solver, or `[KernelSolver, CholeskySolver]` where the number of rows is not known yet."""
        rows, columns = objective.static_num_rows, objective.num_parameters
        tall = rows is not None and rows >= columns and rows * columns <= QR_ELEMENTS
        if objective.dtype == tf.float64 and tall and columns <= SMALL:
            return [QRSolver()]
        possible = []
        if objective.prior.has_one_number_per_variable and columns > SMALL and (rows is None or rows < columns):
            possible.append((KernelSolver(), rows or 0))
        if rows is None or rows >= columns or not possible:
            possible.append((CholeskySolver(), columns))
        fitting = [solver for solver, size in possible if 2 * size**2 * objective.dtype.size <= self.memory_budget]
        return fitting or [ConjugateGradientSolver()]

    def get_config(self):
        """Return the arguments of the constructor."""
        return {"memory_budget": self.memory_budget}
