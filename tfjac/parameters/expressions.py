"""Expressions of parameters as text, made functions of TensorFlow by their syntax tree. Python evaluates nothing.

What is not in the tables below is refused, so that text from a file can do no harm.
"""

import ast
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.arguments import suggestion
from tfjac.parameters.special import erfcx, log_gamma_ratio

LONGEST = 2000
"""So many characters may an expression have."""


def _gamma(x):
    """Return Γ(x): below zero its sign changes from each integer to the next, which `lgamma` leaves out."""
    is_negative = tf.logical_and(tf.less(x, 0), tf.not_equal(tf.math.floormod(tf.floor(x), 2), 0))
    return tf.where(is_negative, tf.constant(-1.0, x.dtype), tf.constant(1.0, x.dtype)) * tf.exp(tf.math.lgamma(x))


FUNCTIONS = {
    "abs": tf.abs, "sqrt": tf.sqrt, "exp": tf.exp, "expm1": tf.math.expm1, "log": tf.math.log,
    "log1p": tf.math.log1p, "sin": tf.sin, "cos": tf.cos, "tan": tf.tan, "arcsin": tf.asin, "arccos": tf.acos,
    "arctan": tf.atan, "asin": tf.asin, "acos": tf.acos, "atan": tf.atan, "sinh": tf.sinh, "cosh": tf.cosh,
    "tanh": tf.tanh, "arcsinh": tf.asinh, "arccosh": tf.acosh, "arctanh": tf.atanh, "erf": tf.math.erf,
    "erfc": tf.math.erfc, "erfcx": erfcx, "gamma": _gamma, "lgamma": tf.math.lgamma, "sign": tf.sign,
    "square": tf.square,
}  # fmt: skip
"""Functions of one number."""

PAIRS = {
    "min": tf.minimum,
    "max": tf.maximum,
    "atan2": tf.atan2,
    "arctan2": tf.atan2,
    "log_gamma_ratio": log_gamma_ratio,
    "hypot": lambda x, y: tf.sqrt(x * x + y * y),
}
"""Functions of two numbers; `min` and `max` take more."""

CONSTANTS = {"pi": math.pi, "e": math.e}

_BINARY = {
    ast.Add: tf.add,
    ast.Sub: tf.subtract,
    ast.Mult: tf.multiply,
    ast.Div: tf.divide,
    ast.Pow: tf.pow,
}
_COMPARED = {ast.Lt: tf.less, ast.LtE: tf.less_equal, ast.Gt: tf.greater, ast.GtE: tf.greater_equal}
_JOINED = {ast.And: tf.logical_and, ast.Or: tf.logical_or}

_MAY = (
    "An expression may hold parameters, numbers, pi, e, + - * / **, comparisons, `a if b > c else d`, and "
    f"{', '.join([*FUNCTIONS, *PAIRS, 'where'])}. Write anything else as a function of Python: expr=lambda a, b: …"
)


class Expression(NamedTuple):
    """An expression, read.

    Attributes:
        names: dict from the names of the parameters in it to the position of the first use.
        function: callable of a dict from names to tensors of float64, which returns a tensor. All that it holds are
            functions, names and numbers, so that `curve_fit` can tell whether it is the same again.
    """

    names: Mapping[str, int]
    function: Callable[[Mapping[str, Any]], Any]


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> Expression:
    """Read an expression.

    Raises:
        ValueError: for what is no expression, or for what is not allowed, with the position.
    """
    if len(text) > LONGEST:
        raise ValueError(f"An expression has at most {LONGEST} characters. Received: {len(text)} of them")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, MemoryError, RecursionError, ValueError) as error:
        position = getattr(error, "offset", None) or 0
        raise ValueError(f"This is no expression. {_MAY}. Received: {text!r}, which goes wrong at {position}") from None
    reader = _Reader(text.strip())
    try:
        function = reader.number(tree.body)
    except RecursionError:
        raise ValueError(f"This expression is nested too deeply. Received: {text!r}") from None
    return Expression(reader.names, function)


class _Reader:
    """Turns a syntax tree into functions of a dict of values: numbers and conditions are told apart."""

    def __init__(self, text):
        self._text, self.names = text, {}

    def _refuse(self, node, what):
        raise ValueError(f"{_MAY}. Received: {self._text!r} with {what} at position {node.col_offset}")

    def number(self, node):
        """Return a function from values to a number."""
        read = getattr(self, f"_{type(node).__name__.lower()}", None)
        if read is None:
            self._refuse(node, f"{ast.unparse(node)!r}")
        return read(node)

    def _constant(self, node):
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            self._refuse(node, repr(node.value))
        try:
            return _constant(float(node.value))
        except OverflowError:
            self._refuse(node, "a number that is too large")

    def _name(self, node):
        if node.id in CONSTANTS:
            return _constant(CONSTANTS[node.id])
        self.names.setdefault(node.id, node.col_offset)
        return _looked_up(node.id)

    def _unaryop(self, node):
        if isinstance(node.op, ast.USub):
            return _applied(tf.negative, self.number(node.operand))
        if isinstance(node.op, ast.UAdd):
            return self.number(node.operand)
        return self._refuse(node, f"{ast.unparse(node)!r}")

    def _binop(self, node):
        if type(node.op) not in _BINARY:
            self._refuse(node, f"{ast.unparse(node)!r}")
        return _applied(_BINARY[type(node.op)], self.number(node.left), self.number(node.right))

    def _ifexp(self, node):
        return _applied(tf.where, self.condition(node.test), self.number(node.body), self.number(node.orelse))

    def _call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else None
        known = [*FUNCTIONS, *PAIRS, "where"]
        if name not in known:
            near = suggestion(name, known) if name else ""
            self._refuse(node, f"the function {ast.unparse(node.func)!r}{near and f' ({near.strip()})'}")
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            self._refuse(node, f"arguments that are not numbers in {ast.unparse(node)!r}")
        count = 3 if name == "where" else 2 if name in PAIRS else 1
        more = name in ("min", "max")
        if len(node.args) < count or (len(node.args) > count and not more):
            self._refuse(node, f"{len(node.args)} arguments of {name}, which takes {count}{' or more' if more else ''}")
        if name == "where":
            return _applied(tf.where, self.condition(node.args[0]), *map(self.number, node.args[1:]))
        numbers = [self.number(each) for each in node.args]
        if name in FUNCTIONS:
            return _applied(FUNCTIONS[name], *numbers)
        return functools.reduce(lambda one, other: _applied(PAIRS[name], one, other), numbers)

    def condition(self, node):
        """Return a function from values to a bool."""
        if isinstance(node, ast.BoolOp):
            join = _JOINED[type(node.op)]
            return functools.reduce(lambda *pair: _applied(join, *pair), map(self.condition, node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _applied(tf.logical_not, self.condition(node.operand))
        if not isinstance(node, ast.Compare) or any(type(each) not in _COMPARED for each in node.ops):
            self._refuse(node, f"{ast.unparse(node)!r} where a comparison, a < b, should be,")
        numbers = [self.number(each) for each in (node.left, *node.comparators)]
        pairs = [_applied(_COMPARED[type(op)], *pair) for op, pair in zip(node.ops, itertools.pairwise(numbers))]
        return functools.reduce(lambda *pair: _applied(tf.logical_and, *pair), pairs)


def _constant(number):
    return lambda values: tf.constant(number, tf.float64)


def _looked_up(name):
    return lambda values: values[name]


def _applied(function, *parts):
    return lambda values: function(*[part(values) for part in parts])
