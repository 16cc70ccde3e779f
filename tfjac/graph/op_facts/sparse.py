"""Sparse tensors."""

from tfjac.graph.facts import declare
from tfjac.graph.gradients import TAKEN_FOR_CONSTANT, refused

declare("SparseConcat", gradient=refused("it is declared to have none, so that nothing depends on the values"))
declare("SparseAddGrad", gradient=TAKEN_FOR_CONSTANT)
