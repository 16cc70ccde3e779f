"""Differentially private training with any Keras optimizer, in `compile` of an unmodified model."""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import keras
import tensorflow as tf

from tfjac.arguments import deserialized, positive, resolve, serialized
from tfjac.graph import Dependence, SeenLoss, as_tf_variable, compiled_by_xla, eager_creation, source_in
from tfjac.graph.facts import facts_of
from tfjac.jacobians import scaled_gradients
from tfjac.linear.shapes import product
from tfjac.memory_budget import AUTO, MemoryBudgetExceeded, bytes_in_words, bytes_of
from tfjac.privacy.clipping import CLIPPINGS, ClipNorm, Clipping, PerLayerClipping
from tfjac.privacy.example_losses import example_losses
from tfjac.privacy.noise import Noise
from tfjac.privacy.sample_sizes import most_examples, too_many
from tfjac.types import Config, Tensor, Variable

ClippingLike: TypeAlias = Literal["fixed", "automatic", "adaptive", "per_layer"] | Clipping


class Settled:
    """An attribute that is set once: what the privacy accounting reads is what the steps were traced with."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if self._name not in instance.__dict__:
            raise AttributeError(f"The DPOptimizer has no {self._name} yet")
        return instance.__dict__[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        if self._name in instance.__dict__:
            raise AttributeError(
                f"{self._name} of a DPOptimizer cannot be changed, as the privacy accounting counts all steps with one "
                f"value: make a new DPOptimizer. Received: {self._name}={value!r}"
            )
        instance.__dict__[self._name] = value


@keras.saving.register_keras_serializable("tfjac")
class DPOptimizer(keras.optimizers.Optimizer):
    """Any Keras optimizer, made differentially private: clipped per-example gradients, their sum, and noise.

        optimizer = tfjac.privacy.DPOptimizer(keras.optimizers.Adam(1e-3), clip_norm=1.0, noise_multiplier=1.1)
        model.compile(optimizer, loss="sparse_categorical_crossentropy")
        model.fit(x, y, batch_size=256)

    The inner optimizer gets, in place of the gradient,

        (Σ_n f(‖g_n‖) g_n + σ C z) / batch + ∇ of what depends on no data

    with the gradient g_n of the loss of example n, the factor f of the clipping rule, and a standard normal z. No g_n
    is formed (`tfjac.clipped_gradients`). The loss of each example is read off the graph of the loss, for any layers,
    several outputs and sample weights. Terms without data, such as L2 regularisers, are neither clipped nor noised.
    The loss counts as a mean over the rows of the batch. An example adds nothing if its gradient is not finite.
    A loss or layer that mixes examples is refused by the name of the op, also if only the values of the data mix.

    For batches that do not fit into memory, give the inner optimizer `gradient_accumulation_steps`: so many batches are
    one step, whose noise is that of all their examples.
    Under a `tf.distribute` strategy the noise is that of the batch of all replicas.

    Args:
        inner_optimizer: a Keras optimizer, that nothing else uses.
        clip_norm: C, positive: no example adds more than this norm to the sum. With clipping="per_layer" it may be a
            dict from names of layers to their C_l.
        noise_multiplier: σ, not negative; zero clips only, which is not private. `noise_for` computes it from ε.
        batch_size: the expected number of examples of a step, which the sum is divided by. Give it with
            `poisson_batches`, and if the inner optimizer sums up batches. The number of rows of the batch if None.
            Steps with more examples than Poisson samples of this size can have are refused when they run: ε would be
            larger than what is computed from it. Under XLA only `PrivacyBudget` refuses them.
        clipping: "fixed", min(1, C/norm); "automatic", C/(norm + 0.01); "adaptive", with a C that follows the median of
            the norms; "per_layer", each layer by its own norm; or a `FixedClipping`, `AutomaticClipping`,
            `AdaptiveClipping` or `PerLayerClipping`.
        seed: integer, for tests alone: who knows it can subtract the noise. From the operating system if None. It is
            not saved with the model.
        secure_noise: whether the noise comes from the operating system, as sums of four numbers in float64, in place of
            TensorFlow's generator, which is not made for cryptography. Some 0.1 μs for each weight, and no XLA.
        name: of the optimizer.

    Raises:
        TypeError, ValueError: for arguments that do not fit; in `fit`, for a loss that mixes examples, for a loss that
            depends on no data, and in eager execution.
        tf.errors.InvalidArgumentError: in `fit`, if the steps have more examples than `batch_size` declares.
        MemoryBudgetExceeded: in `fit`, before anything is allocated, for a batch that the free memory cannot hold: on a
            CPU, without XLA, and with a size that the trace or `batch_size` tells. Steps of loops are not counted.

    An earlier state that is restored takes its count of steps back, so ε is that of the restored weights alone.

    Cost: one forward and one backward pass, and what the norms cost (`tfjac.per_example_gradient_norms`).
    Reference: Abadi et al. (2016), "Deep learning with differential privacy".
    """

    clip_norm, noise_multiplier, batch_size, clipping = Settled(), Settled(), Settled(), Settled()

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        clip_norm: ClipNorm,
        noise_multiplier: float,
        batch_size: int | None = None,
        clipping: ClippingLike = "fixed",
        seed: int | None = None,
        name: str = "dp_optimizer",
        secure_noise: bool = False,
    ) -> None:
        if isinstance(inner_optimizer, str):
            inner_optimizer = keras.optimizers.get(inner_optimizer)
        if not isinstance(inner_optimizer, keras.optimizers.Optimizer):
            raise TypeError(
                "inner_optimizer must be a Keras optimizer, such as keras.optimizers.Adam(1e-3). "
                f"Received: {inner_optimizer!r} of type {type(inner_optimizer).__name__}"
            )
        if any(isinstance(each, SeenLoss) for each in vars(inner_optimizer).values()):
            raise TypeError(
                "inner_optimizer must be one that takes gradients, such as keras.optimizers.Adam(1e-3). This one reads "
                f"the loss itself. Received: {type(inner_optimizer).__name__}"
            )
        if inner_optimizer.built:
            raise ValueError(
                "inner_optimizer must be new: another model, or another DPOptimizer, trains with this one. "
                f"Received: {type(inner_optimizer).__name__} with state"
            )
        super().__init__(learning_rate=0.0, name=name)
        self.inner_optimizer = inner_optimizer
        self.clip_norm = _checked_clip_norm(clip_norm)
        self.noise_multiplier = positive("noise_multiplier", noise_multiplier, below=math.inf, or_zero=True)
        self.batch_size = None if batch_size is None else positive("batch_size", batch_size)
        self._given_clipping, self.clipping = clipping, resolve("clipping", clipping, CLIPPINGS)
        if isinstance(clip_norm, dict) and not isinstance(self.clipping, PerLayerClipping):
            raise ValueError(
                "clip_norm is one number, unless clipping='per_layer'. "
                f"Received: clip_norm={clip_norm!r}, clipping={clipping!r}"
            )
        self._gradient_noise = self.clipping.gradient_noise(self.noise_multiplier, self.batch_size)
        if self.batch_size is None and self._parts > 1:
            raise ValueError(
                "A step that is spread over several batches needs batch_size, the expected number of examples of all "
                "of them: batches of different sizes would count differently, and have too little noise. Received: "
                f"batch_size=None, gradient_accumulation_steps={self._parts}"
            )
        self._examples = self.add_variable((), "zeros", "int64", "only_first_replica", name="examples")
        self.secure_noise = bool(secure_noise)
        self._noise = Noise(seed, self.secure_noise)
        self._seen_loss = SeenLoss("DPOptimizer", "call a train_step of your own within a tf.function")

    @property
    def _parts(self) -> int:
        """How many batches the inner optimizer sums up for one step; one of them may hold the one that does."""
        inner = self.inner_optimizer
        return getattr(inner, "inner_optimizer", inner).gradient_accumulation_steps or 1

    # -------------------------------------------------------------- state

    def build(self, variables: Sequence[Variable]) -> None:
        """Create the state of the inner optimizer, and of the clipping."""
        if self.built:
            return

        def add_variable(name, value):
            initial = keras.initializers.Constant(value)
            return self.add_variable((), initial, "float32", "only_first_replica", name=name)

        self._noise.build()
        self.clipping.build(add_variable, self.clip_norm, variables)
        self.inner_optimizer.build(variables)
        super().build(variables)

    @property
    def variables(self) -> list[keras.Variable]:
        """The state of this optimizer and of the inner one."""
        return self._variables + self.inner_optimizer.variables

    @property
    def steps(self) -> int:
        """Number of noisy sums published so far, which is what the privacy accounting counts."""
        return self.steps_after(0)

    @property
    def examples(self) -> int:
        """Number of examples of all batches so far. A row without a loss, such as padding, is none."""
        return int(self._examples.numpy())

    def steps_after(self, batches: int) -> int:
        """Return what `steps` is after so many more batches."""
        return -(-(int(self._iterations.numpy()) + batches) // self._parts)

    @property
    def learning_rate(self) -> Any:
        """That of the inner optimizer."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        self.inner_optimizer.learning_rate = learning_rate

    # -------------------------------------------------------------- a step

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return `loss` as it is, and remember it: the losses of the examples are read off its graph."""
        self._seen_loss.keep(loss)
        return loss

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Variable] | None = None) -> None:
        """Take a private step on the loss that `scale_loss` saw in this trace; `grads` are not used.

        Raises:
            ValueError: if examples mix, without `scale_loss` before, or in eager execution.
        """
        loss = self._seen_loss.take()
        if self._parts > 1 and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            raise ValueError(
                "Keras sums up batches in a branch, which replicas cannot synchronise in. Leave out "
                "gradient_accumulation_steps under a strategy of several replicas. "
                f"Received: gradient_accumulation_steps={self._parts}"
            )
        if not self.built:
            with keras.name_scope(self.name), eager_creation():
                self.build(list(trainable_variables or ()))
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        with keras.name_scope(self.name):
            gradients = self._private_gradients(loss, variables)
        scale = tf.convert_to_tensor(self.inner_optimizer.scale_loss(tf.ones([])))  # what the inner one divides by
        scaled = [None if each is None else each * tf.cast(scale, each.dtype) for each in gradients]
        self.inner_optimizer.apply(scaled, variables)
        self._iterations.assign_add(1)
        self._noise.next_batch()

    def _private_gradients(self, loss, variables):
        """Return a gradient for each variable, None for one that the loss does not depend on."""
        found = example_losses(loss, variables)
        replicas = tf.distribute.get_strategy().num_replicas_in_sync  # Keras divides the loss of each by their number
        losses = found.losses * tf.cast(replicas, found.losses.dtype)
        reached = [v for v, connected in zip(variables, found.connected) if connected]
        given = self.batch_size and self.batch_size / self._parts
        _check_fits(losses, reached, given and given / replicas)
        groups = self.clipping.groups(reached)
        sums, norms = scaled_gradients(losses, reached, self._factors, only_finite=True, groups=groups)
        felt = norms != 0 if groups is None else tf.reduce_any(norms != 0, axis=1)
        self._count(tf.logical_or(felt, losses != 0), replicas)
        count = _over_replicas(tf.cast(tf.size(losses), tf.float32), replicas) if given is None else given
        with_noise = self._noise.of_batch(replicas)
        deviation = self._gradient_noise * tf.cast(self.clipping.bound(), tf.float32) / self._parts**0.5
        noisy = {id(v): with_noise(g, deviation) / tf.cast(count, g.dtype) for v, g in zip(reached, sums)}

        def release(value, deviation):
            return _over_replicas(with_noise(value, deviation), replicas)

        ends_step = (tf.convert_to_tensor(self._iterations) + 1) % self._parts == 0
        self.clipping.update(norms, release, self.batch_size, ends_step)
        plain = tf.gradients(found.shared or [tf.zeros([])], [as_tf_variable(variable) for variable in variables])
        return [_sum(noisy.get(id(v)), gradient) for v, gradient in zip(variables, plain)]

    def _count(self, present, replicas):
        """Count the examples of a batch, and refuse more than were declared; `present[n]` is false for padding."""
        count = _over_replicas(tf.cast(tf.math.count_nonzero(present), tf.int64), replicas)
        self._examples.assign_add(count)
        if self.batch_size is None:
            return
        steps = tf.cast(self._iterations // self._parts + 1, tf.float64)
        for number, of in (count, 1.0), (tf.convert_to_tensor(self._examples), steps):
            most = most_examples(self.batch_size, steps=of)
            received = "these numbers of examples and of steps:"
            tf.debugging.Assert(tf.cast(number, tf.float64) <= most, [too_many(self.batch_size, received), number, of])

    def _factors(self, norms, losses):
        return self.clipping.factors(norms)

    def finalize_variable_values(self, var_list: Sequence[Variable]) -> None:
        """Do at the end of `fit` what the inner optimizer does."""
        self.inner_optimizer.finalize_variable_values(var_list)

    # -------------------------------------------------------------- configuration

    def get_config(self) -> Config:
        """Return the arguments of the constructor, without the seed."""
        return {
            "name": self.name,
            **serialized({"inner_optimizer": self.inner_optimizer, "clipping": self._given_clipping}),
            "clip_norm": dict(self.clip_norm) if isinstance(self.clip_norm, dict) else self.clip_norm,
            "noise_multiplier": self.noise_multiplier,
            "batch_size": self.batch_size,
            "secure_noise": self.secure_noise,
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: dict[str, Any] | None = None) -> "DPOptimizer":
        """Rebuild from `get_config()`, without state."""
        return cls(**deserialized(config, custom_objects))


def _checked_clip_norm(given: ClipNorm) -> ClipNorm:
    if not isinstance(given, dict):
        return positive("clip_norm", given, below=math.inf)
    return {str(name): positive(f"clip_norm[{name!r}]", bound, below=math.inf) for name, bound in given.items()}


def _check_fits(losses, variables, expected):
    """Raise MemoryBudgetExceeded where so many rows take too much: else the system may end the process without a word.

    What is counted is what enters and leaves the ops at which weights meet data, for each row. A step keeps as much
    until the norms are known, and takes more than twice as much. A GPU that is full says so by itself, and what XLA
    keeps is not known.
    """
    rows, budget = losses.shape[0] or expected, bytes_of(AUTO)
    if rows is None or tf.config.get_visible_devices("GPU") or compiled_by_xla(losses.graph):
        return
    path = Dependence([source_in(losses.graph, as_tf_variable(variable)) for variable in variables]).path([losses])
    met = {x.ref(): x for op in path if facts_of(op).meets_weights for x in (*op.inputs, *op.outputs)}.values()
    carried = [x for x in met if x.dtype.is_floating and x.shape.rank and x.shape[0] in (None, losses.shape[0])]
    taken = rows * sum(product(size or 1 for size in x.shape[1:]) * x.dtype.size for x in carried)
    if taken > budget:
        raise MemoryBudgetExceeded(
            f"What the layers of a batch take in and give takes {bytes_in_words(taken)}, more than half of what is "
            f"free, {bytes_in_words(budget)}, and a private step twice as much. Use batches of fewer rows, by rows= of "
            "poisson_batches or batch_size= of fit, and let the inner optimizer sum them up by "
            f"gradient_accumulation_steps: the step is the same. Received: batches of {rows:g} rows"
        )


def _over_replicas(value, replicas):
    """Return the sum over the replicas."""
    context = tf.distribute.get_replica_context()
    return value if replicas == 1 else context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def _sum(*gradients):
    """Return the sum of those that are not None, which are dense or sparse; None if there are none."""
    present = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
    return tf.add_n(present) if present else None
