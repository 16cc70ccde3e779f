"""Levenberg-Marquardt on variables: for Keras models, and for any least-squares problem."""

from tfjac.memory_budget import MemoryBudgetExceeded
from tfjac.optimizers.complex_parts import parts_of
from tfjac.optimizers.damping import Damping, MultiplicativeDamping, NielsenDamping, RadiusDamping, TrustRegionDamping
from tfjac.optimizers.damping.scaling import (
    AutoScaling,
    IdentityScaling,
    MarquardtScaling,
    MoreScaling,
    OutputScaling,
    Scaling,
)
from tfjac.optimizers.fitting.by_parts import least_squares_by_parts
from tfjac.optimizers.fitting.curve_fit import curve_fit
from tfjac.optimizers.fitting.least_squares import LeastSquaresProblem, least_squares
from tfjac.optimizers.fitting.named import NamedParameters
from tfjac.optimizers.fitting.normal_equations import DampedStep, NormalEquations, normal_equations
from tfjac.optimizers.fitting.supervision import LeastSquaresState
from tfjac.optimizers.keras import names  # noqa: F401  so that compile finds the optimizer
from tfjac.optimizers.keras.callbacks import Convergence, StepMonitor
from tfjac.optimizers.keras.fit import fit
from tfjac.optimizers.keras.full_batch import full_batch
from tfjac.optimizers.keras.gaussian_nll import GaussianNLL
from tfjac.optimizers.keras.levenberg_marquardt import LevenbergMarquardt
from tfjac.optimizers.keras.robust_error import RobustError
from tfjac.optimizers.loop.acceleration import AutoAcceleration, GeodesicAcceleration
from tfjac.optimizers.loop.records import Outcome, Report
from tfjac.optimizers.objective.curve import Curve, Model, ModelFailed
from tfjac.optimizers.objective.curve_data import curve_data
from tfjac.optimizers.objective.declared import register_curvature
from tfjac.optimizers.objective.fisher import fisher_of_normal
from tfjac.optimizers.objective.not_squares import NotASumOfSquares
from tfjac.optimizers.objective.robust import RobustLoss, get_losses, losses_of
from tfjac.optimizers.objective.terms import CrossEntropyTerm, SeparableTerm, SquaredTerm
from tfjac.optimizers.results.batched_result import BatchedLeastSquaresResult
from tfjac.optimizers.results.between_points import check_between
from tfjac.optimizers.results.curve_fit_result import CurveFitResult
from tfjac.optimizers.results.history import History
from tfjac.optimizers.results.least_squares_result import LeastSquaresResult
from tfjac.optimizers.results.pictures import plot_fit
from tfjac.optimizers.results.statistics import correlation_of
from tfjac.optimizers.solvers import (
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
from tfjac.optimizers.solvers.plan import Plan
from tfjac.optimizers.statuses import Status

__all__ = [
    "AutoAcceleration",
    "AutoScaling",
    "AutoSolver",
    "CholeskySolver",
    "ConjugateGradientSolver",
    "Convergence",
    "CrossEntropyTerm",
    "Curve",
    "CurveFitResult",
    "DampedStep",
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
    "Model",
    "ModelFailed",
    "MoreScaling",
    "MultiplicativeDamping",
    "NamedParameters",
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
    "SeparableTerm",
    "Solver",
    "SquaredTerm",
    "Status",
    "StepMonitor",
    "TrustRegionDamping",
    "check_between",
    "correlation_of",
    "curve_data",
    "curve_fit",
    "fisher_of_normal",
    "fit",
    "full_batch",
    "get_losses",
    "least_squares",
    "least_squares_by_parts",
    "losses_of",
    "normal_equations",
    "parts_of",
    "plot_fit",
    "register_curvature",
]
