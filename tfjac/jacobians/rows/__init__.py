"""The Jacobian of the residuals that a graph computes, as rows for solvers: factors, products, within a budget."""

from tfjac.jacobians.rows.blocks import stacked_jacobian, stacked_rows
from tfjac.jacobians.rows.forms_of_blocks import IndicesWanted, examples_mix, multiplies_often, noting_structure
from tfjac.jacobians.rows.parts_of_vectors import read_in_parts
