"""The conditions of a case: as options of tfjac, and as what the oracle observes."""

import functools
from typing import Any, NamedTuple

import numpy as np

from tests.contract.axes import IN_FIT
from tests.contract.oracle import Options, Terms, Where, minimise
from tests.contract.problems import problem
from tests.contract.running import STEPS, WINDOWS

L2 = 2.0**-10
"""Of regularisers: a number that Keras can keep in float32."""


class Conditions(NamedTuple):
    """What a case asks of the parameters.

    Attributes:
        start: `[p]`, float64, where variables begin; `[B, p]` of many fits.
        of_least_squares, of_optimizer: options.
        of_model: function that makes options of the Keras model.
        where: `Where` of the oracle; a function of the index of a fit, of many.
        terms: `Terms` of the oracle, likewise.
    """

    start: np.ndarray
    of_least_squares: dict
    of_optimizer: dict
    of_model: Any
    where: Any
    terms: Any


def conditions_of(case):
    """Return the `Conditions` of a case."""
    if case.problem == "many":
        return _of_many(case)
    return _of_fit(case) if case.execution in IN_FIT else _of_least_squares(case)


def _rounded(array, dtype):
    """Return what is left of an array in a dtype: the oracle begins where tfjac does."""
    return np.asarray(array, dtype).astype(np.float64)


def _of_least_squares(case):
    given = problem(case.problem)
    start, random = _rounded(given.start_vector, case.dtype), np.random.default_rng(7)
    options, where, terms = {}, Where(), Terms(given, case.loss, 1.0)
    size = start.size
    if case.condition == "bounds":
        room = 0.05 * np.abs(random.normal(size=[2, size])) * (random.uniform(size=[2, size]) < 0.8)
        lower, upper = _rounded(start - room[0], case.dtype), _rounded(start + room[1] + 1e-3, case.dtype)
        options["bounds"] = given.split(lower), given.split(upper)
        where = Where(lower, upper)
    if case.condition == "fixed":
        fixed = random.uniform(size=size) < 0.3
        options["fixed"] = given.split(fixed)
        where = Where(moving=~fixed)
    if case.condition == "prior":
        deviation = np.repeat(random.uniform(1.0, 3.0, size=len(given.start)), [part.size for part in given.start])
        options["prior"] = given.split(0.1 * start), given.split(deviation)
        terms = terms._replace(precision=deviation**-2.0, centre=0.1 * start, prior_is_data=True)
    if case.condition == "equality":
        normals = random.normal(size=[3, size])
        target = normals @ start + 0.1
        options["equality"] = normals, target
        where = Where(normals=normals, target=target)
    if case.condition == "manifold":
        import tfjac

        options["manifolds"] = [tfjac.manifolds.Quaternion(), None]
    return Conditions(start, options, {}, None, where, terms)


def _of_fit(case):
    given = problem(case.problem)
    start, mean = _rounded(given.start_vector, case.dtype), 1 / len(given.labels)
    terms = Terms(given, case.loss, mean if case.loss == "convex" else mean * 2 / 3)
    model, optimizer, where = {}, {}, Where()
    penalised = given.masks(lambda index: index == given.penalised)
    if case.condition == "bounds":
        model["constraint"] = "NonNeg"
        start = np.where(penalised, np.maximum(start, 0), start)
        where = Where(lower=np.where(penalised, 0.0, -np.inf))
    if case.condition == "fixed":
        model["trainable"] = False
        where = Where(moving=given.masks(lambda index: index not in given.frozen_with), left_out=True)
    if case.condition == "prior":
        model["regularizer"] = "L2"
        terms = terms._replace(precision=np.where(penalised, 2 * L2, 0.0))
    if case.condition in ("equality", "manifold"):
        optimizer = {{"equality": "equality", "manifold": "manifolds"}[case.condition]: "given"}
    return Conditions(start, {}, optimizer, functools.partial(_keras_options, model), where, terms)


def _keras_options(names):
    import keras

    made = {"constraint": keras.constraints.NonNeg, "regularizer": lambda: keras.regularizers.L2(L2)}
    return {name: made[name]() if name in made else value for name, value in names.items()}


def _of_many(case):
    fits, random = problem("many"), np.random.default_rng(8)
    start = _rounded(fits.start, case.dtype)
    options, lower, upper, fixed = {}, np.full(start.shape, -np.inf), np.full(start.shape, np.inf), start < -np.inf
    if case.condition == "bounds":
        lower, upper = (
            _rounded(start - 0.2, case.dtype),
            _rounded(start + random.uniform(0, 0.2, start.shape), case.dtype),
        )
        options["bounds"] = lower, upper
    if case.condition == "fixed":
        fixed = random.uniform(size=start.shape) < 0.3
        fixed[:, 0] = False
        options["fixed"] = fixed
    if case.condition == "prior":
        options["prior"] = 0.0, 1.0
    if case.condition == "equality":
        options["equality"] = np.ones([1, start.size]), 1.0
    return Conditions(
        start,
        options,
        {},
        None,
        lambda k: Where(lower[k], upper[k], ~fixed[k]),
        lambda k: Terms(fits.of(k), case.loss, 1.0),
    )


# ------------------------------------------------------------------ what is expected


def expected(case):
    """Return the `Run` of the oracle, a list of them for many fits; the same for all batches and dtypes.

    It is the same for all solvers, too, except that `"sparse"` begins with another λ.
    """
    in_fit = case.execution in IN_FIT
    limits = (WINDOWS, 1, True) if case.execution == "summed_batches" else (STEPS, 5 if in_fit else 30, False)
    execution = "fit" if in_fit else "many_fits" if case.problem == "many" else "eager"
    solver = "sparse" if case.solver == "sparse" else ""
    return _expected(case._replace(solver=solver, batch="", execution=execution), *limits)


@functools.cache
def _expected(case, *limits):
    conditions = conditions_of(case)
    options = Options(case.damping, case.solver, case.scaling, case.acceleration == "geodesic", *limits)
    if case.problem != "many":
        return minimise(conditions.terms, conditions.where, conditions.start, options)
    pairs = ((conditions.terms(k), conditions.where(k), start) for k, start in enumerate(conditions.start))
    return [minimise(*each, options) for each in pairs]
