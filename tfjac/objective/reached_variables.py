"""Checks of what the loss or the residuals depend on, and by gradients of which precision."""

from collections.abc import Sequence
from typing import NoReturn

import keras
import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import Dependence, as_tf_variable, lost_paths, stops_of
from tfjac.graph.facts import facts_of
from tfjac.objective.variables import variable_name
from tfjac.types import Tensor, Variable


def check_dependence(
    targets: Sequence[Tensor],
    variables: Sequence[Variable],
    dependence: Dependence,
    what: str,
    may_be_half: bool = False,
) -> tf.Operation | None:
    """Refuse variables that the targets do not depend on, and arithmetic in another precision than theirs.

    Returns the first op that computes in bfloat16, if that may be, else None.

    Args:
        targets: list of tensors of one graph.
        dependence: `Dependence` on their handles in that graph.
        what: what the targets are called in messages, "loss" or "residuals".
        may_be_half: whether ops may compute in bfloat16, if variables are in float32.

    Raises:
        ValueError: naming the variable, or the op.
    """
    _check_reached(targets, variables, dependence, what)
    return _check_precision(dependence.path(targets), as_tf_variable(variables[0]).dtype, may_be_half)


def _check_reached(targets: Sequence[Tensor], variables: Sequence[Variable], dependence: Dependence, what: str) -> None:
    missing = [k for k in range(len(variables)) if k not in dependence.sources_of_any(targets)]
    unused = []
    for number in missing:
        stops = stops_of(number, targets, dependence)
        name = variable_name(variables[number])
        if stops:
            raise ValueError(
                f"The {what} must have a gradient with respect to every variable. Gradients stop at {stops[0]}: put "
                "something with a gradient in its place, or set trainable = False on the layer of the variable if it "
                f"is not to be trained. Received: variable {name!r}, which no gradient reaches"
            )
        unused.append(name)
    if unused and (what != "loss" or len(unused) == len(variables)):
        raise ValueError(
            f"The {what} must depend on every variable: the Jacobian has a column for each. Leave out those that are "
            f"not used. Received: {unused}, on which the {what} do{'es' if what == 'loss' else ''} not depend"
        )
    if unused:
        warn(
            "tfjac: the loss does not depend on some of the trainable variables, which stay as they are: they belong "
            f"to an output without a loss, or to a layer that is not called. Received: {unused}",
        )


def warn_of_lost(tensors: list[Tensor], dependence: Dependence, what: str) -> None:
    """Warn of those of `tensors` whose values depend on the variables, though no gradient reaches them.

    Args:
        tensors: list of tensors of the graph of the variables' handles.
        dependence: `Dependence` on these, by gradients.
        what: what each of the tensors is, for the message.
    """
    first = {path.target: path for path in reversed(lost_paths(tensors, dependence)) if path.whole} if tensors else {}
    for index, path in sorted(first.items()):
        op = tensors[index].op
        warn(
            f"tfjac: {what}, op {op.name!r} of type {op.type}, is computed from the variables, but gradients stop at "
            f"{path}: it counts as a constant, and is not minimised. Put something with a gradient in its place.",
        )


def _check_precision(path: Sequence[tf.Operation], dtype: tf.DType, may_be_half: bool) -> tf.Operation | None:
    """Check that no op computes in another dtype by choice: those that resize images have but one, up to a cast."""
    narrow, half = set(), None
    for op in path:
        has_none_other = facts_of(op).single_precision or any(tensor.ref() in narrow for tensor in op.inputs)
        for output in op.outputs:
            if has_none_other and output.dtype == tf.float32 != dtype:
                narrow.add(output.ref())
            elif may_be_half and output.dtype == tf.bfloat16 and dtype == tf.float32:
                half = half or op
            elif output.dtype.is_floating and output.dtype != dtype:
                refuse_precision(op, dtype)
    return half


def refuse_precision(op: tf.Operation, dtype: tf.DType) -> NoReturn:
    """Raise ValueError: an op computes in another precision than that of the variables."""
    floatx = keras.config.floatx()
    raise ValueError(
        "Levenberg-Marquardt solves linear systems made of derivatives: the model must compute in the dtype of its "
        "variables throughout, float32 or float64. Layers compute in their dtype, loss objects in the "
        f"keras.config.floatx() of the moment they are made, here {floatx}: make them "
        f"{'again' if floatx == dtype.name else f'after keras.config.set_floatx({dtype.name!r})'}. "
        "mixed_bfloat16 goes with Kronecker factors alone: in model.fit, with memory, "
        "solver and scaling as they are by default. Received: variables of dtype "
        f"{dtype.name}, and op {op.name!r} of type {op.type}, which gives {op.outputs[0].dtype.name}"
    )
