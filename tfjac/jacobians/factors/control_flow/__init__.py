"""Jacobians through loops, conditionals and lists of tensors, with weights used inside them.

TensorFlow's own gradient of a loop adds up the weights' gradients step by step, for all examples at once. Here a loop
is walked backwards step by step with one cotangent per output, and what each step leaves for the weights are factors:
they stand side by side along t when the loop is done.
"""

from tfjac.jacobians.factors.control_flow import conditionals, lists, loops
from tfjac.jacobians.factors.control_flow.sweep import Sweep, has_control_flow, swept_factors
