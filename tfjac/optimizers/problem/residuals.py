"""From a loss, or from residuals, to the objective of a step: blocks of residuals with their Jacobians, and a prior."""

import warnings

import tensorflow as tf

from tfjac.graph import ExamplesMix, analyse_examples, as_tf_variable, handle_in, inline_calls
from tfjac.jacobians import jacobian_operator
from tfjac.optimizers.callables import call_converted
from tfjac.optimizers.linearisation.columns import SomeColumns
from tfjac.optimizers.problem.dependence import check_dependence, dependence
from tfjac.optimizers.problem.loss_terms import squared_terms
from tfjac.optimizers.problem.objective import Objective
from tfjac.optimizers.problem.priors import combined, diagonal_prior
from tfjac.optimizers.problem.variables import variable_name

FEW_ROWS = 1000
"""Residuals so few that nobody needs to hear that their Jacobian is taken row by row."""


def loss_objective(loss, variables):
    """Return the `Objective` of a loss that is a sum of squares.

    loss = Σ c·u² = ½‖r‖² with r = √(2c)·u, so that F is the loss itself. Where c is zero, so is r, whatever u: a loss
    that leaves out missing values by `tf.where` is finite, and so are its residuals.

    Args:
        loss: scalar tensor of the graph being traced.
        variables: list of `tf.Variable` or `keras.Variable`.

    Raises:
        NotASumOfSquares: a ValueError that names the op through which a variable enters other than squared.
        ValueError: for a variable that the loss does not depend on, or reduced precision on the way.
    """
    handles = _handles(loss.graph, variables)
    (loss,) = inline_calls([loss], depends_on=[handle for handle in handles if handle is not None])
    check_dependence([loss], variables, handles, "loss")
    terms = squared_terms(loss, handles)
    priors, roots = [], []
    for term in terms:
        prior = diagonal_prior(term, handles)
        if prior is None:
            roots.append(tf.math.multiply_no_nan(term.root, tf.sqrt(2 * tf.cast(term.weight, term.root.dtype))))
        else:
            priors.append(prior)
    return Objective(
        cost=tf.reduce_sum(loss),
        blocks=_blocks(roots, variables, handles),
        prior=combined(priors, _sizes(variables), loss.dtype),
        variables=variables,
    )


def residual_objective(function, variables):
    """Return the `Objective` F = ½‖r‖² of the residuals that a function of the user's returns, traced here.

    Args:
        function: callable without arguments that returns a tensor of any shape, or a nest of tensors. Where the leading
            axis is that of independent examples, the Jacobian is found far cheaper.
        variables: list of `tf.Variable` or `keras.Variable`.

    Raises:
        ValueError: for residuals that do not depend on one of the variables, or assign to one.
        TypeError: for residuals that are not floating-point tensors.
    """
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    tensors = _checked(tf.nest.flatten(call_converted(function)))
    handles = _handles(graph, variables)
    _check_not_assigned(graph.get_operations()[before:], variables, handles)
    tensors = inline_calls(tensors, depends_on=[handle for handle in handles if handle is not None])
    check_dependence(tensors, variables, handles, "residuals")
    cost = tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tensors]) / 2
    prior = combined([], _sizes(variables), cost.dtype)
    return Objective(cost, _blocks(tensors, variables, handles), prior, variables)


def _checked(tensors):
    for tensor in tensors or [None]:
        if not tf.is_symbolic_tensor(tensor) or not tensor.dtype.is_floating:
            raise TypeError(
                "The residuals must be floating-point tensors computed from the variables, inside the function that "
                f"was passed. Received: {tensor!r}"
            )
        if tensor.shape.rank is None:
            raise ValueError(
                "The rank of residuals must be known while tracing. Say what their shape is by tf.ensure_shape. "
                f"Received: {tensor!r}"
            )
    return tensors


def _check_not_assigned(ops, variables, handles):
    names = {handle.ref(): variable_name(v) for v, handle in zip(variables, handles) if handle is not None}
    for op in ops:
        if op.type.startswith("Assign") and op.inputs[0].ref() in names:
            raise ValueError(
                "The residuals must not assign to a variable that they are minimised over: where they are evaluated is "
                "for the steps to say. Assign before the minimisation, or compute with a tensor instead. "
                f"Received: op {op.name!r} of type {op.type}, which assigns to {names[op.inputs[0].ref()]!r}"
            )


def _sizes(variables):
    return [as_tf_variable(variable).shape.num_elements() for variable in variables]


def _handles(graph, variables):
    return [handle_in(graph, variable) for variable in variables]


def _blocks(tensors, variables, handles):
    """Return pairs of Jacobian operator and residuals `[rows]`, one for each group of tensors."""
    blocks = []
    for group in _grouped([_with_examples(tensor) for tensor in tensors], handles):
        flat = [tf.reshape(tensor, [tf.shape(tensor)[0], -1]) for tensor in group]
        residual = flat[0] if len(group) == 1 else tf.concat(flat, axis=1)
        blocks.append((_operator(group, variables, handles), tf.reshape(residual, [-1])))
    return blocks


def _operator(group, variables, handles):
    """Return the Jacobian of a group of tensors, with columns for all variables."""
    present = sorted(set().union(*dependence(group, handles)))
    with warnings.catch_warnings():
        if all((tensor.shape.num_elements() or FEW_ROWS + 1) <= FEW_ROWS for tensor in group):
            warnings.simplefilter("ignore", UserWarning)  # that every row costs a backward pass, where there are few
        operator = jacobian_operator(group, [variables[index] for index in present], examples_mix="full")
    return operator if len(present) == len(variables) else SomeColumns(operator, present, _sizes(variables))


def _with_examples(tensor):
    """Return `tensor` with a leading axis; a scalar residual is one example."""
    return tf.reshape(tensor, [1, 1]) if tensor.shape.rank == 0 else tensor


def _grouped(tensors, handles):
    """Group tensors by their examples: those that share them have one operator, so that a kernel sees them together."""
    groups = []
    for tensor in tensors:
        for group in groups:
            if _same_examples([*group, tensor], handles):
                group.append(tensor)
                break
        else:
            groups.append([tensor])
    return groups


def _same_examples(tensors, handles):
    if len({tensor.shape[0] for tensor in tensors}) > 1:
        return False
    try:
        analyse_examples(handles, tensors)
    except ExamplesMix:
        return False
    return True
