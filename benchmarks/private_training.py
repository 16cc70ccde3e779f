"""A private step of training against a plain one, beside Opacus: time and memory, each run in a process of its own.

python -m benchmarks.private_training                                # tfjac alone
python -m benchmarks.private_training --opacus PEERS/bin/python      # pip install opacus numpy
python -m benchmarks.private_training --rounds 1 --steps 5           # does it work?
python -m benchmarks.private_training --large                        # 1,024 and 4,096 examples, tfjac alone

The networks of the question `private-step`: convolutions on 64 images of 28×28, and an LSTM on 64 texts of 64 words. A
step is clipped, noised SGD: by `tfjac.privacy.DPOptimizer` in `train_on_batch`, and by Opacus' `PrivacyEngine`
in a loop of PyTorch, with gradients of examples (`hooks`) or without (`ghost`). Runs take turns. Times are medians
of the steps after the fifth. The memory is by how much the process grew at most since its model was built, tracing
included. The results are kept in `benchmarks/results/private_training.json`. With `--large` the batches have an open
size, as those of `poisson_batches`, by Keras' training function. A private step sums up batches of 256, beside one that
takes the batch whole; and the results are kept in `private_large.json`.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

RESULTS = pathlib.Path(__file__).parent / "results" / "private_training.json"
EXAMPLES, CLASSES, WORDS, CLIP_NORM, NOISE, RATE = 64, 10, 5000, 1.0, 1.0, 1e-3
NETWORKS = ("convolutions", "LSTM")
LARGE, ROWS = (1024, 4096), 256
STEPS_OF = {"tfjac": ("plain", "private"), "opacus": ("plain", "hooks", "ghost")}
STEPS_OF_LARGE = {"tfjac": ("plain", "private", "private, whole")}


def data(network, examples=EXAMPLES):
    """Return examples, as Keras wants them, and labels."""
    random = np.random.default_rng(0)
    images = random.normal(size=(examples, 28, 28, 1)).astype("float32")
    x = images if network == "convolutions" else random.integers(0, WORDS, (examples, 64))
    return x, random.integers(0, CLASSES, examples)


def by_keras(network, kind, examples=EXAMPLES):
    """Return the function that takes a step by Keras."""
    import keras
    import tensorflow as tf

    from tfjac import privacy

    layers = keras.layers
    stacks = {
        "convolutions": [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 8, strides=2, padding="same", activation="relu"), layers.MaxPooling2D(2, strides=1),
            layers.Conv2D(32, 4, strides=2, activation="relu"), layers.MaxPooling2D(2, strides=1),
            layers.Flatten(), layers.Dense(32, "relu"), layers.Dense(CLASSES),
        ],
        "LSTM": [
            keras.Input((64,), dtype="int32"), layers.Embedding(WORDS, 32), layers.LSTM(64), layers.Dense(CLASSES),
        ],
    }  # fmt: skip
    parts = examples // ROWS if examples in LARGE and kind == "private" else 1
    model = keras.Sequential(stacks[network])
    optimizer = keras.optimizers.SGD(RATE, gradient_accumulation_steps=parts if parts > 1 else None)
    if kind.startswith("private"):
        optimizer = privacy.DPOptimizer(optimizer, CLIP_NORM, NOISE, batch_size=examples)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = data(network, examples)
    if examples not in LARGE:
        return lambda: model.train_on_batch(x, y)
    batches = iter(_of_open_size(x, y, parts))
    model.make_train_function()
    return lambda: [tf.nest.map_structure(np.asarray, model.train_function(batches)) for _ in range(parts)]


def _of_open_size(x, y, parts):
    """Return a data set of the parts of one batch, for ever, whose size is not known while tracing."""
    import itertools

    import tensorflow as tf

    specs = [tf.TensorSpec([None, *each.shape[1:]], each.dtype) for each in (x, y)]
    each = list(zip(np.split(x, parts), np.split(y, parts), strict=True))
    return tf.data.Dataset.from_generator(lambda: itertools.cycle(each), output_signature=tuple(specs))


def by_torch(network, kind):
    """Return the function that takes a step by PyTorch, and by Opacus if it is private."""
    import warnings

    import torch
    from opacus import PrivacyEngine
    from opacus.layers import DPLSTM
    from torch import nn

    warnings.simplefilter("ignore")

    class Texts(nn.Module):
        """Embedding, LSTM, and a dense layer at its end."""

        def __init__(self):
            super().__init__()
            recurrent = nn.LSTM if kind == "plain" else DPLSTM
            self.words, self.recurrent = nn.Embedding(WORDS, 32), recurrent(32, 64, batch_first=True)
            self.last = nn.Linear(64, CLASSES)

        def forward(self, x):
            """Return the logits."""
            return self.last(self.recurrent(self.words(x))[0][:, -1])

    images = nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, stride=2),
        nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, CLASSES),
    )  # fmt: skip
    model = images if network == "convolutions" else Texts()
    optimizer, criterion = torch.optim.SGD(model.parameters(), RATE), nn.CrossEntropyLoss()
    x, y = data(network)
    x = torch.tensor(np.moveaxis(x, -1, 1) if network == "convolutions" else x)
    y = torch.tensor(y)
    if kind != "plain":
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=EXAMPLES)
        settings = {"noise_multiplier": NOISE, "max_grad_norm": CLIP_NORM, "poisson_sampling": False}
        if kind == "ghost":
            settings |= {"grad_sample_mode": "ghost", "criterion": criterion}
        made = PrivacyEngine().make_private(module=model, optimizer=optimizer, data_loader=loader, **settings)
        model, optimizer = made[:2]
        criterion = made[2] if kind == "ghost" else criterion
        model.train()

    def step():
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

    return step


def timed(library, network, kind, steps, examples=EXAMPLES):
    """Return the seconds of each step, and the MB by which the process grew."""
    step = by_keras(network, kind, examples) if library == "tfjac" else by_torch(network, kind)
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for _ in range(steps + 5):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"seconds": seconds[5:], "memory": grown}


def run(python, *what):
    """Return what `timed` returns in a process of another Python."""
    command = [python, __file__, "--child", *map(str, what)]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(pythons, rounds, steps, examples=EXAMPLES):
    """Return `{network: {library: {kind: [median ms, MB]}}}`, or an error in the place of the numbers."""
    steps_of = STEPS_OF_LARGE if examples in LARGE else STEPS_OF
    runs = [(one, library, kind) for one in NETWORKS for library in pythons for kind in steps_of[library]]
    found = {each: [] for each in runs}
    for _ in range(rounds):
        for network, library, kind in runs:
            found[network, library, kind].append(run(pythons[library], library, network, kind, steps, examples))
    table = {}
    for (network, library, kind), each in found.items():
        error = next((one["error"] for one in each if "error" in one), None)
        numbers = error or [
            1e3 * statistics.median(second for one in each for second in one["seconds"]),
            statistics.median(one["memory"] for one in each),
        ]
        table.setdefault(network, {}).setdefault(library, {})[kind] = numbers
    return table


def markdown(table):
    """Return the table in Markdown."""
    lines = ["| network | library | step | ms | of a plain step | MB | of a plain step |", "|---" * 7 + "|"]
    for network, libraries in table.items():
        for library, kinds in libraries.items():
            plain = kinds["plain"]
            for kind, numbers in kinds.items():
                if isinstance(numbers, str):
                    lines.append(f"| {network} | {library} | {kind} | {numbers} | | | |")
                    continue
                time_ratio, memory_ratio = (one / other for one, other in zip(numbers, plain, strict=True))
                lines.append(
                    f"| {network} | {library} | {kind} | {numbers[0]:.1f} | {time_ratio:.2f} | {numbers[1]:.0f} | "
                    f"{memory_ratio:.2f} |"
                )
    return "\n".join(lines)


def large(rounds, steps):
    """Run the large batches, print their tables, and keep the results."""
    tables = {size: measured({"tfjac": sys.executable}, rounds, steps, size) for size in LARGE}
    RESULTS.with_name("private_large.json").write_text(json.dumps(tables, indent=1) + "\n")
    for size, table in tables.items():
        print(f"{size} examples\n\n{markdown(table)}\n")


def main():
    """Run all, print the table, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opacus", metavar="PYTHON", help="the Python of an environment with Opacus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        *what, steps, examples = asked.child
        print(json.dumps(timed(*what, int(steps), int(examples))))
        return
    if asked.large:
        large(asked.rounds, asked.steps)
        return
    pythons = {"tfjac": sys.executable} | ({"opacus": asked.opacus} if asked.opacus else {})
    table = measured(pythons, asked.rounds, asked.steps)
    RESULTS.write_text(json.dumps(table, indent=1) + "\n")
    print(markdown(table))


if __name__ == "__main__":
    main()
