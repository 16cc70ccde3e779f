"""What the examples that draw share."""

import pathlib

import matplotlib
import matplotlib.pyplot as plt

matplotlib.use("Agg")


def save_figure(figure: plt.Figure, path: pathlib.Path, dpi: int = 120) -> None:
    """Write a figure, the folder too where there is none, and let go of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)
    plt.close(figure)
