"""What puts elements elsewhere: shapes, slices, joins, diagonals, indices."""

import tensorflow as tf

from tests.sweep.samples.table import distinct, normal, sample

raw = tf.raw_ops

sample("reshape", lambda x: tf.reshape(x, [3, -1]) ** 2, normal(2, 3))
sample("reshape to its own dynamic shape", lambda x: tf.reshape(x * x, tf.shape(x)[::-1]), normal(2, 3))
sample("transpose", lambda x: tf.transpose(x, [2, 0, 1]), normal(2, 3, 2))
sample("transpose, default", lambda x: tf.transpose(x), normal(2, 3))
sample("tile", lambda x: tf.tile(x, [2, 1, 3]), normal(2, 1, 2))
sample("broadcast_to", lambda x: tf.broadcast_to(x, [2, 2, 3]), normal(2, 1))
sample("broadcast_to of a scalar", lambda x: tf.broadcast_to(x, [2, 2]), normal())
sample("repeat", lambda x: tf.repeat(x, [2, 0, 1], axis=1), normal(2, 3))
sample("expand_dims", lambda x: tf.expand_dims(x, 1), normal(2, 3))
sample("expand_dims, negative", lambda x: tf.expand_dims(x, -1), normal(2, 3))
sample("squeeze", tf.squeeze, normal(2, 1, 3, 1))
sample("squeeze, negative", lambda x: tf.squeeze(x, [-1]), normal(2, 1, 3, 1))
sample("squeeze, given", lambda x: tf.squeeze(x, [1]), normal(2, 1, 3, 1))
sample("identity_n", lambda x, y: tf.identity_n([x * x, y])[:2], normal(2), normal(3))
sample("ensure_shape", lambda x: tf.ensure_shape(x * x, [None, 3]), normal(2, 3))
sample("fill", lambda x: tf.fill([2, 3], x), normal())
sample("PlaceholderWithDefault", lambda x: raw.PlaceholderWithDefault(input=x * x, shape=[2]), normal(2))
sample("meshgrid", lambda x, y: tf.meshgrid(x, y), normal(2), normal(3))
sample("linspace", lambda x, y: tf.linspace(x, y, 4), normal(), normal())
sample("range of floats", lambda x: x * tf.range(3.0, dtype=x.dtype), normal())

for _axis in (0, 1, -1):
    sample(f"concat, axis={_axis}", lambda x, y, a=_axis: tf.concat([x, y, x * x], a), normal(2, 2), normal(2, 2))
    sample(f"stack, axis={_axis}", lambda x, y, a=_axis: tf.stack([x, y, x * x], a), normal(2, 2), normal(2, 2))
    sample(f"unstack, axis={_axis}", lambda x, a=_axis: tf.unstack(x * x, axis=a), normal(2, 2))
    sample(f"split, axis={_axis}", lambda x, a=_axis: tf.split(x * x, 2, axis=a), normal(4, 4))
    sample(f"split by sizes, axis={_axis}", lambda x, a=_axis: tf.split(x * x, [1, 3], axis=a), normal(4, 4))
    sample(f"reverse, axis={_axis}", lambda x, a=_axis: tf.reverse(x, [a]), normal(2, 3))
    sample(f"roll, axis={_axis}", lambda x, a=_axis: x - tf.roll(x, 1, a), normal(2, 3, 2))
    sample(f"flip and concat, axis={_axis}", lambda x, a=_axis: tf.concat([x, tf.reverse(x, [a])], a), normal(2, 3))
sample("concat of different sizes", lambda x, y: tf.concat([x, y], 1), normal(2, 1), normal(2, 3))
sample("concat of one", lambda x: tf.concat([x], 0), normal(2, 1))
sample("Concat", lambda x, y: raw.Concat(concat_dim=1, values=[x, y]), normal(2, 1), normal(2, 3))
sample("roll by two axes", lambda x: tf.roll(x, [1, 2], [0, 1]), normal(3, 4))
sample("roll by one axis twice", lambda x: tf.roll(x, [1, 2], [1, 1]), normal(3, 4))
sample("roll, one axis of two negative", lambda x: tf.roll(x, [1, -2], [0, -1]), normal(3, 4))
sample("roll by a shift that is computed", lambda x: tf.roll(x, tf.shape(x)[0], axis=1), normal(2, 3))
sample("roll along axis -1 of rank 1", lambda x: tf.roll(x, 2, axis=-1), normal(4))
sample("fftshift", lambda x: tf.signal.fftshift(x, axes=[-1]), normal(2, 3))
sample("ifftshift of all axes", tf.signal.ifftshift, normal(2, 3))
sample("reverse_sequence", lambda x: tf.reverse_sequence(x, [1, 3], seq_axis=1, batch_axis=0), normal(2, 3))
sample("reverse two axes", lambda x: tf.reverse(x, [0, -1]), normal(2, 3, 2))

