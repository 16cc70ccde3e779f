"""The one file that imports non-public TensorFlow (`tensorflow.python`).

Every function here says which private thing it stands for and why no public one serves, so that a new release can be
followed by reading one page. Checked on TensorFlow 2.21.
"""

import weakref

import tensorflow as tf
from tensorflow.python.autograph.core import config as _autograph
from tensorflow.python.client import pywrap_tf_session as _session
from tensorflow.python.eager import record as _record
from tensorflow.python.framework import auto_control_deps as _auto_control_deps
from tensorflow.python.framework import func_graph as _func_graph
from tensorflow.python.framework import function_def_to_graph as _function_def_to_graph
from tensorflow.python.framework import ops as _ops
from tensorflow.python.ops import control_flow_util as _control_flow_util
from tensorflow.python.ops import handle_data_util as _handle_data
from tensorflow.python.ops import resource_variable_ops as _resource_variable_ops
from tensorflow.python.ops import script_ops as _script_ops
from tensorflow.python.ops import while_v2 as _while_v2
from tensorflow.python.ops.parallel_for import pfor as _pfor

from tfjac.graph.facts import facts_of, is_constant, is_parameter

# AutoGraph would translate every function of this package that a `tf.function` comes to: seconds at the first call.
# `tf.autograph.experimental.do_not_convert` is for single functions, and is lost where one is an argument's default.
_autograph.CONVERSION_RULES = (_autograph.DoNotConvert(__name__.partition(".")[0]), *_autograph.CONVERSION_RULES)


def handle_shape(handle):
    """Return the static shape of the variable that resource `handle` stands for.

    A tensor of dtype resource has shape `[]` itself; what it points to is in its handle data.
    """
    return tf.TensorShape(_handle_data.get_resource_handle_data(handle).shape_and_type[0].shape)


def handle_spec(handle):
    """Return the `tf.TensorSpec` of the variable that `handle`, of a graph, stands for; None for no variable's."""
    if handle.dtype != tf.resource:
        return None
    data = _handle_data.get_resource_handle_data(handle)
    known = data.shape_and_type[0] if data.is_set and len(data.shape_and_type) == 1 else None
    return None if known is None else tf.TensorSpec(known.shape, tf.dtypes.as_dtype(known.dtype))


stop_recording = _record.stop_recording
function_graph = _func_graph.FuncGraph
"""From a name to an empty graph of a function."""


def is_taped():
    """Return whether a tape, or accumulator, of this thread may record what Python computes, but for copies of ops."""
    return _record.could_possibly_record()


def is_function_graph(graph):
    """Return whether `graph` is the body of a `tf.function` (or of a loop or branch inside one)."""
    return isinstance(graph, _func_graph.FuncGraph)


def acting_ops(graph):
    """Return the ops that a function runs for what they do, not for what they give: assignments, prints, checks."""
    return list(getattr(graph, "control_outputs", ()))


def captures_of(graph):
    """Return pairs of what a function graph captured and the placeholder that stands for it, in order."""
    return list(graph.captures)


def captured_placeholder(graph, external):
    """Return the placeholder that stands for `external` in `graph`, or None where it was never captured.

    `Graph.capture` would add the capture where it is missing; only `FuncGraph.captures` can be asked.
    """
    for outer, inner in graph.captures:
        if outer is external:
            return inner
    return None


def traced_function(concrete):
    """Return what the library of a graph knows of a `tf.ConcreteFunction`: its definition, and its graph."""
    return concrete.inference_fn


def call_flat(concrete, tensors):
    """Call a `tf.ConcreteFunction` with all of its tensors in a row; the public call takes 20 microseconds for each."""
    return concrete._call_flat(tensors, concrete.captured_inputs)


def captured_constants(graph):
    """Return the names of the constants of `graph` that are small eager tensors, captured by their value."""
    return {inner.op.name for _, inner in getattr(graph, "captures", ()) if is_constant(inner.op)}


def function_bodies(op, attribute):
    """Return the graphs of the functions that attribute `attribute` of `op` names: a list, of one or several.

    `Graph._get_function` is the only reader of a graph's function library. A function that was loaded rather than
    traced has its graph rebuilt from its definition.
    """
    return [_body(function) for function in functions_named(op, attribute)]


def functions_named(op, attribute):
    """Return the functions of the graph's library that attribute `attribute` of `op` names: a list."""
    named = op.get_attr(attribute)
    names = [function.name for function in (named if isinstance(named, list) else [named])]
    return [op.graph._get_function(name) for name in names]


def _body(function):
    """The graph of a function; one made by the old `Defun`, as loops in `tf.nn.ctc_loss` are, is only a definition."""
    graph = getattr(function, "graph", None)
    return _function_def_to_graph.function_def_to_graph(function.definition) if graph is None else graph


