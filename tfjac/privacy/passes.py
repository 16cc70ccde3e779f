"""How many passes over shuffled data a number of steps begins: never too few, as each may hold an example once more."""

import math


class Passes:
    """Counts the passes of a training, of which each `fit` begins one.

    A pass has ⌊N/B⌋ steps at least, as a remainder may be dropped. Where the steps of a `fit` had all N examples in
    ⌈N/B⌉ steps, it was not, and the passes of this `fit` have so many.

    Args:
        batch_size: B, the largest size of a step.
        num_examples: N, the number of examples of the training data.
        before: number of passes that were begun before this `fit`.
        steps, examples: how many were taken before it.
    """

    def __init__(
        self, batch_size: float, num_examples: int, before: int = 0, steps: int = 0, examples: int = 0
    ) -> None:
        self._num_examples, self._before, self._steps, self._examples = num_examples, before, steps, examples
        self._fewest = steps_of_pass(batch_size / num_examples)
        self._most = math.ceil(num_examples / batch_size)
        self._each = self._fewest

    def see(self, steps: int, examples: int) -> None:
        """Take in how many steps and examples there were by now, all together."""
        whole, more = divmod(steps - self._steps, self._most)
        if not more:
            self._each = self._most if examples - self._examples == whole * self._num_examples else self._fewest

    def after(self, steps: int) -> int:
        """Return how many passes so many steps have begun at most, all together."""
        return self._before + begun(max(steps - self._steps, 0), self._each)


def steps_of_pass(rate: float) -> int:
    """Return how many steps a pass has at least, with batches of this part of the data: one that is cut is dropped."""
    return max(1, math.floor((1 + 1e-9) / rate))


def begun(steps: int, each: int) -> int:
    """Return how many passes of so many steps each are begun in `steps` steps."""
    return -(-steps // each)
