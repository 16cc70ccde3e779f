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
"""The first call, over the time that TensorFlow takes to trace the model and the gradients of all weights."""


def seconds(function):
    """Return what a function without arguments takes, and what it gives."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def measure(family: str) -> dict:
    """Time one family: both traces, then the first and a later call of the row norms of its Jacobian."""
    side = FAMILIES[family]
    keras.utils.set_random_seed(0)
    model = getattr(keras.applications, family)(
        weights=None, input_shape=(side, side, 3), classes=OUTPUTS, classifier_activation=None
    )
    images, weights = tf.random.normal([IMAGES, side, side, 3]), model.trainable_variables

    def gradients():
        return tf.gradients(model(images, training=False), [weight.value for weight in weights])

    def norms():
        return tfjac.jacobian_operator(model(images, training=False), weights).row_norms()

    theirs, _ = seconds(tf.function(gradients, autograph=False).get_concrete_function)
    ours, traced = seconds(tf.function(norms, autograph=False).get_concrete_function)
    run, _ = seconds(traced)
    later, _ = seconds(traced)
    return {
        "family": family,
        "side": side,
        "variables": len(weights),
        "gradients_trace": theirs,
        "trace": ours,
        "first_call": ours + run,
        "later_call": later,
        "ratio": (ours + run) / theirs,
        "reached": (ours + run) / theirs <= AIM,
    }


def print_table(entries: list[dict], console: Console) -> None:
    """Print one line per family."""
    table = Table("family", "variables", "trace of tf.gradients", "first call", "later call", "ratio", f"≤ {AIM:g}")
    for entry in entries:
        times = [report.duration(entry[key]) for key in ("gradients_trace", "first_call", "later_call")]
        verdict = "reached" if entry["reached"] else "missed"
        table.add_row(entry["family"], str(entry["variables"]), *times, f"{entry['ratio']:.2f}", verdict)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.applications", description=__doc__.splitlines()[0])
    parser.add_argument("--family", nargs="+", choices=sorted(FAMILIES), help="only these (default: all)")
    parser.add_argument("--output", type=pathlib.Path, default=report.RESULTS, help="folder for the JSON")
    options = parser.parse_args(arguments)
    console, entries = Console(), []
    for family in options.family or sorted(FAMILIES):
        entries.append(measure(family))
        keras.backend.clear_session()
        data = {"question": __doc__.splitlines()[0], "environment": report.environment(None), "families": entries}
        path = report.save_json("applications", data, options.output)
    print_table(entries, console)
    console.print("written:", path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
