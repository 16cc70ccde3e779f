"""What is left to the night: cases that tell little more than what `make test` does run.

For each test that is named here: which of its cases `make test` keeps. `make nightly` runs the others. Chosen by the
processor time that each took: products of many choices are thinned out, and so are long lists of like cases.
Processes, compilations by XLA, and long trainings whose neighbours show the same are for the night. A test whose cases
are computed, as in `tests/contract`, marks as `nightly` itself what it leaves out.
"""

import pathlib


def none(params):
    """Keep no case."""
    return set()


def values(params):
    """Keep the places of as many cases as it takes to have each value of each parameter in one."""
    rest = {place: {(name, id(value)) for name, value in each.items()} for place, each in enumerate(params)}
    missing, kept = set().union(*rest.values()), set()
    while missing:
        best = max(rest, key=lambda place: len(rest[place] & missing))
        missing -= rest.pop(best)
        kept.add(best)
    return kept


def one_in(count):
    """Keep the first case of each `count`."""
    return lambda params: set(range(0, len(params), count))


# fmt: off
NIGHTLY = {
    "black_box/test_graphs": {
        "test_jacobian_functions": values, "test_many_fits": values,
        "test_least_squares_on_the_parameters_of_a_simulator": one_in(2),
    },
    "contract/test_jacobians": {"test_triples_work": none},
    "explanations/test_attention_rollout": {"test_blocks_by_hand": one_in(2)},
    "explanations/test_axioms": {"test_activations_of_keras_add_up": one_in(2)},
    "geometry/test_tensorflow_graphics": {
        "test_jacobians": one_in(3), "test_least_squares": one_in(12), "test_many_fits": none,
        "test_the_moves_from_their_minimize": none,
    },
    "gpu/test_damped_solve": {"test_many_systems": values, "test_solution": values},
    "gpu/test_factors": {
        "test_gram": values, "test_kernel_of_several_blocks": values, "test_random_shapes": values,
        "test_rows_kernel_and_norms": values, "test_workspace_does_not_grow_with_the_number_of_examples": values,
    },
    "gpu/test_jax_calls": {"test_jacobian_gram": values, "test_jacobian_kernel": values},
    "graph/test_custom_gradients": {
        "test_a_backward_that_adds_something_of_its_own": values, "test_rows": values,
        "test_second_derivatives_through_a_loaded_loop": none,
        "test_sums_that_undo_a_broadcast_do_not_mix_examples": values,
    },
    "graph/test_vectorising_shortcuts": {
        "test_as_slice_by_slice": values, "test_products_of_matrices_of_any_size": values,
    },
    "influence/test_eigenbasis": {"test_all_of_it_formed_by_numpy": one_in(3)},
    "influence/test_exact": {"test_first_order_against_rows_of_a_tape": values},
    "influence/test_retraining": {"test_wrong_labels_of_digits": none},
    "interception/test_hooks": {
        "test_a_hook_does_not_keep_a_layer": none, "test_a_shared_layer_and_a_nested_model": none,
        "test_levenberg_marquardt_with_a_hook": none, "test_put_on_in_the_middle_of_training": none,
        "test_recurrent_layers": one_in(3),
    },
    "interception/test_loss_scales": {"test_what_is_recorded_is_the_gradient_of_the_loss": one_in(2)},
    "interception/test_parts": {"test_a_fan_in_branch_by_branch_takes_the_memory_of_one": none},
    "interception/test_random_programs": {"test_random_program": one_in(4)},
    "interception/test_strategies": {"test_two_replicas": none},
    "jacobians/test_batch": {
        "test_against_each_example_alone": values, "test_through_a_loop": one_in(2),
        "test_through_a_vectorised_map": values,
    },
    "jacobians/test_column_by_column": {"test_many_of_both": none},
    "jacobians/test_complex": {"test_real_weights_of_complex_models": one_in(2)},
    "jacobians/test_constant_sources": {
        "test_derivatives_by_constants": values, "test_derivatives_of_jacobians_in_chunks": values,
        "test_derivatives_of_other_jacobians_in_chunks": one_in(3),
        "test_what_has_no_right_gradient_is_refused": values,
    },
    "jacobians/test_control_flow": {
        "test_users_own_control_flow": one_in(3), "test_users_own_control_flow_under_xla": one_in(2),
        "test_variables_of_results_that_are_not_used": values,
    },
    "jacobians/test_full": {"test_of_inputs_and_weights": values, "test_through_grouped_convolutions": none},
    "jacobians/test_layers": {"test_every_layer": one_in(3)},
    "jacobians/test_loaded_recurrent": {"test_fit_as_the_model_that_was_saved": one_in(3)},
    "jacobians/test_loaded_under_xla": {"test_the_same_as_by_hand": one_in(3)},
    "jacobians/test_low_precision": {"test_policies": one_in(2)},
    "jacobians/test_memory": {"test_chunks_take_less_memory": none},
    "jacobians/test_norms": {"test_norms": values},
    "jacobians/test_operator": {"test_products": values},
    "jacobians/test_per_example": {"test_chunked_equals_whole": one_in(2)},
    "jacobians/test_products": {"test_jvp_and_vjp": values},
    "jacobians/test_random_programs": {"test_random_program": one_in(4)},
    "jacobians/test_real_models": {"test_rows_by_rules_alone": one_in(3)},
    "jacobians/test_recurrent": {
        "test_differentiates_again": none, "test_every_layer": one_in(3), "test_fixed_batch": none,
        "test_in_chunks_and_of_nothing": none, "test_under_xla_in_single_precision": one_in(2),
    },
    "jacobians/test_segments": {
        "test_compiled_by_xla": none, "test_edge_between_two_graphs_is_refused": none, "test_empty_graphs": none,
        "test_full_where_examples_may_mix": one_in(2), "test_jacobian": one_in(3), "test_ways_to_move_rows": values,
    },
    "jacobians/test_separate_outputs": {"test_blocks": values, "test_what_mixes_examples_is_refused_as_before": none},
    "jacobians/test_shared_values": {
        "test_batch_normalisation_twice": one_in(2), "test_batch_normalisation_of_images": one_in(2),
    },
    "jacobians/test_sizes_of_one": {"test_learned_queries": values},
    "jacobians/test_tables": {"test_rows_that_are_read": one_in(3)},
    "jacobians/test_vectorized_map": {"test_per_example": values},
    "jacobians/test_verification": {"test_a_broken_rule_is_found": values},
    "jacobians/test_weight_paths": {"test_rows": values},
    "jacobians/test_wrong_in_tensorflow": {"test_both_modes_and_second_derivatives_against_differences": one_in(4)},
    "ops/test_blocks": {"test_values": values, "test_values_in_plain_hlo": one_in(2)},
    "ops/test_cuda_calls": {"test_fit": none, "test_no_memory_is_an_error": none, "test_values": none},
    "ops/test_cuda_library": {"test_compiles_without_warnings": none},
    "ops/test_damped_solve": {
        "test_sizes_that_are_open": values, "test_solution": values, "test_what_failed_has_no_gradient": values,
    },
    "ops/test_errors": {"test_shapes_found_wrong_at_run_time": values},
    "ops/test_fuzz": {"test_shapes_that_fit_the_twins": none},
    "ops/test_gradients": {"test_gradient_against_finite_differences": values},
    "ops/test_loading": {
        "test_imported_again_and_from_a_second_copy": none, "test_saved_models_and_xla_in_a_fresh_process": none,
    },
    "ops/test_memory": {"test_gram_takes_less_than_a_twentieth_of_the_jacobian": none},
    "ops/test_processes": {"test_lesser_instruction_sets": none, "test_same_bits_for_any_number_of_threads": none},
    "ops/test_schur_complement": {"test_values": values},
    "ops/test_values": {"test_values": values},
    "ops/test_xla": {
        "test_damped_solve_in_plain_hlo": values, "test_many_calls_on_one_thread": none,
        "test_values_in_plain_hlo": one_in(2),
    },
    "optimizers/test_acceleration": {
        "test_bounds_equations_robust_losses_and_checkpoints": none, "test_in_fit_and_its_configuration": none,
        "test_without_where_it_is_too_long": none, "test_where_steps_are_bent": one_in(3),
        "test_where_steps_of_fit_are_bent": one_in(2),
    },
    "optimizers/test_auto_memory": {
        "test_every_damping_scaling_and_dtype_goes_with_it": one_in(3),
        "test_rare_classes_with_weights_do_not_drive_the_others_away": one_in(2),
        "test_the_same_data_again_changes_no_bit": one_in(2), "test_other_data_are_seen": one_in(3),
        "test_what_goes_without_memory_has_none": one_in(2), "test_steps_are_those_of_the_recursion": one_in(2),
        "test_a_batch_that_says_nothing_is_not_remembered": none,
        "test_saved_in_the_middle_of_an_epoch_and_gone_on": none,
    },
    "optimizers/test_batched": {
        "test_a_second_call_traces_the_residuals_alone": none, "test_a_start_and_a_cost_at_infinity": none,
        "test_a_start_outside_of_its_bounds_harms_no_other": one_in(2),
        "test_bounds_and_fixed_parameters_of_each": one_in(2), "test_data_with_an_open_number_of_rows": one_in(2),
        "test_errors_respect_masks_and_weights": none, "test_forms_of_residuals": one_in(4),
        "test_nests_of_variables_in_a_graph": none, "test_residuals_of_any_scale": none,
        "test_residuals_that_go_by_the_place_or_the_number_of_fits": one_in(2),
        "test_shared_data_with_as_many_rows_as_there_are_fits": one_in(2),
        "test_what_is_captured_is_each_fits_own_as_arguments_are": one_in(12),
        "test_fits_from_far_go_as_if_alone": values,
    },
    "optimizers/test_batched_problem": {
        "test_it_solves_as_least_squares_does": one_in(3), "test_other_numbers_of_fits": none,
    },
    "optimizers/test_bayesian": {
        "test_refused_by_name": none, "test_saved_and_gone_on": none, "test_the_ways_to_run_it_agree": none,
    },
    "optimizers/test_between_points": {
        "test_a_loss_of_validation_that_is_not_finite_is_said": one_in(2), "test_step_monitor_warns_of_it": one_in(2),
    },
    "optimizers/test_bounds": {
        "test_called_again_with_other_bounds_and_starts": none, "test_in_a_graph_with_derivatives": none,
        "test_same_minimum_and_active_set_as_scipy": one_in(2),
    },
    "optimizers/test_broadcasts": {
        "test_other_residuals_are_not": one_in(2), "test_residuals_of_all_with_all_are_warned_of": one_in(2),
    },
    "optimizers/test_choices": {"test_what_is_chosen": one_in(2)},
    "optimizers/test_complex_data": {"test_named_parameters_and_data_sets": none},
    "optimizers/test_conjugate_gradients": {
        "test_layers_of_all_kinds": values, "test_parameters_that_are_held_stay_out": one_in(2),
    },
    "optimizers/test_constants": {
        "test_a_curve_is_traced_again_where_it_changed": none,
        "test_arrays_that_a_curve_takes_are_part_of_its_trace": none,
    },
    "optimizers/test_constraints": {"test_non_negative_weights": one_in(2)},
    "optimizers/test_convergence": {"test_each_of_many_fits_that_start_at_the_solution_is_converged": none},
    "optimizers/test_convergence_callback": {"test_steps_per_batch": none},
    "optimizers/test_convex": {
        "test_compiled_by_xla": none, "test_two_heads_in_fit": none, "test_what_is_masked_may_be_anything": none,
    },
    "optimizers/test_curve_fit": {
        "test_a_picture_of_the_fit": none, "test_x_of_several_kinds": none,
        "test_the_gradient_of_robust_losses_and_priors": one_in(2),
    },
    "optimizers/test_damping": {
        "test_bounded_whatever_happens": none, "test_the_default_rules_go_by_the_number_of_parameters": one_in(2),
        "test_the_first_damping_is_an_argument": one_in(3),
    },
    "optimizers/test_distributed_solvers": {
        "test_as_on_one_device": none, "test_kernel_of_two_blocks_is_that_of_all_rows": none,
    },
    "optimizers/test_equality": {
        "test_in_a_graph_with_derivatives_and_contradictions": none,
        "test_the_minimum_with_parameters_eliminated": one_in(2),
    },
    "optimizers/test_equality_with_fixed": {
        "test_every_choice_of_what_is_fixed": one_in(2), "test_every_solver_and_damping": one_in(4),
    },
    "optimizers/test_fading_memory": {
        "test_it_follows_after_a_long_time_with_nothing_to_gain": values, "test_saved_and_gone_on": none,
    },
    "optimizers/test_far_targets": {
        "test_prices_are_fitted_as_standardised_ones": one_in(2),
        "test_other_targets_leave_the_start_alone": one_in(2),
    },
    "optimizers/test_fit": {
        "test_a_saved_model_goes_on_as_if_never_stopped": one_in(2),
        "test_checkpoint_goes_on_as_if_never_stopped": none, "test_large_model_on_small_and_large_batches": none,
        "test_masked_recurrent_model_with_two_outputs": none,
        "test_mini_batches_with_validation_metrics_and_callbacks": none,
        "test_step_monitor_adds_to_the_logs_and_stops": none, "test_steps_per_execution_changes_nothing": none,
    },
    "optimizers/test_forms": {"test_forms_of_residuals": one_in(2), "test_new_batches_need_no_new_trace": none},
    "optimizers/test_gram_dtype": {"test_with_bounds_regularisers_and_verification": none},
    "optimizers/test_graph_networks": {"test_one_trace_serves_both": none, "test_step": values},
    "optimizers/test_hard_problems": {"test_random_starts": one_in(4)},
    "optimizers/test_hints": {"test_the_op_that_widens_is_named_whatever_comes_before": one_in(2)},
    "optimizers/test_in_function": {"test_control_flow_in_residuals": one_in(2)},
    "optimizers/test_kernel_of_blocks": {
        "test_a_whole_minimisation": one_in(3), "test_against_rows": values,
        "test_solved_again_for_other_numbers_of_examples": none,
    },
    "optimizers/test_kinks": {
        "test_what_has_curvature_is_taken_behind_a_softplus": one_in(3),
        "test_a_kink_that_is_never_crossed_is_none": one_in(2),
    },
    "optimizers/test_kronecker_memory": {
        "test_steps_are_those_of_the_method": one_in(2), "test_saved_in_the_middle_of_an_epoch_and_gone_on": none,
        "test_a_batch_that_says_nothing_changes_nothing": none,
        "test_many_weights_with_one_output_have_factors_unless_they_multiply_often": one_in(2),
    },
    "optimizers/test_kronecker_memory_in_half_precision": {"test_the_loss_falls_as_in_float32": one_in(2)},
    "optimizers/test_kronecker_memory_of_mixed_examples": {
        "test_what_is_kept_is_of_the_cotangents_of_the_whole_batch": one_in(2),
        "test_of_one_output_rows_are_kept_only_where_examples_are_apart": one_in(2),
    },
    "optimizers/test_laplace": {"test_against_a_dense_jacobian": one_in(2)},
    "optimizers/test_laplace_structures": {
        "test_values_of_laplace_torch": one_in(3), "test_tuned_is_what_laplace_returns_for_the_same": one_in(2),
        "test_prior_of_each_variable": one_in(2), "test_noise_of_each_output": one_in(2),
    },
    "optimizers/test_large_sums": {
        "test_loops_of_what_is_known_to_be_small_stay_where_they_are": one_in(2),
        "test_nested_loops_are_optimized_apart": one_in(2), "test_tensors_of_300_megabytes": none,
    },
    "optimizers/test_least_squares": {
        "test_covariance_that_is_not_determined": none, "test_every_damping_compiled_by_xla": one_in(3),
        "test_residuals_of_any_scale": none, "test_same_minimum_as_scipy": values,
    },
    "optimizers/test_linear_terms": {"test_a_step_on_the_divergence_of_an_autoencoder": one_in(2)},
    "optimizers/test_loss_terms": {"test_gradient_of_one_output": one_in(3), "test_gradient_of_two_outputs": values},
    "optimizers/test_manifolds": {
        "test_a_direction_is_the_mean_made_as_long": none,
        "test_a_run_that_was_cut_short_goes_on_to_the_same_bits": none, "test_beside_variables_that_are_on_none": none,
        "test_beyond_half_a_turn": none, "test_however_it_is_read": one_in(3),
        "test_in_a_function_without_derivatives": none, "test_points_on_spheres_that_are_not_seen": none,
        "test_single_precision": none, "test_the_closed_form_is_found": one_in(3),
        "test_traces_are_used_again_on_the_same_manifold_alone": none, "test_what_is_fixed_stays_bit_for_bit": none,
        "test_with_other_options": one_in(4),
    },
    "optimizers/test_dense_steps": {
        "test_same_steps_on_certified_problems": one_in(5), "test_same_steps_on_hard_problems": one_in(8),
        "test_same_steps_within_bounds": one_in(16), "test_what_goes_by_ops": one_in(2),
        "test_same_steps_with_robust_losses": one_in(3),
    },
    "optimizers/test_negative_weights": {"test_what_is_weighted_below_zero_is_not_finite": one_in(2)},
    "optimizers/test_nist": {"test_certified_parameters": one_in(2)},
    "optimizers/test_no_steps": {"test_what_is_known_of_the_start": one_in(2)},
    "optimizers/test_normal_equations": {
        "test_a_loop_over_two_processes_ends_where_scipy_does": none,
        "test_parts_in_single_precision_converge_to_that": none,
    },
    "optimizers/test_not_finite": {
        "test_such_a_step_is_taken_back": one_in(5), "test_a_barrier_is_not_crossed": one_in(2),
        "test_where_steps_run_out": one_in(3),
    },
    "optimizers/test_parts_conditions": {"test_bounds": one_in(2)},
    "optimizers/test_plan": {"test_in_fit_and_for_a_problem": none},
    "optimizers/test_pose_graphs": {
        "test_measurements_without_noise_are_met_to_rounding": one_in(2),
        "test_what_is_read_whole_is_sparse_on_a_manifold_too": one_in(2), "test_a_long_path_with_few_loops": one_in(2),
    },
    "optimizers/test_prior": {
        "test_covariance_and_effective_parameters": none, "test_in_a_graph_with_derivatives_and_resumed": none,
        "test_what_only_the_prior_determines": none, "test_with_bounds_fixed_and_robust_losses": none,
    },
    "optimizers/test_product_rows": {"test_a_step_of_a_language_model": one_in(2)},
    "optimizers/test_progress_of_held_steps": {"test_many_fits": none, "test_sums_by_hand": none},
    "optimizers/test_randomness": {"test_the_trial_sees_the_same_draw": one_in(4)},
    "optimizers/test_residual_curvature": {
        "test_what_it_is_not_for_takes_the_steps_of_j_alone": one_in(2),
        "test_under_xla_by_cholesky_and_in_float32": one_in(3),
        "test_large_residuals_take_few_steps_to_the_minimum_of_scipy": one_in(2),
        "test_a_checkpoint_goes_on_to_the_same_bits": none, "test_manifolds_take_the_steps_of_j_alone": none,
        "test_within_bounds": one_in(2),
    },
    "optimizers/test_residual_curvature_beside_scipy": {"test_scipy_goes_nowhere_from_where_it_ends": one_in(4)},
    "optimizers/test_robust": {
        "test_derivatives_of_a_robust_minimum": none, "test_errors_are_those_of_repeated_experiments": none,
    },
    "optimizers/test_robust_error": {"test_outliers_hardly_count_in_fit": none, "test_value_and_step": one_in(2)},
    "optimizers/test_row_memory": {
        "test_steps_are_those_of_a_window_of_examples": one_in(2),
        "test_saved_in_the_middle_of_an_epoch_and_gone_on": none,
        "test_a_batch_that_says_nothing_is_not_remembered": none,
        "test_scalings_dampings_and_dtypes_go_with_it": one_in(3),
    },
    "optimizers/test_scalings_of_solvers": {
        "test_tables_convolutions_and_several_blocks": values,
        "test_three_hundred_weights_and_three_thousand_residuals": values,
        "test_three_thousand_weights_and_three_hundred_residuals": values,
    },
    "optimizers/test_schur": {
        "test_ends_where_the_factorisation_of_all_ends": one_in(4),
        "test_examples_that_read_several_rows_under_xla": none,
        "test_points_that_are_not_seen_well_enough_are_named": one_in(2),
        "test_points_that_nothing_determines_stay_and_disturb_no_other": none,
        "test_products_alone_lead_to_the_same_steps": one_in(2),
        "test_products_alone_lead_to_where_the_factorisation_ends": none, "test_scipy_finds_the_same_minimum": none,
        "test_single_precision_and_any_number_of_observations": none,
        "test_steps_are_those_of_dense_equations": values, "test_steps_that_are_tried_again": none,
    },
    "optimizers/test_scipy_conventions": {
        "test_a_bound_that_holds": one_in(2), "test_fits": one_in(4), "test_outliers": one_in(2),
        "test_rosenbrock_within_bounds": one_in(3), "test_systems_of_equations": none,
    },
    "optimizers/test_seen_through": {
        "test_indices_among_the_data_are_those_of_now": one_in(2), "test_rows_are_those_of_one_tape": one_in(2),
        "test_random_mixes_of_such_ops": one_in(2),
    },
    "optimizers/test_sharded_fits": {
        "test_as_on_one_device": none, "test_residuals_of_all_fits_only_are_refused": none, "test_as_by_scipy": none,
        "test_each_loop_is_where_its_share_was_put": none, "test_no_part_waits_for_another": none,
    },
    "optimizers/test_solvers": {"test_prior_on_both_variables_compiled_by_xla": one_in(2)},
    "optimizers/test_sparse": {
        "test_a_variable_that_is_read_in_two_layouts": one_in(2),
        "test_ends_where_the_factorisation_of_all_ends": one_in(4),
        "test_equations_between_parameters_are_refused_and_solved_otherwise": none,
        "test_scipy_finds_the_same_minimum": none, "test_what_is_not_determined_or_not_finite_is_a_status": none,
    },
    "optimizers/test_sparse_cholesky": {"test_rows_that_change_from_call_to_call": one_in(2)},
    "optimizers/test_standing": {
        "test_certified_problems": one_in(3), "test_functions_with_kinks_and_noise": one_in(3),
        "test_hard_problems": one_in(2), "test_two_lines_that_meet": one_in(2),
    },
    "optimizers/test_starts_at_zeros": {"test_the_minimum_is_found_from_zeros": one_in(3)},
    "optimizers/test_statistics": {"test_masked_residuals_are_no_measurements": none},
    "optimizers/test_step": {"test_one_example_one_output_and_constraints": none},
    "optimizers/test_steps_per_batch": {"test_a_loss_is_the_same_function_in_every_step": one_in(2)},
    "optimizers/test_summed_batches": {
        "test_a_mean_by_weights": none, "test_a_window_that_says_nothing_is_as_if_it_had_not_been": none,
        "test_an_empty_batch_adds_nothing": none, "test_batches_of_other_sizes_that_are_known_while_tracing": none,
        "test_convergence_ends_the_training": none, "test_saved_in_the_middle_of_a_window": none,
        "test_several_batches_in_one_call_and_curvature": none,
        "test_shuffled_batches_weights_and_a_regulariser": none, "test_two_outputs": none,
        "test_weights_that_somebody_else_sets": none, "test_windows_are_epochs_where_a_callback_tells_of_them": none,
    },
    "optimizers/test_supervision": {
        "test_a_checkpoint_of_another_problem_is_refused": none,
        "test_a_checkpoint_that_has_converged_is_refused_for_other_residuals": one_in(2),
        "test_ctrl_c_without_anybody_watching": none,
        "test_a_checkpoint_knows_its_equations_again_wherever_the_variables_are": none,
    },
    "optimizers/test_tfjac_fit": {
        "test_data_sets_unbuilt_models_and_weights": none, "test_summed_batches_take_the_same_steps": none,
        "test_the_best_weights_by_validation_are_restored": none, "test_what_is_right_is_not_warned_of": one_in(2),
        "test_lists_stand_for_several_inputs_and_outputs_as_in_keras": one_in(3),
        "test_moving_statistics_that_stay_behind_are_named": one_in(2),
        "test_weights_that_a_layer_assigns_are_named": one_in(2),
    },
    "optimizers/test_tfjac_fit_ends": {
        "test_batches_of_several_sizes_under_xla_are_said": one_in(3),
        "test_a_validation_loss_that_is_nan_is_no_lowest_one": one_in(3),
    },
    "optimizers/test_tfjac_fit_sources": {
        "test_each_source_gives_what_arrays_give": one_in(4), "test_the_plan_says_how_examples_are_taken": one_in(3),
        "test_the_same_start_gives_the_same_weights": one_in(3),
        "test_without_targets_the_loss_is_what_layers_add": one_in(2),
    },
    "optimizers/test_tolerance_of_iterative_solvers": {"test_share_of_what_an_exact_step_gains": one_in(4)},
    "optimizers/test_traces": {
        "test_a_problem_inside_of_a_function": none,
        "test_another_option_is_another_trace_and_how_many_steps_there_may_be_is_none": none,
        "test_arguments_and_what_else_the_function_reads": none, "test_arguments_are_data": none,
        "test_data_are_those_of_now": one_in(12), "test_functions_and_variables_are_not_kept_alive": none,
        "test_other_variables_are_another_trace": none, "test_traces_of_new_functions_do_not_pile_up": none,
    },
    "optimizers/test_under_a_tape": {"test_fits_beside_what_is_recorded": one_in(2)},
    "optimizers/test_units_of_targets": {
        "test_positive_outputs_take_targets_as_they_are": one_in(3),
        "test_plain_fit_takes_targets_as_they_are": one_in(2), "test_replicas_take_the_steps_of_one_device": none,
        "test_a_step_is_that_of_numpy": values, "test_a_training_goes_on_from_where_it_was_saved": none,
        "test_a_step_with_weights_and_a_penalty_is_that_of_numpy": one_in(2),
    },
    "optimizers/test_vanishing": {
        "test_such_a_minimum_is_success": values, "test_a_start_at_a_maximum_or_a_saddle_is_named": values,
        "test_so_are_many_fits_that_start_there": values,
    },
    "optimizers/test_vanishing_elsewhere": {
        "test_of_one_fit": one_in(3), "test_of_many_fits": one_in(2), "test_on_manifolds": one_in(2),
    },
    "optimizers/test_variables_on_gpu": {"test_every_variable_can_be_on_a_gpu": one_in(4)},
    "optimizers/test_verification": {
        "test_error_in_least_squares_under_the_switch": none,
        "test_silent_where_a_gradient_is_zero_but_for_rounding": one_in(6),
        "test_a_classifier_that_is_sure_of_itself": one_in(2),
    },
    "optimizers/test_window": {"test_in_a_graph": none},
    "optimizers/test_workers": {
        "test_as_in_one_process_after_a_worker_died": none, "test_the_others_fail_where_a_worker_dies": none,
        "test_solvers_that_need_all_rows_are_refused": none,
    },
    "optimizers/test_workflows": {
        "test_a_second_compile_goes_on_with_the_optimizer_and_a_second_model_cannot_have_it": none,
        "test_backup_and_restore_goes_on_as_if_never_stopped": none,
    },
    "parameters/test_habits": {"test_searches_leave_a_poor_start": one_in(2)},
    "parameters/test_lmfit": {"test_several_data_sets": one_in(2), "test_confidence_intervals_by_profiles": one_in(2)},
    "parameters/test_many": {"test_errors_of_robust_fits": one_in(2)},
    "parameters/test_models": {"test_fits_from_guesses": one_in(4)},
    "parameters/test_refits": {
        "test_bootstrap_is_a_loop_of_fits_of_data_drawn_again": one_in(2),
        "test_bootstrap_with_a_covariance_matrix": none, "test_many_starts_find_the_basin_that_one_misses": one_in(2),
        "test_one_parameter_alone_has_the_interval_of_the_linear_model": none,
    },
    "parameters/test_shapes": {
        "test_fits_from_guesses_reach_the_truth": one_in(3), "test_values_and_derivatives_are_lmfits": one_in(2),
    },
    "parameters/test_together": {"test_deviations_as_they_are_and_covariances": one_in(2)},
    "privacy/test_accounting": {"test_little_noise_takes_no_more_memory": none},
    "privacy/test_decided_by_values": {"test_what_they_do_not_decide_is_bounded_by_the_norm": one_in(2)},
    "privacy/test_dp_optimizer": {
        "test_noise_is_another_one_if_an_earlier_state_is_restored": one_in(2),
        "test_a_step_is_the_mean_of_the_clipped_gradients": one_in(3),
    },
    "privacy/test_positions": {"test_the_weight_of_a_row_counts_for_all_its_positions": one_in(3)},
    "privacy/test_slices": {"test_a_step_by_slices_is_the_mean_of_the_clipped_gradients": one_in(2)},
    "privacy/test_slices_are_the_batch": {
        "test_what_depends_on_the_number_of_examples_is_that_of_the_batch": one_in(3),
        "test_loops_that_look_at_the_number_of_examples_are_taken_whole": one_in(3),
        "test_recurrent_layers_that_read_the_data_themselves": one_in(2),
    },
    "test_architecture": {"test_tfjac_is_imported_without_them": none},
    "test_autograph": {"test_residuals": one_in(3)},
    "test_benchmarks": {"test_quick_run": none},
    "test_examples": {
        "test_a_bundle_ends_within_the_noise": none, "test_a_flight_agrees_with_the_places_that_it_saw_again": none,
        "test_black_box_is_inverted": none, "test_cameras_are_off_by_their_errors": none,
        "test_classification_goes_further_than_adam_and_lbfgs_in_as_many_calls": none,
        "test_clipping_withstands_wrong_rows": none, "test_curve_fit_reaches_the_certified_parameters": none,
        "test_explanations_add_up_and_survive_saving": none, "test_features_of_two_domains_are_made_alike": none,
        "test_poissons_equation_is_solved": none, "test_relaxation_times_are_off_by_their_errors": none,
        "test_stiff_equation_converges_with_second_order": none, "test_private_training_reads_most_digits": none,
    },
    "test_keras_flavours": {"test_other_backends_are_refused": one_in(2)},
    "test_messages": {"test_no_private_class_stands_after_received": none},
    "test_notebooks": {"test_notebook_runs": none},
    "test_packaging": {"test_source_distribution_has_all_that_is_tracked": none},
    "test_progress": {"test_public_calls_show_one_on_a_terminal_and_none_in_logs": one_in(2)},
}
# fmt: on
"""From a module below tests/, without its ending, to what is kept of its test functions."""

_TESTS = pathlib.Path(__file__).parent


def left_to_the_night(items):
    """Yield those of pytest's items that `make test` does not run."""
    cases = {}
    for item in items:
        name = getattr(item, "originalname", item.name)
        kept = NIGHTLY.get(item.path.relative_to(_TESTS).with_suffix("").as_posix(), {}).get(name)
        if kept:
            cases.setdefault((item.path, name, kept), []).append(item)
    for (_, _, kept), alike in cases.items():
        places = kept([item.callspec.params if hasattr(item, "callspec") else {} for item in alike])
        yield from (item for place, item in enumerate(alike) if place not in places)
