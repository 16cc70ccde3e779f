"""The data of a curve: what users give, as arrays of float64, checked, and without what is missing."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_numbers, choice, holds_dates
from tfjac.types import Array, Nest, TensorLike


def arrays_of(data: Any, argument: str = "xdata") -> Any:
    """Return a nest of numbers as one of arrays and tensors of float64, or complex128.

    What holds no numbers stays as it is, but for arrays of text, and so do tensors of integers, which may be indices.

    Raises:
        TypeError: for dates, durations and text that is no number.
        ValueError: for a masked array that masks something.
    """
    if _masks(data, argument):
        as_numbers(argument, next(each for each in tf.nest.flatten(data) if np.ma.is_masked(each)))
    return _arrays_of(data, argument)


def _arrays_of(data: Any, argument: str) -> Any:
    if isinstance(data, dict):
        return {key: _arrays_of(each, argument) for key, each in data.items()}
    found = data if isinstance(data, tuple) else _as_numbers(data, argument)
    if isinstance(found, (list, tuple)):
        return tf.nest.pack_sequence_as(found, [_as_numbers(each, argument) for each in tf.nest.flatten(found)])
    return found


def _as_numbers(item: Any, argument: str) -> Any:
    if isinstance(item, (tf.Tensor, tf.Variable)):
        wide = tf.complex128 if item.dtype.is_complex else tf.float64 if item.dtype.is_floating else item.dtype
        return tf.cast(item, wide)
    try:
        values = np.asarray(item)
        meant = values.dtype.kind in "biufcmM" or holds_dates(values) or _holds_text(values)
        if values.dtype.kind == "O" and values.ndim and not meant:  # of numbers, as a column of mixed types is
            values, meant = values.astype(np.float64), True
    except (TypeError, ValueError):  # of other lengths, or of no numbers at all
        return item
    return as_numbers(argument, values, complex_too=True) if meant else item


def _holds_text(values: Array) -> bool:
    return bool(values.ndim) and isinstance(next(iter(values.flat), None), (str, bytes))


def curve_data(
    xdata: Nest[TensorLike],
    ydata: TensorLike,
    sigma: TensorLike | None,
    check_finite: bool | None = None,
    nan_policy: Literal["raise", "omit"] | None = None,
) -> tuple[Any, Array, Any, Array | None]:
    """Return the data as arrays, checked: xdata in its nest, ydata, sigma, or None, and which values of f are fitted.

    What a masked array masks is left out, of xdata `[..., values]` too. A model of an image is given all xdata, if none
    are missing: the last item says which of its values are fitted, bool, of their shape. Else it is None.

    Raises:
        ValueError: for data that are not finite, where they should be, or for none at all.
        TypeError: for dates and durations.
    """
    masks = [*_masks(xdata, "xdata"), *_masks(ydata, "ydata"), *_masks(sigma, "sigma")]
    x, y = _arrays_of(xdata, "xdata"), as_numbers("ydata", ydata, complex_too=True, masked_too=True)
    choice("nan_policy", nan_policy, (None, "raise", "omit"))
    places = None
    if nan_policy == "omit":
        masks += [("xdata", np.isnan(each)) for each in _numbers_in(x)] + [("ydata", np.isnan(y))]
    masks = [(argument, mask) for argument, mask in masks if mask.any()]
    if masks:
        x, y, sigma, places = _without(_lost(masks, y), x, y, sigma, "xdata" in dict(masks))
    if not y.size:
        raise ValueError("There is nothing to fit. Received: ydata without values")
    if nan_policy is None if check_finite is None else check_finite:
        _check(np.isfinite, xdata=x, ydata=y)
    elif nan_policy == "raise":
        _check(lambda values: ~np.isnan(values), xdata=x, ydata=y)
    return x, y, sigma, places


def _numbers_in(data: Any) -> list[Array]:
    """Return the arrays of floating-point and complex numbers in a nest."""
    items = (item.numpy() if tf.is_tensor(item) else item for item in tf.nest.flatten(data))
    return [item for item in items if isinstance(item, np.ndarray) and item.dtype.kind in "fc"]


def _check(valid: Any, **arguments: Any) -> None:
    for name, data in arguments.items():
        for values in _numbers_in(data):
            count = np.count_nonzero(~valid(values))
            if count:
                raise ValueError(
                    f"{name} must be finite: leave the missing values out, of xdata and ydata alike, by hand or with "
                    f'nan_policy="omit". Received: {name} with {count} values that are NaN or infinite'
                )


# ------------------------------------------------------------------ what is missing


def _masks(data: Any, argument: str) -> list[tuple[str, Array]]:
    """Return a list of the masks in a nest that hide something, each with the name of the argument."""
    arrays = [item for item in tf.nest.flatten(data) if isinstance(item, np.ma.MaskedArray)]
    return [(argument, np.ma.getmaskarray(each)) for each in arrays if np.ma.is_masked(each)]


def _lost(masks: Any, y: Array) -> Array:
    """Return which of the data any of the masks hides, bool, of their shape."""
    lost = np.zeros(y.shape, bool)
    for argument, mask in masks:
        if argument == "sigma" and mask.shape != y.shape:
            raise ValueError(
                "A covariance matrix has no missing elements: leave the rows and columns out. Received: sigma, a "
                f"masked array of shape {mask.shape}"
            )
        lead = mask.ndim - y.ndim
        if lead < 0 or mask.shape[lead:] != y.shape:
            _refuse_places(y, [mask])
        lost |= mask.any(axis=tuple(range(lead)))
    return lost


def _without(lost: Array, x: Any, y: Array, sigma: Any, has_gaps: bool) -> tuple:
    """Return the data without the places that are lost, and which are fitted of the values of a model of all xdata.

    Args:
        lost: bool, of the shape of y.
        has_gaps: whether xdata themselves are missing there.
    """
    kept, values = ~lost, _numbers_in(x)
    if sigma is not None and np.ndim(sigma):
        sigma, rows = np.asarray(sigma), np.flatnonzero(kept)
        sigma = sigma[kept] if sigma.shape == y.shape else sigma
        sigma = sigma[np.ix_(rows, rows)] if sigma.shape == (y.size, y.size) else sigma
    has_gaps = has_gaps or any(np.isnan(each).any() for each in values)
    is_alike = all(each.shape[-y.ndim :] == y.shape for each in values)
    if not has_gaps and not (is_alike and y.ndim == 1):
        return x, y[kept], sigma, kept
    if not is_alike:
        _refuse_places(y, values)
    return tf.nest.map_structure(lambda item: _keep(item, kept), x), y[kept], sigma, None


def _refuse_places(y: Array, values: Array) -> None:
    raise ValueError(
        "Where xdata have missing values they are [..., *ydata.shape]: leave the missing values out by hand. "
        f"Received: ydata of shape {y.shape}, xdata of shapes {[each.shape for each in values]}"
    )


def _keep(item: Any, kept: Array) -> Any:
    if isinstance(item, np.ndarray):
        return item[..., kept]
    if tf.is_tensor(item) and item.shape.rank:
        return tf.boolean_mask(item, kept, axis=item.shape.rank - kept.ndim)
    return item
