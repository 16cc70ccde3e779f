"""Edits in random programs: what changes nothing, what has a closed form, and what adds up."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.random_programs import RandomProgram

CLAIMS = []


@pytest.mark.by_day(one_in=8)
@pytest.mark.parametrize("seed", range(8))
def test_random_program(seed):
    check(seed, [CLAIMS[0], CLAIMS[1 + seed % 3]])


def check(seed, claims=CLAIMS):
    """Edit the program of this number at nodes that the number chooses."""
    program = RandomProgram(seed)
    message = f"seed {seed}: " + "\n".join(program.text)
    nodes = sorted(program.rng.choice(differentiable_steps(program), size=2))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no effect backwards.*")  # inside of what has a gradient of its own
        for claim in claims:
            claim(program, *nodes, message)


def differentiable_steps(program):
    """The numbers of the values that a gradient reaches."""
    values, x = [], tf.constant(program.x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = weighted_sum(program(x, lambda index, value: values.append(value) or value))
    return [index for index, gradient in enumerate(tape.gradient(loss, values)) if gradient is not None]


def tapped(program):
    """The program as a function, with every value of a step tapped by its number."""
    return lambda x: program(x, lambda index, value: tfjac.tap(value, f"step_{index}"))


def gradients(function, program):
    """The value, and the gradients of a weighted sum of it with respect to x and the variables, `None` as zeros."""
    x = tf.constant(program.x)
    sources = [x, *program.variables]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        loss = weighted_sum(y)
    found = tape.gradient(loss, sources, unconnected_gradients="zero")
    return [y.numpy(), *(tf.convert_to_tensor(each).numpy() for each in found)]


def weighted_sum(y):
    return tf.reduce_sum(y * tf.cos(tf.reshape(tf.range(tf.size(y), dtype=y.dtype), tf.shape(y))))


def identities_change_nothing(program, low, high, message):
    """At every node, those in loops and branches too: bit for bit."""
    expected = gradients(tf.function(program), program)
    floating = lambda node: node.dtype.is_floating  # noqa: E731
    found = gradients(tfjac.intercept(program, {floating: tfjac.Edit(tf.identity, lambda d: d)}), program)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other, err_msg=message)


def scaling_has_a_closed_form(program, index, high, message):
    """Of the gradient, what passes the node is scaled: dL/dv + (c − 1) dL/dnode · dnode/dv."""
    factor, nodes = -2.5, []

    def keep(k, value):
        nodes.extend([value] if k == index else [])
        return value

    x = tf.constant(program.x)
    sources = [x, *program.variables]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        loss = weighted_sum(program(x, keep))
    (node,) = nodes
    upstream = tape.gradient(loss, node, unconnected_gradients="zero")
    through = tape.gradient(node, sources, upstream, unconnected_gradients="zero")
    plain = tape.gradient(loss, sources, unconnected_gradients="zero")
    expected = [tf.convert_to_tensor(g) + (factor - 1) * tf.convert_to_tensor(t) for g, t in zip(plain, through)]
    scaled = tfjac.intercept(tapped(program), {f"step_{index}": tfjac.handlers.scale(factor)})
    for one, other in zip(gradients(scaled, program)[1:], expected):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=message)


def forward_edits_are_seen(program, index, high, message):
    change = lambda value: tf.sin(3.0 * value)  # noqa: E731
    by_hand = lambda x: program(x, lambda k, value: change(value) if k == index else value)  # noqa: E731
    edited = tfjac.intercept(tapped(program), {f"step_{index}": tfjac.Edit(forward=change)})
    for one, other in zip(gradients(edited, program), gradients(by_hand, program)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=message)


def intercepts_compose(program, low, high, message):
    """One after the other is both at once."""
    first = {f"step_{low}": tfjac.handlers.scale(0.3)}
    second = {f"step_{high}": tfjac.Edit(lambda value: value * value, lambda d: tf.clip_by_value(d, -0.5, 0.5))}
    nested = tfjac.intercept(tfjac.intercept(tapped(program), first), second)
    both = tfjac.intercept(tapped(program), first | {f"step_{high}[0]": second[f"step_{high}"]})
    for one, other in zip(gradients(nested, program), gradients(both, program)):
        np.testing.assert_array_equal(one, other, err_msg=message)


CLAIMS += [identities_change_nothing, scaling_has_a_closed_form, forward_edits_are_seen, intercepts_compose]
