"""The Levenberg-Marquardt method as a Keras optimizer, for plain, unmodified models."""

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from tfjac.arguments import choice, deserialized, positive_integer, serialized
from tfjac.drive.bayesian import first_precisions, take_regularised_step
from tfjac.drive.computed import OneDevice, on_what_is_computed
from tfjac.drive.replicas import check_strategy, has_replicas
from tfjac.drive.streamed.batch_weight import weight_among_batches
from tfjac.graph import as_tf_variable, eager_creation, replay, shared_constants, verification_wanted, while_loop
from tfjac.keras.arguments import (
    BAYESIAN_WITHOUT_CONSTRAINTS,
    check_trainable,
    refuse_constraints,
    refuse_learning_rate,
    refuse_options,
    seen_loss,
)
from tfjac.keras.constraints import box_of_constraints, into_bounds
from tfjac.keras.diagnostics import StepDiagnostics
from tfjac.keras.fit_under_way import tells_of_first
from tfjac.keras.late_variables import LateVariables, SavesLateVariables
from tfjac.keras.memory import MemoryOptions, plan_with
from tfjac.keras.pitfalls import Pitfalls, may_differ
from tfjac.keras.state import StateVariables
from tfjac.linear.solvers import get_solver
from tfjac.linear.solvers.plan import Plan
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.objective.in_units import in_units, report_of
from tfjac.objective.objective import LocalObjective
from tfjac.objective.residuals import inlined, objective_of_loss, objective_of_residuals
from tfjac.objective.tracing.callables import as_data, function_of_data
from tfjac.objective.tracing.traced_residuals import TracedResiduals, called, traceable
from tfjac.objective.tracing.traces import TraceCache, as_one_call
from tfjac.objective.variables import checked_variables, variable_name
from tfjac.steps.acceleration import AutoAcceleration
from tfjac.steps.damping import get_damping
from tfjac.steps.method import AccelerationLike, DampingLike, Method, ScalingLike, SolverLike, recipe
from tfjac.steps.records import Report
from tfjac.steps.statuses import Status
from tfjac.steps.step import Restrictions, take_step
from tfjac.types import Config, Data, GramDType, MemoryBudget, Residuals, Tensor, Variable

_GOING_ON = (Status.RUNNING, Status.REJECTED, Status.REMEASURED)
"""After these, another step on the same loss may lower it."""


