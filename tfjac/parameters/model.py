"""Models: functions of data and of named parameters, which can be added, multiplied, guessed and fitted."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_numbers, check_eager
from tfjac.graph import call_converted
from tfjac.optimizers import curve_fit
from tfjac.parameters.calling import NamedValues, arguments_of
from tfjac.parameters.named_fit import NamedFit
from tfjac.parameters.parameter import no_such_parameter
from tfjac.parameters.parameters import Parameters
from tfjac.parameters.ties import as_float64
from tfjac.types import Array, ArrayLike, Function, Tensor, TensorLike


class _SignatureOfCalls:
    """The signature of a model as a function: x, and its parameters. The class has that of its constructor."""

    def __get__(self, model, owner=None):
        if model is None:
            return None
        kinds = inspect.Parameter
        first = kinds("x", kinds.POSITIONAL_OR_KEYWORD)
        return inspect.Signature([first, *(kinds(name, kinds.KEYWORD_ONLY) for name in model.names)])


class BaseModel:
    """What all models have in common.

    Attributes:
        names: tuple of the names of its parameters.
        function: callable of x and of the parameters by name; a plain function, so that fits know it again.
        widths: the names of parameters at whose zero a peak lies between the data.
    """

    names: tuple[str, ...]
    function: Callable[..., Any]
    widths: tuple[str, ...] = ()

    __signature__ = _SignatureOfCalls()

    def __call__(self, x: TensorLike, **values: Any) -> Tensor:
        """Return the curve at x, a tensor; parameters that are left out are at their defaults."""
        given = {**self.defaults(), **values}
        missing = [name for name in self.names if given.get(name) is None]
        unknown = [name for name in values if name not in self.names and name not in self.parameters()]
        if missing or unknown:
            raise TypeError(
                f"{self!r} has the parameters {', '.join(self.names)}, each a number. "
                f"Received: {', '.join(f'{name}={values[name]!r}' for name in unknown) or f'no {missing[0]}'}"
            )
        scalars = {name: as_float64(given[name]) for name in self.names}
        return self.function(_as_tensor(x), **scalars)

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
                made[name].set(**each)
            else:
                made[name].set(value=each)
        return made

    def guess(self, x: ArrayLike, y: ArrayLike, **given: Any) -> Parameters:
        """Return `parameters(**given)` with values read off the data for all others.

        Args:
            x, y: arrays `[n]`; what a masked array masks is left out.

        Raises:
            ValueError: for models that cannot guess, and for data that are not finite.
        """
        check_eager("guess")
        kept = ~(np.ma.getmaskarray(x).ravel() | np.ma.getmaskarray(y).ravel()) if np.size(x) == np.size(y) else ...
        x, y = (as_numbers(name, each, masked_too=True).ravel()[kept] for name, each in (("x", x), ("y", y)))
        if x.size != y.size or not x.size:
            raise ValueError(f"x and y have one length. Received: {x.size} and {y.size} values")
        if not np.all(np.isfinite(x) & np.isfinite(y)):
            raise ValueError("x and y must be finite: leave the missing values out. Received: NaN or infinite values")
        found = self._guessed(x, y)
        made = self.parameters(**given)
        for name, value in found.items():
            each = made[name]
            if name not in given and each.expr is None:
                each.value = float(np.clip(value, each.min, each.max))
        return made

    def fit(self, x: ArrayLike, y: ArrayLike, params: Parameters | None = None, **options: Any) -> NamedFit:
        """Return `curve_fit(model, x, y, p0=params, **options)`, from `guess(x, y)` where params is left out."""
        return curve_fit(self, x, y, p0=self.guess(x, y) if params is None else params, **options)

    def components(self, x: ArrayLike, values: Mapping[str, float]) -> dict[str, Array]:
        """Return the curve of each part at x, NumPy, by its prefix, or by its name where it has none.

        Args:
            x: array.
            values: the parameters by name, others among them.
        """
        values, x = NamedValues(values), _as_tensor(x)
        parts = self.parts()
        titles = [part.prefix or part.name for part in parts]
        titles = [f"{title}{k}" if titles.count(title) > 1 else title for k, title in enumerate(titles)]
        curves = [part.function(x, **{name: as_float64(values[name]) for name in part.names}) for part in parts]
        return {title: np.asarray(curve) for title, curve in zip(titles, curves)}

    def parts(self) -> list["Model"]:
        """Return the models that it is made of."""
        raise NotImplementedError

    def _parameters(self) -> Parameters:
        raise NotImplementedError

    def _guessed(self, x, y) -> dict[str, float]:
        raise NotImplementedError

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
        hints: dict from an argument to what `Parameters.add` is told of it, such as `{"sigma": {"min": 0.0}}`.
        derived: dict from the name of a quantity to its expression, in which names of arguments stand in braces:
            `{"fwhm": "2.3548*{sigma}"}`.
        guess: function of x and y, NumPy, that returns a dict from arguments to numbers.
        is_background: whether, in a sum, it is guessed from both ends of the data, before the others.

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
    ) -> None:
        self._arguments = arguments_of(f) if arguments is None else dict(arguments)
        self.prefix, self.name = prefix, name or getattr(f, "__name__", type(f).__name__)
        self.names = tuple(prefix + each for each in self._arguments)
        self.function = _prefixed(f, tuple(self._arguments), self.names)
        self._hints, self._derived = dict(hints or {}), dict(derived or {})
        self._guess, self.is_background = guess, is_background

    def parts(self) -> list["Model"]:
        """Return a list of itself."""
        return [self]

    def _parameters(self):
        made = Parameters()
        for argument, value in self._arguments.items():
            made.add(self.prefix + argument, **{"value": value, **self._hints.get(argument, {})})
        named = dict(zip(self._arguments, self.names))
        for quantity, text in self._derived.items():
            made.add(self.prefix + quantity, expr=text.format(**named))
        return made

    def _guessed(self, x, y):
        if self._guess is None:
            raise ValueError(
                "This model cannot guess: set its values by parameters(a=…), or give it guess=, a function of x and y. "
                f"Received: {self!r}"
            )
        return {self.prefix + name: value for name, value in self._guess(x, y).items()}

    def __repr__(self):
        return f"{self.name}({f'prefix={self.prefix!r}' if self.prefix else ''})"


class CompositeModel(BaseModel):
    """Two models added, subtracted, multiplied or divided. `left + right` makes one.

    Args:
        left, right: models without a name in common.
        operation: "+", "-", "*" or "/".
    """

    def __init__(self, left: BaseModel, operation: str, right: BaseModel) -> None:
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
        self.left, self.operation, self.right = left, operation, right
        self.names, self.widths = (*left.names, *right.names), (*left.widths, *right.widths)
        self.function = _joined(_OPERATIONS[operation], left.function, left.names, right.function, right.names)

    def parts(self) -> list[Model]:
        """Return the models that it is made of."""
        return [*self.left.parts(), *self.right.parts()]

    def _parameters(self):
        return self.left._parameters() + self.right._parameters()

    def _is_sum(self):
        return self.operation == "+" and all(
            isinstance(each, Model) or each._is_sum() for each in (self.left, self.right)
        )

    def _guessed(self, x, y):
        """Guess the background from both ends of the data, then one peak after the other from what is left."""
        if not self._is_sum():
            raise ValueError(
                "Only sums of models can be guessed: set the values by parameters(a=…), or guess the parts. "
                f"Received: {self!r}"
            )
        order = np.argsort(x)
        x, y = x[order], y[order]
        margin = max(2, x.size // 10)
        ends = np.r_[0 : min(margin, x.size), max(0, x.size - margin) : x.size]
        found: dict[str, float] = {}
        for part in sorted(self.parts(), key=lambda part: not part.is_background):
            where = ends if part.is_background else slice(None)
            guessed = part._guessed(x[where], y[where])
            found |= guessed
            left = y - part(x, **guessed).numpy()
            y = left if part.is_background else np.clip(left, y.min(), y.max())  # too high a peak leaves no dip
        return found

    def __repr__(self):
        left, right = (
            f"({each!r})" if isinstance(each, CompositeModel) else repr(each) for each in (self.left, self.right)
        )
        return f"{left} {self.operation} {right}"


_OPERATIONS = {"+": tf.add, "-": tf.subtract, "*": tf.multiply, "/": tf.divide}


def _as_tensor(x):
    return tf.constant(x, tf.float64) if np.asarray(x).dtype.kind in "biuf" and not tf.is_tensor(x) else x


def _prefixed(f, arguments, names):
    """Return f as a function of x and of parameters by their full names; a plain closure."""

    def function(x, **values):
        return call_converted(f, x, **{argument: values[name] for argument, name in zip(arguments, names)})

    return function


def _joined(operation, left, left_names, right, right_names):
    def function(x, **values):
        one = left(x, **{name: values[name] for name in left_names})
        return operation(one, right(x, **{name: values[name] for name in right_names}))

    return function
