"""The machinery of per-example Jacobians: factors, the uses of weights they come from, a rule for each type of use."""
