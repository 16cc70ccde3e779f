"""Cases of ops that move elements, choose some, or bring several together."""

import numpy as np
import tensorflow as tf

from tests.jacobians.sparsity_cases.building import LARGEST, OPEN, RAW, Case, chosen, gradient_of, together

MOVES = {
    "concat, pack, unpack": Case(
        lambda x: tf.concat([tf.stack(tf.unstack(x, axis=1)[::2], 0), tf.ones([1, 4], x.dtype)], 0) ** 2
    ),
    "split": Case(lambda x: tf.split(x, 3, axis=1)[1] * tf.split(x, [1, 2, 3], 1)[1]),
    "transpose": Case(
        together(
            lambda x: tf.transpose(x) ** 2,
            lambda x: tf.math.imag(tf.linalg.adjoint(tf.complex(x, x**2))),
            lambda x: tf.expand_dims(tf.squeeze(x[None], 0), 1) ** 2,
        )
    ),
    "tile, repeat, fill": Case(
        together(
            lambda x: tf.tile(x, [1, 2]) ** 2 + tf.repeat(x, 2, axis=1),
            lambda x: tf.repeat(x, [2, 0, 1, 3], axis=0) ** 2,
            lambda x: RAW.Fill(dims=[2, 3], value=x[0, 0]) * x[:2, :3],
            lambda x: tf.broadcast_to(x[:, None, :1], [4, 2, 3]) ** 2,
        )
    ),
    "diagonals": Case(
        together(
            lambda x: tf.linalg.diag(x, k=1) ** 2,
            lambda x: tf.linalg.band_part(x, 1, 1) ** 2,
            lambda x: tf.linalg.set_diag(x**2, x[:, 0])[1:] * tf.linalg.diag_part(x)[:1],
            lambda x: RAW.Diag(diagonal=x[0]) + RAW.DiagPart(input=tf.tile(x[:, :4], [1, 1]))[0],
        )
    ),
    "in blocks": Case(
        together(
            lambda x: tf.nn.space_to_depth(tf.reshape(x, [1, 4, 6, 1]), 2) ** 2,
            lambda x: tf.nn.depth_to_space(tf.reshape(x, [1, 2, 3, 4]), 2) ** 2,
            lambda x: tf.space_to_batch(tf.reshape(x, [1, 4, 6, 1]), [2, 2], [[0, 0], [2, 0]]) ** 2,
            lambda x: tf.batch_to_space(tf.reshape(x, [4, 2, 3, 1]), [2, 2], [[0, 1], [1, 0]]) ** 2,
        )
    ),
    "parted by numbers": Case(lambda x: tf.concat(tf.dynamic_partition(x**2, [1, 0, 1, 0], 2), 0)),
    "masked": Case(
        together(
            lambda x: tf.boolean_mask(x**2, [True, False, True, True]),
            lambda x: tf.boolean_mask(x, np.tri(4, 6) > 0) ** 2,
        )
    ),
    "where": Case(
        together(
            lambda x: tf.where(np.arange(6) < 2, x**2, tf.reverse(x, [0])),
            lambda x: RAW.Select(condition=[True, False, False, True], x=x**2, y=x[:, ::-1]),
        )
    ),
    "where, open": Case(lambda x: tf.where(x > 1.0, x**2, tf.reverse(x, [0])), larger=OPEN),
    "slices": Case(
        together(
            lambda x: tf.sin(x[::-2, tf.newaxis, 1:5:2, ...]),
            lambda x: tf.slice(x, [1, 2], [2, 3]) ** 2,
            lambda x: x[..., 2] ** 2,
        )
    ),
    "slices, open": Case(
        together(
            lambda x: x[chosen(x)] ** 2,
            lambda x: x[1:3, chosen(x), tf.newaxis] ** 2,
            lambda x: tf.slice(x, [0, chosen(x)], [4, 3]) ** 2,
            lambda x: tf.ensure_shape(x[..., chosen(x) : chosen(x) + 2], [4, 2]) ** 2,
        ),
        larger=OPEN,
    ),
    "gradients of slices": Case(
        together(
            gradient_of(lambda x: x[::-2, tf.newaxis, 1:5:2]),
            gradient_of(lambda x: tf.slice(x, [1, 2], [2, 3])),
        )
    ),
    "gradients of slices, open": Case(gradient_of(lambda x: x[:, chosen(x)]), larger=OPEN),
    "rolled, reversed": Case(
        together(
            lambda x: tf.reverse(x, [1]) * tf.roll(x, [1, 2], [0, 1]),
            lambda x: tf.reverse_sequence(x, [1, 3, 6, 2], 1) ** 2,
        )
    ),
    "rolled, open": Case(
        together(
            lambda x: tf.roll(x, [chosen(x), 2], [0, 1]) ** 2,
            lambda x: tf.reverse_sequence(x, tf.argsort(x[:, 0]) + 1, 1) ** 2,
        ),
        larger=OPEN,
    ),
    "padded": Case(
        together(
            lambda x: tf.pad(x, [[1, 1], [2, 0]], "REFLECT") ** 2,
            lambda x: tf.pad(x, [[1, 0], [0, 2]]) ** 2,
            lambda x: tf.pad(x, [[1, 0], [0, 2]], constant_values=2.0) ** 2,
        )
    ),
    "padded, open": Case(
        lambda x: tf.ensure_shape(tf.pad(x, [[0, 0], [chosen(x), 1 - chosen(x)]]), [4, 7]) ** 2, larger=OPEN
    ),
    "gathered": Case(
        together(
            lambda x: tf.gather(x**2, [[0, 2], [2, 1]], axis=1),
            lambda x: tf.gather_nd(x**2, [[0, 1], [3, 5]]),
            lambda x: tf.gather(x**2, [[3, 1], [2, 0], [1, 5], [4, 4]], batch_dims=1),
        )
    ),
    "gathered, open": Case(
        together(
            lambda x: tf.gather(x**2, tf.argsort(x[0])[:2], axis=1),
            lambda x: tf.gather(x**2, tf.argsort(x, 1)[:, :2], batch_dims=1),
            lambda x: tf.gather_nd(x**2, tf.stack([chosen(x), 1 + chosen(x)])[None]),
        ),
        larger=OPEN,
    ),
    "gathered from a variable": Case(
        together(
            lambda x: tf.gather(x, [2, 0, 2]) ** 2,
            lambda x: tf.gather_nd(x, [[0, 1], [3, 5]]) ** 2,
            lambda x: tf.gather(x, [[3, 1], [2, 0], [1, 5], [4, 4]], batch_dims=1) ** 2,
        ),
        variable=True,
    ),
    "gathered from a variable, open": Case(
        together(
            lambda x: tf.gather(x, tf.argsort(tf.identity(x)[:, 0])[:2]) ** 2,
            lambda x: tf.gather_nd(x, tf.stack([chosen(tf.identity(x)), 1])[None]) ** 2,
        ),
        variable=True,
        larger=OPEN,
    ),
    "scattered": Case(
        together(
            lambda x: tf.scatter_nd([[1, 0], [1, 0], [0, 2], [2, 1]], x**2, [3, 3, 6]),
            lambda x: tf.tensor_scatter_nd_update(x**2, [[0], [2]], x[1:3]),
            lambda x: tf.tensor_scatter_nd_add(x**2, [[0], [2]], x[1:3]),
            lambda x: tf.tensor_scatter_nd_sub(x**2, [[0], [2]], x[1:3]),
            lambda x: tf.dynamic_stitch([[1, 0], [2, 3]], [x[:2] ** 2, x[2:]]),
            lambda x: RAW.ParallelDynamicStitch(indices=[[1, 0], [2, 3]], data=[x[:2] ** 2, x[2:]]),
        )
    ),
    "scattered, extremes": Case(
        together(
            lambda x: tf.tensor_scatter_nd_max(x**2, [[0], [2]], x[1:3]),
            lambda x: tf.tensor_scatter_nd_min(x**2, [[0], [2]], x[1:3]),
        ),
        larger=LARGEST,
    ),
    "scattered, open": Case(
        together(
            lambda x: tf.scatter_nd([[chosen(x)], [1]], x[:2] ** 2, [3, 6]),
            lambda x: tf.tensor_scatter_nd_update(x**2, [[chosen(x)]], x[3:]),
        ),
        larger=OPEN,
    ),
    "segments": Case(
        together(
            lambda x: tf.math.segment_sum(x**2, [0, 0, 1, 2]),
            lambda x: tf.math.segment_mean(x**2, [0, 0, 1, 3]),
            lambda x: tf.math.segment_prod(x**2, [0, 0, 1, 2]),
            lambda x: tf.math.unsorted_segment_sum(x**2, [0, 0, 1, -1], 5),
            lambda x: tf.math.unsorted_segment_prod(x**2, [2, 0, 1, 2], 3),
            lambda x: tf.math.unsorted_segment_sqrt_n(x**2, [2, 0, 1, 2], 3),
        )
    ),
    "segments, extremes": Case(
        together(
            lambda x: tf.math.segment_max(x**2, [0, 0, 1, 2]),
            lambda x: tf.math.segment_min(x**2, [0, 0, 1, 2]),
            lambda x: tf.math.unsorted_segment_max(x**2, [2, 0, -1, 2], 3),
            lambda x: tf.math.unsorted_segment_min(x**2, [2, 0, 1, 2], 3),
        ),
        larger=LARGEST,
    ),
    "segments, open": Case(
        lambda x: tf.math.unsorted_segment_sum(x**2, tf.cast(x[:, 0] > 1.0, tf.int32), 2), larger=OPEN
    ),
    "segments of some rows": Case(
        together(
            *(
                lambda x, combine=combine, count=count: combine(x**2, [0, 2, 1, 2], [0, 0, 1, 2], num_segments=count)
                for combine in (tf.sparse.segment_sum, tf.sparse.segment_mean, tf.sparse.segment_sqrt_n)
                for count in (None, 3)
            )
        )
    ),
}
