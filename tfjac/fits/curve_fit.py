"""Curves through data, with SciPy's conventions, for any function that TensorFlow computes."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import check_eager
from tfjac.drive.options import Options
from tfjac.fits.curve_arguments import (
    best_of_linear,
    check_enough,
    options_of,
    parameter_names,
    start_within,
)
from tfjac.fits.named import NamedParameters
from tfjac.fits.prepared import SingleProblem
from tfjac.fits.results.curve_fit_result import CurveFitResult
from tfjac.fits.results.least_squares_result import LeastSquaresResult
from tfjac.graph import KeptVariables, asks_for_values, verification_wanted
from tfjac.objective.conditions.bounds import Bounds
from tfjac.objective.curve import Curve, Model, ModelFailed
from tfjac.objective.curve_data import curve_data
from tfjac.objective.tracing.constants import Constants
from tfjac.objective.tracing.readings import taking
from tfjac.progress import shown
from tfjac.types import Array, Function, Nest, Pair, Tensor, TensorLike, Variable


@overload
def curve_fit(f: Function, xdata: Nest[TensorLike], ydata: TensorLike, p0: NamedParameters, **options: Any) -> Any: ...
@overload
def curve_fit(
    f: Function,
    xdata: Nest[TensorLike],
    ydata: TensorLike,
    p0: TensorLike | None = None,
    sigma: TensorLike | None = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Pair | None = None,
    method: Literal["lm", "trf", "dogbox"] | None = None,
    jac: Literal["2-point", "3-point", "cs"] | None = None,
    *,
    full_output: bool = False,
    nan_policy: Literal["raise", "omit"] | None = None,
    **options: Any,
) -> CurveFitResult: ...
def curve_fit(
    f: Function,
    xdata: Nest[TensorLike],
    ydata: TensorLike,
    p0: TensorLike | NamedParameters | None = None,
    sigma: TensorLike | None = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Pair | None = None,
    method: Literal["lm", "trf", "dogbox"] | None = None,
    jac: Literal["2-point", "3-point", "cs"] | None = None,
    *,
    full_output: bool = False,
    nan_policy: Literal["raise", "omit"] | None = None,
    **options: Any,
) -> CurveFitResult | Any:
    """Fit f(xdata, *parameters) to ydata by least squares: `popt, pcov = curve_fit(f, x, y)`, as in SciPy.

    All is computed in float64, and derivatives are exact. Called again with the same function and data of the same
    shapes, it takes milliseconds: `f` is not called again where all that it reads of Python is known to be the same.

    Args:
        f: callable of xdata and of each parameter, a scalar; it returns the model's values, of the shape of ydata, by
            TensorFlow's functions. What is computed from xdata alone may be NumPy's: where `f` fails with tensors, it
            is given xdata as arrays, which are constants of the graph then: other xdata are traced again.
        xdata: what `f` is called with first: an array, or a nest of them, in which numbers become float64.
        ydata: array of any shape; a single number is the same for all values of `f`. Complex data are fitted in both
            parts, by an `f` of complex values. What a masked array masks is left out, here, in xdata and in sigma;
            `f` is given the whole grid of an image all the same, if nothing is missing in that.
        p0: the parameters to start from, a list or an array `[p]`. Where left out, the middle of `bounds`, one from a
            single bound, and else one; then those that `f` is linear in together are what fits best beside the others,
            if that is within bounds. Or a `tfjac.Parameters`: `f` is given them by name then, and the result is by
            name (`docs/named_parameters.md`).
        sigma: the standard deviations of ydata, of its shape or one number, or their covariance matrix
            `[values, values]`; ones where left out. Of complex data real ones are those of either part, and complex
            ones those of each; a real matrix of twice the size is the covariance of all real parts and then all
            imaginary parts.
        absolute_sigma: whether `sigma` is meant as it is. If not, only the ratios of its elements count, and pcov is
            scaled so that the reduced chi-square is one.
        check_finite: whether to refuse data that hold NaN or infinities; default True, but with a `nan_policy`.
        bounds: `(lower, upper)`, each None, a number, or a list or an array `[p]`; or an array `[2, p]`, or SciPy's
            `Bounds`. Equal ones fix a parameter.
        method: as in SciPy, for programs that say it: all of them find the minimum by the same method here.
        jac: as `method`: derivatives are exact.
        full_output: whether the result unpacks to `popt, pcov, infodict, mesg, ier`.
        nan_policy: with `"omit"` places where xdata or ydata are NaN are left out; `"raise"` refuses them, but not
            infinities.
        **options: of `least_squares`, such as `max_steps` and `ftol`. SciPy's `maxfev` and `max_nfev` are its
            `max_steps`, `f_scale` its `loss_scale`, `x_scale="jac"` its `scaling="more"`.

    Returns:
        A `CurveFitResult`, which unpacks to `popt` `[p]` and `pcov` `[p, p]`. Where the data do not determine all
        parameters `pcov` is infinite, with a warning in the call (for J of up to a million elements; for larger ones,
        where `pcov` is read).

    Raises:
        ValueError, TypeError: for arguments that do not fit together, fewer data than parameters, and as
            `least_squares` does. Where no tolerance was met nothing is raised: a warning says so, and `status` why.

    Example:
        >>> x = np.linspace(0.0, 4.0, 30)
        >>> fit = tfjac.curve_fit(lambda x, a, b: a * tf.exp(-b * x), x, 2.5 * np.exp(-1.3 * x), p0=[1.0, 1.0])
        >>> np.round(fit.popt, 6).tolist()
        [2.5, 1.3]
    """
    check_eager("curve_fit")
    if isinstance(p0, NamedParameters):
        given = {"sigma": sigma, "absolute_sigma": absolute_sigma, "check_finite": check_finite, "bounds": bounds}
        given |= {"method": method, "jac": jac, "full_output": full_output, "nan_policy": nan_policy, **options}
        return p0.fit_curve(f, xdata, ydata, **given)
    options = options_of(options, bounds, method, jac)
    names = parameter_names(f, p0)
    x, y, sigma, places = curve_data(xdata, ydata, sigma, check_finite, nan_policy)
    parameters = _variables.of_size(len(names))
    start = start_within(options.get("bounds"), p0, parameters)
    if y.size == 1 and places is None:
        y = np.broadcast_to(y, np.broadcast_shapes(y.shape, _shape_of(f, x, y, start)))
    check_enough(y, parameters, method, options)
    curve = Curve.of(Model(f), x, y, sigma, places)
    if p0 is None and _NOT_LINEAR.isdisjoint(options):
        start = _started(curve, start, options.get("bounds"), parameters)
    parameters.assign(start)
    with shown("tfjac.curve_fit", is_quiet=bool(options.get("verbose") or options.get("callback"))):
        found, curve = _minimised(curve, parameters, options)
    result = CurveFitResult.of_fit(found, names, curve, y, absolute_sigma, full_output)
    if not result.success:
        warn(f"tfjac.curve_fit: {result.message} Received: status {result.status.name}")
    if result.num_residuals * result.x.size <= _SMALL:
        _ = result.pcov  # which warns where the data do not determine the parameters
    return result


def _started(curve: Curve, start: Array, bounds: Any, parameters: Variable) -> Array:
    """Return `best_of_linear` of a curve, or `start` if that is not within bounds, or if its function fails."""
    limits = Bounds(parameters, bounds)

    def residuals(values: Array) -> Array:
        return given.residuals(tf.unstack(tf.constant(values)), data).numpy().ravel()

    for given in (curve, curve.of_arrays()):
        try:
            data = given.data()
            found = best_of_linear(residuals, start)
        except Exception:  # whatever a user's function raises: it is called again when it is traced, and heard then
            continue
        return found if ((limits.lower <= found) & (found <= limits.upper)).all() else start
    return start


_NOT_LINEAR = {"fixed", "equality", "prior"}
"""Options beside which parameters do not begin where squares are least."""


def _shape_of(f: Callable, x: Any, y: Array, start: Array) -> tuple:
    """Return the shape of f(x, *start), computed eagerly; of the kind of numbers that `y` holds."""
    start, is_complex = tf.unstack(tf.constant(start)), y.dtype.kind == "c"
    model = Model(f, is_complex=is_complex)
    try:
        shape = model(model.data(x), start).shape
    except ModelFailed:
        shape = Model(f, True, is_complex)(x, start).shape
    return shape[:-1] if is_complex else shape


def _minimised(curve: Curve, parameters: list[Variable], options: dict[str, Any]) -> tuple[LeastSquaresResult, Curve]:
    """Return the result of the minimisation, and the `Curve`: the one given, or one whose model takes arrays."""
    about = Constants(curve.model.f)
    try:
        return _run(curve, about, parameters, options), curve
    except ModelFailed as failure:
        given_tensors = failure.__cause__ or failure
    curve = curve.of_arrays()
    try:  # another error, or none, is what arrays lead to
        return _run(curve, about, parameters, options), curve
    except TypeError as error:
        if asks_for_values(error.__cause__) and not asks_for_values(given_tensors):
            raise given_tensors from None
        raise


def _run(curve: Curve, about: Constants, parameters: list[Variable], options: dict[str, Any]) -> LeastSquaresResult:
    """Minimise over the parameters; return a `LeastSquaresResult`.

    Args:
        about: the `Constants` of its function.
        options: dict of those of `least_squares`.
    """
    data = curve.data()
    key = _key(curve, about, data, options)
    prepared = None if key is None else _kept.prepared.get(key)
    if prepared is None:

        def residuals(*given: Any) -> Any:
            return curve.residuals(tf.unstack(parameters), given)

        problem = SingleProblem(taking(residuals, len(data)), parameters, Options.of_one_fit({}, options))
        prepared = problem.prepare(data)
        if key is not None:
            _kept.keep(key, prepared, about.held)
    return prepared.solve(data)


def _key(curve: Curve, about: Constants, data: Sequence[Tensor], options: dict[str, Any]) -> tuple | None:
    """Return what is the same where the graph of the residuals is sure to be; None where that is not known."""
    plain = all(isinstance(each, _PLAIN) for each in tf.nest.flatten(list(options.values())))
    if about.form is None or not plain or not options.keys().isdisjoint(_WATCHED) or tf.distribute.has_strategy():
        return None
    leaves = ["data" if curve.is_data(each) else each for each in tf.nest.flatten(curve.x)]
    nest = tf.nest.pack_sequence_as(curve.x, leaves)
    others = Constants([nest, options, curve.deviations.correlated, curve.model.places])
    if others.form is None:
        return None
    specs = tuple((tuple(tensor.shape), tensor.dtype, tensor.device) for tensor in data)
    return about.form, others.form, specs, curve.model.takes_arrays, curve.model.is_complex, verification_wanted(None)


_SMALL = 10**6
"""Elements of a Jacobian that is formed in every call."""

_PLAIN = (bool, int, float, str, np.ndarray, np.generic, type(None))
_WATCHED = {"checkpoint", "callback"}


class _OfThread(threading.local):
    """What is kept from one call of a thread to the next. No other thread sees it.

    Attributes:
        prepared: what was prepared, by key, the oldest first.
    """

    size = 16

    def __init__(self) -> None:
        self.prepared: collections.OrderedDict[tuple, SingleProblem] = collections.OrderedDict()
        self._held: dict[tuple, Any] = {}

    def keep(self, key: tuple, prepared: SingleProblem, held: Any) -> None:
        """Keep a `SingleProblem`, and what its key knows by identity, for a while."""
        self.prepared[key], self._held[key] = prepared, held
        while len(self.prepared) > self.size:
            oldest, _ = self.prepared.popitem(last=False)
            del self._held[oldest]


_kept, _variables = _OfThread(), KeptVariables()
