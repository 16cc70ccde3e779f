"""Reading and changing gradients at nodes inside of a graph."""

from tfjac.graph.nodes import Node, Nodes, layer_call, op_type, tap
from tfjac.interception import handlers, rules
from tfjac.interception.callbacks import GradientSummaries
from tfjac.interception.edits import Edit
from tfjac.interception.gradients import node_gradients, nodes, values_at
from tfjac.interception.hooks import Hook, hook
from tfjac.interception.intercept import intercept
from tfjac.interception.pictures import plot_gradients
