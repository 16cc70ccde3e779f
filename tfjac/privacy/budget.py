"""A Keras callback that watches the privacy budget of a training."""

import bisect
import functools
import math
from collections.abc import Callable
from typing import Any

import keras

from tfjac._warn import warn
from tfjac.arguments import choice, positive, positive_integer
from tfjac.privacy.accounting import SAMPLINGS, Accountant, Sampling, check_delta, epsilon, spent_by
from tfjac.privacy.optimizer import DPOptimizer
from tfjac.privacy.passes import Passes
from tfjac.privacy.sample_sizes import SampleSizes
from tfjac.types import Logs


class PrivacyBudget(keras.callbacks.Callback):
    """Adds `epsilon` to the logs of each epoch, and stops the training before a step would exceed the budget.

    It counts the examples of the steps, and holds them against what is declared. Batches of one size are shuffled ones:
    the accounting of Poisson samples does not model them, and a warning says so, unless `sampling="shuffled"`. How
    many examples there are in all cannot be counted. Steps that another optimizer took before are not known here.

    Args:
        num_examples: number of examples of the training data. ε is too small if this number is too large.
        delta: δ, as in `tfjac.privacy.epsilon`.
        batch_size: expected number of examples of a step; that of the `DPOptimizer` if None.
        max_epsilon: the budget; None never stops.
        accountant: as in `tfjac.privacy.epsilon`.
        sampling: as in `tfjac.privacy.epsilon`. With "shuffled" each `fit` begins a pass over the data, so give all of
            them the same `PrivacyBudget`. A pass counts as ⌊num_examples/batch_size⌋ steps, as the last batch may be
            dropped; as one more, where the examples of the first steps of a `fit` show that it is not.

    Raises:
        TypeError, ValueError: at the start of `fit`, for a model that was compiled with another optimizer, if the batch
            size is not known, or if earlier steps had more examples than it says; in `fit`, if the steps have more
            examples than samples of that size can have, or if batches are summed up across the end of a shuffled pass.
    """

    def __init__(
        self,
        num_examples: int,
        delta: float,
        batch_size: float | None = None,
        max_epsilon: float | None = None,
        accountant: Accountant = "pld",
        sampling: Sampling = "poisson",
    ) -> None:
        super().__init__()
        self.num_examples = positive_integer("num_examples", num_examples)
        check_delta(delta)
        if delta >= 1 / self.num_examples:
            warn(
                "PrivacyBudget: delta should lie well below one over the number of examples, as a training may give "
                f"away an example with that probability. Received: delta={delta!r}, num_examples={self.num_examples}"
            )
        self.delta, self.batch_size, self.accountant = delta, batch_size, accountant
        self.sampling = choice("sampling", sampling, SAMPLINGS)
        self.max_epsilon = None if max_epsilon is None else positive("max_epsilon", max_epsilon)
        spent_by(accountant)
        self._most: float = math.inf
        self._passes: Passes | None = None
        self._seen = 0

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
        self._begin(optimizer, batch_size)
        if self.max_epsilon is not None:
            self._most = _most_within(self._cost, self.max_epsilon)
            if self._would_exceed():
                raise ValueError(
                    f"The budget does not allow a step: one costs ε = {self._spent(optimizer.steps + 1):.4g}. Use more "
                    f"noise, smaller batches, or fewer steps_per_execution. Received: max_epsilon={self.max_epsilon}, "
                    f"{optimizer.steps} steps taken"
                )

    def _begin(self, optimizer: DPOptimizer, batch_size: float) -> None:
        """Decide what costs how much in this `fit`, and hold the steps so far against the batch size."""
        shuffled, start = self.sampling == "shuffled", optimizer.steps
        options: Any = {"delta": self.delta, "accountant": self.accountant}
        rate = 1.0 if shuffled else batch_size / self.num_examples
        self._cost = functools.cache(functools.partial(epsilon, optimizer.noise_multiplier, rate, **options))
        self._sizes = SampleSizes(batch_size, self.num_examples, fixed=shuffled)
        self._sizes.check(optimizer.examples, start)
        self._counted = optimizer.examples, start
        if not shuffled:
            return
        if start != self._seen:
            raise ValueError(
                "With sampling='shuffled' each fit begins a pass over the data, and the passes are counted: give every "
                f"fit the same PrivacyBudget. Received: {start} steps, of which it saw {self._seen}"
            )
        before = 0 if self._passes is None else self._passes.after(start)
        self._passes = Passes(batch_size, self.num_examples, before, start, optimizer.examples)

    def _spent(self, steps: int) -> float:
        """Return ε of so many steps."""
        return self._cost(self._counting(steps))

    def _counting(self, steps: int) -> int:
        """Return how often an example may have been in a step, of so many: those drawn by chance, or the passes."""
        return steps if self._passes is None else self._passes.after(steps)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Refuse a step that has batches of two passes over shuffled data: it may hold an example twice."""
        optimizer = self.model.optimizer
        if self._passes is not None and optimizer.steps_after(1) == optimizer.steps:
            raise ValueError(
                "With sampling='shuffled' no step may reach into the next pass over the data, as it could hold an "
                "example twice. Choose gradient_accumulation_steps so that the batches of an epoch are a multiple of "
                f"it. Received: an epoch that ended within step {optimizer.steps}"
            )

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Hold the number of examples against the declared one; stop where the next step would exceed the budget."""
        self._count_examples()
        self._seen = self.model.optimizer.steps
        if self._would_exceed():
            self.model.stop_training = True

    def _count_examples(self) -> None:
        """Look at the step that has ended, if one has; refuse too many examples, and warn of shuffled batches."""
        optimizer = self.model.optimizer
        counted = optimizer.examples, optimizer.steps
        if optimizer.steps_after(1) == counted[1]:  # the next batch belongs to the same step
            return
        self._sizes.add(*(now - before for now, before in zip(counted, self._counted)))
        self._counted = counted
        if self._passes is not None:
            self._passes.see(counted[1], counted[0])
        if self.sampling == "poisson" and self._sizes.show_fixed_size():
            warn(_NO_POISSON_SAMPLE)

    def _would_exceed(self) -> bool:
        """Return whether the steps of the batches that Keras takes in its next call are more than the budget allows."""
        return self._counting(self.model.optimizer.steps_after(self.model.steps_per_execution)) > self._most

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Add ε to the logs."""
        if logs is not None:
            logs["epsilon"] = self._spent(self.model.optimizer.steps)


def _most_within(cost: Callable[[int], float], budget: float) -> int:
    """Return the largest number of which `cost(number)` is within the budget."""
    high = 1
    while high < _MOST and cost(high) <= budget:
        high *= 4
    if high >= _MOST:
        return _MOST
    return bisect.bisect_right(range(high), budget, lo=high // 4, key=cost) - 1


_NO_POISSON_SAMPLE = (
    "PrivacyBudget: the batches have the same number of examples in each step, so they are shuffled, and no Poisson "
    "samples. ε is computed as if they were: an approximation that is in common use, and no guarantee. Draw them by "
    "tfjac.privacy.poisson_batches, or count them by sampling='shuffled', which has a guarantee. Received: batches of "
    "a fixed size"
)

_MOST = 4**12
"""Trainings of more steps are not looked at."""
