"""Recurrent layers that cuDNN computes, as the loop over time that they stand for.

Keras calls cuDNN for LSTM and GRU wherever there is a GPU. Its op may be differentiated once: the gradient writes into
what the forward run keeps for it, so that all rows of a Jacobian but the first are wrong, without a word. XLA does not
compile it, and of an op that is not taken apart nothing is known, so that examples seem to mix in it.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph.facts import facts_of
from tfjac.graph.reading.symbolic_sizes import axes
from tfjac.types import Tensor

_GATES = {b"lstm": 4, b"gru": 3, b"rnn_tanh": 1, b"rnn_relu": 1}


def is_layer_of_cudnn(op: tf.Operation) -> bool:
    """Return whether `op` is one layer of cuDNN that runs through time forwards, as those of Keras do."""
    if op.type != "CudnnRNNV3":
        return False
    layers = op.inputs[1].shape[0 if op.get_attr("time_major") else 1]
    plain = op.get_attr("direction") == b"unidirectional" and op.get_attr("input_mode") == b"linear_input"
    return layers == 1 and plain and op.get_attr("num_proj") == 0 and op.get_attr("dropout") == 0


def by_time_steps(op: tf.Operation, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return what `op` computes of its inputs: the outputs `[n, t, u]` and the last states, in its layout.

    The formulas, and the order of gates and parameters, are those of cuDNN's `cudnnRNNMode_t`.
    """
    x, h, c, params, lengths = inputs
    time_major, mode = op.get_attr("time_major"), op.get_attr("rnn_mode")
    axis = 0 if time_major else 1
    h = tf.squeeze(h, axis)
    c = tf.squeeze(c, axis) if mode == b"lstm" else h
    of_x, of_h = _affine_maps(params, x.shape[-1], h.shape[-1], _GATES[mode])
    x = x if time_major else tf.transpose(x, [1, 0, 2])
    steps, ends = axes(x)[0], lengths[:, None]
    gates = tf.TensorArray(x.dtype, steps).unstack(tf.concat([map_(x) for map_ in of_x], -1))

    def step(time: Tensor, outputs: tf.TensorArray, h: Tensor, c: Tensor) -> tuple:
        next_h, next_c = _CELLS[mode](tf.split(gates.read(time), len(of_x), -1), of_h, h, c)
        goes_on = time < ends
        outputs = outputs.write(time, tf.where(goes_on, next_h, tf.zeros_like(next_h)))
        return time + 1, outputs, tf.where(goes_on, next_h, h), tf.where(goes_on, next_c, c)

    start = 0, tf.TensorArray(x.dtype, steps), h, c
    _, outputs, h, c = tf.while_loop(lambda time, *_: time < steps, step, start, maximum_iterations=steps)
    stacked = outputs.stack()
    stacked = tf.ensure_shape(stacked, [x.shape[0], x.shape[1], h.shape[-1]])
    outputs = stacked if time_major else tf.transpose(stacked, [1, 0, 2])
    return [outputs, tf.expand_dims(h, axis), tf.expand_dims(c, axis)]


def _affine_maps(params: Tensor, of_x: int, units: int, gates: int) -> tuple[list[Callable], list[Callable]]:
    """The maps of x and of h by their matrices and biases, one for each gate, out of all parameters in one vector."""
    sizes = [units * of_x] * gates + [units * units] * gates + [units] * 2 * gates
    joined = (
        facts_of(params.op).joins is not None
        and [piece.shape.num_elements() for piece in params.op.inputs[:-1]] == sizes
    )
    parts = params.op.inputs[:-1] if joined else tf.split(params, sizes)
    matrices = [tf.transpose(tf.reshape(part, [units, -1])) for part in parts[: 2 * gates]]
    maps = [lambda x, w=w, b=b: x @ w + b for w, b in zip(matrices, parts[2 * gates :])]
    return maps[:gates], maps[gates:]


def _lstm(of_x: Sequence[Tensor], of_h: Sequence[Callable], h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, new, o = (x + map_(h) for x, map_ in zip(of_x, of_h))
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(new)
    return tf.sigmoid(o) * tf.tanh(c), c


def _gru(of_x: Sequence[Tensor], of_h: Sequence[Callable], h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    r, z = (tf.sigmoid(x + map_(h)) for x, map_ in zip(of_x[:2], of_h))
    new = tf.tanh(of_x[2] + r * of_h[2](h))
    return (1 - z) * new + z * h, c


def _plain(activation: Callable) -> Callable:
    return lambda of_x, of_h, h, c: (activation(of_x[0] + of_h[0](h)), c)


_CELLS = {b"lstm": _lstm, b"gru": _gru, b"rnn_tanh": _plain(tf.tanh), b"rnn_relu": _plain(tf.nn.relu)}
