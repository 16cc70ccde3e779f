"""Which factor an example's gradient gets, from its norm, so that no example adds more than a bound to the sum."""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tfjac.arguments import Configured, positive
from tfjac.jacobians.norms import clipping_factors
from tfjac.types import Tensor, TensorLike, Variable

ClipNorm: TypeAlias = float | dict[str, float]
Release: TypeAlias = Callable[[Tensor, float], Tensor]


class Clipping(Configured, abc.ABC):
    """A rule for the factors. With every rule the sum of the scaled gradients has the sensitivity `bound()`."""

    def build(self, add_variable: Callable[..., Any], clip_norm: ClipNorm, variables: Sequence[Variable]) -> None:
        """Be told the clip norm C and the variables that are trained, and create the variables that the rule needs."""
        self._clip_norm: Any = clip_norm

    def groups(self, variables: Sequence[Variable]) -> list[int] | None:
        """Return the number of a group for each variable, 0, 1, …: each has its own norm. None for one norm of all."""
        return None

    def bound(self) -> TensorLike:
        """Return C as it is now, a number or a scalar tensor."""
        return self._clip_norm

    @abc.abstractmethod
    def factors(self, norms: Tensor) -> Tensor:
        """Return the factors `[n]` for gradients with these norms `[n]`; `[n, g]` for g groups of variables."""

    def gradient_noise(self, noise_multiplier: float, batch_size: float | None) -> float:
        """Return σ for the sum of gradients, so that all that a step publishes costs what `noise_multiplier` says."""
        return noise_multiplier

    def update(self, norms: Tensor, release: Release, batch_size: float | None, ends_step: TensorLike) -> None:
        """Adapt the bound after a step.

        Args:
            norms: `[n]`, before clipping, those of this replica and this part of the batch.
            release: function `(sum, standard deviation)` that returns the noisy sum over all replicas.
            batch_size: the expected number of examples of a step, on all replicas.
            ends_step: whether this part of the batch is the last of its step. Until then nothing may be published, and
                the bound stays as it is.
        """


@keras.saving.register_keras_serializable("tfjac")
class FixedClipping(Clipping):
    """min(1, C / norm), the rule of Abadi et al. (2016), "Deep learning with differential privacy"."""

    def factors(self, norms: Tensor) -> Tensor:
        """Return min(1, C / norm)."""
        return clipping_factors(norms, tf.cast(self.bound(), norms.dtype))


@keras.saving.register_keras_serializable("tfjac")
class AutomaticClipping(Clipping):
    """C / (norm + γ): every gradient is normalised, and C becomes a part of the learning rate.

    Bu, Wang, Zha & Karypis (2023), "Automatic clipping: differentially private deep learning made easier and stronger".

    Args:
        stability: γ, positive.
    """

    def __init__(self, stability: float = 0.01) -> None:
        self.stability = positive("stability", stability)

    def factors(self, norms: Tensor) -> Tensor:
        """Return C / (norm + γ)."""
        return tf.cast(self.bound(), norms.dtype) / (norms + tf.cast(self.stability, norms.dtype))


@keras.saving.register_keras_serializable("tfjac")
class AdaptiveClipping(FixedClipping):
    """min(1, C / norm), with a C that follows a quantile of the norms, found privately.

    Each step publishes a noisy sum: ½ for each example above C, −½ for each below, so that no example changes it by
    more than ½. From it follows the share above, and C changes by exp(η (above − (1 − quantile))). The noise on the
    gradients grows so that both together cost what `noise_multiplier` says. Andrew, Thakkar, McMahan & Ramaswamy
    (2021), "Differentially private learning with adaptive clipping".

    Args:
        quantile: share of the examples that are to lie below C, between 0 and 1.
        learning_rate: η, positive.
        count_noise: standard deviation of the noise on that sum; `batch_size / 20` if None.
    """

    def __init__(self, quantile: float = 0.5, learning_rate: float = 0.2, count_noise: float | None = None) -> None:
        if not 0 < quantile < 1:
            raise ValueError(f"quantile must lie between 0 and 1. Received: quantile={quantile!r}")
        self.quantile, self.learning_rate = quantile, positive("learning_rate", learning_rate)
        self.count_noise = None if count_noise is None else positive("count_noise", count_noise)

    def build(self, add_variable: Callable[..., Any], clip_norm: ClipNorm, variables: Sequence[Variable]) -> None:
        """Create the variables that hold C, and the sum of a step that is not complete."""
        self._variable, self._balance = add_variable("clip_norm", clip_norm), add_variable("balance", 0.0)

    def bound(self) -> TensorLike:
        return tf.convert_to_tensor(self._variable)

    def _count_noise(self, batch_size):
        if batch_size is None:
            raise ValueError(
                "clipping='adaptive' needs batch_size, the expected number of examples of a step. "
                "Received: batch_size=None"
            )
        return batch_size / 20 if self.count_noise is None else self.count_noise

    def gradient_noise(self, noise_multiplier: float, batch_size: float | None) -> float:
        """Return (σ⁻² − (2 σ_count)⁻²)^(−½)."""
        count_noise = self._count_noise(batch_size)
        if noise_multiplier >= 2 * count_noise:
            raise ValueError(
                f"The noise on the count is too small: 2 · count_noise must exceed noise_multiplier. Use a larger "
                f"count_noise or batch_size. Received: count_noise={count_noise}, noise_multiplier={noise_multiplier}"
            )
        return noise_multiplier and (noise_multiplier**-2 - (2 * count_noise) ** -2) ** -0.5

    def update(self, norms: Tensor, release: Release, batch_size: float | None, ends_step: TensorLike) -> None:
        """Move C towards the quantile; rows without a gradient, such as padding, are neither above nor below."""
        above = tf.where(norms > tf.cast(self.bound(), norms.dtype), 0.5, -0.5)
        balance = tf.convert_to_tensor(self._balance) + tf.reduce_sum(tf.where(norms > 0, above, 0.0))
        share = release(balance, self._count_noise(batch_size)) / batch_size + 0.5
        moved = self.bound() * tf.exp(-self.learning_rate * (1 - self.quantile - share))
        self._variable.assign(tf.where(ends_step, moved, self.bound()))
        self._balance.assign(tf.where(ends_step, 0.0, balance))


