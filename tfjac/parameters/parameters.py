"""Parameters by name: values, bounds, ties, priors and units, in one mapping that a fit takes and gives back."""

import html
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from keyword import iskeyword
from typing import Any

import tensorflow as tf

from tfjac.fits.named import NamedParameters
from tfjac.parameters import together
from tfjac.parameters.expressions import CONSTANTS
from tfjac.parameters.fitting import fit_curve, fit_residuals
from tfjac.parameters.layout import Layout
from tfjac.parameters.lmfit_names import OF_PARAMETERS, SaysNames
from tfjac.parameters.parameter import Parameter, check_fields, described, no_such_parameter
from tfjac.parameters.ties import evaluator, function_of, ordered
from tfjac.tables import aligned, without_empty_columns
from tfjac.types import Data, Function, Nest, Residuals, TensorLike


class Parameters(SaysNames, MutableMapping, NamedParameters):
    """Named parameters of a fit, in the place of `p0` of `curve_fit` or of the variables of `least_squares`.

    A mapping from names to `Parameter`. A number given for one is its value, text or a function ties it to others, a
    dict says more. Names are words of Python. Printed, it is a table.

    Args:
        given: a mapping; or left out.
        **named: the same by keyword.

    Example:
        >>> params = tfjac.Parameters(amplitude1=2.0, amplitude2="0.5*amplitude1", width={"value": 1.0, "min": 0.0})
        >>> params.add("offset", 0.1, prior=(0.0, 0.2), unit="V")
        <Parameter 'offset', 0.1 V, prior=(0.0, 0.2)>
        >>> params["amplitude2"].value, params["width"].min
        (1.0, 0.0)
    """

    _lmfits = OF_PARAMETERS

    def __init__(self, given: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        self._parameters: dict[str, Parameter] = {}
        for name, each in {**(given or {}), **named}.items():
            self[name] = each

    def add(
        self,
        name: str,
        value: float | str | None = None,
        min: float | None = None,
        max: float | None = None,
        vary: bool = True,
        expr: str | Callable | None = None,
        prior: tuple[float, float] | None = None,
        unit: str = "",
    ) -> Parameter:
        """Add a parameter, or replace the one of this name; return it.

        Args:
            name: a word of Python, and none of its keywords.
            value: where a fit starts, a number.
            min, max: bounds; None for none.
            vary: whether a fit may change it.
            expr: text like `"0.5*amplitude1"`, or a function whose arguments have the names of parameters.
            prior: `(mean, standard deviation)` of what is known beforehand, in the units of the parameter.
            unit: text, for tables.

        Raises:
            ValueError, TypeError: for what does not go together, such as a value outside of the bounds.
        """
        name = _as_python_reads(name)
        if isinstance(name, str) and name in CONSTANTS:
            raise ValueError(
                f"{name} is a number in expressions, and so no parameter: choose another name, such as '{name}_1'. "
                f"Received: {name!r}"
            )
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            raise ValueError(f"The name of a parameter is a word of Python, such as 'sigma1'. Received: {name!r}")
        if isinstance(value, str):
            value, expr = None, value
        made = Parameter(name, value, min, max, vary, expr, prior, unit)
        made._owner = self
        self._parameters[name] = made
        return made

    # -------------------------------------------------------------- a mapping

    def __getitem__(self, name: str) -> Parameter:
        name = _as_python_reads(name)
        if name not in self._parameters:
            raise KeyError(no_such_parameter(name, self))
        return self._parameters[name]

    def __setitem__(self, name: str, given: Any) -> None:
        if isinstance(given, Parameter):
            given, found = given.fields(), given
            made = self.add(name, **given)
            made.stderr, made.init_value = found.stderr, found.init_value
        elif isinstance(given, Mapping):
            check_fields(name, given)
            self.add(name, **given)
        elif callable(given) or isinstance(given, str):
            self.add(name, expr=given)
        else:
            self.add(name, given)

    def __delitem__(self, name: str) -> None:
        self[name]._owner = None
        del self._parameters[_as_python_reads(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __add__(self, other: "Parameters") -> "Parameters":
        return Parameters({**self, **other})

    def copy(self) -> "Parameters":
        """Return parameters of the same values that are changed apart from these."""
        return Parameters(self)

    def __copy__(self) -> "Parameters":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "Parameters":
        return self.copy()

    # -------------------------------------------------------------- values

    def valuesdict(self) -> dict[str, float]:
        """Return a dict from names to values, those of tied parameters computed from the others.

        Raises:
            ValueError: for a parameter without a value, and for ties that cannot be followed.
        """
        ties = self._ties()
        numbers = {name: each._value for name, each in self.items() if each.expr is None}
        needed = {name: value for name, value in numbers.items() if value is not None}
        if len(needed) < len(numbers):
            _refuse_missing([name for name in numbers if name not in needed])
        with tf.init_scope():  # they are numbers, also where a function that reads them is traced
            given = [tf.constant(value, tf.float64) for value in numbers.values()] if ties else []
            needed.update({name: float(each) for name, each in evaluator(list(numbers), ties)(given).items()})
        return {name: needed[name] for name in self}

    def _ties(self):
        """Return pairs of the names of tied parameters and functions, in the order in which they can be evaluated."""
        ties = {name: each.expr for name, each in self.items() if each.expr is not None}
        return tuple((name, function_of(ties[name])) for name in ordered(ties, list(self)))

    def layout(self) -> Layout:
        """Return the parameters as arrays, checked, and how the tied ones follow; what a fit works with.

        Raises:
            ValueError: where a value is missing, outside of its bounds, or no parameter is free.
        """
        for each in self._parameters.values():
            each.check()
        _refuse_missing([name for name, each in self.items() if each.expr is None and each._value is None])
        if not any(each.is_free for each in self._parameters.values()):
            raise ValueError(
                "No parameter is free to move, so that there is nothing to fit: set vary=True for one, or widen its "
                f"bounds. Received: {', '.join(self) or 'no parameters'}"
            )
        return Layout.of(self._parameters, self._ties())

    # -------------------------------------------------------------- as text

    def to_json(self) -> str:
        """Return all that is said of the parameters as JSON text.

        Raises:
            TypeError: for a tie that is a function of Python.
        """
        for name, each in self.items():
            if each.expr is not None and not isinstance(each.expr, str):
                raise TypeError(
                    "A tie that is a function of Python cannot be written down: write it as text, like "
                    f"'0.5*amplitude1'. Received: {name!r} with expr={each.expr!r}"
                )
        return json.dumps({name: each.fields() for name, each in self.items()}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Parameters":
        """Return the parameters that `to_json` wrote. Expressions are parsed by a whitelist; nothing is executed.

        Raises:
            ValueError, TypeError: for text that says nothing of parameters.
        """
        given = json.loads(text)
        if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
            raise ValueError(f"This is not what Parameters.to_json wrote. Received: {text[:200]!r}")
        return cls(given)

    def summary(self) -> str:
        """Return a table of the parameters."""
        rows = [["name", "value", "unit", "standard error", "min", "max", "vary", "tie or prior"]]
        try:
            found = self.valuesdict()
        except ValueError:
            found = {name: each._value for name, each in self.items()}
        for name, each in self.items():
            error = "" if each.stderr is None else f"{each.stderr:.4g}"
            ends = [f"{end:.6g}" for end in (each.min, each.max)]
            last = [str(bool(each.is_free)), _tie_or_prior(each)]
            rows.append([name, described(found[name]), each.unit, error, *ends, *last])
        return "\n".join(aligned(without_empty_columns(rows), indent=""))

    def __repr__(self):
        return self.summary() if self else "<Parameters, none yet>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(repr(self))}</pre>"

    # -------------------------------------------------------------- fits

    def fit_curve(self, f: Function, xdata: Nest[TensorLike], ydata: TensorLike, **options: Any) -> Any:
        """Fit f(xdata, **parameters) to ydata: what `curve_fit` does where these parameters are its p0."""
        return fit_curve(self, f, xdata, ydata, **options)

    def fit_residuals(self, residuals: Residuals, args: Data = (), **options: Any) -> Any:
        """Minimise ½‖residuals(parameters, *args)‖²: what `least_squares` does with these parameters as variables."""
        return fit_residuals(self, residuals, args, **options)

    def for_data_sets(self, count: int, shared: Sequence[str] = ()) -> "Parameters":
        """Return parameters of several data sets: `sigma_1`, `sigma_2`, …, but one for all of each that is `shared`.

        Ties go with the data set that they are of. Made for `fit_together`.

        Args:
            count: how many data sets there are.
            shared: names.
        """
        return together.for_data_sets(self, count, shared)


def _as_python_reads(name):
    """Return a name as Python and expressions read it: the sign of a unit, µ, is the letter μ."""
    return unicodedata.normalize("NFKC", name) if isinstance(name, str) else name


def _tie_or_prior(parameter):
    if parameter.expr is not None:
        expr = parameter.expr
        return f"= {expr if isinstance(expr, str) else getattr(expr, '__name__', 'a function')}"
    return "" if parameter.prior is None else "{:.6g} ± {:.6g}".format(*parameter.prior)


def _refuse_missing(names):
    if names:
        raise ValueError(
            "Every parameter needs a value to start from: params['name'].value = …, or params.add('name', value). "
            f"Received: {', '.join(map(repr, names))} without a value"
        )
