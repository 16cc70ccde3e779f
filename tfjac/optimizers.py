"""Levenberg-Marquardt on variables: for Keras models, and for any least-squares problem."""

from tfjac.fits.by_parts import least_squares_by_parts
from tfjac.fits.curve_fit import curve_fit
from tfjac.fits.least_squares import LeastSquaresProblem, least_squares
from tfjac.fits.normal_equations import NormalEquations, normal_equations
from tfjac.fits.results.batched_result import BatchedLeastSquaresResult
from tfjac.fits.results.between_points import check_between
from tfjac.fits.results.curve_fit_result import CurveFitResult
from tfjac.fits.results.history import History
from tfjac.fits.results.least_squares_result import LeastSquaresResult
from tfjac.fits.results.pictures import plot_fit
from tfjac.fits.supervision import LeastSquaresState
from tfjac.keras import names  # noqa: F401  so that compile finds the optimizer
from tfjac.keras.callbacks import Convergence, StepMonitor
from tfjac.keras.fit import fit
from tfjac.keras.full_batch import full_batch
from tfjac.keras.gaussian_nll import GaussianNLL
from tfjac.keras.levenberg_marquardt import LevenbergMarquardt
from tfjac.keras.robust_error import RobustError
from tfjac.linear.solvers import (
    AutoSolver,
    CholeskySolver,
    ConjugateGradientSolver,
    IterativeSchurSolver,
    KernelSolver,
    LSMRSolver,
    QRSolver,
    Solver,
    SVDSolver,
)
from tfjac.linear.solvers.plan import Plan
from tfjac.memory_budget import MemoryBudgetExceeded
from tfjac.objective.declared import fisher_of_normal, register_curvature
from tfjac.objective.not_squares import NotASumOfSquares
from tfjac.objective.robust import RobustLoss
from tfjac.steps.acceleration import AutoAcceleration, GeodesicAcceleration
from tfjac.steps.damping import Damping, MultiplicativeDamping, NielsenDamping, RadiusDamping, TrustRegionDamping
from tfjac.steps.damping.scaling import (
    AutoScaling,
    IdentityScaling,
    MarquardtScaling,
    MoreScaling,
    OutputScaling,
    Scaling,
)
from tfjac.steps.records import Outcome, Report
from tfjac.steps.statuses import Status

__all__ = [
    "AutoAcceleration",
    "AutoScaling",
    "AutoSolver",
    "CholeskySolver",
    "ConjugateGradientSolver",
    "Convergence",
    "CurveFitResult",
    "Damping",
    "GaussianNLL",
    "GeodesicAcceleration",
    "History",
    "IdentityScaling",
    "IterativeSchurSolver",
    "KernelSolver",
    "LSMRSolver",
    "LeastSquaresProblem",
    "BatchedLeastSquaresResult",
    "LeastSquaresResult",
    "LeastSquaresState",
    "LevenbergMarquardt",
    "MarquardtScaling",
    "MemoryBudgetExceeded",
    "MoreScaling",
    "MultiplicativeDamping",
    "NielsenDamping",
    "NormalEquations",
    "NotASumOfSquares",
    "Outcome",
    "OutputScaling",
    "Plan",
    "QRSolver",
    "Report",
    "RobustError",
    "RobustLoss",
    "RadiusDamping",
    "SVDSolver",
    "Scaling",
    "Solver",
    "Status",
    "StepMonitor",
    "TrustRegionDamping",
    "check_between",
    "curve_fit",
    "fisher_of_normal",
    "fit",
    "full_batch",
    "least_squares",
    "least_squares_by_parts",
    "normal_equations",
    "plot_fit",
    "register_curvature",
]
