"""One parameter: its value, and what is known and wanted of it."""

import math
import numbers
from collections.abc import Callable
from typing import Any

from tfjac.arguments import as_array, suggestion
from tfjac.parameters.ties import names_in

FIELDS = ("value", "min", "max", "vary", "expr", "prior", "unit")
"""What may be said of a parameter, in the order of the arguments of `Parameters.add`."""


class Parameter:
    """A parameter of `Parameters`, which makes it.

    Attributes:
        name: what it is called.
        value: a float; None where none was given yet; what follows from the others where it is tied.
        min, max: its bounds, floats, infinite where there are none.
        vary: whether a fit may change it.
        expr: an expression of other parameters, or a function whose arguments are named after them; else None.
        prior: `(mean, standard deviation)` of what is known beforehand; else None.
        unit: text.
        stderr: the standard error that a fit found; else None.
        init_value: the value that a fit started from; else None.
    """

    def __init__(
        self,
        name: str,
        value: float | None = None,
        min: float | None = None,
        max: float | None = None,
        vary: bool = True,
        expr: str | Callable | None = None,
        prior: tuple[float, float] | None = None,
        unit: str = "",
    ) -> None:
        self.name, self._value, self._owner = name, None, None
        self.stderr: float | None = None
        self.init_value: float | None = None
        self.set(value, min, max, vary, expr, prior, unit)

    @property
    def value(self) -> float | None:
        """The value, a float; where it is tied, what follows from the others now."""
        return self._owner.valuesdict()[self.name] if self.expr is not None and self._owner is not None else self._value

    @value.setter
    def value(self, value: float | None) -> None:
        if self.expr is not None:
            raise ValueError(
                f"{self.name!r} is tied to other parameters, so that its value follows: set those, or expr=None first. "
                f"Received: value={value!r}, expr={self.expr!r}"
            )
        self._value = None if value is None else _number(f"value of {self.name!r}", value)

    def set(self, *given: Any, **named: Any) -> "Parameter":
        """Change what is given, and check that it goes together; the rest stays. Return the parameter.

        Args:
            *given, **named: value, min, max, vary, expr, prior, unit.

        Raises:
            ValueError, TypeError: as `check`.
        """
        named = {**dict(zip(FIELDS, given)), **named}
        check_fields(self.name, named)
        if "expr" in named:
            self.expr = named["expr"]
        for name in ("min", "max"):
            if name in named:
                without = -math.inf if name == "min" else math.inf
                bound = named[name]
                setattr(self, name, without if bound is None else _number(f"{name} of {self.name!r}", bound))
        for name in ("vary", "prior", "unit"):
            if name in named:
                setattr(self, name, named[name])
        if named.get("value") is not None or ("value" in named and self.expr is None):
            self.value = named["value"]
        self.check()
        return self

    def check(self) -> None:
        """Raise ValueError where value, bounds, prior and tie do not go together."""
        bounded = math.isfinite(self.min) or math.isfinite(self.max)
        if self.min > self.max:
            raise ValueError(
                f"min must be at most max. Received: {self.name!r} with min={self.min:.8g}, max={self.max:.8g}"
            )
        if self.expr is not None:
            names_in(self.expr)
            if bounded or self.prior is not None:
                raise ValueError(
                    "A tied parameter follows from the others: put bounds and priors on those, or a residual for it. "
                    f"Received: {self.name!r} with expr={self.expr!r} and {'bounds' if bounded else 'a prior'}"
                )
        elif self._value is not None and not self.min <= self._value <= self.max:
            raise ValueError(
                f"The value of {self.name!r} must be within its bounds: change either. "
                f"Received: value={self._value:.8g}, min={self.min:.8g}, max={self.max:.8g}"
            )
        if self.prior is not None:
            self.prior = _prior(self.name, self.prior)

    @property
    def is_free(self) -> bool:
        """Whether a fit may change it: it varies, is not tied, and its bounds leave room."""
        return bool(self.vary) and self.expr is None and self.min < self.max

    def fields(self) -> dict[str, Any]:
        """Return a dict of what `Parameters.add` takes, without what is as it is by default."""
        plain = {"min": -math.inf, "max": math.inf, "vary": True, "expr": None, "prior": None, "unit": ""}
        found = {} if self.expr is not None or self._value is None else {"value": self._value}
        return found | {name: getattr(self, name) for name in plain if getattr(self, name) != plain[name]}

    def __repr__(self):
        error = "" if self.stderr is None else f" ± {self.stderr:.4g}"
        return f"<Parameter {self.name!r}, {described(self.value)}{error}{self._rest()}>"

    def _rest(self):
        shown = {name: each for name, each in self.fields().items() if name not in ("value", "unit")}
        unit = f" {self.unit}" if self.unit else ""
        return unit + "".join(f", {name}={value!r}" for name, value in shown.items())


def check_fields(name, given):
    """Raise TypeError for what cannot be said of a parameter, with its name and what may be meant."""
    for field, value in given.items():
        if field not in FIELDS:
            near = suggestion(str(field), FIELDS)
            raise TypeError(f"A parameter has {', '.join(FIELDS)}.{near} Received: {name!r} with {field}={value!r}")


def no_such_parameter(name, names):
    """Return what to say of a name that is none of `names`."""
    near = suggestion(name, list(names)) if isinstance(name, str) else ""
    return f"There is no such parameter.{near} Received: {name!r}, parameters {', '.join(names)}"


def described(value):
    """Return a number as text."""
    return "no value" if value is None else f"{value:.8g}"


def _number(what, value):
    if isinstance(value, str) or not (isinstance(value, numbers.Real) or getattr(value, "ndim", None) == 0):
        raise TypeError(
            f"The {what} must be a number; a tie is expr=. Received: {value!r} of type {type(value).__name__}"
        )
    value = float(as_array(f"The {what}", value))
    if math.isnan(value):
        raise ValueError(f"The {what} must be a number. Received: NaN")
    return value


def _prior(name, prior):
    try:
        mean, deviation = map(float, prior)
    except (TypeError, ValueError):
        raise ValueError(
            f"A prior is a pair (mean, standard deviation). Received: {name!r} with prior={prior!r}"
        ) from None
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation > 0):
        raise ValueError(
            "The mean of a prior is finite, and its standard deviation positive; vary=False holds a parameter. "
            f"Received: {name!r} with prior={prior!r}"
        )
    return mean, deviation
