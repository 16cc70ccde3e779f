"""Conditionals: each branch is walked backwards by itself, and the one that was taken is the one that is run."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import SHARED, Dependence, analyse_examples, axes, opened, transplant
from tfjac.graph.op_types import CHOICES
from tfjac.jacobians.factors.control_flow.stacking import of_static_columns, shaped_like, zeros_like
from tfjac.jacobians.factors.control_flow.sweep import Sweep, handler
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.shapes import after, check_when_run
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.linear.shapes import Size


@handler(*CHOICES)
def _conditional(op: tf.Operation, sweep: Sweep) -> None:
    seeds = {k: sweep.cotangent(output) for k, output in enumerate(op.outputs)}
    seeds = {k: seed for k, seed in seeds.items() if seed is not None}
    insides = sweep.analysis.insides[op.name]
    used = {k: axis for inside in insides for k, axis in inside.inputs.items()}
    carried = [k for k, axis in used.items() if axis is not SHARED]
    branches = [_Branch(op, inside, sweep, seeds, carried) for inside in insides]
    m = sweep.num_outputs
    chosen = op.inputs[0] if op.inputs[0].dtype == tf.int32 else tf.cast(op.inputs[0], tf.int32)
    runs = [lambda taken=taken: _outputs(branches, taken, list(seeds.values()), sweep.n, m) for taken in branches]
    cotangents, factors = tf.switch_case(chosen, runs)
    for k, cotangent in zip(carried, cotangents):
        cotangent.set_shape([seeds[next(iter(seeds))].shape[0], *op.inputs[1 + k].shape])
        sweep.add(op.inputs[1 + k], cotangent)
    for branch, of_branch in zip(branches, factors):
        for (k, inside), factor in zip(branch.parts, of_branch):
            sweep.parts.append((op.inputs[1 + k], shaped_like(inside, factor)))


def _outputs(branches: "Sequence[_Branch]", taken: "_Branch", seeds: Sequence, n: Size, m: Size) -> Any:
    """Cotangents of the inputs, and the factors of all branches: zeros for those that are not taken."""
    cotangents, factors = taken.traced([opened(*pair) for pair in zip(seeds, taken.shapes)])
    zeros = [[zeros_like(factor, n, m) for _, factor in branch.parts] for branch in branches]
    return list(cotangents), [
        list(factors) if branch is taken else of_branch for branch, of_branch in zip(branches, zeros)
    ]


class _Branch:
    """One branch backwards, traced once as a function of its own.

    Attributes:
        shapes: what is known of those cotangents inside, whatever is known outside.
        traced: the concrete function, from cotangents of the outputs to those of the carried inputs, and factors.
        parts: pairs of the index of a shared input and the `Factor` of the branch, in the graph of the branch.
    """

    def __init__(self, op: tf.Operation, inside: Any, sweep: Sweep, seeds: dict, carried: Sequence) -> None:
        self.op, self.inside, self.sweep, self.carried = op, inside, sweep, carried
        self.targets = [inside.body.outputs[k] for k in seeds]
        self.axes = [sweep.analysis.axis(op.outputs[k]) for k in seeds]
        specs = [tf.TensorSpec(seed.shape, seed.dtype) for seed in seeds.values()]
        self.shapes = [_agreed(spec.shape, target.shape) for spec, target in zip(specs, self.targets)]
        specs = [tf.TensorSpec(shape, spec.dtype) for shape, spec in zip(self.shapes, specs)]
        self.traced = tf.function(self._run, autograph=False).get_concrete_function(specs)

    def _run(self, seeds: list) -> Any:
        graph, n = tf.compat.v1.get_default_graph(), self.sweep.n
        inputs = [graph.capture(tensor) for tensor in self.op.inputs[1:]]
        mapping = transplant(self.targets, zip(self.inside.body.inputs, inputs))
        targets = [mapping[target.ref()] for target in self.targets]
        sources = [inputs[k] for k in self.inside.inputs]
        analysis = analyse_examples(sources, targets, self.axes, n if isinstance(n, int) else None)
        inner = Sweep(analysis, n)
        for target, seed in zip(targets, after(check_when_run(analysis.assumed, n), seeds)):
            inner.add(target, seed)
        inner.run([inputs[k] for k in self.carried if k in self.inside.inputs])
        m = axes(seeds[0])[0]
        cotangents = [inner.cotangent(inputs[k]) for k in self.carried]
        cotangents = [
            tf.zeros([m, *axes(inputs[k])], inputs[k].dtype) if cotangent is None else cotangent
            for k, cotangent in zip(self.carried, cotangents)
        ]
        shared = [k for k, axis in self.inside.inputs.items() if axis is SHARED]
        columns = columns_of_sources(inner.parts, Dependence([inputs[k] for k in shared]))
        parts = [(k, factor) for k, factors in zip(shared, columns) for factor in factors]
        self.parts = [(k, of_static_columns(_of_static_positions(factor), inputs[k])) for k, factor in parts]
        return cotangents, [factor for _, factor in self.parts]


def _agreed(shape: tf.TensorShape, target: tf.TensorShape) -> tf.TensorShape:
    """What the shape of a seed `[m, *...]` has in common with that of the result of a branch, which may differ."""
    return tf.TensorShape([shape[0], *shape[1:].most_specific_compatible_shape(target)])


def _of_static_positions(factor: Factor) -> Factor:
    """The factor, as columns where its positions are not of a static number."""
    is_open = any(sizes.get("t", 1) is None for sizes in factor.sizes_of_tensors())
    return DenseFactor(factor.dense()) if is_open else factor