sample("slice", lambda x: tf.slice(x, [0, 1], [2, 2]), normal(3, 4))
sample("slice of open size", lambda x: tf.slice(x, [1, 0], [-1, 2]), normal(3, 4))
SLICES = {
    "x[1:]": lambda x: x[1:],
    "x[..., 1:-1]": lambda x: x[..., 1:-1],
    "x[:, ::-1]": lambda x: x[:, ::-1],
    "x[::2, 1]": lambda x: x[::2, 1],
    "x[:, None]": lambda x: x[:, None],
    "x[..., None, 0]": lambda x: x[..., None, 0],
    "x[-1]": lambda x: x[-1],
    "x[None, ..., -2:]": lambda x: x[None, ..., -2:],
    "x[i] of a tensor i": lambda x: x[tf.argmax(x[:, 0])],
}
for _name, _function in SLICES.items():
    sample(_name, _function, distinct(3, 4))
sample(
    "TensorStridedSliceUpdate",
    lambda x, y: raw.TensorStridedSliceUpdate(input=x, value=y, begin=[0, 1], end=[2, 3], strides=[1, 1]),
    normal(3, 4),
    normal(2, 2),
)
sample(
    "TensorStridedSliceUpdate, broadcast",
    lambda x, y: raw.TensorStridedSliceUpdate(input=x, value=y, begin=[0, 1], end=[2, 3], strides=[1, 1]),
    normal(3, 4),
    normal(2),
)

sample("pad", lambda x: tf.pad(x, [[1, 0], [0, 2]]), normal(2, 3))
sample("pad with a value", lambda x: tf.pad(x, [[1, 0], [0, 2]], constant_values=2.0), normal(2, 3))
sample("PadV2 of a computed value", lambda x: raw.PadV2(input=x, paddings=[[1, 0]], constant_values=x[0]), normal(3))
sample("pad, reflect", lambda x: tf.pad(x, [[1, 0], [0, 2]], "REFLECT"), normal(2, 3))
sample("pad, symmetric", lambda x: tf.pad(x, [[1, 0], [0, 2]], "SYMMETRIC"), normal(2, 3))

sample("linalg.diag", tf.linalg.diag, normal(2, 3))
sample("linalg.diag, k", lambda x: tf.linalg.diag(x, k=1), normal(2, 3))
sample("linalg.diag of a band", lambda x: tf.linalg.diag(x, k=(-1, 1), num_rows=3), normal(3, 3))
sample("diag_part", tf.linalg.diag_part, normal(2, 3, 3))
sample("diag_part of a band", lambda x: tf.linalg.diag_part(x, k=(-1, 1)), normal(2, 3, 3))
sample("diag_part, align right", lambda x: tf.linalg.diag_part(x, k=(-1, 2), align="LEFT_RIGHT"), normal(3, 4))
sample("set_diag", lambda x, d: tf.linalg.set_diag(x, d), normal(2, 3, 3), normal(2, 3))
sample("set_diag of a band", lambda x, d: tf.linalg.set_diag(x, d, k=(0, 1)), normal(3, 3), normal(2, 3))
sample("band_part", lambda x: tf.linalg.band_part(x, 1, 0), normal(2, 3, 3))
sample("tensor_diag", tf.linalg.tensor_diag, normal(3))
sample("tensor_diag of rank 2", tf.linalg.tensor_diag, normal(2, 3))
sample("tensor_diag_part", tf.linalg.tensor_diag_part, normal(3, 3))
sample("tensor_diag_part of rank 4", tf.linalg.tensor_diag_part, normal(2, 3, 2, 3))
sample("MatrixDiag", lambda x: raw.MatrixDiag(diagonal=x), normal(2, 3))
sample("MatrixDiagPart", lambda x: raw.MatrixDiagPart(input=x), normal(3, 3))
sample("MatrixSetDiag", lambda x, d: raw.MatrixSetDiag(input=x, diagonal=d), normal(3, 3), normal(3))
sample(
    "MatrixDiagV2",
    lambda x: raw.MatrixDiagV2(diagonal=x, k=0, num_rows=-1, num_cols=-1, padding_value=tf.constant(0.0, x.dtype)),
    normal(2, 3),
)
sample(
    "MatrixDiagPartV2",
    lambda x: raw.MatrixDiagPartV2(input=x, k=1, padding_value=tf.constant(0.0, x.dtype)),
    normal(3, 3),
)
sample("MatrixSetDiagV2", lambda x, d: raw.MatrixSetDiagV2(input=x, diagonal=d, k=0), normal(3, 3), normal(3))
sample("trace", tf.linalg.trace, normal(2, 3, 3))
sample("tril of a vector", lambda x: tf.linalg.band_part(x[:, None] * x, -1, 0), normal(3))

sample("space_to_batch", lambda x: tf.space_to_batch(x, [2, 1], [[0, 1], [0, 0]]), normal(2, 3, 2, 2))
sample("batch_to_space", lambda x: tf.batch_to_space(x, [2, 1], [[0, 1], [0, 0]]), normal(4, 2, 2, 2))
sample("SpaceToBatch", lambda x: raw.SpaceToBatch(input=x, paddings=[[0, 1], [1, 0]], block_size=2), normal(1, 3, 3, 1))
sample("BatchToSpace", lambda x: raw.BatchToSpace(input=x, crops=[[0, 1], [1, 0]], block_size=2), normal(4, 2, 2, 1))
sample("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), normal(1, 4, 2, 1))
sample("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), normal(1, 2, 1, 4))
