"""What results say of parameters, the elements of variables: how they are called, and which bounds hold them."""

import numpy as np


def parameter_names(names, shapes):
    """Return a list of what to call each parameter: the name of its variable, with indices where it has a shape.

    Args:
        names, shapes: of the variables.
    """
    named = []
    for name, shape in zip(names, shapes):
        named += [f"{name}[{', '.join(map(str, index))}]" if index else name for index in np.ndindex(*shape)]
    return named


def active_sides(values, box):
    """Return −1 for values at their lower bound, 1 at their upper one or fixed, 0 between; integers.

    Args:
        values: array `[..., p]`.
        box: a `Box` of the same shape, or an empty tuple.
    """
    if not box:
        return np.zeros(values.shape, int)
    above = values >= box.upper
    return above.astype(int) - (~above & (values <= box.lower))
