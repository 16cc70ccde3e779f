"""`"auto"`: the solver that the sizes of the problem ask for."""

import keras
import tensorflow as tf

from tfjac.optimizers.options import positive
from tfjac.optimizers.solvers.base import Choice, Solver
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
    """

    name = "auto"
    names = tuple(solver.name for solver in (QRSolver, KernelSolver, CholeskySolver, ConjugateGradientSolver))

    def __init__(self, memory_budget=4 * 2**30):
        self.memory_budget = positive("memory_budget", memory_budget)

    def choose(self, linearisation):
        """Return the `Choice` that static shapes, the dtype and the memory budget lead to."""
        rows, columns = linearisation.static_num_rows, linearisation.num_parameters
        tall = rows is not None and rows >= columns and rows * columns <= QR_ELEMENTS
        if linearisation.dtype == tf.float64 and tall and columns <= SMALL:
            return _always(QRSolver())
        possible = []
        if linearisation.prior.has_one_number_per_variable and columns > SMALL and (rows is None or rows < columns):
            possible.append((KernelSolver(), rows or 0))
        if rows is None or rows >= columns or not possible:
            possible.append((CholeskySolver(), columns))
        fitting = [solver for solver, size in possible if 2 * size**2 * linearisation.dtype.size <= self.memory_budget]
        return Choice(*fitting) if len(fitting) == 2 else _always(*fitting or [ConjugateGradientSolver()])

    def prepare(self, linearisation):
        """Return the system of the solver chosen for a J that has no fewer rows than columns."""
        return self.choose(linearisation).tall.prepare(linearisation)

    def get_config(self):
        """Return the arguments of the constructor."""
        return {"memory_budget": self.memory_budget}


def _always(solver):
    return Choice(solver, solver)
