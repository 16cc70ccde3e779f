"""What the graph layer knows of op types: one record per type, filled by the modules of `op_facts`, one per family.

This module imports nothing of the package, so that every other one may ask it. An op type without a record is unknown
to all alike.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

KINDS = {
    "assertion", "call", "case", "cast", "conditional", "constant", "gather from a variable", "handle", "identities",
    "identity", "loop", "nothing", "parameter", "places", "python", "read", "stop",
}  # fmt: skip


@dataclasses.dataclass
class OpFacts:
    """What is known of an op type; None, False or empty: it is not so, or not known.

    Attributes:
        kind: one of `KINDS`, for ops that are looked for by what they are in a program, not by what they compute.
        bodies: attributes that name the functions that the outputs come from; conditions of loops are left out.
        functions: attributes that name all functions that the op runs.
        repeatable: it is stateful by definition, yet gives the same again: reads, checks, what replicas exchange. It
            may not be taken for a constant where its input changes.
        single_precision: it computes in float32 whatever it is given, as TensorFlow has it in nothing else.

        elementwise: it acts element by element: "unary" or "several inputs", with broadcasting; "decision", which
            values pass and gradients do not; "gradient", the gradient of another one; or "as it is", no broadcasting.
        arithmetic: "sum", "difference", "negative", "product" or "quotient": affine in the first input, whatever the
            other; but for quotients, in the other as well.
        steps: its derivative is zero wherever there is one, and the registered gradient None, or zeros: "rounding", or
            "sign".
        shifts: what it gives moves with what it is given, as far as it does not saturate.
        looks_at: "shapes" where it looks at the shapes of its inputs alone; "differences" where two integers that are
            the same tensor give a constant.
        sized_by: inputs whose values decide the size of what it gives: their indices, or "all". An op type that has a
            record and not this fact takes its sizes from those of its inputs.
        elements: where those of the output come from: "in order" has those of the first input, in row-major order;
            "permuted" has each of them once; "copied" has elements of the inputs and no others.
        linear: "in the first" input, the others (axes, shapes, indices, divisors) fixed; "in all" floating-point inputs
            at once; "in each", the others fixed; "far from zero", on both sides of which it comes to a line, and on
            one of them to a line that is not level.
        affine: inputs in which it is affine together, the others (weights, statistics, sizes) fixed; or a function from
            the op to them. Of those that are not `linear`, as nothing below explanations needs to know it.
        activation: it acts between layers, and is zero "at zero", or "elsewhere", if anywhere.
        maps: of images: "made" of others by weights, as convolutions do; "kept" if it returns images for images, whose
            places are those of the first input, or close to them.
        vanishes: where the output is zero: "never" for certain, whatever the inputs; "where all do" of the inputs in
            floating point; "each for itself", output by output; "always"; or a function from the value of another
            input (or None) to whether it lets zeros pass. Else it is zero where one of the inputs is, as products are.
        meets_weights: a weight meets data there: a product, a convolution, a gather.
        multiplies: products, of two inputs, in which the sign of one comes to the other.
        takes: "rows by index", "a slice" or "a strided slice" of its first input.
        columns: where it makes weights of variables, those of a Jacobian with respect to its output are to its input
            "the same", "conjugated", "transposed", "transposed conjugates", or "of one part" of complex numbers.
        joins: it puts tensors one behind the other: "all inputs", or "all but the last", which is the axis.
        list: what it does with a list of tensors: "made of a tensor", "item read", "items read", "item written".
        grouped: convolutions that may be of groups of channels: "run" where TensorFlow has such, else "taken apart".

        labels: rule `(op, shape, value_of) -> (operands, output)`, the axes by labels, see `index_maps`.
        example_axis: rule `(op, axis, wanted) -> list`, see `example_rules`.
        axes_of_body: the same for ops with bodies, `(op, axes of outputs, wanted)`.
        rows: rule `(op, rows, wanted) -> list`, see `row_rules`.
        sizes: `(known, output, sizes of the inputs) -> list`, see `symbolic_sizes`.
        entries: `(known, output, entries of the inputs) -> list`, the same for vectors of sizes.
        value: `(output, value_of) -> array`, see `static_values`.
        first_column: function of an op: the input that has its first column (a vector is one), None where none has it
            for certain; True where that is 0, 1, 2, ...
        gradient: the `Gradient` that takes the place of TensorFlow's, see `gradients`.
        refused_inputs: pair of what TensorFlow does wrongly, and the inputs that it concerns.
        conversion, shortcut: how the vectoriser converts it, `(op, inputs, stacked)`, see `vectorising`.
    """

    kind: str | None = None
    bodies: tuple = ()
    functions: tuple = ()
    repeatable: bool = False
    single_precision: bool = False

    elementwise: str | None = None
    arithmetic: str | None = None
    steps: str | None = None
    shifts: bool = False
    looks_at: str | None = None
    sized_by: tuple | str | None = None
    elements: str | None = None
    linear: str | None = None
    affine: tuple | Callable = ()
    activation: str | None = None
    maps: str | None = None
    vanishes: str | Callable | None = None
    meets_weights: bool = False
    multiplies: bool = False
    takes: str | None = None
    columns: str | None = None
    joins: str | None = None
    list: str | None = None
    grouped: str | None = None

    labels: Callable | None = None
    example_axis: Callable | None = None
    axes_of_body: Callable | None = None
    rows: Callable | None = None
    sizes: Callable | None = None
    entries: Callable | None = None
    value: Callable | None = None
    first_column: Callable | None = None
    gradient: Any = None
    refused_inputs: tuple | None = None
    conversion: Callable | None = None
    shortcut: Callable | None = None


_FACTS: dict[str, OpFacts] = {}
_NOTHING = OpFacts()
_VALUES = {
    "kind": KINDS,
    "elementwise": {"unary", "several inputs", "decision", "gradient", "as it is"},
    "arithmetic": {"sum", "difference", "negative", "product", "quotient"},
    "steps": {"rounding", "sign"},
    "looks_at": {"differences", "shapes"},
    "sized_by": {"all"},
    "elements": {"in order", "permuted", "copied"},
    "linear": {"in the first", "in all", "in each", "far from zero"},
    "activation": {"at zero", "elsewhere"},
    "maps": {"made", "kept"},
    "vanishes": {"never", "where all do", "each for itself", "always"},
    "takes": {"rows by index", "a slice", "a strided slice"},
    "columns": {"the same", "conjugated", "transposed", "transposed conjugates", "of one part"},
    "joins": {"all inputs", "all but the last"},
    "list": {"made of a tensor", "item read", "items read", "item written"},
    "grouped": {"run", "taken apart"},
}
"""What may be said in words."""


def declare(*op_types: str, **facts: Any) -> None:
    """Say what is known of ops of some types. Several calls may say different facts of one type.

    Args:
        op_types: names of types, such as "MatMul"; a name may hold several, apart by spaces.
        facts: attributes of `OpFacts`.

    Raises:
        ValueError: for a fact that was said before, or a word that means nothing.
    """
    for name, value in facts.items():
        if isinstance(value, str) and value not in _VALUES[name]:
            raise ValueError(f"{name} must be one of {sorted(_VALUES[name])}. Received: {value!r}")
    for op_type in " ".join(op_types).split():
        record = _FACTS.setdefault(op_type, OpFacts())
        for name, value in facts.items():
            if getattr(record, name) != getattr(_NOTHING, name):
                raise ValueError(f"{name} of {op_type} is said once, in one place. Received: {value!r} as well")
            setattr(record, name, value)


def facts_of(op: tf.Operation) -> "OpFacts":
    """Return the `OpFacts` of the type of `op`, in which nothing is known where it has none."""
    return _FACTS.get(op.type, _NOTHING)


def facts_by_type() -> "dict[str, OpFacts]":
    """Return the records that there are, a dict from op type to `OpFacts`."""
    return _FACTS


def types_where(holds: Callable) -> frozenset[str]:
    """Return the set of op types for whose facts the function `holds` returns true."""
    return frozenset(op_type for op_type, facts in _FACTS.items() if holds(facts))


def registering(table: dict, entry: Callable = lambda function: function) -> Callable:
    """Return a decorator `@rule(*op_types)` that enters the function it decorates into `table` under each op type.

    Layers above keep tables by the same names.

    Args:
        table: dict from op type to what `entry` makes of the function.
    """

    def rule(*op_types: str) -> Callable:
        def register(function: Callable) -> Callable:
            table.update(dict.fromkeys(" ".join(op_types).split(), entry(function)))
            return function

        return register

    return rule


# ------------------------------------------------------------------------------------------------- what an op is


def _of_kind(*kinds: str) -> Callable[[tf.Operation], bool]:
    """Return a function that tells whether an op is of one of these kinds."""
    return lambda op: facts_of(op).kind in kinds


is_call = _of_kind("call")
"""Whether an op calls one function, whose outputs are its own."""

is_loop = _of_kind("loop")
"""Whether an op is a while loop."""

is_conditional = _of_kind("conditional")
"""Whether an op runs one of two branches."""

is_branching = _of_kind("conditional", "case")
"""Whether an op runs one of several branches."""

is_constant = _of_kind("constant")
"""Whether an op is a constant."""

is_parameter = _of_kind("parameter")
"""Whether an op stands for a parameter of the function that its graph is, or for what it captured."""

is_identity = _of_kind("identity")
"""Whether an op passes one tensor on."""

is_identities = _of_kind("identities")
"""Whether an op passes several tensors on, each for itself; many with a custom gradient are such ops."""

reads_variable = _of_kind("read", "gather from a variable")
"""Whether an op reads a variable, or rows of it."""


def functions_of_stateful(op: tf.Operation) -> tuple:
    """Return the attributes that name the functions that `op` runs, where it is stateful; none for other ops."""
    functions = facts_of(op).functions
    return functions if functions and op.op_def.is_stateful else ()


def calls_functions(op: tf.Operation) -> bool:
    """Return whether `op` calls functions, as loops and branches do."""
    return any(attribute.type in ("func", "list(func)") for attribute in op.op_def.attr)


def instead_of(op_type: str) -> str:
    """Return what to do in place of an op of a type without rules, in brackets; empty where nothing better is known."""
    return " (cuDNN computes this layer: make it with use_cudnn=False)" if op_type.startswith("CudnnRNN") else ""
