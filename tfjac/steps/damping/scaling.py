"""Scalings: the diagonal D in (JᵀJ + λD) p = −g, which says what a long step is for each parameter.

`diagonal` is diag(JᵀJ) `[p]`, the squared column norms of J; D has the same units, so that D = diag(JᵀJ) makes the
step independent of the units of the parameters.
"""

import abc

import keras

from tfjac.arguments import Configured, resolve
from tfjac.linear import arrays
from tfjac.types import Tensor


def scaled_norm(vector: Tensor, scaling: Tensor) -> Tensor:
    """Return ‖D^½ v‖, a scalar, for v and D `[p]`, or `[n]` for those of n fits, `[n, p]`."""
    return arrays.sqrt(arrays.reduce_sum(scaling * arrays.square(vector), axis=-1))


class Scaling(Configured, abc.ABC):
    """How the diagonal D follows from the columns of J."""

    is_one_number = False
    """Whether D is the same number for all parameters, which `solver="kernel"` is cheaper with."""

    remembers = False
    """Whether D depends on earlier steps, so that it must be kept as state."""

    competes = False
    """Whether D = I is tried, too."""

    in_units = False
    """Whether D is that in units of the targets."""

    @abc.abstractmethod
    def update(self, previous: Tensor, diagonal: Tensor) -> Tensor:
        """Return D `[p]`, positive, from the last D `[p]` (zeros at first) and diag(JᵀJ) `[p]`."""


@keras.saving.register_keras_serializable("tfjac")
class IdentityScaling(Scaling):
    """D = I (Levenberg 1944): every parameter is measured with the same rod. The usual choice for networks."""

    is_one_number = True

    def update(self, previous: Tensor, diagonal: Tensor) -> Tensor:
        """Return ones."""
        return arrays.ones_like(diagonal)


@keras.saving.register_keras_serializable("tfjac")
class OutputScaling(IdentityScaling):
    """D = I, but in units of the targets for weights that residuals are linear in: see `objective/in_units.py`.

    For targets that are standardised it is `IdentityScaling`. Others are trained as well as these. In
    `least_squares`, which has no first batch, D = I.
    """

    in_units = True


@keras.saving.register_keras_serializable("tfjac")
class MarquardtScaling(Scaling):
    """D = diag(JᵀJ) (Marquardt 1963): the step does not depend on the units of the parameters."""

    def update(self, previous: Tensor, diagonal: Tensor) -> Tensor:
        """Return diag(JᵀJ), kept away from zero."""
        return _away_from_zero(diagonal)


@keras.saving.register_keras_serializable("tfjac")
class MoreScaling(Scaling):
    """D = the largest diag(JᵀJ) so far (Moré 1978, eq. 6.3): as Marquardt's, but it never shrinks.

    A column that becomes small, on a plateau, then cannot let its parameter run away. MINPACK's choice.
    """

    remembers = True

    def update(self, previous: Tensor, diagonal: Tensor) -> Tensor:
        """Return the elementwise maximum of D so far and diag(JᵀJ), kept away from zero."""
        return _away_from_zero(arrays.maximum(previous, diagonal))


def _away_from_zero(diagonal: Tensor) -> Tensor:
    """Replace zeros by one, as MINPACK does: a parameter without influence has no scale of its own."""
    return arrays.where(diagonal > 0, diagonal, arrays.ones_like(diagonal))


@keras.saving.register_keras_serializable("tfjac")
class AutoScaling(MoreScaling):
    """D = I or the largest diag(JᵀJ) of late, whichever lowers the cost by more: see `Competition`.

    Of late: each step counts a quarter as much as the next, so that a column that was large once, as that of a camera
    that a point came close to, does not hold its parameter for good.
    """

    competes = True
    memory = 0.25

    def update(self, previous: Tensor, diagonal: Tensor) -> Tensor:
        """Return the elementwise maximum of a part of D so far and diag(JᵀJ), kept away from zero."""
        return super().update(self.memory * previous, diagonal)


SCALINGS = {"auto": AutoScaling, "identity": IdentityScaling, "marquardt": MarquardtScaling, "more": MoreScaling}
OF_OPTIMIZER = {**SCALINGS, "outputs": OutputScaling}


def get_scaling(scaling: object, names: dict = OF_OPTIMIZER) -> "Scaling":
    """Return the `Scaling` of that name (`"auto"`, `"identity"`, …), or the object itself."""
    return resolve("scaling", scaling, names)
