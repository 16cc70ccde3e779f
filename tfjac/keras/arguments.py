"""Arguments of the optimizer: which it refuses and why."""

from collections.abc import Sequence
from typing import Any

import keras

from tfjac.arguments import suggestion
from tfjac.graph import SeenLoss
from tfjac.objective.variables import variable_name
from tfjac.steps.damping import INITIAL_DAMPING_ELSEWHERE
from tfjac.types import Variable

_NO_GRADIENT = "steps come from a linear solve, not from a gradient that could be clipped; use damping='trust_region'"

REASONS = {
    "learning_rate": "there is no learning rate: the damping sets the length of each step, see damping=; a schedule "
    "from 0 to 1 scales steps with Kronecker factors",
    "weight_decay": "weights shrunk after a step were never judged; use kernel_regularizer='l2', which is exact",
    "window": "the losses of other batches say nothing of this one's; it is an option of least_squares",
    "clipnorm": _NO_GRADIENT,
    "clipvalue": _NO_GRADIENT,
    "global_clipnorm": _NO_GRADIENT,
    "use_ema": "an average of weights is not a point that was judged; average them after training",
    "ema_momentum": "it belongs to use_ema, which is refused",
    "ema_overwrite_frequency": "it belongs to use_ema, which is refused",
    "loss_scale_factor": "the loss is not scaled: a factor would cancel in the gain ratio; train in float32 or float64",
    "gradient_accumulation_steps": "a step needs JᵀJ as well as the gradient, which memory=8 adds up over 8 batches",
}
"""Arguments of Keras optimizers, and why they are refused."""

HARMLESS = {"ema_momentum": 0.99}
"""Defaults of Keras that mean "not used"."""


def refuse_options(options: dict[str, Any], known: Any, rate: Any = None) -> None:
    """Raise for every option that is set, with the reason; options that are off pass.

    Args:
        options: dict from names to values, what was passed beside the arguments there are.
        known: names of the arguments there are, for a suggestion.
        rate: a learning rate, of which a schedule passes.

    Raises:
        ValueError: for an option of Keras optimizers that cannot mean anything here.
        TypeError: for an argument that no optimizer has.
    """
    scheduled = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    for name, value in {**options, "learning_rate": None if scheduled else rate}.items():
        if name not in REASONS:
            meant = INITIAL_DAMPING_ELSEWHERE.get(name)
            near = f" Did you mean {meant!r}?" if meant else suggestion(name, known)
            raise TypeError(f"LevenbergMarquardt has no argument {name!r}.{near} Received: {name}={value!r}")
        if value is not None and value is not False and value != HARMLESS.get(name):
            raise ValueError(f"LevenbergMarquardt does not take {name}: {REASONS[name]}. Received: {name}={value!r}")


def refuse_learning_rate(value: Any) -> None:
    """Raise ValueError: schedules and callbacks that set the learning rate have nothing to act on."""
    received = value if isinstance(value, keras.callbacks.Callback) else f"learning_rate={value!r}"
    raise ValueError(
        "LevenbergMarquardt has no learning rate to set: its damping adapts after every step. Leave out "
        f"LearningRateScheduler, ReduceLROnPlateau and their like. Received: {received}"
    )


def seen_loss() -> SeenLoss:
    """Return where the loss of a step is kept between `scale_loss` and `apply`."""
    return SeenLoss("LevenbergMarquardt", "call optimizer.minimize(residuals, variables) with a callable")


def check_trainable(variables: Sequence[Variable]) -> None:
    """Raise ValueError where nothing can be trained; Keras itself only warns, and trains nothing."""
    if not variables:
        raise ValueError(
            "There is nothing to train: no weight of the model is trainable. Set trainable = True on one of its "
            "layers. Received: a model without trainable weights"
        )


BAYESIAN_WITHOUT_CONSTRAINTS = (
    "regularization='bayesian' takes the weights for normally distributed around zero, which a constraint contradicts"
)
REMEMBERED_WITHOUT_CONSTRAINTS = "memory takes steps that know no constraints on weights"


def refuse_constraints(variables: Sequence[Variable], why: str) -> None:
    """Raise ValueError for a variable with a constraint, by its name, and `why`."""
    for variable in variables:
        if getattr(variable, "constraint", None) is not None:
            raise ValueError(
                f"{why}: leave one of them out. Received: {type(variable.constraint).__name__} of "
                f"{variable_name(variable)!r}"
            )
