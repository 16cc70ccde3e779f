"""Terms that are linear in what a model computes: they have no curvature, and join a term of the same tensor that has.

The loss of a variational autoencoder, −½ mean(1 + v − µ² − exp v), has the terms v and exp v. Going back from the loss,
the first ends where v is computed from the weights. Together with the second it is a convex function of v.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.graph import Dependence, references
from tfjac.objective.separable import SeparableFunction, convex_places
from tfjac.types import Tensor

ADDING = {"Add", "AddV2", "AddN", "Sub", "Select", "SelectV2", "Pack", "ConcatV2"}


class Chain(NamedTuple):
    """A way from the loss through linear ops alone, to where it ends without a square or a convex function.

    Attributes:
        tensors: tuple of the tensors on it, from the loss on.
        refusal: the error that says why it ends.
    """

    tensors: tuple
    refusal: Any

    @property
    def term(self) -> tf.Operation:
        """The op at which the last term of the loss on the way begins: below the last op that adds up several."""
        begins = self.tensors[0]
        for above, tensor in zip(self.tensors, self.tensors[1:]):
            if above.op.type in ADDING:
                begins = tensor
        return begins.op


def joined(chains: "list[Chain]", outputs: Sequence[Tensor], dependence: Dependence) -> tuple:
    """Find a partner for each chain: an output that is an elementwise, convex function of a tensor of the chain.

    Args:
        outputs: list of tensors, the terms that have curvature.
        dependence: `Dependence` on the variables.

    Returns:
        A dict from the `ref()` of these tensors to a `SeparableFunction` of each, with the tensor of the chain as root;
        and a list of the chains that have no partner.
    """
    found: dict[Any, SeparableFunction] = {}
    alone = []
    for chain in chains:
        partner = _partner(chain, outputs, dependence)
        if partner is None:
            alone.append(chain)
        else:
            found[partner.root.ref()] = partner
    return found, alone


def _partner(chain: "Chain", outputs: Sequence[Tensor], dependence: Dependence) -> SeparableFunction | None:
    on_it = references(chain.tensors)
    for output in outputs:
        for place in convex_places(output, dependence):
            if place.ref() in on_it:
                return SeparableFunction(output, place, sign=0)
    return None


def linear_slopes(
    tensors: list[Tensor], seeds: list[Tensor], roots: list[Tensor], outputs: Sequence[Tensor]
) -> list[Tensor]:
    """Return ∂loss/∂root along the chains alone, not through `outputs`: a list of tensors."""
    stops = [*outputs, *roots]
    slopes = tf.gradients(tensors, roots, grad_ys=seeds, stop_gradients=stops) if roots else []
    return [tf.convert_to_tensor(slope) for slope in slopes]
