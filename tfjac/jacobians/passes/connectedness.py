"""Whether gradients reach what they are asked for: an error or a warning names the op at which they stop."""

from collections.abc import Sequence
from typing import Any

from tfjac._warn import warn
from tfjac.graph import Dependence, LostPath, inline_calls, lost_paths, stops_of
from tfjac.types import Tensor, Variable

MOST_NAMED = 3
"""Ops that one message names at most."""


UNUSED = ("error", "zero")
"""What may be done about a variable that ys do not depend on."""


def check_unused_choice(unconnected_gradients: str) -> None:
    """Check what is to be done about a variable that ys do not depend on.

    Raises:
        ValueError: for what is not in `UNUSED`.
    """
    if unconnected_gradients not in UNUSED:
        raise ValueError(
            f'unconnected_gradients must be one of {UNUSED} here: "error" refuses a variable that ys do not depend on, '
            f'"zero" gives zeros. Received: {unconnected_gradients!r}'
        )


def differentiated(ys: Sequence[Tensor], sources: Sequence[Tensor | Any]) -> tuple[list[Tensor], Dependence]:
    """Return what is differentiated: ys without calls on the way, and the `Dependence` on the sources.

    All public functions come here, or to `used_places`: what is lost on the way is said.

    Args:
        ys: list of tensors of the graph being traced.
        sources: list of tensors, or handles of variables; None for one that the graph does not use.
    """
    ys = inline_calls(ys, depends_on=[source for source in sources if source is not None])
    dependence = Dependence(sources)
    warn_of_lost_paths(ys, dependence)
    return ys, dependence


def used_places(
    ys: Sequence[Tensor],
    variables: Sequence[Variable | Tensor],
    dependence: Dependence,
    unconnected_gradients: str,
    claim: str = "ys does not depend on this variable",
) -> list[int]:
    """Return the places of the variables that ys depend on, and warn of paths that gradients do not follow.

    Args:
        ys, variables, dependence, claim: as in `check_connected`.
        unconnected_gradients: "error" where that must be all of them; "zero" where it need not.

    Raises:
        ValueError: for a variable that ys do not depend on, with "error"; for any other word.
    """
    check_unused_choice(unconnected_gradients)
    if unconnected_gradients == "error":
        check_connected(ys, variables, dependence, claim, 'pass unconnected_gradients="zero" for zeros, or ')
    else:
        warn_of_lost_paths(ys, dependence)
    return sorted(dependence.sources_of_any(ys))


def check_connected(
    ys: Sequence[Tensor],
    xs: Sequence[Variable | Tensor],
    dependence: Dependence,
    claim: str = "ys does not depend on this variable",
    way_out: str = "",
) -> None:
    """Refuse an x for which no y has a gradient, and warn of paths to ys that gradients do not follow.

    Args:
        ys: list of tensors, without function calls on the way.
        xs: list of variables or tensors.
        dependence: the `Dependence` on what stands for them in the graph.
        claim: the beginning of the message.
        way_out: what else may be done about it, a clause.

    Raises:
        ValueError: naming the variable, and where its path stops if its value reaches a y.
    """
    connected = dependence.sources_of_any(ys)
    for index, x in enumerate(xs):
        if index not in connected:
            stops = stops_of(index, ys, dependence)
            stopped = f": the gradient stops at {_named(stops)}. Leave it out, or " if stops else "; "
            where = stopped + way_out + (_remedies(stops) if stops else "leave it out")
            raise ValueError(f"{claim} by any path that a gradient passes through{where}. Received: {x!r}")
    warn_of_lost_paths(ys, dependence)


def warn_of_lost_paths(ys: Sequence[Tensor], dependence: Dependence) -> None:
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


def _named(paths: Sequence[LostPath]) -> str:
    named = "; ".join(str(path) for path in paths[:MOST_NAMED])
    return named if len(paths) <= MOST_NAMED else f"{named}; and {len(paths) - MOST_NAMED} more"


def _remedies(paths: Sequence[LostPath]) -> str:
    return "; or ".join(dict.fromkeys(path.remedy for path in paths[:MOST_NAMED]))


def _warn(message: str) -> None:
    warn(f"tfjac: {message}.")
