"""From the scalar loss that Keras minimises back to the loss of each example, and proof that no other example is in it.

A loss is a mean over the examples plus terms without data, such as regularisers. The walk goes back from it, through
ops that are linear, to the tensors in which the examples are still apart. Two things are then shown by the graph: each
row depends on its own row of the data alone, and the weight of a row does not depend on the values of any data.
"""

from typing import NamedTuple

import tensorflow as tf

from tfjac.graph import (
    SHARED,
    Dependence,
    ExampleAxis,
    ExamplesMix,
    analyse_examples,
    as_tf_variable,
    assignments_between,
    data_of,
    examples_mix_at,
    inline_calls,
    replay,
    source_in,
)
from tfjac.graph.op_types import linear_inputs
from tfjac.jacobians.shapes import after, check_when_run


class ExampleLosses(NamedTuple):
    """loss = mean(losses) + shared.

    Attributes:
        losses: tensor `[n]`, the loss of each example.
        shared: list of scalar tensors, the terms without data.
        connected: for each variable, whether the losses of the examples depend on it.
    """

    losses: tf.Tensor
    shared: list
    connected: list


class NotApart(ValueError):
    """The loss of one example depends on other examples, or may."""


def example_losses(loss, variables):
    """Find the loss of each example in `loss`, a scalar tensor of the graph that is traced.

    Raises:
        NotApart: if examples mix, naming the op, or if the loss depends on no data.
    """
    sources = [source_in(loss.graph, as_tf_variable(variable)) for variable in variables]
    (loss,) = inline_calls([loss], depends_on=[source for source in sources if source is not None])
    data = Dependence(data_of(loss), by_value=True, by_size=True)
    dependence = Dependence(sources)
    _check_no_memory(loss, sources, data)
    heads, shared, assumed = _parts(loss, dependence, data)
    if not heads:
        raise NotApart(
            "The loss depends on no data of this training step, so there are no examples whose gradients could be "
            "clipped. Pass the data as arguments of the step, as Keras does. Received: a loss without data"
        )
    placed = [tf.identity(head) for head in heads]  # one head may be computed from another
    weights = tf.gradients(replay([loss], list(zip(heads, placed))), placed)
    for weight in weights:
        if data.reaches(weight):
            raise NotApart(
                "The loss is divided or multiplied by a number that the data of the batch decide, as a sum of sample "
                "weights or of a mask. So each example changes the weight of the others. Use the reduction "
                "'sum_over_batch_size', without masks. Sample weights [n] of losses [n, t] count as such, as Keras "
                "multiplies position j by the weight of example j: give them as [n, 1], and those of losses [n] as "
                f"[n]. Received: op {weight.op.name!r} of type {weight.op.type}"
            )
    count = tf.shape(heads[0])[0]
    rows = [_row_sums(head * tf.convert_to_tensor(weight)) for head, weight in zip(heads, weights)]
    losses = tf.add_n(rows) * tf.cast(count, rows[0].dtype)
    reached = dependence.sources_of_any(heads)
    connected = [index in reached for index in range(len(variables))]
    return ExampleLosses(after(check_when_run(assumed, count), [losses])[0], shared, connected)


def _check_no_memory(loss, sources, data):
    """Raise NotApart where the loss reads a variable into which the step writes what depends on data.

    The optimizer may write into `sources`, the variables that are trained.
    """
    trained = {source.ref() for source in sources if source is not None}
    for assignment in (path.op for path in assignments_between(data, [loss])):
        if assignment.inputs[0].ref() not in trained:
            raise NotApart(
                "The loss reads a variable in which a layer keeps something of the data, such as a moving mean or the "
                "state of a stateful RNN. So an example has an effect on others, which is neither clipped nor noised. "
                "Use a layer that keeps nothing, such as GroupNormalization, or one with stateful=False. Received: op "
                f"{assignment.name!r} of type {assignment.type}"
            )


def _row_sums(tensor):
    return tf.reduce_sum(tensor, axis=list(range(1, tensor.shape.rank)))


def _parts(loss, dependence, data):
    """Return the tensors that `loss` is linear in with the examples apart, its terms without data, and what is assumed.

    What is assumed of sizes that the trace leaves open is as in `ExampleAnalysis`.
    """
    heads, shared, assumed, pending, seen = [], [], [], [loss], set()
    while pending:
        tensor = pending.pop()
        if tensor.ref() in seen or not dependence.reaches(tensor):
            continue
        seen.add(tensor.ref())
        if not data.reaches(tensor):
            shared.append(tensor)
            continue
        try:
            assumed += _analysed(tensor, data).assumed
            heads.append(tensor)
        except ExamplesMix as mix:
            below = linear_inputs(tensor, dependence.reaches)
            if below is None:
                raise NotApart(
                    "Differential privacy needs a loss that is a mean over the examples, each with a loss that depends "
                    f"on no other example. Here {mix}. Use layers that treat examples independently, such as "
                    "GroupNormalization or LayerNormalization in place of BatchNormalization, and losses without "
                    f"masks. Received: a loss of shape {tensor.shape}"
                ) from None
            pending += [tensor.op.inputs[index] for index in below]
    return heads, shared, assumed


def _analysed(tensor, data):
    """Return the `ExampleAnalysis` from the data to a tensor; raise ExamplesMix unless its rows are the examples."""
    if tensor.shape.rank in (0, None):
        raise examples_mix_at(tensor.op, "a scalar is computed from all of them by what is not linear")
    analysis = analyse_examples(data, [tensor])
    for source in data.sources:
        axis = analysis.axis(source)
        is_shared = axis is SHARED and source.shape.rank != 0
        if is_shared or (isinstance(axis, ExampleAxis) and axis != ExampleAxis(0, inner=axis.inner)):
            raise examples_mix_at(source.op, "all examples use these data, which are not the rows of the batch")
    return analysis
