"""Functions of x, one or several for each op that the rules of sparsity know. Imports nothing of tfjac.

A case is a function from x `[4, 6]`, or as it says, to a tensor whose Jacobian an oracle can find.
"""

from tests.jacobians.sparsity_cases.control_flow import CONTROL_FLOW
from tests.jacobians.sparsity_cases.elementwise import COMPARED, ELEMENTWISE
from tests.jacobians.sparsity_cases.linear import LINEAR
from tests.jacobians.sparsity_cases.moves import MOVES
from tests.jacobians.sparsity_cases.windows import WINDOWS

CASES = ELEMENTWISE | MOVES | LINEAR | WINDOWS | CONTROL_FLOW

__all__ = ["CASES", "COMPARED"]
