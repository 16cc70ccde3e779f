"""Estimators: how the Jacobian of a function that TensorFlow cannot see into is found from evaluations."""

from tfjac.black_box.estimators.base import Estimator, Probe
from tfjac.black_box.estimators.broyden import Broyden
from tfjac.black_box.estimators.differences import CentralDifferences, OneSidedDifferences
from tfjac.black_box.estimators.random_directions import SPSA, EvolutionStrategies
from tfjac.types import GradientName

__all__ = [
    "SPSA",
    "Broyden",
    "CentralDifferences",
    "Estimator",
    "EvolutionStrategies",
    "OneSidedDifferences",
    "Probe",
    "get_estimator",
]

ESTIMATORS = {
    "central": CentralDifferences,
    "one_sided": OneSidedDifferences,
    "spsa": SPSA,
    "evolution_strategies": EvolutionStrategies,
    "broyden": Broyden,
}


def get_estimator(gradient: GradientName | Estimator) -> Estimator:
    """Return a new `Estimator` by name, or like the one given.

    Raises:
        ValueError: for what is neither.
    """
    if isinstance(gradient, Estimator):
        return gradient.fresh()
    if isinstance(gradient, str) and gradient in ESTIMATORS:
        return ESTIMATORS[gradient]()
    raise ValueError(
        f"gradient must be one of {sorted(ESTIMATORS)}, an Estimator of tfjac.estimators, or a function (inputs, "
        f"outputs, cotangents) -> gradients. Received: {gradient!r}"
    )
