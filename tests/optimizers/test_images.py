"""Images with missing values, beside SciPy's fits of what is left of them."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac

from .test_curve_fit import TIGHT, same


def spot(x, size, place, width):
    return size * tf.exp(-((x[0] - place) ** 2) / width - (x[1] - 1.0) ** 2)


def blurred_spot(x, size, place, width):
    """A model that needs the whole image."""
    return tf.cumsum(spot(x, size, place, width), axis=1)


def outer_spot(x, size, place, width):
    return spot((x[0][:, None], x[1][None, :]), size, place, width)


GRID = np.linspace(0.0, 3.0, 7), np.linspace(-1.0, 2.0, 9)
IMAGES = {
    "grids": (spot, np.meshgrid(*GRID, indexing="ij"), "no deviations"),
    "a stack": (spot, np.stack(np.meshgrid(*GRID, indexing="ij")), "deviations"),
    "open grids": (spot, np.meshgrid(*GRID, indexing="ij", sparse=True), "a covariance"),
    "neighbours": (blurred_spot, np.meshgrid(*GRID, indexing="ij"), "deviations"),
    "axes": (outer_spot, GRID, "no deviations"),
}


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("case", IMAGES)
def test_images_with_missing_values(case):
    """What is masked, or NaN, leaves places out of an image, whatever the model makes it of."""
    f, x, deviations = IMAGES[case]
    rng = np.random.default_rng(1)
    image = f([np.asarray(each) for each in x], 2.0, 1.4, 0.6).numpy() + 0.01 * rng.normal(size=(7, 9))
    lost = rng.random((7, 9)) < 0.2
    sigma, known = None, None
    if deviations == "deviations":
        sigma = rng.uniform(1, 2, (7, 9))
        known = sigma[~lost]
    elif deviations == "a covariance":
        sigma = np.diag(np.arange(1.0, 64)) + 0.3
        known = sigma[~lost.ravel()][:, ~lost.ravel()]
    theirs = scipy.optimize.curve_fit(
        lambda _, *p: f([np.asarray(each) for each in x], *p).numpy()[~lost], None, image[~lost], [1.0, 1.0, 1.0], known
    )
    masked = tfjac.curve_fit(f, x, np.ma.masked_array(image + 9 * lost, lost), [1.0, 1.0, 1.0], sigma, **TIGHT)
    same(masked, theirs, rtol=1e-4)
    omitted = np.where(lost, np.nan, image)
    same(tfjac.curve_fit(f, x, omitted, [1.0, 1.0, 1.0], sigma, nan_policy="omit", **TIGHT), masked, rtol=1e-6)
    assert masked.num_residuals == masked.predict().size == np.sum(~lost)
    np.testing.assert_allclose(masked.predict(x), f(x, *masked.popt), rtol=1e-12)


def test_images_whose_places_are_missing_too():
    x, hole = np.stack(np.meshgrid(*GRID, indexing="ij")), np.zeros((7, 9), bool)
    hole[2, 3:6] = True
    image = spot(x, 2.0, 1.4, 0.6).numpy()
    for data in (np.ma.masked_array(x, [hole, hole]), np.where(hole, np.nan, x)):
        fit = tfjac.curve_fit(spot, data, image + hole, [1.0, 1.0, 1.0], nan_policy="omit")
        np.testing.assert_allclose(fit.popt, [2.0, 1.4, 0.6], rtol=1e-6)
    with pytest.raises(ValueError, match=r"xdata have missing values they are \[..., \*ydata.shape\]"):
        tfjac.curve_fit(outer_spot, (np.where(GRID[0] > 2, np.nan, GRID[0]), GRID[1]), image, nan_policy="omit")
    with pytest.raises(ValueError, match=r"one value for each of ydata.*\(63,\), ydata of \(7, 9\)"):
        flat = np.ma.masked_array(image, hole)
        tfjac.curve_fit(lambda x, a: a * tf.reshape(x[0], [-1]), x, flat)
