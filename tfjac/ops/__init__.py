"""The contractions of Jacobian factors: native ops, each with a twin in plain TensorFlow.

A Jacobian is a list of factors. Factor k is a pair of tensors ``a[n,t,g,i]`` and ``d[n,m,t,g,o]`` and stands for the
block of columns

    J[n,m,(g,i,o)] = sum_t a[n,t,g,i] d[n,m,t,g,o]

where n is the example, m the residual within an example, t the position of use, g the group, i and o the input and
output features. The factor's ``layout``, a permutation of "gio", says in which order the three axes are flattened
(row-major) into columns. Blocks stand side by side in the order given. ``n`` and ``m`` are shared by all factors.
A dense block ``j[n,m,q]`` is the factor ``a = ones([n,1,1,1])``, ``d = j[:, :, None, None, :]``.

Every op runs as a compiled kernel where the native library could be loaded, and else as its twin, with the same
results up to rounding. `ops_info` says which, and why; `implementation` chooses for a stretch of code.

The library is loaded with this package, so that SavedModels and graphs that hold its ops find them registered.
"""

from tfjac.ops import _library
from tfjac.ops._library import OpsInfo, implementation, load_ops, ops_info
from tfjac.ops.column_colours import column_colours
from tfjac.ops.damped_solve import damped_solve
from tfjac.ops.example_grams import example_grams
from tfjac.ops.jacobian_gram import jacobian_gram
from tfjac.ops.jacobian_kernel import jacobian_kernel
from tfjac.ops.jacobian_row_norms import jacobian_row_norms
from tfjac.ops.jacobian_rows import jacobian_rows
from tfjac.ops.schur_complement import schur_complement

__all__ = [
    "OpsInfo",
    "column_colours",
    "damped_solve",
    "example_grams",
    "implementation",
    "jacobian_gram",
    "jacobian_kernel",
    "jacobian_row_norms",
    "jacobian_rows",
    "load_ops",
    "ops_info",
    "schur_complement",
]

_library.load()
