"""Pictures of explanations: images under their attributions, words and columns with bars."""

import numpy as np
import tensorflow as tf

from tfjac.arguments import described_value

_COLOURS = "RdBu_r"
"""Red speaks for the class, blue against it."""

_NAMES = {"grad_cam": "Grad-CAM", "deep_lift": "DeepLIFT", "lrp": "LRP", "smooth_grad": "SmoothGrad"}


def draw(explanation, example, tokens, names, axes):
    """Draw one example of an `Explanation`; see `Explanation.plot`."""
    import matplotlib.pyplot as plt

    inputs = [np.asarray(each) for each in tf.nest.flatten(explanation.inputs)]
    attributions = _flat(explanation.attributions, inputs)
    drawn = [(x, found) for x, found in zip(inputs, attributions) if found is not None]
    if not drawn:
        raise ValueError(
            "There is nothing to draw in the form of the inputs: draw explanation.details yourself. "
            f"Received: {explanation.method} of {', '.join(map(described_value, inputs))}"
        )
    if not -len(inputs[0]) <= example < len(inputs[0]):
        raise ValueError(f"example must be one of the {len(inputs[0])} rows. Received: example={example!r}")
    given = list(np.ravel(axes)) if axes is not None else _new_axes(plt, drawn)
    if len(given) != len(drawn):
        raise ValueError(f"axes must be one for each of the {len(drawn)} inputs. Received: {len(given)}")
    for axis, (x, found) in zip(given, drawn):
        _draw_one(axis, x[example], found[example], tokens, names)
    given[0].set_title(_title(explanation, example))
    return given if len(given) > 1 else given[0]


def _flat(attributions, inputs):
    """A flat list of attributions, with None for the inputs that have none."""
    if len(inputs) == 1 and not tf.nest.is_nested(attributions):
        return [attributions]
    return tf.nest.flatten(attributions)


def _new_axes(plt, drawn):
    sizes = [(4.2, 3.6) if x.ndim == 4 else (max(4.0, 0.45 * x.shape[1]), 3.0) for x, _ in drawn]
    width, height = max(size[0] for size in sizes), sum(size[1] for size in sizes)
    options = {"figsize": (min(width, 14.0), height), "layout": "constrained", "squeeze": False}
    return list(plt.subplots(len(drawn), **options)[1][:, 0])


def _title(explanation, example):
    title = _NAMES.get(explanation.method, explanation.method.replace("_", " "))
    if explanation.classes is not None:
        title += f": class {explanation.classes[example]}, score {explanation.scores[example]:.3g}"
    return f"{title}\nzero everywhere" if explanation.zero_everywhere()[example] else title


def _draw_one(axis, x, found, tokens, names):
    if x.ndim == 3:
        return _draw_image(axis, x, found if found.ndim == 2 else found.sum(axis=-1))
    if x.ndim == 1:
        is_text = x.dtype.kind in "iuOSU" or tokens is not None
        return _draw_words(axis, x if tokens is None else tokens, found) if is_text else _draw_bars(axis, found, names)
    return _draw_steps(axis, found.T if found.ndim == 2 else found[None], names)


def _draw_image(axis, image, found):
    """The image in grey below, the attributions in colours above, as strong as they are large."""
    grey = np.asarray(image, float).mean(axis=-1)
    low, high = np.percentile(grey, [1, 99])
    axis.imshow(grey, cmap="gray", vmin=low, vmax=max(high, low + 1e-12))
    size = float(np.abs(found).max()) or 1.0
    positive = found.min() >= 0
    options = {"cmap": "inferno", "vmin": 0.0} if positive else {"cmap": _COLOURS, "vmin": -size}
    strength = 0.55 if positive else np.clip(0.15 + 0.85 * np.abs(found) / size, 0.0, 0.9)
    shown = axis.imshow(found, vmax=size, alpha=strength, **options)
    axis.set(xticks=[], yticks=[])
    bar = axis.figure.colorbar(shown, ax=axis, shrink=0.85)
    bar.solids.set_alpha(1.0)


def _draw_words(axis, tokens, found):
    """Words in boxes of the colour of their attribution, with a bar above each."""
    import matplotlib

    words = [each.decode() if isinstance(each, bytes) else str(each) for each in tokens][: len(found)]
    size = float(np.abs(found).max()) or 1.0
    shades = matplotlib.colormaps[_COLOURS](0.5 + 0.3 * found / size)
    axis.bar(range(len(found)), found, color=shades, edgecolor="0.6", linewidth=0.5)
    axis.axhline(0.0, color="0.3", linewidth=0.8)
    axis.set_xticks(range(len(words)), words, rotation=45 if max(map(len, words)) > 2 else 0, ha="right")
    for label, shade in zip(axis.get_xticklabels(), shades):
        label.set_bbox({"facecolor": shade, "edgecolor": "none", "pad": 2.0})
    axis.set_ylabel("attribution")


def _draw_bars(axis, found, names):
    """A bar for each column, the largest above."""
    names = [str(k) for k in range(len(found))] if names is None else list(names)
    if len(names) != len(found):
        raise ValueError(f"names must be one for each of the {len(found)} columns. Received: {len(names)}")
    order = np.argsort(np.abs(found))
    colours = ["tab:red" if found[k] > 0 else "tab:blue" for k in order]
    axis.barh([names[k] for k in order], found[order], color=colours)
    axis.axvline(0.0, color="0.3", linewidth=0.8)
    axis.set_xlabel("attribution")


def _draw_steps(axis, found, names):
    """A map of columns over steps."""
    size = float(np.abs(found).max()) or 1.0
    shown = axis.imshow(found, cmap=_COLOURS, vmin=-size, vmax=size, aspect="auto", interpolation="nearest")
    if names is not None and len(names) == len(found):
        axis.set_yticks(range(len(found)), list(names))
    axis.set_xlabel("step")
    axis.figure.colorbar(shown, ax=axis)