@keras.saving.register_keras_serializable("tfjac")
class LevenbergMarquardt(StepDiagnostics, SavesLateVariables, keras.optimizers.Optimizer):
    """Levenberg-Marquardt: damped Gauss-Newton steps on the sum of squares, or of convex functions, that the loss is.

        model.compile(optimizer=tfjac.LevenbergMarquardt(), loss="mse")
        model.fit(x, y, batch_size=len(x), epochs=100)

    The residuals are read off the graph of the loss: mean squared errors with sample weights, class weights, masks,
    several outputs with `loss_weights` and L2 regularisers are all exact. Convex losses, such as cross-entropies,
    Poisson and Huber, take generalised Gauss-Newton steps; any other loss is refused, by the name of the op. Each step
    solves (JᵀJ + λD + Λ) p = −g, tries w + p on the same batch, and keeps it only if the loss fell; otherwise the
    variables get their bits back and more damping is tried. A batch whose loss is not finite changes nothing.

    There is no learning rate: the damping plays its part, by itself. Full batches converge fast; of mini-batches, a
    model of the earlier ones is remembered (`memory`). Needs a graph (`run_eagerly=False`); outside of Keras' `fit`,
    use `minimize`.

    Args:
        damping: `"nielsen"`, `"multiplicative"`, `"trust_region"`, or a `Damping`.
        scaling: `"outputs"`, `"identity"`, `"marquardt"`, `"more"`, or a `Scaling`: the matrix D.
        solver: `"auto"`, `"cholesky"`, `"kernel"`, `"qr"`, `"svd"`, `"cg"`, `"lsmr"`, `"schur"`,
            `"schur_cg"`, or a `Solver`. What `"auto"` chose is `optimizer.solver_used` after the first step.
        max_attempts: at most so many attempts, with growing damping, in one step; one with Kronecker factors.
        min_gain: a step is kept if the actual reduction of the loss exceeds this fraction of the predicted one.
        gram_dtype: `"float64"` to solve in float64 for variables in float32, which keeps the digits that squaring J
            loses, at twice the memory and time of that part; None for their own dtype.
        acceleration: `"auto"`, `"geodesic"`, or a `GeodesicAcceleration`: steps of second order along the curve of the
            residuals; None for none. `"auto"` takes them for sums of squares, if a batch has more residuals than there
            are weights and the solver factors a matrix.
        steps_per_batch: how many steps to take on each batch, inside one call of the training function: fewer where
            there is nothing more to gain from it. What is random, such as dropout, is drawn once for all of them.
        memory: what is remembered of earlier batches. `"auto"`: a quadratic model of them, as soon as the data of a
            step are others than those of the step before, and nothing while they are the same; of large networks by
            Kronecker factors; see `docs/mini_batches.md`. None: nothing, each fits its own batch.
            A number β between 0 and 1: JᵀJ, which fades by β with each batch: recursive least squares with forgetting.
            A number of batches, or `"epoch"`: JᵀJ, Jᵀr and the loss are summed up over so many batches, which equals
            the step of the full batch to rounding; `"epoch"` is told of epochs by `callbacks.StepMonitor()` or
            `callbacks.Convergence()`; see `docs/large_data.md`.
        regularization: `"bayesian"` to hold all variables near zero, as firmly as the data say, by MacKay's evidence:
            the precisions of weights and of noise are estimated again after each accepted step, see `precisions`. For
            sums of squares without other regularisers, a solver that factors, and full batches: each batch counts as
            all data. The loss that Keras logs is that of the data alone.
        memory_budget: bytes that a step may plan to take, `"auto"` for half of the memory that is free when it is
            traced, or None for no limit; see `least_squares`. If the graph leaves the batch open, it is the matrix
            of the solver that must fit.
        verify: whether to compare, in every step, the gradient from the residuals with the one that Keras computed,
            and the loss with itself when it is evaluated again; None leaves it to the environment variable
            `TFJAC_VERIFY`. What differs raises `tf.errors.InvalidArgumentError` that names the variable. Costs one
            backward and one forward pass; checks nothing under XLA.
        name: name of the optimizer.
        initial_damping: the first λ of `"nielsen"` or `"multiplicative"`, a multiple of the largest diagonal element of
            JᵀJ over that of D; None for 1e-3.
        learning_rate: a schedule from 0 to 1 that scales steps with Kronecker factors; see `docs/mini_batches.md`.
        **kwargs: the other arguments of Keras optimizers are refused, each with its reason.

    Attributes:
        status, last_report, current_damping, last_ratio, num_accepted, num_attempts: how training goes, read from the
        optimizer's variables. `plan()` says how steps are solved for.
        precisions, effective_parameters, noise_level: what Bayesian regularisation estimates.

    Raises:
        ValueError, TypeError: at construction for unknown options; while tracing for a loss that is no sum of squares
            and convex functions, variables that the loss does not depend on, reduced precision, eager execution.

    Cost: per step, one linearisation (`tfjac.jacobian_operator`); per attempt one linear solve and one forward pass.
    Reference: K. Madsen, H. B. Nielsen, O. Tingleff, "Methods for non-linear least squares problems", 2nd ed., 2004.
    """

    def __init__(
        self,
        damping: DampingLike = "nielsen",
        scaling: ScalingLike | Literal["outputs"] = "outputs",
        solver: SolverLike = "auto",
        max_attempts: int = 5,
        min_gain: float = 1e-3,
        gram_dtype: GramDType | None = None,
        acceleration: AccelerationLike = "auto",
        steps_per_batch: int = 1,
        memory: Literal["auto", "epoch"] | float | int | None = "auto",
        regularization: Literal["bayesian"] | None = None,
        memory_budget: MemoryBudget = "auto",
        verify: bool | None = None,
        name: str = "levenberg_marquardt",
        initial_damping: float | None = None,
        learning_rate: keras.optimizers.schedules.LearningRateSchedule | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_options(kwargs, inspect.signature(type(self)).parameters, learning_rate)
        super().__init__(learning_rate=1.0 if learning_rate is None else learning_rate, name=name)
        self._regularization = choice("regularization", regularization, (None, "bayesian"))
        damping = damping if initial_damping is None else get_damping(damping, initial_damping)
        parts, limits = (damping, scaling, solver), (max_attempts, min_gain, gram_dtype)
        bend = AutoAcceleration(wide=False) if acceleration == "auto" else acceleration  # a batch may be one of many
        self._method = Method.of(*parts, *limits, bend, memory_budget)
        if self._regularization is not None:
            self._method = self._method.with_evidence()
        self._steps_per_batch = positive_integer("steps_per_batch", steps_per_batch)
        self._remembers, self._summing, self._memory = MemoryOptions.of(memory), None, None
        self._method = self._remembers.method(self._method, self._steps_per_batch)
        verification_wanted(verify)
        self._verify = verify
        self._given = {"damping": damping, "scaling": scaling, "solver": solver, "acceleration": acceleration}
        self._given["learning_rate"] = learning_rate
        self._seen_loss = seen_loss()
        self._sizes: ProblemSizes | None = None
        self._traces, self._told_of_epoch = TraceCache(), False
        self._epoch: int | None = None
        self.pitfalls, self._is_random = Pitfalls(), False
        self._late = LateVariables(self._add_state, lambda: len(self.variables))

    # -------------------------------------------------------------- state

    def build(self, variables: Sequence[Variable]) -> None:
        """Create the optimizer's state for `variables`: damping, scaling, counters, last status."""
        if self.built:
            return
        variables = checked_variables(variables)
        if self._method.evidence:
            refuse_constraints(variables, BAYESIAN_WITHOUT_CONSTRAINTS)
        options = self._method.gram_dtype, self._method.memory_budget
        self._remembers.check(variables, get_solver(self._given["solver"]), *options)
        into_bounds(variables)
        super().build(variables)
        self._state = StateVariables(self, variables, self._method)
        given = self._add_state, self._late.add, variables, self._method, self._state, self._steps_per_batch
        share = None if self._given["learning_rate"] is None else self._get_current_learning_rate
        self._summing, self._memory = self._remembers.made(*given, share)
        self._late.begin(self.variables)
        if self._summing is not None and self._told_of_epoch:
            self._summing.begin_epoch(self._epoch)

    def _add_state(self, name: str, shape: Any, dtype: Any) -> Any:
        """Create a variable of the optimizer, of zeros, that branches may assign: all replicas assign the same."""
        return self.add_variable(shape, "zeros", tf.as_dtype(dtype).name, "none", name=name)

    # -------------------------------------------------------------- a step

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return `loss` as it is, and remember it: the residuals of the step are read off its graph."""
        self._seen_loss.keep(loss)
        return loss

    def begin_epoch(self, steps: int | None) -> None:
        """Be told, by a callback of tfjac, that an epoch of so many batches begins; None where that is unknown."""
        self._told_of_epoch, self._epoch = True, steps
        if self._summing is not None:
            self._summing.begin_epoch(steps)

    def finalize_variable_values(self, var_list: Sequence[Variable]) -> None:
        """Check, at the end of `fit`, that there was something to train: Keras takes no step for a frozen model."""
        check_trainable(var_list)
        self.warn_of_pitfalls(ended=True)
        if self._summing is not None:
            self._summing.end_fit()

    def warn_of_pitfalls(self, ended: bool = False) -> None:
        """Warn, once, of what the steps so far have seen: a loss that is not finite, batches that are too small."""
        if self.built:
            self.pitfalls.look(self._state, self.num_steps if ended else None)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Variable] | None = None) -> None:
        """Take the steps of a batch on the loss that `scale_loss` saw in this trace; `grads` serve verification only.

        Raises:
            ValueError: outside of a graph, without `scale_loss` before, or for a loss that is refused.
        """
        loss = self._seen_loss.take()
        check_strategy()
        self._is_random = may_differ(loss)  # one batch has several losses then
        variables = self._variables_of_step(trainable_variables)
        self.pitfalls.look_at_graph(loss.graph, variables)
        given = {id(as_tf_variable(v)): gradient for gradient, v in zip(grads, trainable_variables or variables)}
        gradients = [given.get(id(as_tf_variable(variable))) for variable in variables]
        with keras.name_scope(self.name), shared_constants():
            on_what_is_computed(self._advance_on_losses, variables, (loss, gradients))

    @tells_of_first
    def _advance_on_losses(self, computed: Any) -> Any:
        """Take the steps of a batch on its loss, or on the sum of those of all replicas."""
        if self._summing is not None:
            return self._sum_up(self._summing, computed)
        if self._steps_per_batch > 1:
            return self._advance_repeatedly(computed)
        half = getattr(self._memory, "may_be_half", False)

        def objective(tensors: Any, variables: Sequence[Variable]) -> LocalObjective:
            return objective_of_loss(tensors[0], variables, tensors[1], self._verify, half)

        weight = 1.0
        if self._memory is not None:
            weight = computed.total(lambda tensors, variables: weight_among_batches(tensors[0], variables))
        self._advance(computed.objective(objective), weight)

    def _sum_up(self, summing: Any, computed: Any) -> None:
        """Add a batch to the sums that steps are solved with, and take them where they are complete."""
        if not isinstance(computed, OneDevice):
            raise ValueError(
                "Batches of one device are summed up; a batch that several replicas share is summed as it is. "
                f"Leave one of them out. Received: memory={self._remembers.given!r} and several replicas"
            )
        loss, _ = computed.tensors
        steps, self._sizes = summing.take(loss, computed.variables, self._verify)
        self._iterations.value.assign_add(steps)

    def _advance_repeatedly(self, computed: Any) -> None:
        """Take steps on the same loss, each on its graph with the variables as they are by then."""
        computed = computed.mapped(lambda tensors, variables: inlined(tensors[0], variables)[0])

        def unfinished(count: Any, status: Tensor) -> Tensor:
            return (count < self._steps_per_batch) & tf.reduce_any([tf.equal(status, int(s)) for s in _GOING_ON])

        def objective(loss: Any, variables: Sequence[Variable]) -> LocalObjective:
            return objective_of_loss(replay([loss], reread=variables)[0], variables, verify=self._verify)

        def step(count: Any, _: Any) -> Any:
            return count + 1, self._advance(computed.objective(objective)).status

        while_loop(unfinished, step, (tf.constant(0), tf.constant(int(Status.RUNNING))))

    def minimize(self, residuals: Residuals, variables: Sequence[Variable], args: Data = ()) -> Report:
        """Take one step on ½‖residuals(*args)‖².

        Eagerly, `residuals` is called each time, to be made a graph; where that is the same one as before, but for
        `args` and tensors that it captures, the rest of the trace is used again. Inside a `tf.function` it is traced in
        place.

        Args:
            residuals: callable that reads the variables and returns a tensor of any shape, or a nest of them, in any of
              the forms that `least_squares` takes. Where the leading axis is that of independent examples, the Jacobian
              is found far cheaper.
            variables: list of `tf.Variable` or `keras.Variable`, the same for every call.
            args: tuple of the data that `residuals` is called with: nests of tensors, arrays and numbers.

        Returns:
            A `Report`: the cost after the step, whether it was accepted, the gain ratio, the damping, and more.
        """
        check_strategy()
        if self._remembers.sums:
            raise ValueError(
                "The batches of Keras' fit are summed up; for other residuals, tfjac.normal_equations of each part of "
                f"the data adds up likewise. Received: memory={self._remembers.given!r} and a call of minimize"
            )
        residuals = function_of_data(residuals, variables, args)
        variables = self._variables_of_step(tf.nest.flatten(variables))
        args = as_data(args, variables)

        def step_on(computed: Any) -> Report:
            made = computed.objective(lambda tensors, copies: objective_of_residuals(tensors, copies, self._verify))
            return self._advance(made)

        def advance(tensors: Any) -> Any:
            return on_what_is_computed(step_on, variables, tensors)

        if not tf.executing_eagerly():
            return advance(called(residuals, variables, args, is_part=has_replicas()))
        traced = TracedResiduals(traceable(residuals, variables).get_concrete_function(*args), variables)

        def step(*data: Any) -> Any:
            return advance(traced.place(data, traced.draw(data)))

        trace = lambda: tf.function(step, autograph=False).get_concrete_function(*traced.specs)  # noqa: E731
        with as_one_call():
            options = recipe(self._method[:3], verification_wanted(self._verify))
            return self._traces.get(traced, variables, options, trace)(*traced.data(args))

    def _advance(self, objective: Any, weight: Any = 1.0) -> Report:
        """Take a step on an `Objective` that counts for `weight` among those of other batches; return the `Report`."""
        state, objective = self._state.read(), in_units(objective, self._state.unit, self._iterations.value.value())
        if self._method.evidence:
            self._state.write_precisions(first_precisions(objective, self._state.read_precisions()))
            precisions = self._state.read_precisions()
            precisions, step = take_regularised_step(objective, precisions, state, self._method)
            self._state.write_precisions(precisions)
        else:
            given = objective, state, self._method, Restrictions(box_of_constraints(objective.variables))
            step = take_step(*given) if self._memory is None else self._memory.take_step(*given, weight)
        self._sizes, report = step.sizes, report_of(objective, step.report)
        self.pitfalls.look_at_objective(objective.sums_squares)
        self._state.write_state(step.state)
        is_alone = (self._memory is None or self._memory.keeps_nothing) and not self._method.evidence
        self._state.write_report(report, None if self._is_random else step.num_residuals, is_alone)
        self._iterations.value.assign_add(1)
        return report

    def _variables_of_step(self, variables: Sequence[Variable] | None) -> list:
        """Return the variables the optimizer was built for, building it if this is the first call."""
        if variables is not None and not self.built:
            with keras.name_scope(self.name), eager_creation():
                self.build(list(variables))
        if not self.built:
            raise ValueError("The optimizer is not built: pass the variables, or call build(variables). Received: None")
        if variables is not None:
            variables = list(variables)
            self._check_variables_are_known(variables)
            if len(variables) != len(self._trainable_variables):
                given = {id(as_tf_variable(variable)) for variable in variables}
                missing = [variable_name(v) for v in self._trainable_variables if id(as_tf_variable(v)) not in given]
                raise ValueError(
                    "A Levenberg-Marquardt step is taken in all variables at once, those that the optimizer was built "
                    f"for; make another optimizer for a part of them. Received: a call without {missing}"
                )
        return list(self._trainable_variables)

    # -------------------------------------------------------------- what users read

    def plan(self, batch_size: int | None = None) -> Plan:
        """Return the `Plan` of the steps traced last: solver and why, memory, operations; print it to read it.

        Args:
            batch_size: number of examples, where the trace leaves it open, as in `fit`: it is the batch that decides.

        Raises:
            ValueError: before the first step, or for another batch size than that of the trace.
        """
        if self._sizes is None:
            raise ValueError("There is no plan before the first step: the loss is not known yet. Received: plan()")
        return plan_with(self._memory or self._summing, self._method.solver, self._sizes, batch_size)

    @property
    def learning_rate(self) -> Any:
        """One, or the value of the schedule: the damping scales steps."""
        return self._get_current_learning_rate()

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        refuse_learning_rate(learning_rate)

    # -------------------------------------------------------------- configuration

    def get_config(self) -> Config:
        """Return the arguments of the constructor, as `from_config` takes them."""
        return {
            "name": self.name,
            **serialized(self._given),
            "max_attempts": self._method.max_attempts,
            "min_gain": self._method.min_gain,
            "gram_dtype": self._method.gram_dtype,
            "steps_per_batch": self._steps_per_batch,
            "memory": self._remembers.given,
            "regularization": self._regularization,
            "memory_budget": self._method.memory_budget,
            "verify": self._verify,
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: dict[str, Any] | None = None) -> "LevenbergMarquardt":
        """Rebuild from `get_config()`, without state."""
        return cls(**deserialized(config, custom_objects))
