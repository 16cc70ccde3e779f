"""The checks that variables pass before anything is built on them."""

from typing import Any

import tensorflow as tf

from tfjac.graph import as_tf_variable
from tfjac.types import Variable


def checked_variables(variables: Any, open_rows: bool = False) -> list[Variable]:
    """Return `variables` as a list, checked.

    Args:
        variables: iterable of variables.
        open_rows: whether the first axis of a variable may be of an open size.

    Raises:
        ValueError: for none at all, a non-floating or half-precision dtype, mixed dtypes, an open shape, or the same
            variable twice.
        TypeError: for what is not a variable.
    """
    variables = list(variables)
    if not variables:
        raise ValueError(
            "There is nothing to train: Levenberg-Marquardt needs at least one trainable variable. Build the model, or "
            "set trainable = True on one of its layers. Received: no trainable weights"
        )
    dtypes = {as_tf_variable(variable).dtype for variable in variables}
    if len(dtypes) > 1 or not dtypes <= {tf.float32, tf.float64}:
        listed = ", ".join(
            f"{variable_name(variable)}: {as_tf_variable(variable).dtype.name}" for variable in variables
        )
        raise ValueError(
            "The variables must all be float32, or all float64; integers have no derivative, and half precision cannot "
            f"carry the linear solves. Received: {listed}"
        )
    for variable in variables:
        shape = as_tf_variable(variable).shape
        if not (shape[1:] if open_rows and shape.rank else shape).is_fully_defined():
            raise ValueError(
                f"A variable must have a fixed shape. Received: {variable_name(variable)} of {variable.shape}"
            )
    if all(as_tf_variable(variable).shape.num_elements() == 0 for variable in variables):
        raise ValueError(
            "There is nothing to vary: each variable has a shape without elements. Give one that has a number in it. "
            f"Received: {', '.join(f'{variable_name(v)} of shape {tuple(v.shape)}' for v in variables)}"
        )
    if len({id(as_tf_variable(variable)) for variable in variables}) < len(variables):
        names = [variable_name(variable) for variable in variables]
        raise ValueError(f"The same variable is listed twice. Received: {names}")
    return variables


def check_within_reach(variables: Any) -> None:
    """Refuse variables of which a strategy has copies where none of these can be meant.

    Raises:
        ValueError: with what to do.
    """
    for variable in variables:
        try:
            _ = as_tf_variable(variable).handle
        except ValueError as error:
            raise ValueError(
                "Within strategy.scope() a variable stands for all of its copies at once. Call this outside of the "
                "scope, where they are all assigned to; steps on the examples of several replicas are those of "
                f"LevenbergMarquardt().minimize in strategy.run. Received: {variable_name(variable)!r}"
            ) from error


def variable_name(variable: Variable) -> str:
    """Return the path of a Keras variable, or the name of a `tf.Variable`."""
    return getattr(variable, "path", None) or variable.name


def nested_names(variables: Any) -> list[str]:
    """Return what to call each variable of a nest, in the order of `tf.nest.flatten`.

    That is the key of a dictionary that leads to it, or its own name where no other has the same; else its number.
    """
    flat = tf.nest.flatten(variables)
    keys = list(variables) if isinstance(variables, dict) and len(variables) == len(flat) else None
    if keys is not None and not any(tf.nest.is_nested(variable) for variable in variables.values()):
        return [str(key) for key in sorted(keys)]
    names = [variable_name(variable).removesuffix(":0") for variable in flat]
    names = [f"x{k}" if names.count(name) > 1 else name for k, name in enumerate(names)]
    return ["x" if name == "Variable" else name for name in names]
