"""Graphs of functions: what they captured, call and nest in, and how they are traced."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import config as _autograph
from tensorflow.python.eager import record as _record
from tensorflow.python.framework import auto_control_deps as _auto_control_deps
from tensorflow.python.framework import func_graph as _func_graph
from tensorflow.python.framework import function_def_to_graph as _function_def_to_graph
from tensorflow.python.framework import ops as _ops
from tensorflow.python.ops import control_flow_util as _control_flow_util
from tensorflow.python.ops import handle_data_util as _handle_data
from tensorflow.python.ops import resource_variable_ops as _resource_variable_ops
from tensorflow.python.ops import while_v2 as _while_v2

from tfjac.graph.facts import facts_of, is_constant, is_parameter
from tfjac.types import Tensor

# AutoGraph would translate every function of this package that a `tf.function` comes to: seconds at the first call.
# `tf.autograph.experimental.do_not_convert` is for single functions, and is lost where one is an argument's default.
_autograph.CONVERSION_RULES = (_autograph.DoNotConvert(__name__.partition(".")[0]), *_autograph.CONVERSION_RULES)


stop_recording = _record.stop_recording
function_graph = _func_graph.FuncGraph
"""From a name to an empty graph of a function."""


def handle_shape(handle: Tensor) -> tf.TensorShape:
    """Return the static shape of the variable that resource `handle` stands for.

    A tensor of dtype resource has shape `[]` itself; what it points to is in its handle data.
    """
    return tf.TensorShape(_handle_data.get_resource_handle_data(handle).shape_and_type[0].shape)


def handle_spec(handle: Tensor) -> tf.TensorSpec | Any:
    """Return the `tf.TensorSpec` of the variable that `handle`, of a graph, stands for; None for no variable's."""
    if handle.dtype != tf.resource:
        return None
    data = _handle_data.get_resource_handle_data(handle)
    known = data.shape_and_type[0] if data.is_set and len(data.shape_and_type) == 1 else None
    return None if known is None else tf.TensorSpec(known.shape, tf.dtypes.as_dtype(known.dtype))


def is_taped() -> bool:
    """Return whether a tape, or accumulator, of this thread may record what Python computes, but for copies of ops."""
    return _record.could_possibly_record()


def is_function_graph(graph: tf.Graph) -> bool:
    """Return whether `graph` is the body of a `tf.function` (or of a loop or branch inside one)."""
    return isinstance(graph, _func_graph.FuncGraph)


def acting_ops(graph: tf.Graph) -> list[tf.Operation]:
    """Return the ops that a function runs for what they do, not for what they give: assignments, prints, checks."""
    return list(getattr(graph, "control_outputs", ()))


def captures_of(graph: tf.Graph) -> list[tuple[Tensor, Tensor]]:
    """Return pairs of what a function graph captured and the placeholder that stands for it, in order."""
    return list(graph.captures)


def captured_placeholder(graph: tf.Graph, external: Tensor) -> Tensor | None:
    """Return the placeholder that stands for `external` in `graph`, or None where it was never captured.

    `Graph.capture` would add the capture where it is missing; only `FuncGraph.captures` can be asked.
    """
    for outer, inner in graph.captures:
        if outer is external:
            return inner
    return None


def traced_function(concrete: tf.types.experimental.ConcreteFunction) -> Any:
    """Return what the library of a graph knows of a `tf.ConcreteFunction`: its definition, and its graph."""
    return concrete.inference_fn


def call_flat(concrete: tf.types.experimental.ConcreteFunction, tensors: Sequence[Tensor]) -> Any:
    """Call a `tf.ConcreteFunction` with all of its tensors in a row; the public call takes 20 microseconds for each."""
    return concrete._call_flat(tensors, concrete.captured_inputs)


def captured_constants(graph: tf.Graph) -> set[str]:
    """Return the names of the constants of `graph` that are small eager tensors, captured by their value."""
    return {inner.op.name for _, inner in getattr(graph, "captures", ()) if is_constant(inner.op)}


def function_bodies(op: tf.Operation, attribute: str) -> list[tf.Graph]:
    """Return the graphs of the functions that attribute `attribute` of `op` names: a list, of one or several.

    `Graph._get_function` is the only reader of a graph's function library. A function that was loaded rather than
    traced has its graph rebuilt from its definition.
    """
    return [_body(function) for function in functions_named(op, attribute)]


def functions_named(op: tf.Operation, attribute: str) -> list[Any]:
    """Return the functions of the graph's library that attribute `attribute` of `op` names: a list."""
    named = op.get_attr(attribute)
    names = [function.name for function in (named if isinstance(named, list) else [named])]
    return [op.graph._get_function(name) for name in names]


def _body(function: Any) -> tf.Graph:
    """The graph of a function; one made by the old `Defun`, as loops in `tf.nn.ctc_loss` are, is only a definition."""
    graph = getattr(function, "graph", None)
    return _function_def_to_graph.function_def_to_graph(function.definition) if graph is None else graph


def compiled_by_xla(graph: tf.Graph) -> bool:
    """Return whether `graph` is traced for XLA: `tf.function(jit_compile=True)` leaves no public mark on it."""
    return _control_flow_util.GraphOrParentsInXlaContext(graph)


def outer_graph(graph: tf.Graph) -> tf.Graph | None:
    """Return the graph in which `graph` is nested, or None."""
    return getattr(graph, "outer_graph", None)


def trace(function: Callable, specs: Iterable[tf.TensorSpec]) -> Any:
    """Trace `function(*tensors)` into a function of the library, in the current graph; `specs` are `tf.TensorSpec`.

    A `tf.function` gives no other access to what the runtime and a graph's library know as a function.
    """
    return tf.function(function, autograph=False).get_concrete_function(*specs).inference_fn


def eager_variable(**options: Any) -> tf.Variable:
    """Return the variable that `tf.Variable(**options)` makes where no function is being traced."""
    return _resource_variable_ops.default_variable_creator_v2(None, **options)


def after_effects(compute: Callable[[], list[Tensor | None]]) -> list[Tensor | None]:
    """Return `compute()`, a list of tensors or None, which wait for what it does besides, such as print or record.

    A `tf.function` runs all that acts in it. The backward pass that TensorFlow makes of one for a tape outside of it is
    a function where that is not seen to: what the gradients are not computed from would not run, in branches neither.
    """
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph()._add_control_dependencies:
        return compute()
    with _auto_control_deps.AutomaticControlDependencies() as dependencies:
        results = compute()
    acting = [op for op in dependencies.ops_which_must_run if not is_parameter(op) and facts_of(op).kind != "read"]
    if not acting:  # not one op more: TensorFlow's optimiser would add in another order
        return results
    with tf.control_dependencies(acting):
        return [result if result is None else tf.identity(result) for result in results]


def name_bodies_apart(loop: tf.Operation) -> None:
    """Give the bodies of a loop that is a copy names of its own, by which its gradients call what they make of them.

    For a copy `while_v2` rebuilds the graphs of the bodies from their definitions, keeps them as attributes of the op
    once it has rewritten them, and then adds to their names: two copies of one loop would come to the same names.
    """
    for attribute, kept in (("cond", "_cond_graph"), ("body", "_body_graph")):
        if getattr(loop, kept, None) is None:
            graph = _while_v2._get_graph(loop, attribute, kept)
            graph.name = f"{graph.name}_{_ops.uid()}"
            setattr(loop, kept, graph)
