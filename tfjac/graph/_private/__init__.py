"""The one folder that reaches non-public TensorFlow and Keras: `tensorflow.python`, and members with an underscore.

Every function here says which private thing it stands for and why no public one serves, so that a new release can be
followed by reading one page for each topic. Checked on TensorFlow 2.21.
"""

from tfjac.graph._private.attributes import (
    clear_gradient,
    gradient_name,
    integers_attribute,
    set_function_attribute,
    set_gradient,
    set_integers_attribute,
    set_text_attribute,
    text_attribute,
)
from tfjac.graph._private.constants import shared_constants, sharing_like_this
from tfjac.graph._private.gradients import (
    forget_with,
    gradient_function,
    gradient_of_type,
    has_gradient,
    input_gradients,
    is_differentiable,
    keep_with,
    set_conversion,
)
from tfjac.graph._private.graphs import (
    acting_ops,
    after_effects,
    call_flat,
    captured_constants,
    captured_placeholder,
    captures_of,
    compiled_by_xla,
    eager_variable,
    function_bodies,
    function_graph,
    functions_named,
    handle_shape,
    handle_spec,
    is_function_graph,
    is_taped,
    name_bodies_apart,
    outer_graph,
    stop_recording,
    trace,
    traced_function,
)
from tfjac.graph._private.layers import (
    added_losses,
    flat_layers,
    loss_weights,
    passed_on_as_it_is,
    set_added_losses,
    symbolic_origin,
)
from tfjac.graph._private.ops import (
    copy_handle_data,
    copy_op,
    copy_traceback,
    differentiated_op,
    forgotten_with_graphs,
    mapped_from,
    mapped_op,
    op_like,
    python_function,
)
from tfjac.graph._private.workers import sum_over_workers
