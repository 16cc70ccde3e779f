"""Single ops: copies of them, and what they were made from."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session as _session
from tensorflow.python.eager import record as _record
from tensorflow.python.ops import handle_data_util as _handle_data
from tensorflow.python.ops import script_ops as _script_ops
from tensorflow.python.ops.parallel_for import pfor as _pfor

from tfjac.graph._private.gradients import input_gradients, keep_with
from tfjac.graph._private.graphs import is_function_graph, is_taped, outer_graph
from tfjac.graph.facts import facts_of
from tfjac.types import Tensor


def copy_op(op: tf.Operation, inputs: Sequence[Tensor]) -> tf.Operation:
    """Add a copy of `op` that reads `inputs` to the current graph, and return it.

    Inputs of outer graphs are captured; automatic control dependencies order the copy by where it stands. (Nothing
    replaces the public `Graph.create_op`, which is marked deprecated.)
    """
    graph = tf.compat.v1.get_default_graph()
    attributes = {key: value for key, value in op.node_def.attr.items() if key not in ("_class", "_output_shapes")}
    for function in _called_functions(op):
        graph._add_function_recursive(function)
    with tf.device(op.device or None):
        copy = graph._create_op_internal(
            op.type, inputs, [output.dtype for output in op.outputs], name=op.name, attrs=attributes, op_def=op.op_def
        )
    copy_traceback(op, copy)
    _keep_python(copy)
    if is_taped():
        _show_tapes(copy)
    return copy


def _show_tapes(op: tf.Operation) -> None:
    """Have gradient tapes of this thread know of an op that was made without TensorFlow's Python function for it.

    They are told of ops by those functions alone: past one that is copied they would find no path, or only some.
    """

    def backward(*cotangents: Tensor | None) -> list[Tensor | None]:
        return input_gradients(op, cotangents)

    _record.record_operation(op.type, list(op.outputs), list(op.inputs), backward)


def copy_traceback(op: tf.Operation, copy: tf.Operation) -> None:
    """Have `copy` say that it was made where `op` was; one line, where that is not known, as XLA reads the last one.

    TensorFlow sets the traceback of an op that is made in Python, and has no public way to set another. Slices, as the
    traceback that an op returns is not an object that can be passed on.
    """
    traceback = op.traceback[:] if op.traceback else copy.traceback[-1:]
    _session.TF_SetOpStackTrace(copy._c_op, traceback)


def _called_functions(op: tf.Operation) -> list[Any]:
    names = [value.func.name for value in op.node_def.attr.values() if value.HasField("func")]
    names += [function.name for value in op.node_def.attr.values() for function in value.list.func]
    return [op.graph._get_function(name) for name in names]


def differentiated_op(op: tf.Operation) -> tf.Operation | None:
    """Return the op of whose gradient `op` is a part, where `tf.gradients` made it and neither is a copy; else None."""
    return getattr(mapped_op(op), "_original_op", None)


def mapped_op(op: tf.Operation) -> tf.Operation:
    """Return the op of the function that `tf.vectorized_map` maps for which `op` stands, for all slices; else `op`.

    The vectoriser notes it where gradients note what they differentiate, and tells it by the scope of the names alone.
    """
    original = mapped_from(op)
    return op if original is None else mapped_op(original)


def mapped_from(op: tf.Operation) -> tf.Operation | None:
    """Return the op that the vectoriser turned into `op`, one map further in; None where `op` is as it was made."""
    original = getattr(op, "_original_op", None)
    return original if original is not None and op.name.startswith(f"{original.name}/pfor/") else None


def copy_handle_data(source: Tensor, target: Tensor) -> None:
    """Tell `target` what its equal, `source`, knows of the variable or list that it stands for."""
    _handle_data.copy_handle_data(source, target)


def op_like(op: tf.Operation, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the outputs of a copy that gradient tapes see: made as the vectoriser's own converters make ops."""
    return list(_pfor._create_op(op.type, inputs, [out.dtype for out in op.outputs], op.node_def.attr).outputs)


def python_function(op: tf.Operation) -> Callable | Any:
    """Return the Python function that an op made by `tf.py_function` calls, or None where it is not there any more.

    The op holds no more of it than a number.
    """
    return getattr(_called(op), "_func", None)


def forgotten_with_graphs(called: Any) -> Any:
    """Return what `tf.numpy_function` or `tf.py_function` did, and have their function live as long as graphs need it.

    TensorFlow keeps it with the graph that all others are in, and where that is the one of eager calls, for ever. Only
    then a graph that is saved, and loaded in the same process, finds it.
    """
    first = tf.nest.flatten(called)[0]
    if not tf.executing_eagerly():
        op = first if isinstance(first, tf.Operation) else first.op
        around = _keep_python(op)
        if around is not op.graph:
            around._py_funcs_used_in_graph.remove(_called(op))
    return called


def _keep_python(op: tf.Operation) -> tf.Graph:
    """Have the functions around `op` keep what it calls of Python, if anything; return the graph that they are in."""
    graph: Any = op.graph
    while facts_of(op).kind == "python" and is_function_graph(graph):
        keep_with(graph, _called(op))
        graph = outer_graph(graph)
    return graph


def _called(op: tf.Operation) -> Any:
    return _script_ops._py_funcs.get(op.get_attr("token").decode())
