"""Linear solvers of the damped normal equations (JᵀJ + λD + Λ) p = −g."""

from ..options import resolve
from .auto import AutoSolver
from .base import Solver, System
from .cholesky import CholeskySolver
from .conjugate_gradient import ConjugateGradientSolver
from .kernel import KernelSolver
from .qr import QRSolver

__all__ = [
    "AutoSolver",
    "CholeskySolver",
    "ConjugateGradientSolver",
    "KernelSolver",
    "QRSolver",
    "Solver",
    "System",
    "get_solver",
]

SOLVERS = {
    "auto": AutoSolver,
    "cholesky": CholeskySolver,
    "kernel": KernelSolver,
    "qr": QRSolver,
    "cg": ConjugateGradientSolver,
}


def get_solver(solver):
    """Return the ``Solver`` of that name ("auto", "cholesky", "kernel", "qr", "cg"), or the object itself."""
    return resolve("solver", solver, SOLVERS)
