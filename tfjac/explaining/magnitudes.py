"""The gradient in numbers, node by node: where on its way back it dies, or grows without bound."""

import numpy as np

from tfjac.explaining.report import NodeGradient
from tfjac.graph import Dependence, differentiable_inputs, edit_mark, layer_path, source_line, unmended

_TINY, _HUGE = 1e-6, 1e6
"""Against the largest norm on the way, and against the norm at ys."""

_QUIET = {"Identity", "ReadVariableOp", "Cast"}
_DEAD = {
    "Relu": "its inputs are all below zero: dead units",
    "Relu6": "its inputs are all below zero, or above six",
    "Softmax": "its results sum to one whatever goes in, or it is saturated",
    **dict.fromkeys(("Sigmoid", "Tanh", "Erf"), "it is saturated: its inputs are far from zero"),
    "ClipByValue": "its inputs are all outside the limits",
    **dict.fromkeys(("Maximum", "Minimum"), "it always takes the other input"),
    **dict.fromkeys(("Select", "SelectV2"), "it always takes the other branch"),
    **dict.fromkeys(("Mul", "MatMul", "Conv2D", "BatchMatMulV2"), "the other factor is zero"),
}
"""Why an op passes back zeros."""
_SPREADING = {"Mean", "Sum"}
"""They hand one number to many elements, so norms change there; what is added up farther on undoes it."""


def magnitudes(scratch, sources):
    """Return for each source of a `Scratch` its tuple of `NodeGradient`, from ys back to it.

    Args:
        scratch: the copy of the graph; all its parameters have values.
        sources: list of tensors of the copy, None for one without a path.

    Cost: one forward and one backward pass.
    """
    present = [source for source in sources if source is not None]
    depths = _depths(scratch.ys, Dependence(present))
    chains = [[] if source is None else _chain(scratch.ys, source, depths) for source in sources]
    tensors = list({tensor.ref(): tensor for chain in chains for tensor in chain}.values())
    with unmended(scratch.graph):  # a tape takes them so
        made = [(x, d) for x, d in zip(tensors, scratch.gradients(tensors)) if d is not None]
    session, feed = scratch.session()
    with session:
        values = session.run([d for _, d in made], feed)
    found = {x.ref(): value for (x, _), value in zip(made, values)}
    nothing = {source.ref(): np.zeros([]) for source in present}  # a branch or loop that passes no gradient at all
    found = {**nothing, **found}
    return [
        tuple(_node(tensor, found[tensor.ref()], tensor is source) for tensor in chain if tensor.ref() in found)
        for chain, source in zip(chains, sources)
    ]


def judge(nodes):
    """Return the verdict on the gradient of one x, a sentence for it, and what to do."""
    norms = [node.norm for node in nodes]
    if not np.isfinite(norms[-1]):
        first = next(k for k, norm in enumerate(norms) if not np.isfinite(norm))
        where = f"At {_named(nodes[first - 1])} it passes back" if first else f"At {_named(nodes[0])} there are"
        return "not finite", f"{where} what is not finite.", _TO_BE_FINITE
    if norms[-1] == 0.0:
        index = next(k for k, norm in enumerate(norms) if norm == 0.0)
        return "zero", _death(nodes, index), _REMOVE if index and nodes[index - 1].edit else _TO_LIVE
    if norms[-1] < _TINY * max(norms):
        return "vanishing", _change(nodes, norms, grows=False), _TO_LIVE
    if norms[-1] > _HUGE * norms[0]:
        return "exploding", _change(nodes, norms, grows=True), _TO_SHRINK
    return "connected", f"The norm of the gradient is {norms[-1]:.3g}.", ""


_TO_BE_FINITE = "look for a division by zero, a square root or logarithm at zero, or an overflow there"
_TO_LIVE = "look at the values that enter there: scale or normalise them, or take an activation that does not saturate"
_TO_SHRINK = "scale the weights or the data, normalise, or clip gradients"
_REMOVE = "take it off, by remove() of the hook or without the edit, if it is not meant"


def _death(nodes, index):
    if index == 0:
        return f"The gradient is zero from the beginning, at {_named(nodes[0])}."
    killer = nodes[index - 1]
    why = f"{killer.edit} has it so" if killer.edit else _DEAD.get(killer.type)
    return f"The gradient dies at {_named(killer)}: it passes zeros back" + (f", as {why}." if why else ".")


def _change(nodes, norms, grows):
    """Say where the norm changes most: at one op, or step by step, at many of one type."""
    logs = np.diff(np.log(np.maximum(norms, np.finfo(float).tiny))) * (1 if grows else -1)
    of_type = {}
    for k, node in enumerate(nodes[:-1]):
        of_type.setdefault(node.type, []).append(k)
    of_type = {kind: steps for kind, steps in of_type.items() if kind not in _SPREADING} or of_type
    steps = max(of_type.values(), key=lambda steps: logs[steps].sum())
    steepest, verb = max(steps, key=lambda k: logs[k]), "grows" if grows else "falls"
    if logs[steepest] > 0.5 * logs[steps].sum():
        change = f"from {norms[steepest]:.3g} to {norms[steepest + 1]:.3g}"
        return f"Its norm {verb} most at {_named(nodes[steepest])}, {change}."
    # The same words for weights at different depths, so that a report has them once.
    first = nodes[steps[0]]
    return f"Its norm {verb} step by step, at ops of type {first.type}, the first of them {_named(first)}."


def _named(node):
    where = ", ".join(str(part) for part in (node.layer and f"layer {node.layer}", node.source) if part)
    return f"op {node.op!r} of type {node.type}" + (f" ({where})" if where else "")


def _depths(ys, dependence):
    """How many ops lie between any source and each tensor on a way from one to `ys`: a dict from `ref()`."""
    depths = {source.ref(): 0 for source in dependence.sources}
    for op in dependence.path(ys):
        depth = 1 + max(depths[x.ref()] for x in _read(op) if x.ref() in depths)
        for output in op.outputs:
            depths.setdefault(output.ref(), depth)
    return depths


def _read(op):
    return [op.inputs[index] for index in differentiable_inputs(op)]


def _chain(ys, source, depths):
    """The tensors on a long way from ys back to `source`, ops that change nothing left out."""
    alone = Dependence([source])

    def deepest(tensors):
        return max((x for x in tensors if alone.reaches(x)), key=lambda x: depths[x.ref()])

    chain = [deepest(ys)]
    while chain[-1] is not source:
        chain.append(deepest(_read(chain[-1].op)))
    return [x for x in chain if x is source or (_has_numbers(x) and x.op.type not in _QUIET)]


def _has_numbers(tensor):
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def _node(tensor, value, is_x):
    op, value = tensor.op, np.asarray(value)
    value = value.astype(np.complex128 if np.iscomplexobj(value) else np.float64)
    zeros = float(np.mean(value == 0.0)) if value.size else 1.0
    norm = float(np.linalg.norm(value.ravel()))
    return NodeGradient(op.name, "x" if is_x else op.type, layer_path(op), source_line(op), norm, zeros, edit_mark(op))
