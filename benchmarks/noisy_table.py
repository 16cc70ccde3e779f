"""A noisy table: what `tfjac.fit`, Bayesian regularisation and Adam make of data that have not been seen.

python -m benchmarks.noisy_table    # two minutes

A network of 10 tanh units learns the progress of diabetes, with four fifths of the table, for three seeds. Losses are
mean squares, of targets of variance one; seconds are CPU seconds with tracing. See `benchmarks/fit_choice.py`.
"""

import numpy as np

from benchmarks import fit_choice

HIDDEN, SEEDS = (10,), (0, 1, 2)


def bayesian(model, loss, data, validation):
    """Train on all data, the precisions of weights and noise estimated on the way."""
    from tfjac import LevenbergMarquardt, callbacks

    model.compile(LevenbergMarquardt(steps_per_batch=10, regularization="bayesian"), loss)
    model.fit(*data, batch_size=len(data[0]), epochs=50, verbose=0, callbacks=[callbacks.Convergence()])


def main():
    """Print the table."""
    fit_choice.NETWORKS["tiny"] = HIDDEN
    fit_choice.METHODS['regularization="bayesian"'] = bayesian
    ways = [("tfjac.fit", False), ('regularization="bayesian"', False), ("tfjac.fit", True), ("Adam", False)]
    print("| | training loss | test loss | CPU seconds |\n| --- | --- | --- | --- |")
    for method, validated in ways:
        runs = [fit_choice.run("diabetes", "tiny", seed, method, validated) for seed in SEEDS]
        figures = (f"{np.mean([run[name] for run in runs]):.2g}" for name in ("training", "test", "seconds"))
        print(f"| {method}{', validated' if validated else ''} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
