"""Linear solvers of the damped normal equations (JᵀJ + λD + Λ) p = −g."""

from tfjac.arguments import resolve
from tfjac.optimizers.solvers.auto import AutoSolver
from tfjac.optimizers.solvers.base import Solver, System
from tfjac.optimizers.solvers.cholesky import CholeskySolver
from tfjac.optimizers.solvers.conjugate_gradient import ConjugateGradientSolver
from tfjac.optimizers.solvers.iterative_schur import IterativeSchurSolver
from tfjac.optimizers.solvers.kernel import KernelSolver
from tfjac.optimizers.solvers.lsmr import LSMRSolver
from tfjac.optimizers.solvers.qr import QRSolver
from tfjac.optimizers.solvers.schur import SchurSolver
from tfjac.optimizers.solvers.sparse import SparseSolver
from tfjac.optimizers.solvers.svd import SVDSolver

__all__ = [
    "AutoSolver",
    "CholeskySolver",
    "ConjugateGradientSolver",
    "IterativeSchurSolver",
    "KernelSolver",
    "LSMRSolver",
    "QRSolver",
    "SVDSolver",
    "SchurSolver",
    "SparseSolver",
    "Solver",
    "System",
    "get_solver",
]

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
