"""A whole training from one start: tfjac against Adam and SciPy's L-BFGS, to a target or for so many seconds."""

import math
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import tfjac

LIMIT = 20_000
"""Steps after which a candidate counts as failing."""


class Watch:
    """Looks at the score now and then, while the clock stands still, and says when a training is over.

    Args:
        score: function without arguments to the number that is to fall.
        every: so many steps are taken between two looks.
        target: the training ends once the score is as low.
        seconds: the training ends after so many.

    Attributes:
        curve: list of (seconds, score), one for each look.
    """

    def __init__(self, score, every=1, target=-math.inf, seconds=math.inf):
        self.curve, self._score, self._every = [], score, every
        self._target, self._limit, self._steps, self._start = target, seconds, 0, time.perf_counter()

    def __call__(self, *_) -> bool:
        """Count a step; return whether it was the last one."""
        self._steps += 1
        if self._steps % self._every:
            return False
        now = time.perf_counter()
        seconds, score = now - self._start, float(self._score())
        self.curve.append((seconds, score))
        self._start += time.perf_counter() - now
        return score <= self._target or seconds >= self._limit


class Training:
    """Weights, where they start, and what of them is to fall.

    Args:
        variables: list of `keras.Variable`.
        loss: function of a slice of the examples, an index tensor or None for all, to a scalar.
        examples: how many there are.
        score: function without arguments to the number that is to fall to a target; the whole loss where left out.
        every: so many steps are taken between two looks at the score.
        residuals: function without arguments to tensors, half the sum of whose squares is a multiple of the loss.

    The methods return functions that train from the start. These return the score reached.

    Attributes:
        curve: list of (seconds, score) of the last training.
    """

    def __init__(self, variables, loss, examples, score=None, every=1, residuals=None):
        self._variables, self._loss, self._examples, self._every = variables, loss, examples, every
        self._score, self._residuals, self.curve = tf.function(score or (lambda: loss(None))), residuals, []
        self._weights = [getattr(variable, "value", variable) for variable in variables]
        self._start = [weight.numpy() for weight in self._weights]

    @property
    def num_weights(self) -> int:
        """How many numbers are trained."""
        return sum(value.size for value in self._start)

    def levenberg_marquardt(self, target: float, jit_compile: bool = False, **options):
        """Full batches."""
        optimizer = tfjac.LevenbergMarquardt(**options)
        step = tf.function(self._newtonian(optimizer), jit_compile=jit_compile)
        return self._repeated(step, optimizer, target)

    def levenberg_marquardt_step(self):
        """One step on all examples, from the start."""
        optimizer = tfjac.LevenbergMarquardt()
        return self._from_start(self._newtonian(optimizer), optimizer)

    def adam_steps(self, count: int):
        """So many steps on all examples, from the start."""
        optimizer = keras.optimizers.Adam()
        step = self._first_order(optimizer)

        def steps():
            for _ in tf.range(count):
                step(None)

        return self._from_start(steps, optimizer)

    def _newtonian(self, optimizer):
        optimizer.build(self._variables)

        def step():
            optimizer.scale_loss(self._loss(None))
            optimizer.apply([None] * len(self._weights), self._variables)

        return step

    def _first_order(self, optimizer):
        optimizer.build(self._variables)

        def step(chosen):
            with tf.GradientTape() as tape:
                loss = self._loss(chosen)
            optimizer.apply(tape.gradient(loss, self._weights), self._variables)

        return step

    def _from_start(self, steps, optimizer):
        """A function that puts weights and optimizer back where they start, and runs the steps once."""
        state, run = [(v.value, v.value.numpy()) for v in optimizer.variables], tf.function(steps)

        def train():
            _assign([*zip(self._weights, self._start, strict=True), *state])
            run()

        return train

    def least_squares(self, seconds: float = math.inf, **options):
        """`tfjac.least_squares`; its function returns a `LeastSquaresResult`."""

        def train():
            _assign(zip(self._weights, self._start, strict=True))
            watch = self._watch(every=1, seconds=seconds)
            return tfjac.least_squares(self._residuals, self._variables, callback=watch, **options)

        return train

    def adam(self, target: float = -math.inf, rate: float = 3e-3, batch: int | None = None, seconds: float = math.inf):
        """One pass through the examples in batches, or steps on all of them."""
        optimizer = keras.optimizers.Adam(rate)
        step = self._first_order(optimizer)

        def epoch():
            if batch is None:
                return step(None)
            order = tf.random.shuffle(tf.range(self._examples))
            for begin in tf.range(0, self._examples - batch + 1, batch):
                step(order[begin : begin + batch])

        return self._repeated(tf.function(epoch), optimizer, target, seconds)

    def lbfgs(self, target: float = -math.inf, seconds: float = math.inf):
        """SciPy's, with TensorFlow's loss and gradient."""
        from scipy.optimize import minimize

        sizes = np.cumsum([value.size for value in self._start])[:-1]

        @tf.function
        def value_and_gradient():
            with tf.GradientTape() as tape:
                value = self._loss(None)
            return value, tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(value, self._weights)], 0)

        def evaluate(flat):
            parts = np.split(flat, sizes)
            _assign((w, part.reshape(w.shape)) for w, part in zip(self._weights, parts, strict=True))
            value, gradient = value_and_gradient()
            return float(value), gradient.numpy().astype(float)

        def train():
            flat, watch = np.concatenate([value.ravel() for value in self._start]), self._watch(target, seconds)

            def stop(flat):
                if watch():
                    raise StopIteration

            options = {"maxiter": LIMIT, "maxfun": LIMIT, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
            minimize(evaluate, flat, jac=True, method="L-BFGS-B", callback=stop, options=options)
            return self._checked(target)

        return train

    def _watch(self, target=-math.inf, seconds=math.inf, every=None):
        watch = Watch(self._score, every or self._every, target, seconds)
        self.curve = watch.curve
        return watch

    def _repeated(self, step, optimizer, target, seconds=math.inf):
        """A function that starts again and steps until the target is met."""
        state = [(v.value, v.value.numpy()) for v in optimizer.variables]

        def train():
            _assign([*zip(self._weights, self._start, strict=True), *state])
            watch = self._watch(target, seconds)
            for _ in range(LIMIT if seconds == math.inf else sys.maxsize):
                step()
                if watch():
                    break
            return self._checked(target)

        return train

    def _checked(self, target):
        reached = float(self._score())
        if not reached <= target and target > -math.inf:
            raise RuntimeError(f"the target was not reached. Received: {reached} after {LIMIT} steps, target {target}")
        return reached


def _assign(pairs):
    for variable, value in pairs:
        variable.assign(value)