def compiled_by_xla(graph):
    """Return whether `graph` is traced for XLA: `tf.function(jit_compile=True)` leaves no public mark on it."""
    return _control_flow_util.GraphOrParentsInXlaContext(graph)


def outer_graph(graph):
    """Return the graph in which `graph` is nested, or None."""
    return getattr(graph, "outer_graph", None)


def copy_op(op, inputs):
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
    if is_taped():
        _show_tapes(copy)
    return copy


def _show_tapes(op):
    """Have gradient tapes of this thread know of an op that was made without TensorFlow's Python function for it.

    They are told of ops by those functions alone: past one that is copied they would find no path, or only some.
    """

    def backward(*cotangents):
        return input_gradients(op, cotangents)

    _record.record_operation(op.type, list(op.outputs), list(op.inputs), backward)


def copy_traceback(op, copy):
    """Have `copy` say that it was made where `op` was; one line, where that is not known, as XLA reads the last one.

    TensorFlow sets the traceback of an op that is made in Python, and has no public way to set another. Slices, as the
    traceback that an op returns is not an object that can be passed on.
    """
    traceback = op.traceback[:] if op.traceback else copy.traceback[-1:]
    _session.TF_SetOpStackTrace(copy._c_op, traceback)


def _called_functions(op):
    names = [value.func.name for value in op.node_def.attr.values() if value.HasField("func")]
    names += [function.name for value in op.node_def.attr.values() for function in value.list.func]
    return [op.graph._get_function(name) for name in names]


def trace(function, specs):
    """Trace `function(*tensors)` into a function of the library, in the current graph; `specs` are `tf.TensorSpec`.

    A `tf.function` gives no other access to what the runtime and a graph's library know as a function.
    """
    return tf.function(function, autograph=False).get_concrete_function(*specs).inference_fn


def gradient_name(op):
    """Return the name under which the gradient of `op` is registered, where that is not its type; else None."""
    return text_attribute(op, "_gradient_op_type")


def integers_attribute(op, name):
    """Return an attribute that `set_integers_attribute` set, or None where there is none."""
    return _attribute(op, name, "list", lambda value: list(value.i))


def text_attribute(op, name):
    """Return an attribute that `set_text_attribute` set, or None where there is none."""
    return _attribute(op, name, "s", bytes.decode)


def _attribute(op, name, kind, read):
    """Attributes of ops whose names begin with an underscore are not of the op's definition; `get_attr` raises."""
    attributes = op.node_def.attr
    return read(getattr(attributes[name], kind)) if name in attributes else None


def set_text_attribute(op, name, text):
    """Set an attribute of `op` to a string, or to bytes."""
    op._set_attr(name, tf.compat.v1.AttrValue(s=text if isinstance(text, bytes) else text.encode()))


def set_integers_attribute(op, name, integers):
    """Set an attribute of `op` to a list of integers."""
    op._set_attr(name, tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(i=integers)))


def set_function_attribute(op, name, function):
    """Set an attribute of `op` to a function, which its graph's library then holds."""
    op.graph._add_function_recursive(function)
    op._set_func_attr(name, function.name)


def differentiated_op(op):
    """Return the op of whose gradient `op` is a part, where `tf.gradients` made it and neither is a copy; else None."""
    return getattr(mapped_op(op), "_original_op", None)


def mapped_op(op):
    """Return the op of the function that `tf.vectorized_map` maps for which `op` stands, for all slices; else `op`.

    The vectoriser notes it where gradients note what they differentiate, and tells it by the scope of the names alone.
    """
    original = mapped_from(op)
    return op if original is None else mapped_op(original)


def mapped_from(op):
    """Return the op that the vectoriser turned into `op`, one map further in; None where `op` is as it was made."""
    original = getattr(op, "_original_op", None)
    return original if original is not None and op.name.startswith(f"{original.name}/pfor/") else None


def gradient_function(op):
    """Return the Python function that takes gradients through `op`: from the op and cotangents to gradients.

    Raises:
        LookupError: where none is registered.
    """
    return _ops.get_gradient_function(op)


def gradient_of_type(op_type):
    """Return TensorFlow's own gradient of ops of a type, whatever has been set for a single op."""
    return _ops.gradient_registry.lookup(op_type)


def copy_handle_data(source, target):
    """Tell `target` what its equal, `source`, knows of the variable or list that it stands for."""
    _handle_data.copy_handle_data(source, target)


def name_bodies_apart(loop):
    """Give the bodies of a loop that is a copy names of its own, by which its gradients call what they make of them.

    For a copy `while_v2` rebuilds the graphs of the bodies from their definitions, keeps them as attributes of the op
    once it has rewritten them, and then adds to their names: two copies of one loop would come to the same names.
    """
    for attribute, kept in (("cond", "_cond_graph"), ("body", "_body_graph")):
        if getattr(loop, kept, None) is None:
            graph = _while_v2._get_graph(loop, attribute, kept)
            graph.name = f"{graph.name}_{_ops.uid()}"
            setattr(loop, kept, graph)


