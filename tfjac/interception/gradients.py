"""Gradients and values at the nodes of a graph that stays as it is."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfjac.graph import call_converted, check_loops, handle_spec, in_graph, quiet_function
from tfjac.graph.nodes import Nodes, layers_tapped, nodes_in, packed_by_selector, resolved, trace
from tfjac.interception.intercept import python_function
from tfjac.jacobians.passes.connectedness import differentiated
from tfjac.jacobians.passes.linearise import dense
from tfjac.types import Function, Nest, NestLike, Sources, TensorLike, Tensors, Unconnected


def nodes(fn: Function, *args: Any, **kwargs: Any) -> Nodes:
    """List the nodes of `fn(*args, **kwargs)`: every tensor that its results are computed from.

    Args:
        fn: a Keras model, a function of tensors, a `tf.function`, or the signature of a loaded SavedModel.
        *args, **kwargs: its arguments: tensors, arrays, or a `tf.TensorSpec` for a tensor that is not at hand.

    Returns:
        `Nodes`, a sequence of `Node` that prints as a table: name, kind ("tap", "layer" or "op"), type of op, path and
        call of the layer, shape, dtype, line of the program, and the loop or branch inside which it stands. The names
        are selectors of the nodes.

    Cost: a trace of `fn`; nothing runs.
    """
    specs = [x for x in tf.nest.flatten((args, kwargs)) if isinstance(x, tf.TensorSpec)]

    def listed(*given):
        remaining = iter(given)
        positional, named = tf.nest.map_structure(
            lambda x: next(remaining) if isinstance(x, tf.TensorSpec) else _as_tensor(x), (args, kwargs)
        )
        traced = trace(python_function(fn), *positional, **named)
        traced.losses.restore()
        found.append(nodes_in(traced.graph, traced.graph.outputs))
        kept.append(traced)

    found: list[Any] = []
    kept: list[Any] = []
    tf.function(listed, autograph=False).get_concrete_function(*specs)
    found[0].traced = kept[0]  # the graph lives as long as its nodes
    return found[0]


def _as_tensor(x):
    return tf.convert_to_tensor(x) if hasattr(x, "__array__") and not isinstance(x, tf.Variable) else x


def node_gradients(
    ys: Tensors,
    nodes: Sources,
    cotangents: Nest[TensorLike] | None = None,
    values: bool = False,
    unconnected_gradients: Unconnected = "none",
) -> NestLike:
    """Return the gradients of Σ ys with respect to nodes inside of the graph, all from one backward pass.

    Args:
        ys: floating-point tensor, or nest of tensors, of the `tf.function` being traced; or a callable without
            arguments that returns it. It need not be a loss: a class score, an activation.
        nodes: a selector, or nest of selectors: a tensor; a Keras layer, or `layer_call(layer, 1)`; the name of a tap,
            of a layer's path or of an op, the latter two with globs; `op_type("Relu")`; a function from a `Node` to
            bool; a variable, which here stands for itself, however often it is read. Layers are known by their calls
            where ys is a callable, else by the names of their ops, and by the variables that these read.
        cotangents: nest like ys of tensors; ones where left out.
        values: whether to return the values of the nodes, too.
        unconnected_gradients: "none" or "zero".

    Returns:
        A nest like `nodes` of tensors like the nodes, None where ys have no gradient there; a list of tensors where a
        selector selects several nodes, as for the calls of a shared layer. With `values`, the pair
        (gradients, values).

    Raises:
        ValueError: where a selector selects nothing, naming what is near; or a node inside a loop or branch, which is
            many tensors or none.
        TypeError: for nodes that are not floating-point.

    Cost: one backward pass, from ys to the earliest node.

    Example:
        >>> inputs = keras.Input((2,))
        >>> model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(3, "relu", name="hidden")(inputs)))
        >>> x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> tfjac.node_gradients(lambda: model(x), "hidden").shape
        TensorShape([2, 3])
    """

    def compute(tensors):
        chosen, flat = resolved(nodes, tf.nest.flatten(tensors))
        upstream = None if cotangents is None else tf.nest.flatten(cotangents)
        wanted = [tensor for group in chosen for tensor in group]
        _check_floating(wanted)
        flat, _ = differentiated(flat, wanted)
        check_loops(flat, wanted)
        gradients = tf.gradients(flat, wanted, grad_ys=upstream, unconnected_gradients=unconnected_gradients)
        results = packed_by_selector(nodes, chosen, dense(gradients))
        return (results, packed_by_selector(nodes, chosen, _values(wanted))) if values else results

    return in_graph(compute, ys, may_be_complex=True, tapped=True)


def values_at(fn: Function, nodes: Sources) -> Function:
    """Return a function of the arguments of `fn` that returns the values of nodes inside of it.

    So every function of tfjac takes nodes for ys: `tfjac.batch_jacobian(lambda: tfjac.values_at(model, "conv")(x), x)`.

    Args:
        fn: as in `intercept`.
        nodes: selectors, as in `node_gradients`.

    Returns:
        A function that returns a nest like `nodes`; a list where a selector selects several.

    Example:
        >>> inputs = keras.Input((2,))
        >>> model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(3, "relu", name="hidden")(inputs)))
        >>> tfjac.values_at(model, "hidden")(tf.constant([[1.0, 2.0]])).shape
        TensorShape([1, 3])
    """

    def read(*args, **kwargs):
        return (traced if tf.executing_eagerly() else in_place)(*args, **kwargs)

    def in_place(*args, **kwargs):
        with layers_tapped():
            results = call_converted(python_function(fn), *args, **kwargs)
        ys = [tensor for tensor in tf.nest.flatten(results, expand_composites=True) if tf.is_tensor(tensor)]
        chosen, _ = resolved(nodes, ys, draw_again=True)
        return packed_by_selector(nodes, chosen, _values(tensor for group in chosen for tensor in group))

    traced = quiet_function(in_place)
    return read


def _values(tensors):
    """The tensors, what variables hold in place of their handles."""
    return [tf.raw_ops.ReadVariableOp(resource=x, dtype=handle_spec(x).dtype) if handle_spec(x) else x for x in tensors]


def _check_floating(tensors):
    for tensor in tensors:
        dtype = (handle_spec(tensor) or tensor).dtype
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError(
                "There is no gradient with respect to a node that is no floating-point tensor. "
                f"Received: {tensor.name} of dtype {dtype.name}"
            )
