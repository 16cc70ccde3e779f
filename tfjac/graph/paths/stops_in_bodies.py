"""Where gradients stop inside of loops and branches, which from outside look as if they passed."""

from collections.abc import Sequence

from tfjac.graph.copying.bodies import bodies_of
from tfjac.graph.facts import facts_of
from tfjac.graph.paths.dependence import Dependence
from tfjac.graph.paths.lost_paths import LostPath, lost_paths
from tfjac.graph.reading.traversal import carries_gradient
from tfjac.types import Tensor


def stops_in_bodies(targets: Sequence[Tensor], dependence: Dependence) -> list[LostPath]:
    """List, as `LostPath`, where results of a body on the way from the sources to `targets` lose all of their gradient.

    Args:
        targets: list of tensors of one graph, without function calls on the way.
        dependence: the `Dependence` on the sources.
    """
    found = []
    for op in dependence.path(targets):
        for body in (body for attribute in facts_of(op).bodies for body in bodies_of(op, attribute)):
            given = op.inputs[len(op.inputs) - len(body.inputs) :]
            inside = Dependence([own if dependence.reaches(outer) else None for own, outer in zip(body.inputs, given)])
            results = [output for output in body.outputs if carries_gradient(output.dtype)]
            found += [path for path in lost_paths(results, inside) if path.whole]
            found += stops_in_bodies(results, inside)
    return found