@keras.saving.register_keras_serializable("tfjac")
class PerLayerClipping(Clipping):
    """min(1, C_l / norm_l) for each layer l, by the norm of the gradient of its weights alone.

    The sum has the sensitivity C = √(Σ C_l²), which the noise of all layers is scaled by. A number C gives each of L
    layers C_l = C / √L. A dict as `clip_norm` names the layers, or what they are parts of, and gives each its C_l:

        DPOptimizer(inner, clip_norm={"embedding": 0.2, "dense": 1.0}, noise_multiplier=1.1, clipping="per_layer")

    McMahan, Ramage, Talwar & Zhang (2018), "Learning differentially private recurrent language models".
    """

    def build(self, add_variable: Callable[..., Any], clip_norm: ClipNorm, variables: Sequence[Variable]) -> None:
        """Find the bound of each layer."""
        layers = list(dict.fromkeys(map(_layer_of, variables)))
        if isinstance(clip_norm, dict):
            self._owners = {layer: _named(layer, clip_norm) for layer in layers}
            unused = [name for name in clip_norm if name not in self._owners.values()]
            if unused:
                raise ValueError(
                    f"clip_norm names what is no layer with weights to train. There are {', '.join(layers)}. "
                    f"Received: {', '.join(map(repr, unused))}"
                )
            self._bounds = dict(clip_norm)
        else:
            self._owners = {layer: layer for layer in layers}
            self._bounds = dict.fromkeys(layers, clip_norm / math.sqrt(len(layers)))

    def groups(self, variables: Sequence[Variable]) -> list[int]:
        """Return the number of the layer of each variable, and remember the bounds of these layers."""
        owners = [self._owners[_layer_of(variable)] for variable in variables]
        present = list(dict.fromkeys(owners))
        self._of_groups = [self._bounds[name] for name in present]
        return [present.index(owner) for owner in owners]

    def bound(self) -> float:
        """Return √(Σ C_l²)."""
        return math.sqrt(sum(bound**2 for bound in self._bounds.values()))

    def factors(self, norms: Tensor) -> Tensor:
        """Return min(1, C_l / norm_l), `[n, layers]`."""
        return clipping_factors(norms, tf.constant(self._of_groups, norms.dtype))


def _layer_of(variable: Variable) -> str:
    """Return the path of the layer that a variable belongs to; its own name if it belongs to none."""
    path = str(getattr(variable, "path", variable.name))
    return path.rpartition("/")[0] or path


def _named(layer: str, clip_norms: dict[str, float]) -> str:
    """Return the one name of `clip_norms` whose parts follow one another in the path of a layer."""
    found = [name for name in clip_norms if f"/{name}/" in f"/{layer}/"]
    if len(found) != 1:
        raise ValueError(
            "clip_norm must name each layer, or what it is a part of, once. "
            f"Received: {', '.join(map(repr, found)) or 'no name'} for {layer}"
        )
    return found[0]


CLIPPINGS = {
    "fixed": FixedClipping,
    "automatic": AutomaticClipping,
    "adaptive": AdaptiveClipping,
    "per_layer": PerLayerClipping,
}
