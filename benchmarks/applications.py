"""What the first call costs for the families of keras.applications, beside TensorFlow's own trace of all gradients.

python -m benchmarks.applications                           # all families: many minutes
python -m benchmarks.applications --family MobileNet VGG16  # some
"""

import argparse
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import tfjac
from benchmarks import report
from benchmarks.questions import disagreement

FAMILIES = {
    "ConvNeXtTiny": 32,
    "DenseNet121": 32,
    "EfficientNetB0": 32,
    "EfficientNetV2B0": 32,
    "EfficientNetV2S": 32,
    "InceptionResNetV2": 75,
    "InceptionV3": 75,
    "MobileNet": 32,
    "MobileNetV2": 32,
    "MobileNetV3Small": 32,
    "NASNetMobile": 32,
    "ResNet50": 32,
    "ResNet50V2": 32,
    "VGG16": 32,
    "Xception": 71,
}
"""The smallest model of each family, and the side of its images: small, for it is the trace that is asked about."""

IMAGES, OUTPUTS = 2, 2
AIM = 3.0
"""The first call, over the time that TensorFlow takes to trace the model and the gradients of all weights.

Tracing alone: TensorFlow's own first call, which optimises that graph and runs it, is measured beside it.
"""


def seconds(function):
    """Return what a function without arguments takes, and what it gives."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def model_and_images(family: str):
    """Return the model with random weights, and some images for it."""
    side = FAMILIES[family]
    keras.utils.set_random_seed(0)
    model = getattr(keras.applications, family)(
        weights=None, input_shape=(side, side, 3), classes=OUTPUTS, classifier_activation=None
    )
    return model, tf.random.normal([IMAGES, side, side, 3])


def difference(model, images) -> float:
    """Return how far rows for the first, middle and last weight are from one `tape.gradient` each, in float32.

    Relative to the largest entry of each weight's rows. Rounding alone makes about 1e-5, in deep models up to 1e-3.
    """
    weights = model.trainable_variables
    weights = [weights[k].value for k in (0, len(weights) // 2, -1)]

    def ours():
        return tfjac.per_example_jacobian(model(images, training=False), weights)

    def theirs():
        with tf.GradientTape(persistent=True) as tape:
            rows = [tf.unstack(row) for row in tf.unstack(model(images, training=False))]
        return [[tape.gradient(entry, weights) for entry in row] for row in rows]

    rows = tf.function(theirs, autograph=False)()
    found = tf.function(ours, autograph=False)()
    expected = [tf.stack([tf.stack([entry[k] for entry in row]) for row in rows]) for k in range(len(weights))]
    return max(disagreement(one, other) for one, other in zip(expected, found, strict=True))


def measure(family: str, check: bool) -> dict:
    """Time one family: both traces, then the first and a later call of the row norms of its Jacobian."""
    model, images = model_and_images(family)
    weights = model.trainable_variables

    def gradients():
        return tf.gradients(model(images, training=False), [weight.value for weight in weights])

    def norms():
        return tfjac.jacobian_operator(model(images, training=False), weights).row_norms()

    theirs, traced = seconds(tf.function(gradients, autograph=False).get_concrete_function)
    their_run, _ = seconds(traced)
    ours, traced = seconds(tf.function(norms, autograph=False).get_concrete_function)
    run, _ = seconds(traced)
    later, _ = seconds(traced)
    return {
        "family": family,
        "side": FAMILIES[family],
        "variables": len(weights),
        "gradients_trace": theirs,
        "gradients_first_call": theirs + their_run,
        "trace": ours,
        "first_call": ours + run,
        "later_call": later,
        "ratio": (ours + run) / theirs,
        "reached": (ours + run) / theirs <= AIM,
        "difference": difference(model, images) if check else None,
    }


def print_table(entries: list[dict], console: Console) -> None:
    """Print one line per family."""
    kinds = {
        "tf.gradients' trace": "gradients_trace",
        "its first call": "gradients_first_call",
        "first call": "first_call",
        "later call": "later_call",
    }
    table = Table("family", "variables", *kinds, "ratio", f"≤ {AIM:g}", "off by")
    for entry in entries:
        times = [report.duration(entry[key]) for key in kinds.values()]
        verdict = "reached" if entry["reached"] else "missed"
        off = "" if entry["difference"] is None else f"{entry['difference']:.0e}"
        table.add_row(entry["family"], str(entry["variables"]), *times, f"{entry['ratio']:.2f}", verdict, off)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.applications", description=__doc__.splitlines()[0])
    parser.add_argument("--family", nargs="+", choices=sorted(FAMILIES), help="only these (default: all)")
    parser.add_argument("--check", action="store_true", help="compare some rows with one tape.gradient each, too")
    parser.add_argument("--output", type=pathlib.Path, default=report.RESULTS, help="folder for the JSON")
    options = parser.parse_args(arguments)
    console, entries = Console(), []
    for family in options.family or sorted(FAMILIES):
        entries.append(measure(family, options.check))
        keras.backend.clear_session()
        data = {"question": __doc__.splitlines()[0], "environment": report.environment(None), "families": entries}
        path = report.save_json("applications", data, options.output)
    print_table(entries, console)
    console.print("written:", path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
