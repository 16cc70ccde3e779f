"""The fast core: what `make check` runs, so that there is a verdict in two minutes on two cores.

Of each part the tests that say most in least time, chosen by the processor time that each took. What compiles with XLA,
starts processes, or trains for long is left to `make test`.
"""

import pathlib

ALL = ()

CORE = {
    "test_architecture": ALL,
    "test_core": ALL,
    "test_readme": (
        "test_relative_links_lead_somewhere",
        "test_environment_variables_are_in_one_table",
        "test_first_screen_names_the_two_commands",
    ),
    "test_testing": ALL,
    "graph/test_example_axis": ALL,
    "graph/test_dependence": ALL,
    "graph/test_copying": (
        "test_ancestors_are_in_topological_order",
        "test_replay_with_other_values",
        "test_replay_reads_variables_at_its_place_in_the_program",
        "test_inlining_nested_functions_and_their_gradients",
        "test_inlining_keeps_side_effects_single",
    ),
    "rules/test_rules": ALL,
    "jacobians/test_per_example": (
        "test_a_batch_of_one",
        "test_mixing_examples_in_full",
        "test_permuted_batch_permutes",
        "test_sum_of_examples_is_the_batch_gradient",
        "test_weight_behind_a_transpose",
    ),
    "jacobians/test_batch": (
        "test_an_input_that_is_computed_from_another",
        "test_nests",
        "test_one_example",
        "test_open_and_empty_batch",
        "test_shared_inputs_are_refused",
        "test_softmax_over_the_batch_is_refused",
        "test_training_mode_batch_normalisation_is_refused",
        "test_unconnected",
    ),
    "jacobians/test_operator": ("test_eager_callable_gives_the_same",),
    "jacobians/test_norms": (
        "test_clipped",
        "test_clipped_far_above_is_the_batch_gradient",
        "test_weighted",
        "test_nests_and_single_precision",
        "test_embedding_is_not_densified",
        "test_empty_batch",
    ),
    "jacobians/test_products": (
        "test_nests_and_unconnected",
        "test_known_gradients_at_several_nodes",
        "test_hvp",
        "test_ggnvp",
        "test_no_hessian_of_what_is_no_gradient",
    ),
    "jacobians/test_full": ("test_nests_in_nests_out", "test_unconnected", "test_mixing_examples", "test_empty_batch"),
    "jacobians/test_sparsity": ("test_stencils_need_few_products", "test_one_residual_per_block", "test_refusals"),
    "interception/test_intercept": (
        "test_handlers_are_given_values_and_nodes",
        "test_forward_edits_are_seen_by_what_follows",
        "test_rules_replace_the_backward_of_ops",
        "test_what_cannot_be",
    ),
    "interception/test_hooks": (
        "test_fit_sees_a_hook_and_its_removal",
        "test_values_are_changed_everywhere",
        "test_what_cannot_be_hooked",
    ),
    "explanations/test_axioms": (
        "test_integrated_gradients_by_hand",
        "test_lrp_by_hand",
        "test_smooth_grad_by_hand",
    ),
    "explanations/test_mistakes": ("test_a_wrong_name_of_a_layer", "test_integers_that_are_measurements"),
    "black_box/test_calls": ALL,
    "ops/test_values": ("test_factors_of_very_different_sizes", "test_open_batch_dimension"),
    "ops/test_damped_solve": (
        "test_indefinite_matrix_fails_until_damped",
        "test_non_finite_input_is_a_flag",
        "test_upper_triangle_is_not_read",
        "test_many_systems",
    ),
    "parameters/test_parameters": ALL,
    "optimizers/test_solvers": (
        "test_step_of_the_normal_equations",
        "test_failure_is_a_flag_and_zeros",
        "test_what_auto_chooses",
        "test_what_auto_chooses_for_networks",
        "test_svd_is_refused_where_xla_would_lose_its_digits",
    ),
    "optimizers/test_damping": (
        "test_bad_options",
        "test_multiplicative_by_the_formula",
        "test_nielsen_by_the_formula",
        "test_scalings",
        "test_trust_region_fills_the_radius",
        "test_trust_region_radius_by_the_formula",
        "test_trust_region_takes_the_gauss_newton_step_where_it_fits",
        "test_the_units_of_the_residuals_do_not_matter",
    ),
    "optimizers/test_step": (
        "test_equals_numpy_over_accepted_and_rejected_steps",
        "test_equals_numpy_on_a_loss_with_a_regulariser",
        "test_what_is_not_finite_is_rejected",
    ),
    "optimizers/test_squares": ("test_residuals", "test_refused_by_name", "test_step"),
    "optimizers/test_fit": (
        "test_a_batch_without_use_changes_no_bit_and_training_goes_on",
        "test_config_round_trip",
        "test_every_damping_and_scaling_trains",
        "test_every_solver_trains_alike",
        "test_float64_model_with_sample_weights",
        "test_minimum_of_a_linear_model_with_l2_is_that_of_the_normal_equations",
    ),
    "optimizers/test_least_squares": (
        "test_a_nest_of_tf_and_keras_variables",
        "test_bad_arguments",
        "test_cost_tolerance",
        "test_covariance_of_a_straight_line",
        "test_gradient_tolerance_at_the_minimum",
        "test_max_steps",
        "test_not_finite_at_the_start",
        "test_residuals_of_several_shapes",
        "test_step_tolerance",
    ),
    "optimizers/test_bounds": (
        "test_bad_bounds",
        "test_bounds_and_fixed_in_nests",
        "test_dampings_and_float32",
        "test_every_solver",
    ),
    "optimizers/test_batched": (
        "test_each_fit_goes_as_if_alone",
        "test_outliers_by_a_robust_loss",
        "test_refused",
    ),
    "optimizers/test_refusals": ALL,
}
"""From a module below tests/, without its ending, to the names of its test functions, `ALL` for all of them."""

_TESTS = pathlib.Path(__file__).parent


def is_core(path, name):
    """Return whether the test function of this name, in the file of this path, is one of the core."""
    names = CORE.get(path.relative_to(_TESTS).with_suffix("").as_posix())
    return names is not None and (names == ALL or name in names)
