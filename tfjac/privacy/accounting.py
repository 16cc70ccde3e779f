"""How private a training is: ε for a noise, the noise for an ε, and a report before the training.

The mathematics is that of the package dp-accounting (`pip install tfjac[privacy]`).
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Literal, TypeAlias

from tfjac.arguments import choice, positive, positive_integer
from tfjac.privacy.passes import begun, steps_of_pass
from tfjac.progress import shown
from tfjac.tables import aligned

Accountant: TypeAlias = Literal["pld", "rdp"]
Sampling: TypeAlias = Literal["poisson", "shuffled"]


def epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    accountant: Accountant = "pld",
    sampling: Sampling = "poisson",
) -> float:
    """Return ε so that `steps` steps of `DPOptimizer` are (ε, δ)-differentially private.

    Two data sets are neighbours if one has one example more. "poisson" takes every batch to be a Poisson sample: each
    example is in it with the probability `sampling_rate`, by itself, as `poisson_batches` draws it. Shuffled batches
    of a fixed size are no such sample; ε is then an approximation that is in common use, and no guarantee. "shuffled"
    gives the guarantee for these: an example is in one batch of each pass over the data, and chance does not help. A
    pass counts as ⌊1/sampling_rate⌋ steps, as the last batch may be dropped. Batches of a fixed size would tell of an
    example more by their number, and by where the others go: there neighbours have a blank in the place of one example.

    Args:
        noise_multiplier: σ, as `DPOptimizer` takes it. At zero ε is infinite.
        sampling_rate: expected size of a batch over the number of examples, in (0, 1].
        steps: number of steps, not negative.
        delta: δ, between 0 and 1, less than one over the number of examples.
        accountant: "pld", by the privacy loss distribution, the tightest; or "rdp", by Rényi divergences.
        sampling: "poisson"; or "shuffled", where each pass over the data has every example once, but for those of a
            last batch that is dropped. No batch may reach into the next pass: call `repeat` after `batch`. No pass may
            be cut short, as by `take` after `shuffle`.

    Raises:
        ImportError: without dp-accounting.
        ValueError: for numbers out of range.

    Cost: "rdp" milliseconds, "pld" about a second.
    Reference: Mironov (2017), "Rényi differential privacy"; Koskela, Jälkö & Honkela (2020), "Computing tight
    differential privacy guarantees using FFT".
    """
    positive("noise_multiplier", noise_multiplier, below=math.inf, or_zero=True)
    spent = _spent_by_noise(sampling_rate, steps, delta, accountant, sampling)
    if steps == 0:
        return 0.0
    return spent(float(noise_multiplier)) if noise_multiplier else math.inf


def noise_for(
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    accountant: Accountant = "pld",
    sampling: Sampling = "poisson",
) -> float:
    """Return the smallest noise multiplier σ, to within 0.1 %, so that `steps` steps are (ε, δ)-differentially private.

    Args:
        epsilon: ε, positive.
        delta, sampling_rate, steps, accountant, sampling: as in `tfjac.privacy.epsilon`.

    Raises:
        ImportError, ValueError: as `tfjac.privacy.epsilon`.

    Cost: some twenty calls of `tfjac.privacy.epsilon`.
    """
    positive("epsilon", epsilon, below=math.inf)
    positive_integer("steps", steps)
    spent = _spent_by_noise(sampling_rate, steps, delta, accountant, sampling)

    def enough(noise: float) -> bool:
        return spent(noise) <= epsilon

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


@dataclasses.dataclass(frozen=True)
class PrivacyReport:
    """What a training would cost, as `tfjac.privacy.report` returns it; `print` shows it as a table.

    Attributes:
        noise_multiplier, sampling_rate, steps, delta, accountant, sampling: as they were given.
        epsilons: dict from a number of steps to the ε of so many: a quarter of the training, half of it, and so on.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    delta: float
    accountant: str
    sampling: str
    epsilons: dict[int, float]

    @property
    def epsilon(self) -> float:
        """ε of the whole training."""
        return self.epsilons[self.steps]

    def __str__(self) -> str:
        lines = [
            f"{self.steps} steps, sampling rate {self.sampling_rate:.4g} ({self.sampling}), σ = "
            f"{self.noise_multiplier:.4g}: ε = {self.epsilon:.4g} at δ = {self.delta:.3g} ({self.accountant})",
            *aligned([["steps", "ε"], *([str(steps), f"{spent:.4g}"] for steps, spent in self.epsilons.items())]),
        ]
        return "\n".join(lines)


def report(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    accountant: Accountant = "pld",
    sampling: Sampling = "poisson",
) -> PrivacyReport:
    """Return what a training would cost, before it runs: ε after each quarter of the steps.

        print(tfjac.privacy.report(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=10_000, delta=1e-5))

    Args:
        noise_multiplier, sampling_rate, steps, delta, accountant, sampling: as in `tfjac.privacy.epsilon`.

    Raises:
        ImportError, ValueError: as `tfjac.privacy.epsilon`; ValueError for no steps.

    Cost: four calls of `tfjac.privacy.epsilon`.
    """
    positive_integer("steps", steps)
    along = {max(1, steps * quarter // 4) for quarter in (1, 2, 3, 4)}
    how = delta, accountant, sampling
    epsilons = {count: epsilon(noise_multiplier, sampling_rate, count, *how) for count in sorted(along)}
    return PrivacyReport(noise_multiplier, sampling_rate, steps, *how, epsilons)


def _counted(sampling: str, rate: float, steps: int) -> tuple[float, int]:
    """Return the sampling rate and the number of steps that the accountant is told.

    Shuffled batches hold an example once in each pass, which for that example is one step of all data.
    """
    return (rate, steps) if sampling == "poisson" else (1.0, begun(steps, steps_of_pass(rate)))


def spent_by(accountant: str) -> Callable[[float, float, int, float], float]:
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
    found = float(_of_a_step(dp, noise, rate).self_compose(steps).get_epsilon_for_delta(delta))
    return (
        found if math.isfinite(found) else _by_divergences(dp, noise, rate, steps, delta)
    )  # δ within what it cuts off


@functools.lru_cache(maxsize=4)
def _of_a_step(dp, noise, rate):
    """Return the distribution of the privacy loss of a step, which takes longer to find than to compose.

    For little noise the loss is large, and so is the distance of its values: their number does not grow.
    """
    distance = 1e-4 * max(1.0, (0.5 / noise) ** 2)
    made = dp.pld.privacy_loss_distribution.from_gaussian_mechanism
    return made(noise, sampling_prob=rate, value_discretization_interval=distance)


def _spent_by_noise(
    sampling_rate: float, steps: int, delta: float, accountant: str, sampling: str
) -> Callable[[float], float]:
    """Check what `epsilon` and `noise_for` are both given, and return the function from σ, above zero, to ε."""
    spent = spent_by(accountant)
    choice("sampling", sampling, SAMPLINGS)
    if not 0 < sampling_rate <= 1:
        raise ValueError(
            "sampling_rate is the batch size over the number of examples, in (0, 1]. "
            f"Received: sampling_rate={sampling_rate!r}"
        )
    check_delta(delta)
    positive_integer("steps", steps, or_zero=True)
    rate, count = _counted(sampling, float(sampling_rate), int(steps))
    return lambda noise: spent(noise, rate, count, float(delta))


def check_delta(delta: float) -> None:
    """Raise ValueError unless δ is a probability."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1. Received: delta={delta!r}")


SAMPLINGS = ("poisson", "shuffled")
