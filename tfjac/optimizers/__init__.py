"""Levenberg-Marquardt on variables: for Keras models, and for any least-squares problem."""

from tfjac.optimizers.curve_fit import curve_fit
from tfjac.optimizers.curve_fit_result import CurveFitResult
from tfjac.optimizers.damping import Damping, MultiplicativeDamping, NielsenDamping, TrustRegionDamping
from tfjac.optimizers.history import History
from tfjac.optimizers.keras.callbacks import StepMonitor
from tfjac.optimizers.keras.levenberg_marquardt import LevenbergMarquardt
from tfjac.optimizers.least_squares import LeastSquaresProblem, least_squares
from tfjac.optimizers.pictures import plot_fit
from tfjac.optimizers.problem.declared import register_curvature
from tfjac.optimizers.problem.loss_terms import NotASumOfSquares
from tfjac.optimizers.problem.robust import RobustLoss
from tfjac.optimizers.records import Outcome, Report
from tfjac.optimizers.results import LeastSquaresResult
from tfjac.optimizers.scaling import IdentityScaling, MarquardtScaling, MoreScaling, Scaling
from tfjac.optimizers.solvers import AutoSolver, CholeskySolver, ConjugateGradientSolver, KernelSolver, QRSolver, Solver
from tfjac.optimizers.statuses import Status
from tfjac.optimizers.supervision import LeastSquaresState

__all__ = [
    "AutoSolver",
    "CholeskySolver",
    "ConjugateGradientSolver",
    "CurveFitResult",
    "Damping",
    "History",
    "IdentityScaling",
    "KernelSolver",
    "LeastSquaresProblem",
    "LeastSquaresResult",
    "LeastSquaresState",
    "LevenbergMarquardt",
    "MarquardtScaling",
    "MoreScaling",
    "MultiplicativeDamping",
    "NielsenDamping",
    "NotASumOfSquares",
    "Outcome",
    "QRSolver",
    "Report",
    "RobustLoss",
    "Scaling",
    "Solver",
    "Status",
    "StepMonitor",
    "TrustRegionDamping",
    "curve_fit",
    "least_squares",
    "register_curvature",
    "plot_fit",
]
