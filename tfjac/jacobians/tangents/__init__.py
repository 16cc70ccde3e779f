"""Forward mode: the tangents of all parameters at once, carried from op to op by rules.

For a few parameters that is the shortest way to a Jacobian: an op or two for each op of the graph, traced once, where
a backward pass adds up what flows back, and one for each residual is vectorised besides.
"""

from tfjac.jacobians.tangents import elementwise, linear, lists, loops, moves  # they register the rules
from tfjac.jacobians.tangents.forward import few_columns, forward_factors
from tfjac.jacobians.tangents.rules import NoTangents
