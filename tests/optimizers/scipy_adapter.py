"""SciPy's `least_squares` and `curve_fit` by tfjac: the signatures of SciPy, functions of NumPy arrays.

A function of NumPy's is `tfjac.external`, its derivatives are central differences.
"""

import contextlib
import functools
import inspect
import warnings

import numpy as np
import tensorflow as tf
from scipy.optimize import OptimizeWarning

import tfjac

_MEANINGLESS = ("jac", "method", "diff_step", "tr_solver", "tr_options", "jac_sparsity", "verbose", "workers")


def least_squares(fun, x0, jac="2-point", bounds=(-np.inf, np.inf), method="trf", args=(), kwargs=None, **options):
    """Minimise as `scipy.optimize.least_squares`; what chooses among SciPy's methods is left out."""
    x0 = np.atleast_1d(x0)
    if np.iscomplexobj(x0) or x0.ndim > 1:
        raise ValueError("x0 is a real vector")

    given = {name: value for name, value in options.items() if name not in _MEANINGLESS}
    renamed = {"max_nfev": "max_steps", "f_scale": "loss_scale"}
    given = {renamed.get(name, name): value for name, value in given.items() if name != "x_scale" and value is not None}
    if callable(given.get("loss")):
        given["loss"] = _loss(given["loss"])
    given |= {name: 0.0 for name in ("ftol", "xtol", "gtol") if name in options and options[name] is None}
    key = repr((id(fun), args, kwargs, x0.size, bounds, given))
    with _in_their_words():
        if key not in _problems:
            _problems[key] = _problem(lambda x: fun(x, *args, **(kwargs or {})), x0, {"bounds": bounds, **given})
        variable, problem, _ = _problems[key]
        variable.assign(x0)
        return problem.solve()


@functools.lru_cache
def _loss(function):
    """Return a loss of NumPy's, which returns its derivatives, as a function of tensors."""

    def loss(z):
        found = tf.numpy_function(function, [z], z.dtype)
        return tf.ensure_shape(found, [3, z.shape[0]])

    return loss


def _problem(fun, x0, options):
    """Return a variable, and what is traced of the problem: tests try each with many options that mean nothing here."""

    def values(x):
        return np.atleast_1d(fun(x)).astype(np.float64)

    variable = tf.Variable(x0, dtype=tf.float64)
    layer = tfjac.external(values, output_shape=tf.TensorSpec(values(x0.astype(float)).shape, tf.float64))
    return variable, tfjac.LeastSquaresProblem(lambda: layer(variable), variable, **options), fun


_problems: dict = {}


def curve_fit(f, xdata, ydata, *args, jac=None, **options):
    """Fit as `scipy.optimize.curve_fit`; a formula for the Jacobian is left out."""
    is_array, of_y = xdata is not None, np.ndim(ydata) > 0

    def model(x, *parameters):
        given = (x,) if is_array else ()
        shape = np.shape(ydata) if of_y else x.shape[-1:]
        spec = tf.TensorSpec(shape if options.get("nan_policy") != "omit" else [None] * len(shape), tf.float64)

        def values(*arrays):
            found = np.asarray(f(arrays[0] if is_array else None, *arrays[-1]), np.float64)
            return np.broadcast_to(found, shape) if found.ndim == 0 else found

        layer = tfjac.external(values, argnums=len(given), output_shape=spec)
        return tf.ensure_shape(layer(*given, tf.stack(parameters)), spec.shape)

    model.__signature__ = inspect.signature(f)
    options = {"ftol": 1e-13, "xtol": 1e-13, "gtol": 1e-13, **options}  # what a test says is of the minimum
    with _in_their_words():
        return tfjac.curve_fit(model, xdata, ydata, *args, jac=None if callable(jac) else jac, **options)


@contextlib.contextmanager
def _in_their_words():
    """Say errors and warnings as SciPy does."""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            yield
    except (TypeError, ValueError) as error:
        theirs = next((words for ours, words in _WORDS.items() if ours in str(error)), "")
        raise type(error)(f"{theirs} {error}") from error
    finally:
        for each in said:
            of_errors = "errors of parameters" in str(each.message) or "do not determine" in str(each.message)
            warnings.warn(str(each.message), OptimizeWarning if of_errors else each.category, stacklevel=3)


_WORDS = {
    "'propagate'": "`nan_policy='propagate'` is not supported by this function.",
    "nan_policy must be": "nan_policy must be one of {None, 'raise', 'omit'}",
    "must be finite": "The input contains nan values",
    "number of func parameters": "The number of func parameters=",
    "must be within bounds": "Initial guess is outside of provided bounds. `x0` is infeasible.",
    "There is nothing to fit": "`ydata` must not be empty!",
}
