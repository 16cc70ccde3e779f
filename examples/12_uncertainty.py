"""How sure is a network of what it says? Bayesian regularisation, and the Laplace approximation around its weights.

    python examples/12_uncertainty.py [--plot FILE.png]

Noisy measurements of a curve, with a gap in them. A network with more weights than there are measurements learns how
noisy they are, and how many of its weights they determine; the Laplace approximation then says how far its curve can be
trusted: closely where there are data, less in the gap, and less still beyond the ends, where it goes on as networks do
and not as the curve does, which no posterior of its weights can know.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from example_figures import save_figure

import tfjac

NOISE = 0.1
GAP = (-0.1, 0.9)
PLOT = pathlib.Path(__file__).parent / "plots" / "12_uncertainty.png"


def truth(x):
    """The curve that is measured."""
    return np.sin(3 * x) + 0.5 * x


def measure(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y `[60, 1]`: the curve with noise, outside of the gap."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-1.5, GAP[0], size=35), rng.uniform(GAP[1], 1.5, size=25)])[:, None]
    return x, truth(x) + NOISE * rng.normal(size=x.shape)


def train(x: np.ndarray, y: np.ndarray) -> keras.Model:
    """Return a network trained with Bayesian regularisation, 300 steps on the full batch."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(30, "tanh"), keras.layers.Dense(1)])
    optimizer = tfjac.LevenbergMarquardt(regularization="bayesian", gram_dtype="float64", steps_per_batch=50)
    model.compile(optimizer, loss="mse")
    model.fit(x, y, batch_size=len(x), epochs=6, verbose=0)
    print(f"{model.count_params()} weights, {len(x)} measurements: {optimizer.effective_parameters:.1f} are determined")
    print(f"noise of the measurements {NOISE}, estimated {optimizer.noise_level:.3f}")
    return model


def save_plot(x, y, grid, mean, variance, noise, path: pathlib.Path):
    """Draw the measurements, the network's curve, and bands of twice the standard deviation."""
    figure, axes = plt.subplots(figsize=(9, 5))
    for extra, alpha, label in ((noise**2, 0.15, "of a new measurement"), (0.0, 0.3, "of the curve")):
        width = 2 * np.sqrt(variance + extra)[:, 0]
        axes.fill_between(grid[:, 0], mean[:, 0] - width, mean[:, 0] + width, alpha=alpha, color="C0", label=label)
    axes.plot(grid, mean, color="C0", label="network")
    axes.plot(grid, truth(grid), "--", color="C3", label="truth")
    axes.plot(x, y, ".", color="black", label="measurements")
    axes.set(xlabel="x", ylabel="y", ylim=(-3, 3))
    axes.legend(ncols=2)
    axes.set_title("two standard deviations, by the Laplace approximation")
    figure.tight_layout()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train, and return the mean standard deviation of the curve at the data, in the gap and beyond the ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    x, y = measure()
    model = train(x, y)
    posterior = tfjac.laplace(model, x, y)
    print(posterior)
    print(f"log marginal likelihood {posterior.log_marginal_likelihood():.1f}")
    grid = np.linspace(-2.2, 2.2, 221)[:, None]
    mean, variance = posterior.predict(grid)
    deviation, off = np.sqrt(variance), np.abs(mean - truth(grid))
    inside = (grid > GAP[0]) & (grid < GAP[1])
    regions = {"at the data": ~inside & (np.abs(grid) <= 1.5), "in the gap": inside, "beyond": np.abs(grid) > 1.5}
    for name, chosen in regions.items():
        within = np.mean(off[chosen] < 2 * deviation[chosen])
        print(f"{name}: off by {off[chosen].mean():.3f}, standard deviation {deviation[chosen].mean():.3f}, ", end="")
        print(f"within two of them at {within:.0%}")
    save_plot(x, y, grid, mean, variance, posterior.noise, options.plot)
    print(f"plot: {options.plot}")
    return {name: float(deviation[chosen].mean()) for name, chosen in regions.items()}


if __name__ == "__main__":
    main()
