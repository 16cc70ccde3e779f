"""Naming the tensors of a graph: taps, the results of layers and ops, and selectors of these."""

from tfjac.graph.nodes.resolving import packed_by_selector, resolved, with_tensors
from tfjac.graph.nodes.selectors import LayerCall, OpType, described, is_selector, layer_call, op_type, select
from tfjac.graph.nodes.table import Node, Nodes, node_of_layer, nodes_in
from tfjac.graph.nodes.taps import is_tap, layers_tapped, mask_of, returned_by_layer, tap, taps_layers, with_mask_of
from tfjac.graph.nodes.tracing import Traced, trace
