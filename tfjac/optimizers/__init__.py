"""Levenberg-Marquardt on variables: for Keras models, and for any least-squares problem."""

from tfjac.optimizers.curve_fit import curve_fit
from tfjac.optimizers.damping import Damping, MultiplicativeDamping, NielsenDamping, TrustRegionDamping
from tfjac.optimizers.keras.callbacks import Convergence, StepMonitor
from tfjac.optimizers.keras.full_batch import full_batch
from tfjac.optimizers.keras.levenberg_marquardt import LevenbergMarquardt
from tfjac.optimizers.keras.robust_error import RobustError
from tfjac.optimizers.laplace import LaplacePosterior, Prediction, laplace
from tfjac.optimizers.least_squares import LeastSquaresProblem, least_squares
from tfjac.optimizers.minimisation.history import History
from tfjac.optimizers.minimisation.supervision import LeastSquaresState
from tfjac.optimizers.problem.declared import register_curvature
from tfjac.optimizers.problem.loss_terms import NotASumOfSquares
from tfjac.optimizers.problem.robust import RobustLoss
from tfjac.optimizers.results.batched_result import BatchedLeastSquaresResult
from tfjac.optimizers.results.curve_fit_result import CurveFitResult
from tfjac.optimizers.results.least_squares_result import LeastSquaresResult
from tfjac.optimizers.results.pictures import plot_fit
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
from tfjac.optimizers.steps.acceleration import GeodesicAcceleration
from tfjac.optimizers.steps.records import Outcome, Report
from tfjac.optimizers.steps.scaling import IdentityScaling, MarquardtScaling, MoreScaling, Scaling
from tfjac.optimizers.streaming.by_parts import least_squares_by_parts
from tfjac.optimizers.streaming.normal_equations import DampedStep, NormalEquations, normal_equations

__all__ = [
    "AutoSolver",
    "CholeskySolver",
    "ConjugateGradientSolver",
    "Convergence",
    "CurveFitResult",
    "DampedStep",
    "Damping",
    "GeodesicAcceleration",
    "History",
    "IdentityScaling",
    "IterativeSchurSolver",
    "KernelSolver",
    "LSMRSolver",
    "LaplacePosterior",
    "LeastSquaresProblem",
    "BatchedLeastSquaresResult",
    "LeastSquaresResult",
    "LeastSquaresState",
    "LevenbergMarquardt",
    "MarquardtScaling",
    "MoreScaling",
    "MultiplicativeDamping",
    "NielsenDamping",
    "NormalEquations",
    "NotASumOfSquares",
    "Outcome",
    "Plan",
    "Prediction",
    "QRSolver",
    "Report",
    "RobustError",
    "RobustLoss",
    "SVDSolver",
    "Scaling",
    "Solver",
    "Status",
    "StepMonitor",
    "TrustRegionDamping",
    "curve_fit",
    "full_batch",
    "laplace",
    "least_squares",
    "least_squares_by_parts",
    "normal_equations",
    "plot_fit",
    "register_curvature",
]