def is_differentiable(op):
    """Return whether a gradient passes through `op`: False for Shape, StopGradient, comparisons, roundings, signs.

    An op without any registered gradient counts as differentiable, so that taking the gradient says what is missing.
    `ops.get_gradient_function` asks every op for a gradient of its own first, which costs ten times as much.
    """
    if not op.inputs:
        return False
    try:
        passes = _ops.gradient_registry.lookup(op.type) is not None and facts_of(op).steps is None
    except LookupError:
        return True
    return passes or gradient_name(op) is not None


def has_gradient(op):
    """Return whether something is registered as the gradient of `op`, be it that there is none."""
    return gradient_name(op) is not None or op.type in _ops.gradient_registry.list()


def python_function(op):
    """Return the Python function that an op made by `tf.py_function` calls, or None where it is not there any more.

    The op holds no more of it than a number.
    """
    wrapper = _script_ops._py_funcs.get(op.get_attr("token").decode())
    return getattr(wrapper, "_func", None)


def input_gradients(op, cotangents):
    """Return the gradient with respect to each input of `op` by itself, None where there is none.

    `tf.gradients` adds up those of a tensor that is read by several inputs of one op.

    Args:
        op: an op with a registered gradient.
        cotangents: one per output, None for outputs that carry no gradient.
    """
    gradients = _ops.get_gradient_function(op)(op, *cotangents)
    return list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]


def after_effects(compute):
    """Return `compute()`, a list of tensors or None, which wait for what it does besides, such as print or record.

    A `tf.function` runs all that acts in it. The backward pass that TensorFlow makes of one for a tape outside of it is
    a function where nobody sees to that: what the gradients are not computed from would not run, in branches neither.
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


def forget_with(gradient, name):
    """Have TensorFlow's registry forget the gradient registered as `name` with the last that refers to it elsewhere.

    It never forgets one by itself, and a gradient may hold tensors: their graphs would never be freed.
    """
    registered, function = _ops.gradient_registry._registry, weakref.ref(gradient)
    registered[name] = {**registered[name], "type": lambda op, *cotangents: function()(op, *cotangents)}
    weakref.finalize(gradient, registered.pop, name, None)


def keep_with(graph, gradient):
    """Have a gradient live as long as a graph whose ops have it."""
    graph._tfjac_gradients = [*getattr(graph, "_tfjac_gradients", ()), gradient]


def set_gradient(op, name):
    """Have gradients through `op` taken by the function registered as `name` with `tf.RegisterGradient`.

    `Graph.gradient_override_map` only reaches ops made inside its scope.
    """
    set_text_attribute(op, "_gradient_op_type", name)


def clear_gradient(op):
    """Have gradients through `op` taken as those of its type."""
    op._clear_attr("_gradient_op_type")


def set_conversion(op, edit=None, shortcut=None):
    """Have `tf.vectorized_map` convert `op`, of the function that it maps, in another way than others of its type.

    A converter of the vectoriser turns an op of the function into ops that do the same for all slices at once. There is
    no public access to them, and `RegisterPFor` takes one converter per type, for the whole process.

    Args:
        op: an op made while the function that is mapped is traced.
        edit: function `(op, inputs, stacked)` of the converted inputs and of whether each has the axis of the slices in
            front, that returns what TensorFlow's converter is to be given in their place, or None where the op is to be
            run once for each slice.
        shortcut: function of the same that returns the converted outputs, each with that axis, or None where
            TensorFlow's converter is to be taken.
    """

    def convert(given):
        inputs, stacked = [part.t for part in given.inputs], [part.is_stacked for part in given.inputs]
        outputs = None if shortcut is None else shortcut(op, inputs, stacked)
        if outputs is not None:
            return [_pfor.wrap(output, True) for output in outputs]
        edited = inputs if edit is None else edit(op, inputs, stacked)
        if edited is None:
            return _pfor._fallback_converter(given)
        given.inputs[:] = [part._replace(t=tensor) for part, tensor in zip(given.inputs, edited)]
        return _pfor._pfor_converter_registry[op.type](given)

    op.pfor_converter = convert


def op_like(op, inputs):
    """Return the outputs of a copy that gradient tapes see: made as the vectoriser's own converters make ops."""
    return list(_pfor._create_op(op.type, inputs, [out.dtype for out in op.outputs], op.node_def.attr).outputs)


def eager_variable(**options):
    """Return the variable that `tf.Variable(**options)` makes where no function is being traced."""
    return _resource_variable_ops.default_variable_creator_v2(None, **options)
