"""Ops that give other values, or act again, when they run again: what is drawn from a state is drawn once.

Reading a variable is no such thing: where it may be assigned in between is looked at by itself.
"""

from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import facts_of, functions_of_stateful, is_branching, is_call, reads_variable
from tfjac.graph.reading.traversal import ancestors, stands_before
from tfjac.types import Tensor


def draws(op: tf.Operation) -> bool:
    """Return whether `op` by itself gives other values when it runs again, or acts twice."""
    return op.op_def.is_stateful and not functions_of_stateful(op) and not facts_of(op).repeatable


def stays(op: tf.Operation) -> bool:
    """Return whether what `op` gives counts as a constant: it is drawn from a state, or no gradient is to pass it."""
    return draws(op) or facts_of(op).kind == "stop"


def is_pure_python(op: tf.Operation) -> bool:
    """Return whether `op` calls a Python function that is taken to be a pure one: a `tf.py_function`."""
    return facts_of(op).kind == "python" and facts_of(op).repeatable


def culprit_in(graph: Any) -> tf.Operation | None:
    """Return an op of a function's graph that draws or acts, in the functions that it calls too; None where none is."""
    return next((found for found in map(_culprit, graph.get_operations()) if found is not None), None)


def _culprit(op: tf.Operation) -> tf.Operation | None:
    if not functions_of_stateful(op):
        return op if draws(op) or is_pure_python(op) else None
    inside = (culprit_in(body) for name in functions_of_stateful(op) for body in _private.function_bodies(op, name))
    return next((found for found in inside if found is not None), None)


def check_runs_again(op: tf.Operation) -> None:
    """Check that a loop or branch gives the same when it runs again.

    Raises:
        ValueError: naming what is drawn inside.
    """
    culprit = _culprit(op) if functions_of_stateful(op) else None
    if culprit is not None and facts_of(culprit).kind == "python" and not is_pure_python(culprit):
        raise ValueError(
            "A function that is evaluated again elsewhere must be the same function there. What tf.numpy_function "
            "calls inside of a loop or branch may give something else each time, and has no gradient. Compute it by "
            "TensorFlow's ops, or by tfjac.external, which has a gradient; or before the loop. "
            f"Received: {op.name!r} of type {op.type}; inside, op {culprit.name!r} of type {culprit.type}"
        )
    if culprit is not None and not is_pure_python(culprit):
        raise ValueError(
            "A function that is evaluated again elsewhere must be the same function there, but what is drawn inside a "
            "loop or branch is drawn again. Draw random numbers before it, and pass them in. "
            f"Received: {op.name!r} of type {op.type}; inside, op {culprit.name!r} of type {culprit.type}"
        )


def check_gives_the_same(call: tf.Operation, draw_again: bool = False) -> None:
    """Check that a copy of the body of `call` computes what the call itself did.

    Args:
        draw_again: whether other random numbers will do.

    Raises:
        ValueError: naming what is drawn, or assigned, inside on the way to the results.
    """
    culprit = _drawn_on_the_way(call, draw_again)
    if culprit is not None:
        remedy = (
            "Draw and assign outside of the inner function"
            if draw_again
            else (
                "Pass a callable that computes ys, so that they are computed together with their Jacobian; or draw and "
                "assign outside of the inner function"
            )
        )
        raise ValueError(
            "The Jacobian would be that of other values: ys come from a call of a function that draws random numbers, "
            f"or advances a state that it reads, inside. {remedy}. What a minimisation inside finds has derivatives by "
            "tf.GradientTape.jacobian with experimental_use_pfor=False. "
            f"Received: call {call.name!r}; inside, op {culprit.name!r} of type {culprit.type}"
        )


def _drawn_on_the_way(call: tf.Operation, draw_again: bool) -> tf.Operation | None:
    (body,) = _private.function_bodies(call, "f")
    for op in ancestors(body.outputs):
        if is_call(op):
            culprit = _drawn_on_the_way(op, draw_again)
        elif functions_of_stateful(op):
            culprit = None if draw_again else _culprit(op)
        else:
            culprit = op if (draws(op) and not draw_again) or _reads_what_is_assigned(op, draw_again) else None
        if culprit is not None:
            return culprit
    return None


def _reads_what_is_assigned(op: tf.Operation, draw_again: bool) -> bool:
    """Whether `op` reads a variable that the function around it assigns: the state of a random generator, or worse."""
    if facts_of(op).kind != "read" or (draw_again and op.outputs[0].dtype.is_integer):
        return False
    return any(_assigns(user, op.inputs[0]) for user in op.inputs[0].consumers())


def _assigns(op: tf.Operation, handle: Tensor) -> bool:
    if not functions_of_stateful(op):
        return op.type.startswith(("Assign", "Rng", "ResourceScatter", "ResourceApply"))
    position = next(k for k, tensor in enumerate(op.inputs) if tensor is handle)
    position -= is_branching(op)
    bodies = (body for name in functions_of_stateful(op) for body in _private.function_bodies(op, name))
    return any(_assigns(user, body.inputs[position]) for body in bodies for user in body.inputs[position].consumers())


def check_not_assigned_since(op: tf.Operation) -> None:
    """Check that what `op` reads by itself, a loop or a call of a function, is still what it was.

    Its body runs again, at the place in the program where the graph is being added to.

    Raises:
        ValueError: where a variable that it captures is assigned after it.
    """
    for handle in op.inputs:
        if handle.dtype != tf.resource:
            continue
        assignments = [user for user in handle.consumers() if user.type.startswith(("Assign", "Resource"))]
        later = [user for user in assignments if not reads_variable(user) and stands_before(op, user)]
        if later:
            raise ValueError(
                "A loop or function on the way to ys reads a variable that is assigned after it. Take the Jacobian "
                f"before the assignment. Received: {op.name!r} of type {op.type}, assignment {later[-1].name!r}"
            )
