"""A fit done again many times at once: from other starts, with parameters held, with other data."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.objective.deviations import parts_of
from tfjac.objective.robust import get_losses, losses_of
from tfjac.optimizers import least_squares
from tfjac.parameters.layout import Layout

_PASSED_ON = (
    "max_steps", "ftol", "xtol", "gtol", "loss", "loss_scale", "damping", "initial_damping", "scaling", "max_attempts",
    "min_gain", "jit_compile", "maxfev", "max_nfev", "f_scale",
)  # fmt: skip
_RENAMED = {"maxfev": "max_steps", "max_nfev": "max_steps", "f_scale": "loss_scale"}


class Refits:
    """A problem in the form in which all of its fits are one call of `least_squares` with `batch_dims=1`.

    Args:
        layout: `Layout`.
        residuals: function of `[k]` and a nest of data to a tensor, or a nest of them.
        data: nest of arrays.
        options: dict of those that the fit was given.
        measurements: function that returns to which measurement each residual belongs, integers `[rows]`, or None where
            a covariance matrix mixes them; left out where each is a measurement.
    """

    def __init__(
        self,
        layout: Layout,
        residuals: Callable,
        data: Any,
        options: dict[str, Any],
        measurements: Callable[[], Any] | None = None,
    ) -> None:
        self.layout, self._residuals, self._data = layout, _as_real(residuals), data
        self._measurements = measurements
        self._options = {
            _RENAMED.get(name, name): options[name] for name in _PASSED_ON if options.get(name) is not None
        }
        if self._options.get("loss") == "linear":
            del self._options["loss"]
        self.is_robust = self._options.get("loss") is not None
        self.absolute = bool(options.get("absolute_sigma"))

    def run(self, starts, fixed=None, weights=None, offsets=None):
        """Fit from each of `starts`; return a `BatchedLeastSquaresResult`, of which `x` is `[fits, k]`.

        Args:
            starts: `[fits, k]`.
            fixed: `[fits, k]`, bool; those of the layout where left out.
            weights, offsets: `[fits, rows]`: each fit minimises weights·r + offsets; or None.
        """
        layout, changes = self.layout, {"weights": weights, "offsets": offsets}
        changes = {name: np.asarray(each, np.float64) for name, each in changes.items() if each is not None}
        variable = tf.Variable(np.clip(starts, layout.lower, layout.upper))
        fixed = layout.fixed if fixed is None else fixed
        options: dict[str, Any] = dict(self._options)
        if layout.prior is not None and self.is_robust:
            losses, _ = self._losses_and_sizes()
            options |= {"loss": [*losses, None], "loss_scale": None}
        given = {"bounds": layout.bounds, "fixed": np.asarray(fixed) if np.any(fixed) else None} | options
        given = {name: each for name, each in given.items() if each is not None}
        return least_squares(self._batched, variable, args=(changes, self._data), batch_dims=1, **given)

    def log_probability(self, values, rows):
        """Return log p `[...]` of free parameters `[..., free]` with so many residuals, as `NamedFit.log_probability`.

        Raises:
            ValueError: for robust losses, and another number of parameters.
        """
        if self.is_robust:
            raise ValueError(
                "A robust loss is no logarithm of a probability: use bootstrap, or squares. Received: a robust loss"
            )
        layout, free = self.layout, ~self.layout.fixed
        if values.shape[-1:] != (free.sum(),):
            raise ValueError(
                "values holds the free parameters, in the order of free_names(), in its last axis. "
                f"Received: values of shape {values.shape}, {free.sum()} free parameters"
            )
        some = values.reshape([-1, values.shape[-1]])
        inside = np.all((some >= layout.lower[free]) & (some <= layout.upper[free]), axis=1)
        points = np.tile(layout.start, [len(some), 1])
        points[:, free] = np.clip(some, layout.lower[free], layout.upper[free])
        of_data, of_priors = self._squares(tf.constant(points), self._data).numpy()
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (-of_data if self.absolute else -rows * np.log(of_data)) / 2 - of_priors / 2
        return np.where(inside & np.isfinite(found), found, -np.inf).reshape(values.shape[:-1])

    @functools.cached_property
    def _squares(self):
        """A function of values `[fits, k]` to ‖r‖² of the data and of the priors, `[2, fits]`, without losses."""
        nothing = tf.zeros([], tf.float64)

        def squares(values, data):
            of_data = tf.nest.flatten(self._residuals(values, data))
            parts = of_data, self._of_prior(values)
            return tf.stack([tf.add_n([nothing, *map(_of_squares, part)]) for part in parts])

        def of_fits(values, data):
            return tf.transpose(tf.vectorized_map(lambda one: squares(one, data), values))

        return tf.function(of_fits, autograph=False)

    def measurements(self):
        """Return to which measurement each residual belongs, `[rows]`; None where a covariance matrix mixes them."""
        return np.arange(len(self.losses())) if self._measurements is None else self._measurements()

    def losses(self):
        """Return a list of the `RobustLoss` of each row of the residuals, None for squares."""
        return [loss for loss, size in zip(*self._losses_and_sizes()) for _ in range(size)]

    def _losses_and_sizes(self):
        """The loss, and the number of residuals, of each tensor of them."""
        found = tf.function(self._residuals, autograph=False).get_concrete_function(
            tf.constant(self.layout.start), tf.nest.map_structure(tf.convert_to_tensor, self._data)
        )
        sizes = [tensor.shape.num_elements() for tensor in tf.nest.flatten(found.structured_outputs)]
        losses = get_losses(self._options.get("loss"), self._options.get("loss_scale"))
        return losses_of(losses, len(sizes)), sizes

    def _batched(self, values, changes, data):
        """The residuals of each fit, with those of the prior below."""

        def one(given):
            values, changes = given
            tensors = [tf.reshape(each, [-1]) for each in tf.nest.flatten(self._residuals(values, data))]
            sizes = [tensor.shape[0] for tensor in tensors]
            for name, change in (("weights", tf.multiply), ("offsets", tf.add)):
                if name in changes:
                    tensors = [change(*pair) for pair in zip(tensors, tf.split(changes[name], sizes))]
            return [*tensors, *self._of_prior(values)]

        return tf.vectorized_map(one, (values, changes))

    def _of_prior(self, values):
        known = np.flatnonzero(np.isfinite(self.layout.deviation))
        if not known.size:
            return []
        return [(tf.gather(values, known) - self.layout.mean[known]) / self.layout.deviation[known]]


def _of_squares(residuals):
    return tf.reduce_sum(tf.square(tf.cast(residuals, tf.float64)))


def _as_real(residuals):
    """Return residuals whose complex tensors `[...]` are pairs `[..., 2]` of real ones, as fits take them."""

    def real(values, data):
        found = tf.nest.map_structure(tf.convert_to_tensor, residuals(values, data))
        return tf.nest.map_structure(lambda each: parts_of(each) if each.dtype.is_complex else each, found)

    return real
