"""Run a case by tfjac, by its public API alone."""

import contextlib
import os
import tempfile
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tfjac
from tests.contract.axes import IN_FIT
from tests.contract.problems import problem
from tests.precision import floating

STEPS = 2
"""In each case; resumed ones go on from the first."""

WINDOWS = 5
"""Of `memory` as a number of batches, each of which is one attempt; one more comes before, which linearises."""


class Found(NamedTuple):
    """What a run came to.

    Attributes:
        cost: the last one; position: `[p]`. Of many fits they are `[B]` and `[B, p]`.
        attempts, accepted: numbers of attempts, and of accepted steps; None where nothing tells.
    """

    cost: Any
    position: np.ndarray
    attempts: Any = None
    accepted: Any = None


def run(case, conditions):
    """Return what tfjac `Found`, for `Conditions` as `conditions_of` makes them."""
    if case.execution in IN_FIT:
        return _in_fit(case, conditions)
    return _many_fits(case, conditions) if case.problem == "many" else _least_squares(case, conditions)


def solver_of(case):
    """Return the solver of a case: iterative ones solve exactly, so that the oracle can judge their steps."""
    exact = {"tolerance": 1e-11 if case.dtype == "float64" else 1e-5, "max_iterations": 3000}
    iterative = {
        "cg": tfjac.optimizers.ConjugateGradientSolver,
        "lsmr": tfjac.optimizers.LSMRSolver,
        "schur_cg": tfjac.optimizers.IterativeSchurSolver,
    }
    return iterative[case.solver](**exact) if case.solver in iterative else case.solver


def method_of(case):
    """Return the options that every function takes."""
    budget = {} if case.problem == "many" else {"memory_budget": 16e9}  # whatever is free on this machine
    return {
        "damping": case.damping,
        "scaling": case.scaling,
        "solver": solver_of(case),
        "acceleration": None if case.acceleration == "none" else case.acceleration,
        **budget,
    }


# ------------------------------------------------------------------ least_squares


_LOSSES = {"squares": {}, "robust": {"loss": "huber", "loss_scale": 0.3}, "convex": {"loss": "crossentropy"}}


def _least_squares(case, conditions):
    given = problem(case.problem)
    dtype = tf.as_dtype(case.dtype)
    variables = [tf.Variable(part, dtype=dtype) for part in given.split(conditions.start)]
    data = [tf.constant(part if part.dtype == np.int32 else part.astype(case.dtype)) for part in given.data()]
    open_shape = case.batch == "open"
    specs = [tf.TensorSpec([None, *part.shape[1:]] if open_shape else part.shape, part.dtype) for part in data]

    def residuals(*data):
        return given.residuals(variables, *data)

    def minimise(function, data, max_steps=STEPS, **more):
        options = {**method_of(case), **_LOSSES[case.loss], **conditions.of_least_squares, **more}
        return tfjac.least_squares(
            function, variables, max_steps, ftol=0.0, xtol=0.0, gtol=0.0, args=tuple(data), **options
        )

    if case.execution == "function":
        inside = tf.function(lambda *data: minimise(residuals, data), input_signature=specs, autograph=False)
        return _of_result(inside(*data), variables)
    if open_shape:
        residuals = tf.function(residuals, input_signature=specs, autograph=False)
    if case.execution == "resumed":
        return _resumed(minimise, residuals, data, variables)
    return _of_result(minimise(residuals, data, jit_compile=case.execution == "xla"), variables)


def _resumed(minimise, residuals, data, variables):
    """Take a step, put the variables back to where they were, and go on from the checkpoint."""
    before = [variable.numpy() for variable in variables]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.npz")
        minimise(residuals, data, max_steps=1, checkpoint=path)
        for variable, value in zip(variables, before):
            variable.assign(value)
        return _of_result(minimise(residuals, data, checkpoint=path), variables)


def _of_result(result, variables):
    position = np.concatenate([variable.numpy().ravel() for variable in variables]).astype(np.float64)
    history = getattr(result, "history", None)
    accepted = None if history is None else int(np.sum(history.accepted))
    return Found(float(result.cost), position, int(result.evaluations), accepted)


def _many_fits(case, conditions):
    fits, dtype = problem("many"), tf.as_dtype(case.dtype)
    b = tf.Variable(conditions.start, dtype=dtype)
    measured = tf.constant(fits.measured, dtype)
    options = {**method_of(case), **_LOSSES[case.loss], **conditions.of_least_squares}

    def minimise(measured):
        return tfjac.least_squares(fits.residuals, b, STEPS, 0.0, 0.0, 0.0, args=(measured,), batch_dims=1, **options)

    if case.batch == "open":
        specs = [tf.TensorSpec([None, measured.shape[1]], dtype)]
        minimise = tf.function(minimise, input_signature=specs, autograph=False)
    result = minimise(measured)
    return Found(np.array(result.cost, np.float64), b.numpy().astype(np.float64), np.array(result.evaluations))


# ------------------------------------------------------------------ fit


def _in_fit(case, conditions):
    with floating(case.dtype):
        return _fitted(case, conditions)


def _fitted(case, conditions):
    import keras

    given = problem(case.problem)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if case.execution == "replicas" else None
    of_execution = {"steps_per_batch": {"steps_per_batch": STEPS}, "summed_batches": {"memory": PARTS}}
    options = {**method_of(case), **of_execution.get(case.execution, {}), **conditions.of_optimizer}
    if case.problem == "wide":  # the first steps of so many weights would be those of Kronecker factors
        options.setdefault("memory", None)
    optimizer = tfjac.LevenbergMarquardt(**options)  # refused here, if it is at all, before there is a model
    losses = {
        "squares": "mse",
        "convex": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "robust": tfjac.RobustError("huber", scale=0.3),
    }
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = given.model(case.dtype, **conditions.of_model())
        model.compile(optimizer, losses[case.loss])
    target = given.labels if case.loss == "convex" else given.targets.astype(case.dtype)
    x, n = given.keras_inputs(), len(target)
    x = x if x.dtype == np.int32 else x.astype(case.dtype)
    size, epochs = n, STEPS
    if case.execution == "summed_batches":
        size, epochs = n // PARTS, WINDOWS + 1
    if case.execution == "steps_per_batch":
        epochs = 1
    if case.batch == "static":
        batches = tf.data.Dataset.from_tensor_slices((x, target)).batch(size, drop_remainder=True)
        model.fit(batches, epochs=epochs, verbose=0)
    else:
        model.fit(x, target, batch_size=size, shuffle=False, epochs=epochs, verbose=0)
    position = np.concatenate([part.ravel() for part in model.get_weights()]).astype(np.float64)
    cost = float(model.evaluate(x, target, batch_size=n, verbose=0))
    return Found(cost, position, int(model.optimizer.num_attempts), int(model.optimizer.num_accepted))


PARTS = 3
"""Batches of a window of `memory` as a number of batches."""
