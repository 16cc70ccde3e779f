"""Models: functions of data and of named parameters, which can be added, multiplied, guessed and fitted."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfjac.arguments import check_eager, choice
from tfjac.optimizers import curve_fit, least_squares
from tfjac.parameters.calling import NamedValues, arguments_of
from tfjac.parameters.expressions import parsed
from tfjac.parameters.lmfit_names import OF_MODELS, SaysNames
from tfjac.parameters.model_parts import OPERATIONS, as_tensor, joined, numbers_of, of_data, prefixed
from tfjac.parameters.parameter import no_such_parameter
from tfjac.parameters.parameters import Parameters
from tfjac.parameters.sums import both_ends, by_position, curves_of, what_is_left
from tfjac.parameters.ties import as_float64
from tfjac.progress import shown
from tfjac.types import Array, ArrayLike, Function, Nest, Tensor, TensorLike

_OPTIONS = {name for call in (curve_fit, least_squares) for name in inspect.signature(call).parameters}
"""What is an option of a fit, whatever parameters are called."""


class _SignatureOfCalls:
    """The signature of a model as a function: x, and its parameters. The class has that of its constructor."""

    def __get__(self, model, owner=None):
        if model is None:
            return None
        kinds = inspect.Parameter
        first = kinds("x", kinds.POSITIONAL_OR_KEYWORD)
        return inspect.Signature([first, *(kinds(name, kinds.KEYWORD_ONLY) for name in model.names)])


class BaseModel(SaysNames):
    """What all models have in common.

    Attributes:
        names: tuple of the names of its parameters.
        function: callable of x and of the parameters by name; a plain function, so that fits know it again.
        widths: dict from the names of the widths of peaks to the part of the distance of the data below which the peak
            lies between them.
        made_by: a function and its arguments, which make the model again.
    """

    names: tuple[str, ...]
    function: Callable[..., Any]
    widths: Mapping[str, float] = {}
    made_by: tuple[Callable[..., "BaseModel"], tuple[Any, ...]]

    __signature__ = _SignatureOfCalls()
    _lmfits = OF_MODELS

    def __call__(self, x: TensorLike, **values: Any) -> Tensor:
        """Return the curve at x, a tensor; parameters that are left out are at their defaults."""
        made = self.parameters()
        given = {**self.defaults(), **values}
        tied = {name: made[name].expr for name in self.names if given.get(name) is None and made[name].expr}
        missing = [name for name in self.names if given.get(name) is None and name not in tied]
        unknown = [name for name in values if name not in self.names and name not in made]
        if missing or unknown:
            raise TypeError(
                f"{self!r} has the parameters {', '.join(self.names)}, each a number. "
                f"Received: {', '.join(f'{name}={values[name]!r}' for name in unknown) or f'no {missing[0]}'}"
            )
        scalars = {name: as_float64(given[name]) for name in self.names if name not in tied}
        scalars |= {name: parsed(text).function(scalars) for name, text in tied.items()}
        return self.function(as_tensor(x), **scalars)

    def defaults(self) -> dict[str, float | None]:
        """Return a dict from the names of parameters to values to start from, None where there are none."""
        return {name: each._value for name, each in self.parameters().items() if name in self.names}

    def parameters(self, **given: Any) -> Parameters:
        """Return the `Parameters` of the model, with bounds and derived quantities such as `fwhm`.

        Args:
            **given: a number for a parameter, text or a function that ties it, or a dict of what is known of it.
        """
        made = self._parameters()
        for name, each in given.items():
            if name not in made:
                raise ValueError(no_such_parameter(name, made))
            if isinstance(each, str) or callable(each):
                made[name].set(expr=each, min=None, max=None)
            elif isinstance(each, Mapping):
                is_freed = name in self.names and "value" in each and "expr" not in each
                made[name].set(**each, **({"expr": None} if is_freed else {}))
            else:
                made[name].set(value=each, **({"expr": None} if name in self.names else {}))
        return made

    def guess(self, x: Nest[ArrayLike], y: ArrayLike, **given: Any) -> Parameters:
        """Return `parameters(**given)` with values read off the data for all others.

        Args:
            x, y: arrays `[n]`, x a tuple of them where the function takes several. What a masked array masks is left
                out.
            **given: as of `parameters`.

        Raises:
            ValueError: for models that cannot guess, and for data that are not finite.
        """
        check_eager("guess")
        _check_data("guess(x, y)", y)
        (found,) = self._guessed([numbers_of(x, y)])
        made = self.parameters(**given)
        for name, value in found.items():
            each = made[name]
            if name not in given and each.expr is None:
                each.value = float(np.clip(value, each.min, each.max))
        return made

    def fit(self, x: Nest[ArrayLike], y: ArrayLike, params: Parameters | None = None, **options: Any) -> Any:
        """Return `curve_fit(model, x, y, p0=params, **options)`, a `NamedFit`.

        With `batch_dims=1`, y `[B, n]` has a row for each fit, each of which starts from its own guess where there are
        no parameters; it returns the `NamedFits` of `tfjac.parameters.fit_many`.

        Args:
            x, y: arrays of any shape, x a tuple of them where the function takes several.
            params: `Parameters`; left out, it starts from `guess(x, y)`, and a model that cannot guess from its
                defaults.
            **options: of `curve_fit`, such as `sigma`, the deviations of the data; and numbers by the names of other
                parameters, to start from.
        """
        check_eager("fit")
        _check_data("fit(x, y, params)", y, params)
        given = self.parameters() if params is None else params
        values = {name: options.pop(name) for name in given if name in options and name not in _OPTIONS}
        if params is None and options.get("batch_dims") and self.can_guess:
            params, starts = self._guesses(x, np.ma.asarray(y), values)
            options["starts"] = starts | options.get("starts", {})
        elif params is None:
            known = np.ma.masked_invalid if options.get("nan_policy") == "omit" else lambda each: each
            seen = tuple(map(known, x)) if isinstance(x, tuple) else known(x)
            guesses = self.can_guess or not values
            params = self.guess(seen, known(y), **values) if guesses else self.parameters(**values)
        elif values:
            params = params.copy()
            for name, value in values.items():
                params[name].value = value
        return curve_fit(self, x, y, p0=params, **options)

    def _guesses(self, x, rows, given):
        """Return the `Parameters` of many fits, and a dict with the guess of each `[B]`, by name."""
        each_has_x = np.shape(x) == rows.shape
        with shown("guess") as progress:
            progress.at(len(rows), of="fits")
            found = self._guessed([numbers_of(x[k] if each_has_x else x, row) for k, row in enumerate(rows)])
        params = self.guess(x[0] if each_has_x else x, rows[0], **given)
        free = [name for name in params if name in found[0] and name not in given and params[name].expr is None]
        return params, {name: np.array([each[name] for each in found]) for name in free}

    def components(self, x: ArrayLike, values: Mapping[str, float]) -> dict[str, Array]:
        """Return the curve of each part at x, NumPy, by its prefix, or by its name where it has none.

        Args:
            x: array.
            values: the parameters by name, others among them.
        """
        check_eager("components", "In one, add the curves of the parts.")
        values, x = NamedValues(values), as_tensor(x)
        parts = self.parts()
        titles = [part.prefix or part.name for part in parts]
        titles = [f"{title}{k}" if titles.count(title) > 1 else title for k, title in enumerate(titles)]
        curves = [part.function(x, **{name: as_float64(values[name]) for name in part.names}) for part in parts]
        return {title: np.asarray(curve) for title, curve in zip(titles, curves)}

    @property
    def can_guess(self) -> bool:
        """Whether `guess` reads values off data."""
        raise NotImplementedError

    @property
    def variables(self) -> tuple[str, ...]:
        """What the function of the first part calls the data."""
        return self.parts()[0]._variables

    def parts(self) -> list["Model"]:
        """Return the models that it is made of."""
        raise NotImplementedError

    def _parameters(self) -> Parameters:
        raise NotImplementedError

    def _guessed(self, data) -> list[dict[str, float]]:
        """Return what is read off each of `data`, a list of pairs of x and y, NumPy, by the names of parameters."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Callable[..., "BaseModel"], tuple[Any, ...]]:
        return self.made_by

    def __add__(self, other: "BaseModel") -> "CompositeModel":
        return CompositeModel(self, "+", other)

    def __sub__(self, other: "BaseModel") -> "CompositeModel":
        return CompositeModel(self, "-", other)

    def __mul__(self, other: "BaseModel") -> "CompositeModel":
        return CompositeModel(self, "*", other)

    def __truediv__(self, other: "BaseModel") -> "CompositeModel":
        return CompositeModel(self, "/", other)


