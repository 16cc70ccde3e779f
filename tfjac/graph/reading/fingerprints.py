"""Whether two functions, traced one after the other, came out the same: a hash of what they compute."""

import copy
import hashlib
from typing import Any

from tfjac.graph import _private
from tfjac.graph.facts import facts_of, is_call


def fingerprint(concrete: Any) -> bytes:
    """Return a hash (bytes) of a `tf.ConcreteFunction`: of its ops with their attributes, constants and shapes.

    What it captures is not part of it. Functions that it calls are known by their names, which no two in a process
    share, and so are custom gradients: a function that makes one whenever it is traced is never the same again.

    Cost: that of writing the graph down, constants and all; a tenth of a millisecond where these are few.
    """
    return _digest(_private.traced_function(concrete))


def _digest(function: Any) -> bytes:
    ops = function.graph.get_operations()
    rebuilt = [op for op in ops if not is_call(op)]  # their functions get a new name each time that they are traced
    pairs = [(op, attribute) for op in rebuilt for attribute in facts_of(op).functions]
    bodies = [body for pair in pairs for body in _private.functions_named(*pair)]
    definition = _without_names(function.definition, {body.definition.signature.name: _digest(body) for body in bodies})
    shapes = "|".join(str(output.shape) for op in ops for output in op.outputs)
    written = definition.SerializeToString(deterministic=True) + shapes.encode()
    return hashlib.blake2b(written, digest_size=32).digest()


def _without_names(definition: Any, digests: Any) -> Any:
    """Return a copy of a function's definition without the names that differ from one trace to the next.

    Args:
        definition: a `FunctionDef`.
        digests: dict from the names of the functions that are made with an op to what stands for them.
    """
    definition = copy.deepcopy(definition)
    definition.signature.name = ""
    arguments = {}
    for index, argument in enumerate(definition.signature.input_arg):
        arguments[argument.name] = argument.name = f"argument_{index}"
        definition.arg_attr[index].attr.pop("_user_specified_name", None)
    for node in definition.node_def:
        node.input[:] = [arguments.get(name, name) for name in node.input]
        for value in node.attr.values():
            for named in (value.func, *value.list.func):
                if named.name in digests:
                    named.name = digests[named.name].hex()
    for name, value in list(definition.ret.items()):
        definition.ret[name] = arguments.get(value, value)
    return definition
