"""Linear solvers of the damped normal equations (JᵀJ + λD + Λ) p = −g."""

from tfjac.arguments import resolve
from tfjac.linear.solvers.auto import AutoSolver
from tfjac.linear.solvers.base import Solver, System
from tfjac.linear.solvers.cholesky import CholeskySolver
from tfjac.linear.solvers.conjugate_gradient import ConjugateGradientSolver
from tfjac.linear.solvers.iterative_schur import IterativeSchurSolver
from tfjac.linear.solvers.kernel import KernelSolver
from tfjac.linear.solvers.lsmr import LSMRSolver
from tfjac.linear.solvers.qr import QRSolver
from tfjac.linear.solvers.schur import SchurSolver
from tfjac.linear.solvers.sparse import SparseSolver
from tfjac.linear.solvers.svd import SVDSolver

SOLVERS = {
    "auto": AutoSolver,
    "cholesky": CholeskySolver,
    "kernel": KernelSolver,
    "qr": QRSolver,
    "svd": SVDSolver,
    "cg": ConjugateGradientSolver,
    "lsmr": LSMRSolver,
    "schur": SchurSolver,
    "schur_cg": IterativeSchurSolver,
    "sparse": SparseSolver,
}


def get_solver(solver: object) -> Solver:
    """Return the `Solver` of that name ("auto", "cholesky", …), or the object itself."""
    return resolve("solver", solver, SOLVERS)
