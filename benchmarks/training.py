"""A whole training, from one start to a target: tfjac against Adam and SciPy's L-BFGS."""

import keras
import numpy as np
import tensorflow as tf

import tfjac

LIMIT = 20_000
"""Steps after which a candidate counts as failing."""


class Training:
    """Weights, where they start, and what of them is to fall.

    Args:
        variables: list of `keras.Variable`.
        loss: function of a slice of the examples, an index tensor or None for all, to a scalar.
        examples: how many there are.
        score: function without arguments to the number that is to fall to a target; the whole loss where left out.
        every: so many steps are taken between two looks at the score.
    """

    def __init__(self, variables, loss, examples, score=None, every=1):
        self._variables, self._loss, self._examples, self._every = variables, loss, examples, every
        self._score = tf.function(score or (lambda: loss(None)))
        self._weights = [variable.value for variable in variables]
        self._start = [weight.numpy() for weight in self._weights]

    def levenberg_marquardt(self, target: float, jit_compile: bool = False, **options):
        """Full batches."""
        optimizer = tfjac.LevenbergMarquardt(**options)
        optimizer.build(self._variables)

        def step():
            optimizer.scale_loss(self._loss(None))
            optimizer.apply([None] * len(self._weights), self._variables)

        return self._repeated(tf.function(step, jit_compile=jit_compile), optimizer, target)

    def adam(self, target: float, rate: float = 3e-3, batch: int | None = None):
        """One pass through the examples in batches, or steps on all of them."""
        optimizer = keras.optimizers.Adam(rate)
        optimizer.build(self._variables)

        def step(chosen):
            with tf.GradientTape() as tape:
                loss = self._loss(chosen)
            optimizer.apply(tape.gradient(loss, self._weights), self._variables)

        def epoch():
            if batch is None:
                return step(None)
            order = tf.random.shuffle(tf.range(self._examples))
            for begin in tf.range(0, self._examples - batch + 1, batch):
                step(order[begin : begin + batch])

        return self._repeated(tf.function(epoch), optimizer, target)

    def lbfgs(self, target: float):
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
            steps, flat = [0], np.concatenate([value.ravel() for value in self._start])

            def stop(flat):
                steps[0] += 1
                if steps[0] % self._every == 0 and float(self._score()) <= target:
                    raise StopIteration

            options = {"maxiter": LIMIT, "maxfun": LIMIT, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
            minimize(evaluate, flat, jac=True, method="L-BFGS-B", callback=stop, options=options)
            return self._checked(target)

        return train

    def _repeated(self, step, optimizer, target):
        """A function that starts anew and steps until the target is met."""
        state = [(v.value, v.value.numpy()) for v in optimizer.variables]

        def train():
            _assign([*zip(self._weights, self._start, strict=True), *state])
            for count in range(1, LIMIT + 1):
                step()
                if count % self._every == 0 and float(self._score()) <= target:
                    break
            return self._checked(target)

        return train

    def _checked(self, target):
        reached = float(self._score())
        if not reached <= target:
            raise RuntimeError(f"the target was not reached. Received: {reached} after {LIMIT} steps, target {target}")
        return reached


def _assign(pairs):
    for variable, value in pairs:
        variable.assign(value)
