"""How private a training is: ε for a noise, the noise for an ε, and a Keras callback that watches the budget.

The mathematics is that of the package dp-accounting (`pip install tfjac[privacy]`).
"""

import bisect
import functools
import math
from typing import Any, Literal, TypeAlias

import keras

from tfjac._warn import warn
from tfjac.arguments import choice, positive, positive_integer
from tfjac.privacy.optimizer import DPOptimizer
from tfjac.privacy.sample_sizes import SampleSizes
from tfjac.progress import shown
from tfjac.types import Logs

Accountant: TypeAlias = Literal["pld", "rdp"]


def epsilon(
    noise_multiplier: float, sampling_rate: float, steps: int, delta: float, accountant: Accountant = "pld"
) -> float:
    """Return ε so that `steps` steps of `DPOptimizer` are (ε, δ)-differentially private.

    Two data sets are neighbours if one has one example more. Every batch is taken to be a Poisson sample: each example
    is in it with the probability `sampling_rate`, by itself, as `poisson_batches` draws it. Shuffled batches of a fixed
    size are no such sample; ε is then an approximation that is in common use, and no guarantee.

    Args:
        noise_multiplier: σ, as `DPOptimizer` takes it. At zero ε is infinite.
        sampling_rate: expected size of a batch over the number of examples, in (0, 1].
        steps: number of steps, not negative.
        delta: δ, between 0 and 1, less than one over the number of examples.
        accountant: "pld", by the privacy loss distribution, the tightest; or "rdp", by Rényi divergences.

    Raises:
        ImportError: without dp-accounting.
        ValueError: for numbers out of range.

    Cost: "rdp" milliseconds, "pld" about a second.
    Reference: Mironov (2017), "Rényi differential privacy"; Koskela, Jälkö & Honkela (2020), "Computing tight
    differential privacy guarantees using FFT".
    """
    spent = _spent(accountant)
    _check(sampling_rate, delta)
    positive("noise_multiplier", noise_multiplier, below=math.inf, or_zero=True)
    positive_integer("steps", steps, or_zero=True)
    if steps == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    return spent(float(noise_multiplier), float(sampling_rate), int(steps), float(delta))


def noise_for(epsilon: float, delta: float, sampling_rate: float, steps: int, accountant: Accountant = "pld") -> float:
    """Return the smallest noise multiplier σ, to within 0.1 %, so that `steps` steps are (ε, δ)-differentially private.

    Args:
        epsilon: ε, positive.
        delta, sampling_rate, steps, accountant: as in `tfjac.privacy.epsilon`.

    Raises:
        ImportError, ValueError: as `tfjac.privacy.epsilon`.

    Cost: some twenty calls of `tfjac.privacy.epsilon`.
    """
    spent = _spent(accountant)
    _check(sampling_rate, delta)
    positive("epsilon", epsilon, below=math.inf)
    positive_integer("steps", steps)

    def enough(noise):
        return spent(noise, float(sampling_rate), int(steps), float(delta)) <= epsilon

    low, high = 0.5, 1.0
    with shown("tfjac.privacy.noise_for") as progress:
        while not enough(high):
            low, high = high, 2 * high
        while enough(low):
            low, high = low / 2, low
        while high - low > 1e-3 * low:
            progress.at(above=low, below=high)
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _spent(accountant):
    """Return the function `(noise multiplier, sampling rate, steps, δ)` that returns ε."""
    choice("accountant", accountant, ("pld", "rdp"))
    try:
        import dp_accounting
    except ImportError:
        raise ImportError(
            "Privacy accounting needs the package dp-accounting: pip install 'tfjac[privacy]'. Received: an "
            "environment without it"
        ) from None
    return functools.partial({"pld": _by_distributions, "rdp": _by_divergences}[accountant], dp_accounting)


def _by_divergences(dp, noise, rate, steps, delta):
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    return float(dp.rdp.RdpAccountant().compose(dp.SelfComposedDpEvent(step, steps)).get_epsilon(delta))


def _by_distributions(dp, noise, rate, steps, delta):
    if noise < 1e-3:  # an ε of millions protects nothing, and its distribution overflows
        return _by_divergences(dp, noise, rate, steps, delta)
    return float(_of_a_step(dp, noise, rate).self_compose(steps).get_epsilon_for_delta(delta))


@functools.lru_cache(maxsize=4)
def _of_a_step(dp, noise, rate):
    """Return the distribution of the privacy loss of a step, which takes longer to find than to compose.

    For little noise the loss is large, and so is the distance of its values: their number does not grow.
    """
    distance = 1e-4 * max(1.0, (0.5 / noise) ** 2)
    made = dp.pld.privacy_loss_distribution.from_gaussian_mechanism
    return made(noise, sampling_prob=rate, value_discretization_interval=distance)


