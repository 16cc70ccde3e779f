"""The residuals of n fits as a function of their parameters and data, placed in any graph."""

from collections.abc import Iterable, Sequence

import tensorflow as tf

from tfjac.drive.many_fits.fit_columns import FitColumns
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.types import Tensor


class PlacedResiduals:
    """The residuals of n fits, where their graph is placed.

    Args:
        traced: `TracedResiduals`, of values and data, or of data alone where they read the variables.
        is_given_values: which of the two.
        own: for each datum whether it has a row for each fit, rather than being shared; those left out are shared.
        constants: list of tensors of the graph that was traced, for which the last data stand.
        fixed: list of eager tensors, the last data, whatever the call.

    Attributes:
        traced, columns, fixed: as given.
        shapes: list of the static shapes of the residuals.
    """

    def __init__(
        self,
        traced: TracedResiduals,
        columns: FitColumns,
        is_given_values: bool,
        own: Sequence[bool] = (),
        constants: Iterable[Tensor] = (),
        fixed: Iterable[Tensor] = (),
    ) -> None:
        self.traced, self.columns, self._is_given_values = traced, columns, is_given_values
        self._constants, self.fixed = list(constants), list(fixed)
        self.own = [*own, *[False] * (len(self.data_specs) - len(own))]
        self.shapes = traced.shapes

    @property
    def shapes_of_one(self) -> list[tf.TensorShape]:
        """List of the static shapes of the residuals of one fit."""
        return [shape[1:] for shape in self.shapes]

    @property
    def data_specs(self) -> list[tf.TensorSpec]:
        """List of `tf.TensorSpec`, what data are like: of a call, of variables that are read, and of constants."""
        given = self.columns.num_variables if self._is_given_values else 0
        constants = [tf.TensorSpec(each.shape, each.dtype) for each in self._constants]
        return [*self.traced.specs[given:], *self.traced.handle_specs, *constants]

    def take(self, data: list[Tensor], count: int) -> bool:
        """Return whether these are data, eager tensors, of `count` fits; those in `fixed` are among them.

        Args:
            data: list of tensors like `data_specs`, but perhaps of other shapes and dtypes.
        """
        triples = zip([*data, *self.fixed], self.data_specs, self.own)
        return all(
            spec.is_compatible_with(given) and (not its_own or given.shape[0] == count)
            for given, spec, its_own in triples
        )

    def tensors(self, values: list[Tensor], data: list[Tensor]) -> list[Tensor]:
        """Return the residuals, a list of tensors `[n, ...]` of the current graph.

        Args:
            values: list of tensors `[n, ...]`, in place of what the variables hold.
            data: list of tensors like `data_specs`.
        """
        rest = iter(data)
        given, held, constants = (
            [next(rest) for _ in range(count)]
            for count in (self._num_given, len(self.traced.handles), len(self._constants))
        )
        constants = list(zip(self._constants, constants))
        if self._is_given_values:
            return self.traced.place_at([*values, *given], [], held, constants)
        for position, value in zip(self.traced.positions, values):
            if position is not None:
                held[position] = value
        return self.traced.place_at(given, [], held, constants)

    @property
    def _num_given(self) -> int:
        return len(self.data_specs) - len(self.traced.handles) - len(self._constants)
