"""Which variables a tensor depends on, and the checks that follow from it."""

import keras

from tfjac.graph import Dependence, as_tf_variable
from tfjac.optimizers.problem.variables import variable_name


def dependence(targets, handles):
    """Return, for each target, the set of the numbers of the variables from which a gradient passes to it.

    Args:
        targets: list of tensors of one graph.
        handles: list of the handles of the variables (None for one that the graph never uses).

    Cost: one walk over the graph, whatever the number of variables.
    """
    known = Dependence(handles)
    return [set(known.sources_of(target)) for target in targets]


def check_dependence(targets, variables, handles, what):
    """Refuse variables that the targets do not depend on, and arithmetic in another precision than theirs.

    Args:
        targets: list of tensors of one graph.
        variables, handles: the variables, and their handles in that graph.
        what: what the targets are called in messages, "loss" or "residuals".

    Raises:
        ValueError: naming the variable, or the op.
    """
    reached = set().union(*dependence(targets, handles))
    for number, variable in enumerate(variables):
        if number not in reached:
            raise ValueError(
                f"The {what} must depend on every variable: the Jacobian has a column for each. Leave the variable "
                f"out, or set trainable = False on its layer. Received: variable {variable_name(variable)!r}, on which "
                f"the {what} do{'es' if what == 'loss' else ''} not depend"
            )
    _check_precision(Dependence(handles).path(targets), as_tf_variable(variables[0]).dtype)


def _check_precision(path, dtype):
    for op in path:
        for output in op.outputs:
            if output.dtype.is_floating and output.dtype != dtype:
                raise ValueError(
                    "Levenberg-Marquardt solves linear systems made of derivatives: the model must compute in the "
                    "dtype of its variables throughout, float32 or float64, without mixed precision (Keras computes "
                    f"losses in keras.config.floatx(), here {keras.config.floatx()}). Received: variables of dtype "
                    f"{dtype.name}, and op {op.name!r} of type {op.type}, which gives {output.dtype.name}"
                )
