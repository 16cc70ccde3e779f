"""Rules: from an op at which a weight meets the data to the factor of that weight's Jacobian.

A rule is a function of a `Use` that returns a `Factor` whose columns belong to the elements of `use.weight`, in
row-major order. It raises `NoFactor` where the op is used in a way that it does not cover; the exact fallback then
takes over.
"""

from tfjac.jacobians.factors.rules import convolution, elementwise, indexing, products
from tfjac.jacobians.factors.rules.factor_rules import has_rule
from tfjac.jacobians.factors.rules.fallback import factor_by_rule