class Model(BaseModel):
    """A function f(x, a, b, …) as a model.

    Arguments after the first are parameters where they have no default, or a number as default, which is where fits
    start.

    Args:
        f: callable of TensorFlow's functions.
        prefix: what the names of the parameters begin with.
        name: of the model; that of f where left out.
        hints: dict from an argument to what `Parameters.add` is told of it, such as `{"sigma": {"min": 0.0}}`; names in
            an `expr` stand in braces.
        derived: dict from the name of a quantity to its expression, in which names of arguments stand in braces:
            `{"fwhm": "2.3548*{sigma}"}`.
        guess: function of x and y, NumPy, in the order of x, that returns a dict from arguments to numbers.
        is_background: whether, in a sum, it is guessed from both ends of the data, before the others.
        arguments: dict from the parameters to their values; those of the signature where left out.
        independent_vars: names of the arguments that are data; the first argument where left out. Where there are
            several, x is a tuple of arrays in their order, or each is given by its name: `fit(z, params, x=x, y=y)`.

    Example:
        >>> decay = tfjac.models.Model(lambda x, a, rate: a * tf.exp(-rate * x), prefix="fast_")
        >>> decay.names
        ('fast_a', 'fast_rate')
    """

    def __init__(
        self,
        f: Function,
        prefix: str = "",
        name: str | None = None,
        hints: Mapping[str, Mapping[str, Any]] | None = None,
        derived: Mapping[str, str] | None = None,
        guess: Function | None = None,
        is_background: bool = False,
        arguments: Mapping[str, float | None] | None = None,
        independent_vars: Sequence[str] | None = None,
    ) -> None:
        self.made_by = (Model, (f, prefix, name, hints, derived, guess, is_background, arguments, independent_vars))
        f, self._variables = of_data(f, independent_vars)
        self._arguments = arguments_of(f) if arguments is None else dict(arguments)
        self.prefix, self.name = prefix, name or getattr(f, "__name__", type(f).__name__)
        self.names = tuple(prefix + each for each in self._arguments)
        self.function = prefixed(f, tuple(self._arguments), self.names)
        self._hints, self._derived = dict(hints or {}), dict(derived or {})
        self._guess, self.is_background = guess, is_background

    @property
    def can_guess(self) -> bool:
        """Whether it was given a guess."""
        return self._guess is not None

    def parts(self) -> list["Model"]:
        """Return a list of itself."""
        return [self]

    def _parameters(self):
        made = Parameters()
        named = dict(zip(self._arguments, self.names))
        for argument, value in self._arguments.items():
            hints = {"value": value, **self._hints.get(argument, {})}
            if "expr" in hints:
                hints = {"expr": hints["expr"].format(**named)}
            made.add(self.prefix + argument, **hints)
        for quantity, text in self._derived.items():
            made.add(self.prefix + quantity, expr=text.format(**named))
        return made

    def _guessed(self, data):
        if self._guess is None:
            raise ValueError(
                "This model cannot guess: set its values by parameters(a=…), or give it guess=, a function of x and y. "
                f"Received: {self!r}"
            )
        return [{self.prefix + name: value for name, value in self._guess(x, y).items()} for x, y in data]

    def __repr__(self):
        return f"{self.name}({f'prefix={self.prefix!r}' if self.prefix else ''})"


