"""Small changes of the functions of a module: negated conditions, other numbers, swapped arguments, dropped calls."""

import ast
import dataclasses

OPPOSITES = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}  # fmt: skip
NO_OTHER_TYPE = {"dict", "float", "int", "len", "list", "max", "min", "range", "set", "sorted", "tuple", "zip"}
"""Calls that are not dropped: what they are given is of another type, which is seen wherever the line runs."""
CONTEXT = {"axis", "op", "use", "wanted"}
"""Arguments that are not swapped with others, for the same reason."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        function: name of the function in which the change is.
        lines: range of the lines that it touches.
        was, became: the code.
        code: the module, compiled.
    """

    function: str
    lines: range
    was: str
    became: str
    code: object

    def __str__(self):
        return f"{self.was} -> {self.became}"


def mutants(source, filename):
    """Yield all mutants of a module."""
    tree = ast.parse(source)
    for definition in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node, put in _places(definition):
            for other in _alternatives(node):
                if _text(other) == _text(node):  # two entries that are the same, swapped
                    continue
                put(ast.fix_missing_locations(ast.copy_location(other, node)))
                code = compile(tree, filename, "exec")
                put(node)
                lines = range(node.lineno, node.end_lineno + 1)
                yield Mutant(definition.name, lines, _text(node), _text(other), code)


def _text(node):
    """The code in one line; of a statement with a body its head."""
    return ast.unparse(node).split("\n")[0]


def _places(parent):
    """Pairs of a node inside a function's body and the function that puts another in its place."""
    for name, value in ast.iter_fields(parent):
        if name in ("decorator_list", "args", "returns") and isinstance(parent, ast.FunctionDef):
            continue
        for k, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, (ast.expr, ast.stmt)) or isinstance(node, (ast.FunctionDef, ast.JoinedStr)):
                continue
            yield node, _putter(parent, name, k)
            if not isinstance(node, ast.Raise):
                yield from _places(node)
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, (ast.comprehension, ast.keyword, ast.withitem)):
                yield from _places(node)


def _putter(parent, name, k):
    def put(node):
        if k is None:
            setattr(parent, name, node)
        else:
            getattr(parent, name)[k] = node

    return put


def _alternatives(node):
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            return [ast.Compare(left, [OPPOSITES[type(op)]()], comparators)]
        case ast.BoolOp(op=op, values=values):
            rests = [values[:k] + values[k + 1 :] for k in range(len(values))]
            return [rest[0] if len(rest) == 1 else ast.BoolOp(op, rest) for rest in rests]
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            return [operand]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.If(test=test, body=body, orelse=orelse) if not isinstance(test, (ast.Compare, ast.BoolOp)):
            return [ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)]
        case ast.Constant(value=bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(value=int(value)):
            return [ast.Constant(value + 1)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPPOSITES:
            return [ast.BinOp(left, OPPOSITES[type(op)](), right)]
        case ast.BinOp(left=left, op=ast.Mod()):
            return [left]
        case ast.Raise():
            return [ast.Pass()]
        case ast.Name(id="SHARED"):
            return [ast.Name("axis", ast.Load())]
        case ast.List(elts=[first, second, *rest], ctx=ast.Load()):
            return [ast.List([second, first, *rest], ast.Load())]
        case ast.Call():
            return _other_calls(node)
    return []


def _other_calls(call):
    """Without the call; with its first two arguments swapped."""
    others = []
    match call:
        case ast.Call(func=ast.Attribute(value=receiver, attr="moved")):
            others.append(receiver)
        case ast.Call(func=function, args=[argument], keywords=[]) if not isinstance(
            argument, (ast.GeneratorExp, ast.Starred)
        ):
            others += [] if ast.unparse(function) in NO_OTHER_TYPE else [argument]
    match call:
        case ast.Call(func=function, args=[first, second, *rest], keywords=keywords):
            if not any(
                isinstance(argument, ast.Starred) or ast.unparse(argument) in CONTEXT for argument in (first, second)
            ):
                others.append(ast.Call(function, [second, first, *rest], keywords))
    return others
