"""What lmfit calls things: where a name of lmfit's is asked for, the error says what it is called here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tfjac.arguments import described_value

OF_FITS = {
    "best_fit": "predict()",
    "best_values": "values",
    "chisqr": "chi_square",
    "ci_out": "conf_interval()",
    "ci_report": "conf_interval(), printed",
    "conf_interval2d": "conf_interval(), or draws by log_probability",
    "covar": "covariance()",
    "dely": "eval_uncertainty()",
    "dely_predicted": "prediction_band()",
    "errorbars": "standard_errors(), which raises where there are none",
    "eval": "predict(x)",
    "eval_components": "components(x)",
    "fit_report": "summary(), or print it",
    "flatchain": "draws by log_probability",
    "init_fit": "the model called with init_value of each of params",
    "init_params": "init_value of each of params",
    "init_values": "init_value of each of params",
    "lmdif_message": "message",
    "ndata": "num_residuals",
    "nfev": "fit.evaluations",
    "nfree": "degrees_of_freedom",
    "nvarys": "len(free_names())",
    "plot_fit": "plot(residuals=False)",
    "plot_residuals": "plot()",
    "redchi": "reduced_chi_square",
    "residual": "residuals()",
    "rsquared": "r_squared()",
    "uvars": "standard_errors() and correlations()",
    "var_names": "free_names()",
}
OF_MANY_FITS = {
    "best_values": "values",
    "chisqr": "2 * cost",
    "covar": "covariance()",
    "errorbars": "standard_errors(), NaN where there are none",
    "fit_report": "to_dataframe(), or values and standard_errors(), dicts of arrays; print is a summary",
    "nfev": "fit.evaluations",
    "params": "values and standard_errors(), dicts of arrays with a number for each fit",
    "uvars": "values and standard_errors()",
    "var_names": "names",
}
OF_MODELS = {
    "eval": "a call of the model: model(x, a=…)",
    "eval_components": "components(x, values)",
    "independent_vars": "variables",
    "make_params": "parameters(a=…)",
    "param_names": "names",
    "print_param_hints": "parameters(), printed",
    "set_param_hint": "parameters(a={'min': 0.0}), or hints= of models.Model",
}
OF_PARAMETERS = {
    "add_many": "add, once for each",
    "create_uvars": "standard_errors() of a fit",
    "dump": "to_json()",
    "dumps": "to_json()",
    "eval": "a parameter with expr=",
    "load": "Parameters.from_json(text)",
    "loads": "Parameters.from_json(text)",
    "pretty_print": "print(params)",
    "set": "set of one parameter: params['a'].set(…)",
}
OPTIONS = {
    "calc_covar": "leave it out, errors are computed where they are asked for",
    "col_deriv": "leave it out, derivatives are exact",
    "Dfun": "leave it out, derivatives are exact",
    "epsfcn": "leave it out, derivatives are exact",
    "fit_kws": "give the options of the fit by their names: ftol=…, xtol=…, gtol=…",
    "iter_cb": "callback= is called after each step",
    "kws": "give all in args, in the order of the arguments of residuals",
    "reduce_fcn": "loss= is what residuals are counted by",
    "scale_covar": "give absolute_sigma=True in the place of scale_covar=False",
    "weights": "give the deviations of the data, sigma=1/weights",
}
"""Options of lmfit's fits, and what to do instead."""
_METHODS = (
    "ampgo", "basinhopping", "bfgs", "brute", "cg", "cobyla", "differential_evolution", "dogleg", "dual_annealing",
    "lbfgsb", "least_squares", "leastsq", "nelder", "newton", "powell", "shgo", "slsqp", "tnc", "trust-constr",
    "trust-exact", "trust-krylov", "trust-ncg",
)  # fmt: skip
METHODS = {
    "emcee": "fit first, then let emcee draw by fit.log_probability",
    **dict.fromkeys(_METHODS, "leave it out; for a better start give n_starts=, or let scipy.optimize find one"),
}
"""Methods of lmfit's that there are not here, and what to do instead."""


def refuse_lmfits(options: Mapping[str, Any]) -> None:
    """Raise TypeError for options that lmfit has, or ValueError for its methods, saying what to do instead."""
    for name, instead in OPTIONS.items():
        if name in options:
            raise TypeError(f"There is no option {name}: {instead}. Received: {name}={described_value(options[name])}")
    method = options.get("method")
    if isinstance(method, str) and method in METHODS:
        raise ValueError(f"There is no such method here: {METHODS[method]}. Received: method={method!r}")


class SaysNames:
    """What says, for names of lmfit's, what they are here."""

    _lmfits: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            instead = self._lmfits.get(name)
            said = "" if instead is None else f". What lmfit calls so is here: {instead}"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{said}", name=name, obj=self)