class CompositeModel(BaseModel):
    """Two models added, subtracted, multiplied or divided. `left + right` makes one.

    Args:
        left, right: models without a name in common.
        operation: "+", "-", "*" or "/"; or a function of the tensors of both, such as a convolution.
    """

    def __init__(self, left: BaseModel, operation: str | Function, right: BaseModel) -> None:
        if isinstance(operation, BaseModel):
            raise TypeError(
                "The operation stands between the models: CompositeModel(left, operation, right). "
                f"Received: {operation!r} in its place"
            )
        if not callable(operation):
            choice("operation", operation, tuple(OPERATIONS))
        if not isinstance(right, BaseModel):
            raise TypeError(
                "Models go together with models: models.constant() is a number, models.Model(f) a function. "
                f"Received: {right!r} of type {type(right).__name__}"
            )
        shared = [name for name in left._parameters() if name in right._parameters()]
        if shared:
            raise ValueError(
                "Two parts of a model have parameters of the same name: give one a prefix, as in "
                f"models.gaussian(prefix='g1_'). Received: {', '.join(shared)} in {left!r} and in {right!r}"
            )
        self.made_by = (CompositeModel, (left, operation, right))
        self.left, self.operation, self.right = left, operation, right
        self.names, self.widths = (*left.names, *right.names), {**left.widths, **right.widths}
        self.function = joined(
            OPERATIONS.get(operation, operation), left.function, left.names, right.function, right.names
        )

    @property
    def can_guess(self) -> bool:
        """Whether it is a sum of models that can."""
        return self._is_sum() and all(part.can_guess for part in self.parts())

    def parts(self) -> list[Model]:
        return [*self.left.parts(), *self.right.parts()]

    def _parameters(self):
        return self.left._parameters() + self.right._parameters()

    def _is_sum(self):
        return self.operation == "+" and all(
            isinstance(each, Model) or each._is_sum() for each in (self.left, self.right)
        )

    def _guessed(self, data):
        """Guess the background from both ends of the data, then one peak after the other from what is left."""
        if not self._is_sum():
            raise ValueError(
                "Only sums of models can be guessed: set the values by parameters(a=…), or guess the parts. "
                f"Received: {self!r}"
            )
        xs, lefts = [x for x, _ in data], [y for _, y in data]
        guesses: list[dict[Any, Any]] = [{} for _ in data]
        for part in sorted(self.parts(), key=lambda part: not part.is_background):
            shown = zip(xs, lefts)
            guessed = part._guessed([both_ends(x, y) if part.is_background else (x, y) for x, y in shown])
            curves = curves_of(part, xs, guessed)
            lefts = [what_is_left(y, curve, part.is_background) for y, curve in zip(lefts, curves)]
            for of_parts, each in zip(guesses, guessed):
                of_parts[part] = {name.removeprefix(part.prefix): value for name, value in each.items()}
        return [by_position(self.parts(), each) for each in guesses]

    def __repr__(self):
        left, right = (
            f"({each!r})" if isinstance(each, CompositeModel) else repr(each) for each in (self.left, self.right)
        )
        return f"{left} {getattr(self.operation, '__name__', self.operation)} {right}"


def _check_data(call, y, params=None):
    if isinstance(y, Parameters) or not (params is None or isinstance(params, Parameters)):
        raise TypeError(
            f"The data come before the parameters, {call}, and these are tfjac.Parameters. "
            f"Received: y of type {type(y).__name__}, params of type {type(params).__name__}"
        )
    if not np.size(y):
        raise ValueError(f"There is nothing to fit. Received: y of shape {np.shape(y)}")
