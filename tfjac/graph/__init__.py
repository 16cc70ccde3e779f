"""Reading a TensorFlow graph: what depends on what, which axis carries the examples, and replaying parts of it."""

from tfjac.graph._private import (
    added_losses,
    after_effects,
    call_flat,
    captures_of,
    compiled_by_xla,
    copy_op,
    flat_layers,
    forget_with,
    forgotten_with_graphs,
    handle_shape,
    handle_spec,
    input_gradients,
    is_function_graph,
    is_taped,
    keep_with,
    loss_weights,
    set_added_losses,
    set_gradient,
    shared_constants,
    sum_over_workers,
)
from tfjac.graph.copying.bodies import bodies_of, opened, ops_inside
from tfjac.graph.copying.effects import Effects, calls_that_draw
from tfjac.graph.copying.inlining import inline_calls
from tfjac.graph.copying.scratch import Scratch
from tfjac.graph.copying.transplanting import copy_inside, holds_bodies, passes_to_bodies, replay, transplant
from tfjac.graph.examples.example_axis import (
    ExampleAnalysis,
    ExamplesMix,
    analyse_examples,
    data_of,
    examples_mix_at,
    shared_values,
)
from tfjac.graph.examples.example_rules import SHARED, ExampleAxis
from tfjac.graph.examples.index_maps import axis_labels, from_the_right
from tfjac.graph.examples.row_rules import moves_rows
from tfjac.graph.examples.row_segments import analyse_segments
from tfjac.graph.facts import calls_functions, registering
from tfjac.graph.gradients.custom_gradients import custom_gradient
from tfjac.graph.gradients.custom_gradients import is_custom as has_custom_gradient
from tfjac.graph.gradients.marks import curvature_mark, edit_mark, mark_curvature, mark_op
from tfjac.graph.gradients.mending import check_loops, slopes_of, times, unmended
from tfjac.graph.gradients.mending import mend as mend_gradients
from tfjac.graph.gradients.vectorising import vectorised_map, vectorises
from tfjac.graph.op_facts.custom_gradients import explain_mixing
from tfjac.graph.op_facts.python import declare_per_example
from tfjac.graph.paths.dependence import Dependence, differentiable_inputs
from tfjac.graph.paths.linearity import as_computed, custom_ops, first_not_linear, is_affine
from tfjac.graph.paths.lost_paths import (
    LostPath,
    assignments_between,
    lost_paths,
    stops_in_bodies,
    stops_of,
    unregistered,
)
from tfjac.graph.paths.value_paths import depend_by_value, gradient_stops_at
from tfjac.graph.reading.fingerprints import fingerprint
from tfjac.graph.reading.origins import (
    is_of_gradient,
    layer_calls,
    layer_path,
    layer_scope,
    line_of_failure,
    source_line,
)
from tfjac.graph.reading.python_values import asks_for_values, refusing_values
from tfjac.graph.reading.statefulness import check_not_assigned_since, culprit_in, stays
from tfjac.graph.reading.static_values import static_trip_count, static_value
from tfjac.graph.reading.symbolic_sizes import SymbolicSizes, axes
from tfjac.graph.reading.traversal import Inherited, ancestors, between, references, shape_only
from tfjac.graph.reading.variables import (
    KeptVariables,
    as_tf_variable,
    captured_tensor,
    handle_in,
    is_of_keras_2,
    is_variable,
    source_in,
)
from tfjac.graph.running.functions import (
    call_converted,
    call_outside,
    eager_creation,
    lean_function,
    quiet_function,
    run_side_by_side,
    unrecorded,
)
from tfjac.graph.running.loops import SMALL, cond, numbers_in, numbers_in_all, while_loop
from tfjac.graph.running.packing import Packing
from tfjac.graph.running.runtime_errors import noted_errors, what_was_said_first
from tfjac.graph.running.seen_loss import SeenLoss
from tfjac.graph.running.verifying import largest_of, resolution_of, verification_wanted, verified
from tfjac.graph.targets import in_graph, read_graph
