"""From a loss, or from residuals, to the problem of a step: residuals, and a prior."""

import tensorflow as tf

from tfjac.graph import as_tf_variable, call_converted, handle_in, inline_calls, verification_wanted
from tfjac.optimizers.problem.dependence import check_dependence
from tfjac.optimizers.problem.loss_terms import squared_terms
from tfjac.optimizers.problem.priors import combined, diagonal_prior
from tfjac.optimizers.problem.problem import Problem
from tfjac.optimizers.problem.variables import variable_name


def problem_of_loss(loss, variables, gradients=None, verify=None):
    """Return the `Problem` of a loss that is a sum of squares.

    loss = Σ c·u² = ½‖r‖² with r = √(2c)·u, so that F is the loss itself. Where c is zero, so is r, whatever u: a loss
    that leaves out missing values by `tf.where` is finite, and so are its residuals.

    Args:
        loss: scalar tensor of the graph being traced.
        variables: list of `tf.Variable` or `keras.Variable`.
        gradients: list of the gradients of the loss that somebody else has taken, for verification, or None.
        verify: whether to verify, see `verification_wanted`.

    Raises:
        NotASumOfSquares: a ValueError that names the op through which a variable enters other than squared.
        ValueError: for a variable that the loss does not depend on, or reduced precision on the way.
    """
    handles = _handles(loss.graph, variables)
    loss, drawn_again = _inlined(loss, handles)
    check_dependence([loss], variables, handles, "loss")
    terms = squared_terms(loss, handles)
    priors, roots = [], []
    for term in terms:
        prior = diagonal_prior(term, handles)
        if prior is None:
            roots.append(tf.math.multiply_no_nan(term.root, tf.sqrt(2 * tf.cast(term.weight, term.root.dtype))))
        else:
            priors.append(prior)
    cost, prior = tf.reduce_sum(loss), combined(priors, _sizes(variables), loss.dtype)
    known = gradients is not None and any(x is not None for x in gradients) and not drawn_again
    reference = _dense(gradients, variables) if known else _gradients(cost, variables)
    return Problem(cost, roots, prior, variables, reference if verification_wanted(verify) else None)


def _inlined(loss, handles):
    """Return the loss with calls inlined, and whether it draws random numbers of its own by that."""
    read = [handle for handle in handles if handle is not None]
    try:
        return inline_calls([loss], read)[0], False
    except ValueError:  # random numbers that an inner function draws
        return inline_calls([loss], read, draw_again=True)[0], True


def problem_of_residuals(function, variables, verify=None):
    """Return the `Problem` F = ½‖r‖² of the residuals that a function of the user's returns, traced here.

    Args:
        function: callable without arguments that returns a tensor of any shape, or a nest of tensors. Where the leading
            axis is that of independent examples, the Jacobian is found far cheaper.
        variables: list of `tf.Variable` or `keras.Variable`.
        verify: whether to verify, see `verification_wanted`.

    Raises:
        ValueError: for residuals that do not depend on one of the variables, or assign to one.
        TypeError: for residuals that are not floating-point tensors.
    """
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    tensors = _checked(tf.nest.flatten(call_converted(function)))
    handles = _handles(graph, variables)
    _check_not_assigned(graph.get_operations()[before:], variables, handles)
    tensors = inline_calls(tensors, [handle for handle in handles if handle is not None], draw_again=True)
    check_dependence(tensors, variables, handles, "residuals")
    cost = tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tensors]) / 2
    gradients = _gradients(cost, variables) if verification_wanted(verify) else None
    return Problem(cost, tensors, combined([], _sizes(variables), cost.dtype), variables, gradients)


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


def _gradients(cost, variables):
    """Return TensorFlow's gradients of the cost."""
    return _dense(tf.gradients(cost, [as_tf_variable(variable) for variable in variables]), variables)


def _dense(gradients, variables):
    """Return gradients as tensors of the variables' shapes; where there is none, zeros."""
    return [
        tf.zeros_like(as_tf_variable(variable)) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, variable in zip(gradients, variables)
    ]
