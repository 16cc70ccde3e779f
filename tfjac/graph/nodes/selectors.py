"""Selectors: how users say which nodes they mean."""

import collections
import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.nodes.table import Node, Nodes
from tfjac.graph.reading.origins import layer_scope
from tfjac.graph.reading.variables import handle_in, is_of_keras_2, is_variable, name_of_variable
from tfjac.types import Selector

_WITH_CALL = re.compile(r"(.*)\[(\d+)\]")


@dataclasses.dataclass(frozen=True)
class OpType:
    """Selects every op of a type. Made by `op_type`."""

    name: str

    def __call__(self, node: Node) -> bool:
        return node.kind == "op" and node.op_type == self.name

    def __str__(self) -> str:
        return f"op_type({self.name!r})"


@dataclasses.dataclass(frozen=True)
class LayerCall:
    """Selects what one call of a layer returned. Made by `layer_call`."""

    layer: keras.Layer
    call: int

    def __call__(self, node: Node) -> bool:
        return _returned_by(node, self.layer) and node.call == self.call

    def __str__(self) -> str:
        return f"layer_call({self.layer.name!r}, {self.call})"


def op_type(name: str) -> OpType:
    """Return the selector of all ops of a type, such as `op_type("Relu")`.

    Raises:
        TypeError: where the name is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"op_type takes the name of a type of ops, such as 'Relu'. Received: {name!r}")
    return OpType(name)


def layer_call(layer: keras.Layer, call: int) -> LayerCall:
    """Return the selector of what call number `call`, from 0, of a Keras layer returned; a layer alone means all calls.

    Raises:
        TypeError: where the layer is none, or the call no integer.
    """
    if not isinstance(layer, keras.Layer) or isinstance(call, bool) or not isinstance(call, int):
        raise TypeError(f"layer_call takes a Keras layer and an integer. Received: {layer!r}, {call!r}")
    return LayerCall(layer, call)


def is_selector(x: Any) -> bool:
    """Return whether x selects nodes rather than being a tensor or variable."""
    return isinstance(x, (str, keras.Layer, OpType, LayerCall, keras.KerasTensor)) or (
        callable(x) and not tf.is_tensor(x) and not is_variable(x)
    )


def select(nodes: Nodes, selector: Selector) -> list[Node]:
    """Return the nodes that a selector means, in order: a list that is not empty.

    Args:
        selector: a tensor of their graph; a Keras layer, `layer_call(layer, 1)`, or the symbolic output of a layer; the
            name of a tap, the path of a layer, or the name of an op, the latter two with globs, or the end of one
            after a "/"; each with `[1]` for its second call; the name of a variable, or itself, for every place where
            it is read; `op_type("Relu")`; a function from a `Node` to bool; or the `ref()` of a tensor or
            `tf.Variable`, which, unlike these, can be the key of a dict.

    Raises:
        ValueError: where nothing is selected, with the nearest names; or a name is ambiguous.
        TypeError: for what is no selector.
    """
    selector = selector.deref() if hasattr(selector, "deref") else selector
    found = list(_selected(nodes, selector))
    if not found:
        raise ValueError(f"No node is selected by {described(selector)}. {_nearest(nodes, selector)}")
    return found


def described(selector: Selector) -> str:
    """Return what to call a selector in a message."""
    if is_variable(selector):
        return f"variable {name_of_variable(selector)!r}"
    return f"layer {selector.name!r}" if isinstance(selector, keras.Layer) else repr(selector)


def _selected(nodes: Nodes, selector: Selector) -> list[Node]:
    if isinstance(selector, str):
        return _named(nodes, selector)
    if isinstance(selector, keras.KerasTensor):
        selector = _layer_of(selector)
    if is_variable(selector):
        return [node for node in nodes.reads if handle_in(node.handle.graph, selector) is node.handle]
    if isinstance(selector, keras.Layer):
        return [node for node in nodes if _returned_by(node, selector)] or _in_scope_of(nodes, selector)
    if tf.is_tensor(selector):
        return [node for node in nodes if node.tensor is selector][:1]
    if is_of_keras_2(selector):
        raise TypeError(
            "A layer of tf_keras, which is Keras 2, is selected by its name, or the end of its path. "
            f"Received: {selector!r}; pass {getattr(selector, 'name', 'its name')!r}"
        )
    if callable(selector) and not isinstance(selector, type):
        found = [node for node in nodes if selector(node)]
        if not found and isinstance(selector, LayerCall):
            found = [node for node in _in_scope_of(nodes, selector.layer) if node.call == selector.call]
        return found
    raise TypeError(
        "A node is selected by a name, a Keras layer, tfjac.layer_call(layer, 1), tfjac.op_type('Relu'), a tensor, a "
        f"variable, or a function from a node to bool. Received: {selector!r} of type {type(selector).__name__}"
    )


def _returned_by(node: Node, layer: keras.Layer) -> bool:
    return node.kind == "layer" and node.returned is not None and node.returned.id == str(id(layer))


def _layer_of(symbolic: keras.KerasTensor) -> keras.Layer:
    """The layer, or call of a layer, whose output a symbolic tensor of a functional model is."""
    layer, index, calls = _private.symbolic_origin(symbolic)
    if not isinstance(layer, keras.Layer) or calls > 1:
        raise ValueError(
            "A symbolic tensor selects the layer that returned it where that layer was called once. Use "
            f"tfjac.layer_call(layer, {index}), counting calls from 0. Received: {symbolic!r} of {layer!r}"
        )
    return layer


def _named(nodes: Nodes, text: str) -> list[Node]:
    """Nodes by name: of a tap, else of a layer, an op, a variable, else of a layer that names of ops tell of."""
    matched = _WITH_CALL.fullmatch(text)
    name, call = (matched[1], int(matched[2])) if matched else (text, None)
    for kind in ("tap", "layer", "op"):
        found = _matching([node for node in nodes if node.kind == kind], name)
        if found:
            break
    else:
        found = _read_from(nodes.reads, name) or _by_path(nodes, name) or _of_scope(nodes, name)
    return found if call is None else [node for node in found if node.call == call]


def _read_from(reads: Sequence[Node], name: str) -> list[Node]:
    """Reads of the variables of a name; there may be several in a program, which no name tells apart."""
    found = _matching(reads, name)
    handles = {(node.name, id(node.handle)) for node in found}
    if len(handles) > len({name for name, _ in handles}):
        raise ValueError(
            "Several variables have this name: select one by its ref(), as that of a tf.Variable, or of the value of a "
            f"keras.Variable. Received: {name!r}"
        )
    return found


def _matching(nodes: Sequence[Node], name: str, name_of: Callable[[Node], str] = lambda node: node.name) -> list[Node]:
    """Nodes by the whole name, with and without the index of a result, else by its end."""
    if is_glob(name):
        pattern = glob_pattern(name)
        named = [(node, (name_of(node), _without_index(name_of(node)))) for node in nodes]
        return [node for node, names in named if any(map(pattern.fullmatch, names))]
    names = [(node, name_of(node), _without_index(name_of(node))) for node in nodes]
    exact = [node for node, whole, _ in names if whole == name] or [node for node, _, stem in names if stem == name]
    ends = [(node, stem) for node, _, stem in names if f"/{stem}".endswith(f"/{name}")]
    ends = ends or [(node, whole) for node, whole, _ in names if f"/{whole}".endswith(f"/{name}")]
    return exact or _only(ends, name)


def _without_index(name: str) -> str:
    return re.sub(r":\d+$", "", name)


def _by_path(nodes: Nodes, name: str) -> list[Node]:
    """Ops by the path of their layer, and the end of their name: "net/dense/MatMul" for "net_1/dense_1/MatMul"."""
    ops = [node for node in nodes if node.kind == "op"]
    return _matching(ops, name, lambda node: f"{node.layer}/{node.name.rsplit('/', 1)[-1]}")


def _of_scope(nodes: Nodes, name: str) -> list[Node]:
    """What a layer returned that is only known by the names of its ops: what is computed in it and used outside."""
    within = [node for node in nodes if node.kind == "op" and f"/{node.layer}/".find(f"/{name}/") >= 0]
    results = _results_in(nodes, [(node, _up_to(node.layer, name)) for node in within])
    return _only([(node, _up_to(node.layer, name)) for node in results], name)


def _results_in(nodes: Nodes, within: Iterable[tuple[Node, str]]) -> list[Node]:
    """The nodes that are used outside of the call of a layer that they are computed in.

    Args:
        within: list of pairs of a node and the path of the layer that it is computed in.
    """
    of_path = collections.defaultdict(list)
    for node, path in within:
        of_path[path, node.call].append(node)
    listed, results = {_op_key(node) for node in nodes}, []
    for members in of_path.values():
        ops = {_op_key(node) for node in members}
        users = [{(*node.place, op.name) for op in node.tensor.consumers()} & listed for node in members]
        used = [node for node, by in zip(members, users) if by - ops]
        results += used or [node for node, by in zip(members, users) if not by]
    return results


def _in_scope_of(nodes: Nodes, layer: keras.Layer) -> list[Node]:
    """What a layer returned where its calls are not known, by the names of its ops.

    Ops of another layer may have the same name: it counts that variables of this one are read in the same call. Of a
    layer that has none, nothing is found.
    """
    handles = [handle_in(node.handle.graph, variable) for node in nodes.reads[:1] for variable in layer.variables]
    reads = [node for node in nodes.reads if any(node.handle is handle for handle in handles)]
    calls = {_call_of(node, layer.name) for node in reads} - {None}
    within = [(node, _call_of(node, layer.name)) for node in nodes if node.kind == "op"]
    return _results_in(nodes, [(node, call) for node, call in within if call in calls])


def _call_of(node: Node, name: str) -> str | Any:
    """The numbered scope of the call of a layer called `name` in which a node is computed; None for none."""
    if f"/{node.layer}/".find(f"/{name}/") < 0:
        return None
    deeper = node.layer.count("/") - _up_to(node.layer, name).count("/")
    scopes = layer_scope(node.op).split("/")
    return "/".join(scopes[: len(scopes) - deeper])


def _op_key(node: Node) -> tuple:
    return (*node.place, node.op.name)


def _up_to(path: str, name: str) -> str:
    end = f"/{path}/".find(f"/{name}/") + len(name)
    return path[:end]


def _only(found: Sequence[tuple[Node, str]], name: str) -> list[Node]:
    """Nodes of pairs of these and their names, where all have one."""
    paths = dict.fromkeys(path for _, path in found)
    if len(paths) > 1:
        raise ValueError(
            f"{name!r} is the end of several names: write one of them out, or use a glob for all. "
            f"Received: {name!r}, which may be {', '.join(map(repr, list(paths)[:5]))}"
        )
    return [node for node, _ in found]


def _type_alike(nodes: Nodes, name: Any) -> str:
    """Say which type of ops a name is but for its case; nothing where it is none."""
    types = {node.op_type.lower(): node.op_type for node in nodes if node.kind == "op"}
    alike = types.get(name.lower()) if isinstance(name, str) else None
    return "" if alike in (None, name) else f"; a type of ops here is op_type({alike!r})"


def _nearest(nodes: Nodes, selector: Selector) -> str:
    names = list(dict.fromkeys(node.name for node in [*nodes, *nodes.reads]))
    if isinstance(selector, str) and is_glob(selector):
        deep = [name for name in names if glob_pattern(selector.replace("*", "**")).fullmatch(name)]
        if deep:
            return f"A * does not cross a '/', and ** does: it would find {', '.join(map(repr, deep[:5]))}"
    if isinstance(selector, str):
        ends = {name.rsplit("/", 1)[-1]: name for name in names}
        near = difflib.get_close_matches(selector, names, 5) or [
            ends[end] for end in difflib.get_close_matches(selector.rsplit("/", 1)[-1], ends, 5)
        ]
        if near:
            return f"The nearest names are {', '.join(map(repr, near))}{_type_alike(nodes, selector)}"
    alike = _type_alike(nodes, getattr(selector, "name", selector))
    if isinstance(selector, (str, OpType)) and alike:
        return f"TensorFlow's names of types are meant{alike}. Received: {described(selector)}"
    if isinstance(selector, keras.Layer):
        return (
            "A layer is known where it is called while the function is traced, and where ops of its name read its "
            "variables: not in a SavedModel, nor one without variables in a tf.function that was traced before, nor "
            "where another layer calls its `call` alone, as TimeDistributed does: use its path as a string, select its "
            "ops, or put a tfjac.hook on it. Received: a layer that is not among "
            f"{', '.join(sorted({repr(node.name) for node in nodes if node.kind == 'layer'})[:8]) or 'none'}"
        )
    if is_variable(selector):
        return "A variable is known by where it is read. Received: one that nothing here reads"
    return (
        "Only what the results are computed from can be: tfjac.nodes lists it. "
        f"Received: {described(selector)}, and {len(names)} nodes"
    )


_WILD = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]")
_MEANS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def is_glob(name: str) -> bool:
    """Return whether a name is to be read as a glob."""
    return any(character in name for character in "*?")


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the compiled pattern of the names, or ends of names after a "/", that a glob means.

    `*` is anything without a "/", `?` one character but that, `[ab]` and `[!ab]` one of, or none of, some; `**` is
    anything at all.
    """
    parts, at = [], 0
    for found in _WILD.finditer(glob):
        parts += [re.escape(glob[at : found.start()]), _MEANS.get(found[0]) or _one_of(found[0])]
        at = found.end()
    return re.compile("(?:.*/)?" + "".join(parts) + re.escape(glob[at:]), re.DOTALL)


def _one_of(characters: str) -> str:
    inside = characters[1:-1].replace("\\", r"\\")
    return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