def _check(sampling_rate, delta):
    if not 0 < sampling_rate <= 1:
        raise ValueError(
            "sampling_rate is the batch size over the number of examples, in (0, 1]. "
            f"Received: sampling_rate={sampling_rate!r}"
        )
    _check_delta(delta)


def _check_delta(delta):
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1. Received: delta={delta!r}")


class PrivacyBudget(keras.callbacks.Callback):
    """Adds `epsilon` to the logs of each epoch, and stops the training before a step would exceed the budget.

    It counts the examples of the steps, and holds them against what is declared. Batches of one size are shuffled ones:
    the accounting does not model them, and a warning says so. How many examples there are in all cannot be counted.

    Args:
        num_examples: number of examples of the training data. ε is too small if this number is too large.
        delta: δ, as in `tfjac.privacy.epsilon`.
        batch_size: expected number of examples of a step; that of the `DPOptimizer` if None.
        max_epsilon: the budget; None never stops.
        accountant: as in `tfjac.privacy.epsilon`.

    Raises:
        TypeError, ValueError: at the start of `fit`, for a model that was compiled with another optimizer, or if the
            batch size is not known; in `fit`, if the steps have more examples than samples of that size can have.
    """

    def __init__(
        self,
        num_examples: int,
        delta: float,
        batch_size: float | None = None,
        max_epsilon: float | None = None,
        accountant: Accountant = "pld",
    ) -> None:
        super().__init__()
        self.num_examples = positive_integer("num_examples", num_examples)
        _check_delta(delta)
        self.delta, self.batch_size, self.accountant = delta, batch_size, accountant
        self.max_epsilon = None if max_epsilon is None else positive("max_epsilon", max_epsilon)
        _spent(accountant)
        self._max_steps = math.inf

    def on_train_begin(self, logs: Logs = None) -> None:
        """Check the optimizer, and find how many steps the budget allows."""
        optimizer: Any = self.model.optimizer
        if not isinstance(optimizer, DPOptimizer):
            raise TypeError(
                "PrivacyBudget reads a tfjac.privacy.DPOptimizer. "
                f"Received: a model compiled with {type(optimizer).__name__}"
            )
        batch_size = self.batch_size or optimizer.batch_size
        if batch_size is None:
            raise ValueError(
                "PrivacyBudget needs the expected number of examples of a step: pass batch_size here or to the "
                "DPOptimizer. Received: batch_size=None"
            )
        rate, options = batch_size / self.num_examples, {"delta": self.delta, "accountant": self.accountant}
        self._spent = functools.cache(functools.partial(epsilon, optimizer.noise_multiplier, rate, **options))
        self._sizes = SampleSizes(batch_size, self.num_examples)
        self._counted = optimizer.examples, optimizer.steps
        if self.max_epsilon is not None:
            self._max_steps = _most_steps(self._spent, self.max_epsilon)
            if self._would_exceed():
                raise ValueError(
                    f"The budget does not allow a step: one costs ε = {self._spent(optimizer.steps + 1):.4g}. Use more "
                    f"noise, smaller batches, or fewer steps_per_execution. Received: max_epsilon={self.max_epsilon}, "
                    f"{optimizer.steps} steps taken"
                )

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Hold the number of examples against the declared one; stop where the next step would exceed the budget."""
        self._count_examples()
        if self._would_exceed():
            self.model.stop_training = True

    def _count_examples(self):
        """Look at the step that has ended, if one has; refuse too many examples, and warn of shuffled batches."""
        optimizer = self.model.optimizer
        counted = optimizer.examples, optimizer.steps
        if optimizer.steps_after(1) == counted[1]:  # the next batch belongs to the same step
            return
        self._sizes.add(*(now - before for now, before in zip(counted, self._counted)))
        self._counted = counted
        if self._sizes.show_fixed_size():
            warn(_NO_POISSON_SAMPLE)

    def _would_exceed(self):
        """Return whether the steps of the batches that Keras takes in its next call are more than the budget allows."""
        return self.model.optimizer.steps_after(self.model.steps_per_execution) > self._max_steps

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Add ε to the logs."""
        if logs is not None:
            logs["epsilon"] = self._spent(self.model.optimizer.steps)


def _most_steps(spent, budget):
    """Return the largest number of steps of which `spent(steps)` is within the budget."""
    high = 1
    while high < _MOST and spent(high) <= budget:
        high *= 4
    if high >= _MOST:
        return _MOST
    return bisect.bisect_right(range(high), budget, lo=high // 4, key=spent) - 1


_NO_POISSON_SAMPLE = (
    "PrivacyBudget: the batches have the same number of examples in each step, so they are shuffled, and no Poisson "
    "samples. ε is computed as if they were: an approximation that is in common use, and no guarantee. Draw them by "
    "tfjac.privacy.poisson_batches. Received: batches of a fixed size"
)

_MOST = 4**12
"""Trainings of more steps are not looked at."""
