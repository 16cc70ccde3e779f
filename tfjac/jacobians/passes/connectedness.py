"""Whether gradients reach what they are asked for: an error or a warning names the op at which they stop."""

from tfjac._warn import warn
from tfjac.graph import lost_paths, stops_of

MOST_NAMED = 3
"""Ops that one message names at most."""


def check_connected(ys, xs, dependence, claim="ys does not depend on this variable"):
    """Refuse an x for which no y has a gradient, and warn of paths to ys that gradients do not follow.

    Args:
        ys: list of tensors, without function calls on the way.
        xs: list of variables or tensors.
        dependence: the `Dependence` on what stands for them in the graph.
        claim: the beginning of the message.

    Raises:
        ValueError: naming the variable, and where its path stops if its value reaches a y.
    """
    connected = dependence.sources_of_any(ys)
    for index, x in enumerate(xs):
        if index not in connected:
            stops = stops_of(index, ys, dependence)
            stopped = f": the gradient stops at {_named(stops)}. Leave it out, or " if stops else "; leave it out"
            where = stopped + _remedies(stops)
            raise ValueError(f"{claim} by any path that a gradient passes through{where}. Received: {x!r}")
    warn_of_lost_paths(ys, dependence)


def warn_of_lost_paths(ys, dependence):
    """Warn of values that reach ys from the sources of `dependence` by paths that gradients do not follow."""
    paths = lost_paths(ys, dependence)
    for index in sorted({path.target for path in paths if path.whole}):
        stops = [path for path in paths if path.target == index]
        _warn(
            f"{ys[index].name!r} depends on the variables by no path that a gradient follows: the gradient stops at "
            f"{_named(stops)}. To mend it, {_remedies(stops)}"
        )
    partly = list({path.op: path for path in paths if not path.whole}.values())
    if partly:
        _warn(
            "ys are computed with values that depend on the variables, and whose derivatives are lost: the gradient "
            f"stops at {_named(partly)}. Where that is meant, say so by tf.stop_gradient; else {_remedies(partly)}"
        )


def _named(paths):
    named = "; ".join(str(path) for path in paths[:MOST_NAMED])
    return named if len(paths) <= MOST_NAMED else f"{named}; and {len(paths) - MOST_NAMED} more"


def _remedies(paths):
    return "; or ".join(dict.fromkeys(path.remedy for path in paths[:MOST_NAMED]))


def _warn(message):
    warn(f"tfjac: {message}.")
