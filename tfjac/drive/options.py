"""What a minimisation may be asked for: every option with its default, and what the options amount to."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from tfjac.arguments import positive_integer, suggestion
from tfjac.graph import as_tf_variable, verification_wanted
from tfjac.linear.columns import Columns
from tfjac.linear.solvers.problem_sizes import SMALL
from tfjac.objective.conditions.conditions import GivenConditions
from tfjac.objective.conditions.manifolds import Manifold
from tfjac.objective.robust import LossLike, get_losses
from tfjac.steps.conditions import Conditions
from tfjac.steps.converge import Tolerances, tolerances
from tfjac.steps.damping import INITIAL_DAMPING_ELSEWHERE, get_damping
from tfjac.steps.damping.scaling import SCALINGS, get_scaling
from tfjac.steps.method import AccelerationLike, DampingLike, Method, ScalingLike, SolverLike, recipe
from tfjac.types import Function, GramDType, MemoryBudget, Nest, Numbers, Pair, Path, TensorLike, Variable

_ELSEWHERE = {
    "f_scale": "loss_scale", "max_nfev": "max_steps", "maxfev": "max_steps", "x_scale": "scaling",
    "max_iter": "max_steps", "max_iterations": "max_steps", "epochs": "max_steps", **INITIAL_DAMPING_ELSEWHERE,
}  # fmt: skip
"""What others call it."""

_NEEDLESS = {
    "method": "There is one method, Levenberg-Marquardt, also for bounds: leave method out, or choose damping=.",
    "jac": "Jacobians are exact, and taken from the graph of the residuals: leave jac out.",
}
"""What others ask for, and why it is not asked for here."""

_OF_MANY_FITS = ("batch_dims", "chunk_size", "devices")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """The options of `least_squares` as they were given; its documentation says what each is.

    They are listed here, and for type checkers in its overload; a test compares the two.
    """

    max_steps: int = 1000
    ftol: float | None = None
    xtol: float | None = None
    gtol: float | None = None
    bounds: Pair | None = None
    fixed: Numbers = None
    prior: Pair | None = None
    equality: Sequence[TensorLike] | Function | None = None
    manifolds: Nest[Manifold | None] = None
    callback: Function | None = None
    verbose: Literal[0, 1, 2] = 0
    time_limit: float | None = None
    checkpoint: Path | None = None
    batch_dims: Literal[0, 1] = 0
    chunk_size: int | None = None
    devices: Sequence[str] | None = None
    loss: LossLike | Sequence[LossLike] = None
    loss_scale: float | Sequence[float | None] | None = None
    damping: DampingLike | None = None
    initial_damping: float | None = None
    scaling: ScalingLike | None = None
    solver: SolverLike = "auto"
    max_attempts: int = 30
    min_gain: float = 1e-3
    gram_dtype: GramDType | None = None
    acceleration: AccelerationLike = "auto"
    window: int | None = None
    memory_budget: MemoryBudget = "auto"
    jit_compile: bool = False

    @classmethod
    def of(cls, given: dict[str, Any], unknown: dict[str, Any], others: Sequence[str] = ()) -> Options:
        """Return the options among `given`.

        Args:
            given: dict from names to values, in which there may be other names, too.
            unknown: dict of what the user has given besides.
            others: names of options that there are not here.

        Raises:
            TypeError: for an option that there is not, saying which one may have been meant.
        """
        known = [field.name for field in dataclasses.fields(cls) if field.name not in others]
        for name, value in unknown.items():
            if name not in known:
                if name in _NEEDLESS:
                    raise TypeError(f"{_NEEDLESS[name]} Received: {name}={value!r}")
                meant = f" Did you mean {_ELSEWHERE[name]!r}?" if name in _ELSEWHERE else suggestion(name, known)
                raise TypeError(f"There is no such option.{meant} Received: {name}={value!r}")
        return cls(**{name: value for name, value in {**given, **unknown}.items() if name in known})

    @classmethod
    def shown(cls, function: Callable) -> Callable:
        """Let the signature of a function show all options in the place of its `**options`; a decorator."""
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        known = {each.name for each in own}
        more = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in dataclasses.fields(cls)
            if each.name not in known
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    @classmethod
    def of_one_fit(cls, given: dict[str, Any], unknown: dict[str, Any]) -> Options:
        """Return the options of what is never many fits."""
        return cls.of(given, unknown, others=_OF_MANY_FITS)

    def is_given(self, name: str) -> bool:
        """Return whether an option was given another value than its default, or None."""
        value, default = getattr(self, name), type(self).__dataclass_fields__[name].default
        return value is not None and not (isinstance(value, (bool, int, str)) and value == default)

    def given(self) -> dict[str, Any]:
        """Return a dict of the options that were given, None among them if it is not the default."""
        pairs = [(each, getattr(self, each.name)) for each in dataclasses.fields(self)]
        changed = [(each.name, value) for each, value in pairs if value is not each.default]
        return {name: value for name, value in changed if value is None or self.is_given(name)}

    def conditions(self, variables: Nest[Variable]) -> GivenConditions:
        return GivenConditions(variables, self.bounds, self.fixed, self.prior, self.equality, self.manifolds)

    def method(self, num_parameters: int, dtype: tf.DType) -> Method:
        """Return the `Method` for so many parameters: the sturdiest if solves cost nothing, else mostly one solve.

        If they cost nothing they are in float64: a float32 JᵀJ sees no columns apart that are alike in four digits, and
        promises next to nothing there, far from a minimum.
        """
        few = num_parameters <= SMALL
        damping = self.damping or ("trust_region" if few and self.initial_damping is None else "radius")
        scaling = get_scaling(self.scaling or ("more" if few else "auto"), SCALINGS)
        parts = (get_damping(damping, self.initial_damping), scaling, self.solver)
        acceleration = None if few and self.acceleration == "auto" else self.acceleration
        gram_dtype = "float64" if few and dtype == tf.float32 and self.gram_dtype is None else self.gram_dtype
        limits = self.max_attempts, self.min_gain, gram_dtype
        return Method.of(*parts, *limits, acceleration, memory_budget=self.memory_budget)

    def window_of(self, num_parameters: int) -> int | None:
        """Return of how many costs a step may stay below the highest; None if the solver decides."""
        if self.window is None:
            never_sparse = num_parameters <= SMALL or (self.solver == "auto" and self.jit_compile)
            return 1 if never_sparse else None
        return positive_integer("window", self.window)


class Settings(NamedTuple):
    """What is in the graph of a minimisation besides its residuals.

    Attributes:
        method: a `Method`.
        limits: `Tolerances`.
        losses: what `get_losses` returned.
        conditions: `Conditions` of `tf.TensorSpec`; what they are is data.
        prior_is_uniform: bool, whether the prior is the same for all elements of a variable.
        window: of how many costs a step may stay below the highest; None if the solver decides.
        jit_compile: bool.
        manifolds: list of a `Manifold`, or None, for each variable.
        recipe: all of this in a form that can be compared; None where it cannot.
    """

    method: Method
    limits: Tolerances
    losses: Any
    conditions: Conditions
    prior_is_uniform: bool
    window: int | None
    jit_compile: bool
    manifolds: list
    recipe: Any

    @classmethod
    def of(
        cls,
        options: Options,
        variables: list[Variable],
        conditions: GivenConditions | None = None,
        num_parameters: int | None = None,
    ) -> Settings:
        """Check `Options`, and return what they amount to.

        Args:
            num_parameters: how many parameters are solved for at once; all elements of the variables if left out.

        Raises:
            ValueError, TypeError: for bad ones.
        """
        dtype = as_tf_variable(variables[0]).dtype
        limits = tolerances(options.ftol, options.xtol, options.gtol, dtype)
        method = options.method(num_parameters or Columns(variables).total, dtype)
        losses = get_losses(options.loss, options.loss_scale)
        manifolds = [None] * len(variables) if conditions is None else conditions.manifolds
        rest = (
            Conditions() if conditions is None else conditions.specs(),
            conditions is None or conditions.prior_is_uniform,
            options.window_of(num_parameters or Columns(variables).total),
            bool(options.jit_compile),
        )
        each = [*(losses if isinstance(losses, tuple) else (losses,)), method.acceleration, *manifolds]
        compared = recipe(
            [*method.parts, *(part for part in each if part is not None)],
            (
                method.max_attempts,
                method.min_gain,
                method.gram_dtype,
                method.memory_budget,
                limits,
                isinstance(losses, tuple),
            ),
            tuple(part is None for part in each),
            rest,
            verification_wanted(None),
        )
        return cls(method, limits, losses, *rest, manifolds, compared)
