"""Levenberg-Marquardt on variables: for Keras models, and for any least-squares problem."""

from .damping import Damping, MultiplicativeDamping, NielsenDamping, TrustRegionDamping
from .least_squares import least_squares
from .levenberg_marquardt import LevenbergMarquardt
from .loss_terms import NotASumOfSquares
from .records import Report
from .results import LeastSquaresResult
from .scaling import IdentityScaling, MarquardtScaling, MoreScaling, Scaling
from .solvers import AutoSolver, CholeskySolver, ConjugateGradientSolver, KernelSolver, QRSolver, Solver
from .statuses import Status

__all__ = [
    "AutoSolver",
    "CholeskySolver",
    "ConjugateGradientSolver",
    "Damping",
    "IdentityScaling",
    "KernelSolver",
    "LeastSquaresResult",
    "LevenbergMarquardt",
    "MarquardtScaling",
    "MoreScaling",
    "MultiplicativeDamping",
    "NielsenDamping",
    "NotASumOfSquares",
    "QRSolver",
    "Report",
    "Scaling",
    "Solver",
    "Status",
    "TrustRegionDamping",
    "least_squares",
]
