"""The Jacobian in float64, one `tape.gradient` per row, and in NumPy what follows from it. Imports nothing of tfjac."""

import functools

import numpy as np
import tensorflow as tf

from tests.contract.jacobian_models import FAMILIES, WORDS, reference


class Oracle:
    """The Jacobian of one family, and the vectors that it is multiplied with.

    Attributes:
        y: `[n, m]`.
        jacobians: for each variable `[n, m, *variable.shape]`.
        of_inputs: `[n, m, *inputs]`, None where inputs are integers; `[n, m, n, *inputs]` where examples mix.
        tangents, cotangents, weights, scales, clip_norm: what the functions take.
    """

    def __init__(self, family):
        self.model, self.x = reference(family)
        self.mixes = family == "mixing"
        self.call = functools.partial(self.model, training=self.mixes)
        self.variables = [variable.value for variable in self.model.trainable_variables]
        self.y = self.call(self.x).numpy()
        self._rows(with_inputs=family != WORDS)
        rng = np.random.default_rng(3)
        self.tangents = [rng.normal(size=v.shape) for v in self.variables]
        self.cotangents = rng.normal(size=self.y.shape)
        self.weights = rng.normal(size=len(self.x))
        self.scales = rng.uniform(0.5, 1.5, size=self.y.shape[1])
        self.clip_norm = float(np.median(self.norms()))

    def _rows(self, with_inputs):
        sources = len(self.variables) + with_inputs

        @tf.function(autograph=False)
        def row(x, n, k):
            with tf.GradientTape() as tape:
                tape.watch(x) if with_inputs else None
                output = self.call(x)[n, k]
            watched = [*self.variables, *([x] if with_inputs else [])]
            found = tape.gradient(output, watched, unconnected_gradients="zero")
            return [tf.convert_to_tensor(gradient) for gradient in found]

        rows = []
        for n in range(len(self.x)):  # an example by itself, unless examples mix
            x = tf.constant(self.x if self.mixes else self.x[n : n + 1])
            place = tf.constant(n if self.mixes else 0)
            rows.append([row(x, place, tf.constant(k)) for k in range(self.y.shape[1])])
        stacked = [np.array([[outputs[v].numpy() for outputs in example] for example in rows]) for v in range(sources)]
        self.of_inputs = stacked.pop() if with_inputs else None
        if with_inputs and not self.mixes:
            self.of_inputs = self.of_inputs[:, :, 0]
        self.jacobians = stacked
        assert all(np.any(j) for j in stacked), "a weight without a gradient would test nothing"

    def dense(self):
        """J `[n·m, p]`."""
        return np.concatenate([j.reshape(self.y.size, -1) for j in self.jacobians], 1)

    def split(self, vector):
        """Cut `[p]` into arrays of the shapes of the variables."""
        sizes = np.cumsum([v.size for v in self.tangents])[:-1]
        return [part.reshape(v.shape) for part, v in zip(np.split(vector, sizes), self.tangents)]

    def flat_tangents(self):
        """The tangents, one after another, `[p]`."""
        return np.concatenate([v.ravel() for v in self.tangents])

    def gradients(self):
        """Of each example's loss ½ Σ_m c_m y_m², `[n, *variable.shape]`."""
        return [np.einsum("nm,nm...->n...", self.scales * self.y, j) for j in self.jacobians]

    def norms(self):
        """Of these gradients, over all variables, `[n]`."""
        return np.sqrt(sum((g.reshape(len(g), -1) ** 2).sum(1) for g in self.gradients()))

    def summed(self, weights):
        """The sum of these gradients, each with a factor."""
        return [np.einsum("n,n...->...", weights, g) for g in self.gradients()]

    def hessian_product(self):
        """Central differences of the gradient of the summed losses along the tangents."""
        step = 1e-5
        up, down = (self._gradient_at(sign * step) for sign in (1, -1))
        return [(a - b) / (2 * step) for a, b in zip(up, down)]

    def _gradient_at(self, distance):
        before = [v.numpy() for v in self.variables]
        for v, tangent in zip(self.variables, self.tangents):
            v.assign_add(distance * tangent)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.scales * self.call(self.x) ** 2) / 2
        gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, self.variables)]
        for v, value in zip(self.variables, before):
            v.assign(value)
        return gradients

    def gauss_newton_product(self):
        """Jᵀ H J v with H that of log Σ exp y[n]."""
        chances = np.exp(self.y - self.y.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        moved = (self.dense() @ self.flat_tangents()).reshape(self.y.shape)
        curved = chances * (moved - (chances * moved).sum(1, keepdims=True))
        return self.split(self.dense().T @ curved.ravel())

    def of_all_inputs(self):
        """∂y/∂x `[n·m, n·inputs]`, zero between examples unless they mix."""
        n, m = self.y.shape
        if self.mixes:
            return self.of_inputs.reshape(n * m, -1)
        result = np.zeros((n, m, n, self.x[0].size))
        result[np.arange(n), :, np.arange(n)] = self.of_inputs.reshape(n, m, -1)
        return result.reshape(n * m, -1)


@functools.cache
def oracle(family):
    """The oracle of a family, computed once."""
    assert family in FAMILIES
    return Oracle(family)
