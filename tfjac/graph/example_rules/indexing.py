"""Ops that read or write by index: gather and scatter with tuples of indices, updates of a block."""

from tfjac.graph.example_rules.registry import SHARED, NoRule, known_shape, rule
from tfjac.graph.static_values import static_value


@rule("GatherV2", "ResourceGather")
def _gather(op, axis, wanted):
    """params[..., indices, ...]: examples are in the indices, or in an axis of params not gathered along."""
    params, indices = op.inputs[:2]
    batch_dims = op.get_attr("batch_dims")
    along = 0 if op.type == "ResourceGather" else static_value(op.inputs[2])
    if along is None or indices.shape.rank is None:
        raise NoRule("the axis it gathers along is unknown until it runs")
    rest = [SHARED] * (len(op.inputs) - 2)
    along = int(along) % (params.shape.rank or 1) if op.type == "GatherV2" else 0
    if axis.axis < batch_dims:
        return [axis, axis, *rest]
    if (
        along == axis.axis == 0
        and not wanted.depends_on_no_data(params)
        and _counts_all_rows(indices, params, wanted.symbolic_sizes)
    ):
        return [axis, SHARED, *rest]
    if along <= axis.axis < along + indices.shape.rank - batch_dims:
        return [SHARED, axis.moved(axis.axis - along + batch_dims), *rest]
    return [
        axis.moved(axis.axis if axis.axis < along else axis.axis - indices.shape.rank + batch_dims + 1),
        SHARED,
        *rest,
    ]


@rule("GatherNd", "ResourceGatherNd")
def _gather_nd(op, axis, wanted):
    """params[indices[..., :], ...]: examples are in the indices, in an axis of params behind these, or are counted."""
    indices = op.inputs[1]
    depth, positions = _depth(indices, wanted)
    if axis.axis >= positions:
        return [axis.moved(axis.axis - positions + depth), SHARED]
    return [axis if _counts_rows(indices) else SHARED, axis]


@rule("ScatterNd")
def _scatter_nd(op, axis, wanted):
    """Updates [positions, ...behind] are added up at the places that the indices name: [places, ...behind]."""
    return [SHARED, _behind_places(op.inputs[0], axis, wanted), SHARED]


@rule(*("TensorScatter" + name for name in ("Add", "Sub", "Update", "Max", "Min")))
def _scatter_into(op, axis, wanted):
    return [axis, SHARED, _behind_places(op.inputs[1], axis, wanted)]


def _behind_places(indices, axis, wanted):
    depth, positions = _depth(indices, wanted)
    if axis.axis < depth:
        raise NoRule("it writes to examples by index")
    return axis.moved(axis.axis - depth + positions)


def _depth(indices, wanted):
    """How many axes the indices go into, and how many axes of positions they have."""
    shape = known_shape(wanted, indices)
    if shape[-1] is None:
        raise NoRule("how deep it indexes is unknown until it runs")
    return shape[-1], len(shape) - 1


def _counts_rows(indices):
    """Whether the indices are `tf.stack([tf.range(n), ...], axis=-1)`: row k reads from row k."""
    if indices.op.type != "Pack":
        return False
    return indices.op.get_attr("axis") % 2 == 1 and _counts(indices.op.inputs[0])


def _counts(indices):
    """Whether the indices are those of a `tf.range(n)`."""
    if indices.op.type != "Range":
        return False
    start, _, step = indices.op.inputs
    return static_value(start) == 0 and static_value(step) == 1


def _counts_all_rows(indices, params, known):
    """Whether the indices are `tf.range(tf.shape(params)[0])`, as of a `tf.vectorized_map` of an open batch.

    There they are a choice between these and 0, for all of which there is one row alone.
    """
    sizes = []
    if indices.op.type == "SelectV2":
        several, indices, _ = indices.op.inputs
        if several.op.type != "Greater" or static_value(several.op.inputs[1]) != 1:
            return False
        sizes = [several.op.inputs[0]]
    if params.shape.rank is None or not _counts(indices):
        return False
    rows = known.sizes(params)[:1]
    return all(known.entries(size) == rows for size in [*sizes, indices.op.inputs[1]])


@rule("XlaDynamicUpdateSlice")
def _update_block(op, axis, wanted):
    """A block replaces a part of the input; along the axis of the examples it must be as long as the input."""
    size, block = (known_shape(wanted, tensor)[axis.axis] for tensor in op.inputs[:2])
    if size != block:
        raise NoRule("it replaces a part of the axis of the examples")
    wanted.meet(op, [(tensor, axis) for tensor in op.inputs[:2]])
    return [axis, axis, SHARED]


@rule("ReverseSequence")
def _reverse_sequence(op, axis, wanted):
    if op.get_attr("seq_dim") == axis.axis:
        raise NoRule("it reverses along the axis of the examples")
    return [axis, axis.moved(0) if op.get_attr("batch_dim") == axis.axis else SHARED]
