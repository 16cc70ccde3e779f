"""Images of smooth random curves, the data of deep autoencoders.

CURVES is a made data set: Hinton & Salakhutdinov, "Reducing the dimensionality of data with neural networks", Science
2006. Martens, "Deep learning via Hessian-free optimization", ICML 2010, made it the test of methods of second order.
Each image has one curve through three random points, so six numbers describe it. This script makes images like
theirs; they are not the same.
"""

import numpy as np

ALONG = 60
"""Points of a curve, whose nearest makes a pixel."""


def curves(count: int, seed: int = 0, size: int = 28) -> np.ndarray:
    """Return images `[count, size²]` between 0 and 1, float32: exp(−d²) at distance d from a curve, in pixels."""
    first, middle, last = np.random.default_rng(seed).uniform(3, size - 4, (count, 3, 2)).swapaxes(0, 1)
    handle = 2 * middle - (first + last) / 2  # so that the parabola meets `middle` halfway
    pixels, images = np.arange(size), np.zeros((count, size, size), "float32")
    for t in np.linspace(0, 1, ALONG):
        at = np.clip((1 - t) ** 2 * first + 2 * t * (1 - t) * handle + t**2 * last, 1, size - 2)
        across, down = np.exp(-((pixels - at[:, :, None]) ** 2)).astype("float32").swapaxes(0, 1)
        np.maximum(images, down[:, :, None] * across[:, None, :], out=images)
    return images.reshape(count, size * size)
