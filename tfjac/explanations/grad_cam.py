"""Grad-CAM: which places of an image a score depends on, by the maps of a layer inside."""

import keras
import tensorflow as tf

from tfjac.explanations.explanation import Explanation
from tfjac.explanations.program import chosen, key_of
from tfjac.explanations.scores import Explained
from tfjac.graph import Dependence, flat_layers
from tfjac.graph.facts import facts_of
from tfjac.interception import node_gradients
from tfjac.types import Function, NestLike, Selector, TensorLike

_PASSED_ON = {"Pad", "MirrorPad", "Identity"}
"""Ops whose results are not shown: what they are given is, without the margin."""


def grad_cam(
    model: Function,
    x: NestLike,
    layer: Selector | None = None,
    class_index: int | TensorLike | None = None,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Weight the channels of a layer by the mean gradients of a score: a map of where the score comes from.

        map = ReLU(Σ_k α_k A_k), with α_k the mean over all places of ∂score/∂A_k

    Args:
        model: a Keras model of any kind, also one with models inside; a loaded SavedModel, or a signature of one; a
            function of tensors.
        x: the inputs, a batch: an array, or a list or dict of arrays, as the model takes them.
        layer: a selector of what a layer returns, `[n, height, width, channels]`, as in `tfjac.nodes`: a layer, its
            name, or the end of its path, "act[1]" for its second call. Layers of `[n, steps, channels]` and
            `[n, depth, height, width, channels]` work as well. None for the last images on the way to the scores.
        class_index: the class that is explained: an integer, or one for each example; the predicted one if None.
        score_at: a selector of the node whose values are the scores, `[n]` or `[n, classes]`. If None, they are the
            result of the model, or its logits if the last op is a softmax or sigmoid, as the gradients of these vanish
            where the model is sure. `explained` of the result says which.
        batch_size: so many rows are computed at once.

    Returns:
        An `Explanation`, with a map `[n, height, width]` for each input of images that the layer is computed from, of
        their size, and None for others.
        `details["maps"]` are the maps in the size of the layer.

    Raises:
        ValueError: for names that select nothing, with the nearest ones; for a model without images on the way; for a
            class that the scores have not; for a model that is not built; for inputs without a batch axis.
        TypeError: for ragged and sparse inputs.

    Cost: one gradient.
    Reference: R. R. Selvaraju et al., "Grad-CAM: visual explanations from deep networks", 2017.
    """
    _refuse_channels_first(model)
    explained = Explained(model, x, class_index, score_at, batch_size)

    def maps(program, *flat):
        inputs, classes = flat[:-1], flat[-1]
        selector = _is_last_image(program) if layer is None else layer
        gradient, value = node_gradients(lambda: chosen(program(*inputs), classes), selector, values=True)
        _check_images(gradient, value, layer)
        program.facts["shown"] = Dependence(program.inputs, by_value=True).sources_of(value)
        places = list(range(1, value.shape.rank - 1))
        weights = tf.reduce_mean(gradient, places, keepdims=True)
        return tf.nn.relu(tf.reduce_sum(weights * value, axis=-1))

    key = ["grad_cam", "" if layer is None else key_of(layer)]
    given = [*explained.inputs.arrays, explained.classes]
    specs = [*explained.inputs.specs(), tf.TensorSpec([None], tf.int64)]
    kept = explained.compiled(key, maps, specs)
    (found,) = explained.in_parts(kept.run, given)
    arrays = enumerate(explained.inputs.arrays)
    resized = [_resized(found, array) if index in kept.facts["shown"] else None for index, array in arrays]
    return explained.explanation("grad_cam", explained.inputs.pack(resized), details={"maps": found})


def _is_last_image(program):
    def selector(node):
        if not hasattr(program, "last_image"):
            program.last_image = _last_image(program)
        return not node.place and node.tensor.name == program.last_image.name

    return selector


def _last_image(program):
    """The last tensor `[n, height, width, channels]` that comes from a convolution, with more than one place."""
    images, last = set(), None
    for op in program.path_of_inputs():
        if facts_of(op).maps == "made" or (_keeps_images(op) and any(x.ref() in images for x in op.inputs)):
            images |= {y.ref() for y in op.outputs if y.shape.rank == 4}
            spread = [y for y in op.outputs[:1] if y.shape.rank == 4 and 1 not in y.shape[1:3]]
            last = spread[0] if spread and op.type not in _PASSED_ON else last
    if last is None and images:
        raise ValueError(
            "The maps of all convolutions have a height or a width of 1, so that there are no places to tell apart: "
            "use larger images, or tfjac.explanations.integrated_gradients. "
            f"Received: a model with scores of shape {program.scores.shape}"
        )
    if last is None:
        raise ValueError(
            "Grad-CAM needs a node [n, height, width, channels], and no convolution of images stands between the "
            "inputs and the scores: choose a node by layer=, which may be [n, steps, channels] too, or use "
            "tfjac.explanations.integrated_gradients, or attention_rollout for transformers. "
            f"Received: a model with scores of shape {program.scores.shape}"
        )
    made = [op for op in program.path_of_inputs() if facts_of(op).maps == "made"]
    if any(op.get_attr("data_format") in (b"NCHW", b"NCDHW") for op in made):
        raise _channels_first("convolutions with data_format NCHW")
    return last


def _keeps_images(op):
    """Whether the results of an op are images if its inputs are: places stay, element by element or nearly so."""
    facts = facts_of(op)
    return facts.maps == "kept" or facts.elementwise in ("unary", "several inputs", "as it is")


def _check_images(gradient, value, layer):
    if isinstance(value, list):
        raise ValueError(
            f"layer must select one node: choose a call of a layer that is called several times, such as "
            f"'{getattr(layer, 'name', layer)}[0]' for the first. Received: {layer!r}, which selects {len(value)}"
        )
    if value.shape.rank not in (3, 4, 5):
        raise ValueError(
            "Grad-CAM needs a layer that returns [n, height, width, channels], as convolutions do, or [n, steps, "
            f"channels]. Received: layer={layer!r}, which returns {value.shape}"
        )
    if gradient is None and layer is None:
        raise ValueError(
            "The last images on the way to the scores have no gradient: choose a layer before by layer=, which has "
            "more than one place. Of networks made for large images, the maps of small ones shrink to 1×1: then use "
            "larger images. "
            f"Received: layer=None, which is a node of shape {value.shape}"
        )
    if gradient is None:
        raise ValueError(
            "The scores have no gradient at this layer: tfjac.explain_gradient tells where the path breaks. "
            f"Received: layer={layer!r}"
        )


def _refuse_channels_first(model):
    layers = flat_layers(model) if isinstance(model, keras.Layer) else ()
    found = next((each for each in layers if getattr(each, "data_format", None) == "channels_first"), None)
    if found is not None:
        raise _channels_first(f"layer {found.name!r} with data_format='channels_first'")


def _channels_first(what):
    return ValueError(
        "Grad-CAM averages over places and weights channels, which must be last: use a model with "
        f"data_format='channels_last', or tfjac.explanations.integrated_gradients. Received: {what}"
    )


def _resized(maps, array):
    """Maps in the size of images `[n, height, width, channels]`; as they are for series; None for other inputs."""
    if array.ndim != maps.ndim + 1:
        return None
    if maps.ndim != 3:
        return maps
    return tf.image.resize(maps[..., None], array.shape[1:3]).numpy()[..., 0].astype(maps.dtype)
