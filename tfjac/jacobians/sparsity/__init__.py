"""Sparse Jacobians: the pattern from the graph, colours for its columns or rows, and values from few products."""

from tfjac.jacobians.sparsity.analysis import sparsity
from tfjac.jacobians.sparsity.jacobian import sparse_jacobian
from tfjac.jacobians.sparsity.pattern import SparsityPattern
