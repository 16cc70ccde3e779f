"""What a minimisation is told besides its residuals and variables."""

from typing import Any, NamedTuple

from tfjac.arguments import positive, positive_integer, recipe, suggestion
from tfjac.graph import as_tf_variable, verification_wanted
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.conditions.conditions import Conditions
from tfjac.optimizers.damping import get_damping
from tfjac.optimizers.damping.scaling import get_scaling
from tfjac.optimizers.loop.acceleration import get_acceleration
from tfjac.optimizers.loop.converge import Tolerances, tolerances
from tfjac.optimizers.loop.records import Method
from tfjac.optimizers.objective.robust import get_losses
from tfjac.optimizers.solvers import get_solver
from tfjac.optimizers.solvers.auto import SMALL
from tfjac.optimizers.solvers.precision import checked_gram_dtype

_DEFAULTS = {
    "ftol": None, "xtol": None, "gtol": None, "damping": None, "scaling": "more", "solver": "auto",
    "max_attempts": 30, "min_gain": 1e-3, "loss": None, "loss_scale": None, "gram_dtype": None,
    "acceleration": None, "window": 1, "jit_compile": False,
}  # fmt: skip

_ELSEWHERE = {
    "f_scale": "loss_scale", "max_nfev": "max_steps", "maxfev": "max_steps", "x_scale": "scaling",
    "max_iter": "max_steps", "max_iterations": "max_steps", "epochs": "max_steps",
}  # fmt: skip
"""What others call it."""


class Settings(NamedTuple):
    """What is in the graph of a minimisation besides its residuals.

    Attributes:
        method: a `Method`.
        limits: `Tolerances`.
        losses: what `get_losses` returned.
        conditions: `Conditions` of `tf.TensorSpec`; what they are is data.
        prior_is_uniform: bool, whether the prior is the same for all elements of a variable.
        window: of how many costs a step may stay below the highest.
        jit_compile: bool.
        manifolds: list of a `Manifold`, or None, for each variable.
        recipe: all of this in a form that can be compared; None where it cannot.
    """

    method: Method
    limits: Tolerances
    losses: Any
    conditions: Conditions
    prior_is_uniform: bool
    window: int
    jit_compile: bool
    manifolds: Any
    recipe: Any

    @classmethod
    def of(cls, variables, conditions, options, num_parameters=None):
        """Check the options of `least_squares` that are in the graph.

        Args:
            variables: list of the variables.
            conditions: `GivenConditions`, or None for none.
            options: dict, without those that have their defaults.
            num_parameters: how many parameters are solved for at once; all elements of the variables where left out.

        Raises:
            ValueError, TypeError: for bad ones.
        """
        given = {**_DEFAULTS, **options}
        limits = tolerances(given["ftol"], given["xtol"], given["gtol"], as_tf_variable(variables[0]).dtype)
        numbers = (
            positive_integer("max_attempts", given["max_attempts"]),
            positive("min_gain", given["min_gain"], below=1),
            checked_gram_dtype(given["gram_dtype"]),
        )
        parts = (
            get_damping(given["damping"] or _default_damping(num_parameters or Columns(variables).total)),
            get_scaling(given["scaling"]),
            get_solver(given["solver"]),
        )
        acceleration = get_acceleration(given["acceleration"])
        losses = get_losses(given["loss"], given["loss_scale"])
        each = losses if isinstance(losses, tuple) else (losses,)
        manifolds = [None] * len(variables) if conditions is None else conditions.manifolds
        objects = (*each, acceleration, *manifolds)
        rest = (
            limits,
            isinstance(losses, tuple),
            tuple(part is None for part in objects),
            Conditions() if conditions is None else conditions.specs(),
            conditions is None or conditions.prior_is_uniform,
            positive_integer("window", given["window"]),
            bool(given["jit_compile"]),
        )
        compared = recipe(
            (*parts, *(part for part in objects if part is not None)),
            numbers,
            rest,
            verification_wanted(None),
        )
        return cls(Method(*parts, *numbers, acceleration), limits, losses, *rest[3:], manifolds, compared)


def _default_damping(num_parameters):
    """Return the sturdiest rule where a solve costs next to nothing, else the one that takes one solve per attempt."""
    return "trust_region" if num_parameters <= SMALL else "nielsen"


def check_known(options, *others):
    """Raise TypeError for options that there are not, saying which one may have been meant.

    Args:
        options: dict.
        *others: names of options besides those of `Settings`.
    """
    known = {*_DEFAULTS, *others}
    for name in options:
        if name not in known:
            meant = f" Did you mean {_ELSEWHERE[name]!r}?" if name in _ELSEWHERE else suggestion(name, known)
            raise TypeError(f"There is no such option.{meant} Received: {name}={options[name]!r}")
