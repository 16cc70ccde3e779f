"""How many examples Poisson samples hold, to tell whether the steps of a training had what was declared."""

import math
from typing import Any

CHANCE = 1e-12
"""What is less probable than this does not happen."""


def most_examples(batch_size: Any, num_examples: Any = math.inf, steps: Any = 1) -> Any:
    """Return a number that the sizes of `steps` Poisson samples add up to, at most, but for a chance of 10⁻¹².

    Bernstein's bound: P(size − mean ≥ t) ≤ exp(−t² / (2 (variance + t/3))), solved for t. Numbers or tensors.

    Args:
        batch_size: the expected number of examples of a sample.
        num_examples: the number that they are drawn from.
        steps: number of samples.
    """
    mean, exponent = batch_size * steps, -math.log(CHANCE)
    variance = mean * (1 - batch_size / num_examples)
    return mean + exponent / 3 + ((exponent / 3) ** 2 + 2 * exponent * variance) ** 0.5


class SampleSizes:
    """The sizes of the samples of a training, one after another.

    Args:
        batch_size: the declared size of a step, or the expected one.
        num_examples: number of examples of the training data.
        fixed: whether no sample may be larger than `batch_size`, as those of shuffled data are.
    """

    def __init__(self, batch_size: float, num_examples: int, fixed: bool = False) -> None:
        self.batch_size, self.num_examples, self._fixed = batch_size, num_examples, fixed
        self.total = self.steps = 0
        self._different: set[float] = set()
        self._waits = _steps_to_tell(batch_size * (1 - batch_size / num_examples))

    def add(self, examples: int, steps: int) -> None:
        """Take in that the next `steps` samples had so many examples together.

        Raises:
            ValueError: if so many are not possible with the declared size.
        """
        self.total, self.steps = self.total + examples, self.steps + steps
        self._waits -= 1
        self._different.add(examples / steps)
        self.check(examples, steps)
        self.check(self.total, self.steps)

    def check(self, examples: int, steps: int) -> None:
        """Raise ValueError if so many examples are not possible in so many samples of the declared size."""
        fixed = self.batch_size * steps
        most = fixed if self._fixed else most_examples(self.batch_size, self.num_examples, steps)
        if examples > most:
            raise ValueError(too_many(self.batch_size, f"{examples} examples in {steps} steps"))

    def show_fixed_size(self) -> bool:
        """Return, once, whether the sizes seen so far are too equal for Poisson samples.

        Shuffled batches have one size, and the last of an epoch has another.

        Raises:
            ValueError: if they are, and are larger than the declared size.
        """
        fixed = self._waits == 0 and len(self._different) <= 2
        if fixed and max(self._different) > self.batch_size:
            raise ValueError(too_many(self.batch_size, f"batches of {max(self._different):g} examples"))
        return fixed


def _steps_to_tell(variance):
    """Return of how many Poisson samples at most 1 in 1,000 has no more than two different sizes; -1 for none.

    The most probable size has about the probability p = (2π variance + 1)^(−½), so any two have less than 2p.
    """
    of_two = 2 * (2 * math.pi * max(variance, 0) + 1) ** -0.5
    return -1 if of_two > 0.9 else 2 + math.ceil(math.log(1e-3) / math.log(of_two))


def too_many(batch_size: float, received: str) -> str:
    """Return the message for more examples than declared."""
    return (
        f"The steps have more examples than batch_size={batch_size:g} declares, so the training is less private than "
        "what is computed from it. Declare the real number of examples of a step, to DPOptimizer, PrivacyBudget and "
        f"poisson_batches alike. Received: {received}"
    )
