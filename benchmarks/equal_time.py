"""Trainings of small networks within a budget of CPU seconds, by Keras' `fit` and by scikit-learn."""

import time
import warnings

import keras
import numpy as np
import tensorflow as tf

import tfjac

NETWORKS = {"small": (16, 8), "large": (50, 50)}
RATES = (1e-3, 3e-3, 1e-2)
ADAMS = [f"Adam {rate:g}" for rate in RATES]
OPTIMIZERS = {
    "tfjac": tfjac.LevenbergMarquardt,
    **{name: lambda rate=rate: keras.optimizers.Adam(rate) for name, rate in zip(ADAMS, RATES)},
    "AdamW": lambda: keras.optimizers.AdamW(3e-3),
    "SGD": lambda: keras.optimizers.SGD(1e-2, momentum=0.9),
}
L_BFGS = "L-BFGS"
METHODS = (*OPTIMIZERS, L_BFGS)


class Timed(keras.callbacks.Callback):
    """Notes a `point` after each epoch, without the time of it, and stops if the next epoch would be beyond the budget.

    Args:
        budget: CPU seconds.
    """

    def __init__(self, budget):
        super().__init__()
        self._budget = budget
        self.first, self._seconds, self.points = None, [], []

    def point(self):
        """Return what to note, a list of numbers."""
        raise NotImplementedError

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        seconds = time.process_time() - self._began
        if epoch:
            self._seconds.append(seconds)
        else:
            self.first = seconds
        self.points.append(self.point())
        if epoch and sum(self._seconds) + 2 * self.mean > self._budget:
            self.model.stop_training = True

    @property
    def mean(self):
        """CPU seconds of an epoch, without the first; of that one, where it is the only one."""
        return float(np.mean(self._seconds or [self.first]))

    def rows(self):
        """Return a list of `[seconds, *point]`."""
        seconds = self.mean + np.cumsum([0.0, *self._seconds])
        return [[float(at), *point] for at, point in zip(seconds, self.points)]


class Curve(Timed):
    """Notes the training loss, the test loss and the share of errors.

    Args:
        data: a `Split`.
        budget: CPU seconds.
    """

    def __init__(self, data, budget):
        super().__init__(budget)
        self._data = data

    def point(self):
        """Return what `figures` does of the outputs now."""
        outputs = (np.asarray(self.model(tf.constant(x))) for x in (self._data.x, self._data.x_test))
        return figures(self._data, *outputs)


def figures(data, outputs, outputs_test):
    """Return the training loss, the test loss and the share of test errors (None of a regression) of outputs."""
    errors = float(np.mean(_classes(outputs_test) != data.y_test)) if data.classes else None
    return [_loss(data, outputs, data.y), _loss(data, outputs_test, data.y_test), errors]


def _classes(outputs):
    return outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(int)


def _loss(data, outputs, y):
    """Return the mean squared error over `variance`, or the mean cross-entropy of logits `[rows, classes or 1]`."""
    outputs = np.asarray(outputs, "float64")
    if not data.classes:
        return float(np.mean((outputs - y) ** 2)) / data.variance
    logits = outputs if outputs.shape[1] > 1 else np.hstack([np.zeros_like(outputs), outputs])
    return float(np.mean(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(y)), y]))


def network(data, hidden, seed):
    """Return a new model and its loss."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    outputs = data.classes if data.classes > 2 else 1
    layers = [keras.layers.Dense(units, "tanh") for units in hidden]
    model = keras.Sequential([keras.Input(data.x.shape[1:]), *layers, keras.layers.Dense(outputs)])
    if not data.classes:
        return model, "mse"
    if outputs == 1:
        return model, keras.losses.BinaryCrossentropy(from_logits=True)
    return model, keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def train(method, data, batch, hidden, seed, budget, epochs):
    """Return the run of a Keras optimizer: what a step and the first epoch take, the curve."""
    model, loss = network(data, hidden, seed)
    curve = Curve(data, budget)
    model.compile(OPTIMIZERS[method](), loss)
    y = data.y[:, None] if data.classes == 2 else data.y
    model.fit(data.x, y, batch_size=batch, epochs=epochs, verbose=0, callbacks=[curve])
    steps = -(-len(data.x) // batch)
    return {
        "weights": model.count_params(), "step_ms": 1e3 * curve.mean / steps, "first_epoch": curve.first,
        "epochs": len(curve.points), "curve": curve.rows(),
    }  # fmt: skip


def train_by_l_bfgs(data, hidden, seed, budget):
    """Return the run of scikit-learn's MLP with L-BFGS, of 8, 11, 16, … iterations from one start."""
    from sklearn import neural_network

    kind = neural_network.MLPClassifier if data.classes else neural_network.MLPRegressor
    curve = []
    for iterations in (2 ** (np.arange(6, 40) / 2)).astype(int):
        limits = {"max_iter": int(iterations), "max_fun": 10**6, "tol": 1e-12, "alpha": 0.0}
        machine = kind(hidden_layer_sizes=hidden, activation="tanh", solver="lbfgs", random_state=seed, **limits)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that so few iterations did not converge
            machine.fit(data.x.astype("float64"), data.y.ravel())
        seconds = time.process_time() - began
        if seconds > budget and curve:
            break
        curve.append([seconds, *figures(data, *(_outputs(machine, x) for x in (data.x, data.x_test)))])
        if machine.n_iter_ < iterations:
            break
    return {"curve": curve}


def _outputs(machine, x):
    """Return the outputs of scikit-learn's MLP as logits, or values `[rows, 1]`."""
    if not hasattr(machine, "predict_log_proba"):
        return machine.predict(x.astype("float64"))[:, None]
    logs = machine.predict_log_proba(x.astype("float64"))
    return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs
