//! The promises of a store, a file for each operation or group of operations.
//!
//! A promise is a function of a [`Lab`](crate::lab::Lab); the list at the end of this file makes a
//! test of it for every store. A function that is missing there is an unused one, and the compiler
//! reports it.

mod alert;
mod artifact;
mod audit;
mod cancel;
mod claim;
mod cluster;
mod dag;
mod dead_letter;
mod define;
mod explain;
mod facts;
mod finish;
mod fire;
mod follow;
mod history;
mod identity;
mod list_jobs;
mod list_runs;
mod message;
mod message_fairness;
mod message_lease;
mod message_report;
mod node;
mod object;
mod order;
mod output;
mod pool;
mod prepared;
mod prune;
mod queue_statistics;
mod read;
mod record;
mod request;
mod requested;
mod secret;
mod setting;
mod shard;
mod slot;
mod starts;
mod state;
mod storm;
mod submit;
mod upstream;
mod value;
mod version;
mod wait;

/// Runs every promise on a store.
macro_rules! on {
    ($store:ident, $bench:ty, $($file:ident: $($promise:ident)*;)*) => {
        mod $store {
            $(mod $file {
                use crate::bench::Bench;
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $promise() {
                        let bench = <$bench>::open().await;
                        let store = bench.handle().await;
                        let lab = crate::lab::Lab::new(bench, store);
                        crate::suite::$file::$promise(&lab).await;
                        lab.close().await;
                    }
                )*
            })*
        }
    };
}

/// Runs every promise on every store.
macro_rules! promises {
    ($($list:tt)*) => {
        on! { sqlite, crate::bench::SqliteBench, $($list)* }
        on! { postgres, crate::postgres_bench::PostgresBench, $($list)* }
    };
}

promises! {
    pool:
        no_more_weight_has_a_place_than_the_size
        a_place_that_becomes_free_goes_to_the_first_in_line
        a_run_that_no_pool_can_hold_lets_others_pass
        a_pause_leaves_the_line_of_a_pool
        urgent_runs_come_first_in_a_pool
        a_heavy_run_is_not_overtaken
        every_end_of_a_claim_frees_its_place
        a_reaper_calls_the_line
        a_call_that_comes_before_the_wait_is_kept
        the_size_of_a_pool_changes
        racing_nodes_share_a_pool;
    dag:
        a_dag_run_begins_once_and_only_under_its_claim
        a_decision_counts_if_its_revision_is_the_present_one
        the_last_step_wakes_its_dag_run
        a_step_can_be_born_claimed_and_is_handed_on_when_its_node_dies
        racing_decisions_are_written_one_after_the_other
        a_repeated_dag_run_adopts_steps_by_reference
        called_runs_are_found_by_their_ids_and_old_dag_runs_go;
    message:
        a_message_is_leased_once_and_ends_in_the_history
        a_stale_token_changes_nothing
        a_lease_that_ended_lapses
        a_delayed_message_waits_for_its_time
        a_released_message_counts_no_attempt
        a_full_queue_takes_nothing
        a_known_key_answers_the_first_message
        messages_of_an_ordering_key_come_one_after_the_other
        a_message_is_cancelled
        a_message_that_nobody_leased_in_time_lapses
        a_leased_message_outlives_its_time
        messages_of_a_deleted_queue_lapse
        a_dead_message_is_a_dead_letter
        racing_workers_lose_and_double_nothing;
    message_fairness:
        workspaces_take_turns
        a_weight_is_so_many_messages_of_a_round
        a_weight_holds_across_leases
        urgent_messages_of_a_workspace_go_first
        limits_of_a_queue_hold
        no_workspace_waits_longer_than_a_round;
    message_lease:
        a_lease_ends_with_the_time_limit
        leases_of_several_queues_are_kept_with_one_call
        queues_with_messages_are_found
        the_output_of_an_attempt_is_kept
        a_completed_message_can_be_forgotten;
    queue_statistics:
        messages_are_counted_by_workspace
        rates_are_those_of_the_last_minute;
    message_report:
        a_report_after_the_lease_is_stale
        a_repeated_release_is_known;
    version:
        every_version_of_a_job_is_kept_with_its_author
        a_refused_change_leaves_no_version
        the_end_of_a_one_time_job_is_a_version
        versions_come_in_pages_and_the_oldest_go
        jobs_are_found_by_names_that_they_had
        deleted_jobs_stay_as_long_as_their_history
        a_run_tells_when_it_was_recorded;
    explain:
        a_live_run_tells_what_it_waits_for_and_its_place
        changes_of_a_job_and_requests_about_a_run_are_found;
    claim:
        a_claim_brings_the_whole_run
        only_what_is_due_is_claimed
        room_for_none_takes_none
        no_more_is_claimed_than_wanted
        soon_is_what_becomes_due_within_the_look_ahead
        due_runs_come_before_prepared_ones
        an_unknown_node_gets_nothing
        fences_grow_with_every_grant
        a_later_grant_of_a_run_has_a_larger_fence_and_turn
        large_claims_find_what_comes_back
        no_run_is_handed_out_twice
        every_run_ends_once_among_many_nodes;
    cluster:
        one_node_leads_until_it_is_declared_dead
        a_leader_that_leaves_makes_room_at_once
        only_an_active_scheduler_becomes_the_leader
        racing_nodes_share_no_epoch
        schedulers_are_those_that_take_part
        a_leader_resigns_only_its_own_epoch_and_with_empty_hands
        plain_claims_leave_placed_runs_alone
        a_placed_run_keeps_its_place_through_all_that_happens
        placed_runs_are_prepared_and_counted
        only_the_leader_of_the_present_epoch_gets_its_runs
        who_waits_for_placed_runs_hears_of_them
        a_drained_node_is_handed_nothing_that_is_placed
        a_changed_job_takes_its_runs_along
        a_planned_run_has_the_place_of_its_job
        a_run_waits_for_a_majority_of_an_epoch
        who_fell_silent_counts_until_it_is_removed
        a_job_that_needs_no_quorum_any_more_does_not_wait_for_one
        a_node_is_drained_and_learns_of_it
        a_node_tells_others_how_its_clock_stands
        a_node_that_comes_back_is_one_node
        only_the_leader_says_what_all_should_run_with
        a_run_that_waits_for_its_place_makes_nobody_late
        a_place_can_be_asked_for_again_after_its_runs_are_gone;
    shard:
        only_the_leader_moves_shards_and_each_move_has_a_larger_fence
        only_the_owner_is_handed_the_runs_of_a_shard
        a_run_is_split_once_by_its_holder
        a_split_run_waits_for_the_last_of_its_parts
        who_waits_for_parts_that_end_in_the_same_call_goes_on
        a_new_run_waits_for_its_parts_from_the_beginning
        parts_stand_in_nobodys_way
        parts_are_forgotten_with_their_run
        the_newest_runs_are_kept_with_their_parts;
    order:
        a_crowd_does_not_delay_another_tenant
        tenants_take_turns
        what_a_tenant_holds_counts
        priority_goes_first
        waiting_makes_up_for_priority
        among_equals_the_longest_due_goes_first
        a_tenant_holds_no_more_than_it_may
        racing_nodes_keep_a_tenants_limit;
    slot:
        each_kind_of_slot_is_filled_for_itself
        many_runs_of_one_kind_hold_up_none_of_the_other
        tenants_share_each_kind_for_itself
        a_run_keeps_its_kind_through_all_that_happens
        submitted_runs_are_claimed_by_their_kind
        a_changed_action_moves_the_runs_of_its_job
        a_limit_counts_every_kind
        a_counted_tenant_is_handed_nothing_ahead
        tenants_share_by_their_tiers
        a_renewal_tells_weights_and_limits;
    submit:
        a_run_is_recorded_once
        a_cancelled_run_does_not_come_back
        the_first_that_are_due_are_born_claimed
        a_known_run_is_not_claimed_by_sending_it_again
        a_dead_node_gets_none_of_what_it_submits
        no_room_claims_nothing
        racing_submits_record_a_run_once
        a_large_batch_records_each_run_once
        a_run_of_another_version_of_its_job_is_not_recorded;
    requested:
        a_run_tells_who_asked_for_it_until_its_end_and_after
        who_asked_is_audited_with_the_runs
        what_was_not_recorded_is_not_audited
        many_runs_of_a_user_are_audited_together
        parts_belong_to_who_asked_for_the_run
        the_creator_of_a_job_is_known_after_its_end;
    fire:
        a_plan_is_recorded_and_the_next_time_moves
        a_job_may_have_no_next_time
        a_plan_that_is_sent_again_changes_nothing
        a_plan_of_another_time_or_version_is_refused
        only_an_enabled_job_fires
        a_stale_plan_does_not_stop_the_others
        times_without_a_run_are_one_row
        a_tick_has_one_row
        racing_planners_make_one_set_of_runs;
    define:
        a_job_is_read_as_it_was_written
        a_name_belongs_to_one_job_of_a_tenant
        a_created_job_that_is_sent_again_is_found
        an_id_belongs_to_one_job
        a_deleted_job_frees_its_name
        a_job_can_be_renamed
        a_change_names_the_version_it_is_based_on
        a_conflict_does_not_stop_the_other_changes
        changes_together_are_all_made
        one_refused_change_undoes_all_that_happen_with_it
        a_time_that_comes_undoes_changes_that_happen_together
        racing_changes_win_once_for_each_version
        racing_creations_share_no_name
        due_jobs_are_enabled_and_near
        due_jobs_are_those_of_some_buckets
        jobs_with_a_next_time_are_counted_up_to_a_number;
    prepared:
        prepared_runs_may_stay
        prepared_runs_may_vanish
        prepared_runs_may_return_to_the_plan
        a_conflicting_change_leaves_prepared_runs_alone
        a_run_that_was_tried_is_not_prepared
        a_grant_of_a_vanished_run_is_worthless
        a_tick_whose_time_has_come_is_not_prepared
        a_tick_is_early_until_its_time_has_come
        nothing_returns_from_before_a_decision
        a_schedule_does_not_change_before_it_is_planned;
    finish:
        an_end_is_recorded_with_its_last_attempt
        every_outcome_is_kept
        an_end_without_an_attempt_counts_none
        an_end_that_is_sent_again_answers_the_same
        a_batch_answers_in_its_order
        a_retry_is_due_after_its_delay
        attempts_are_listed_in_order
        a_live_run_shows_its_last_attempt
        a_grant_that_is_over_writes_nothing
        a_grant_belongs_to_one_node
        an_end_may_change_the_state_of_the_job
        an_end_does_not_complete_a_job_with_a_new_time
        one_exchange_records_ends_and_claims_runs;
    cancel:
        a_run_that_nobody_holds_ends_at_once
        the_holder_is_told
        a_cancelled_run_never_ends_otherwise
        a_cancelled_run_is_not_tried_again
        a_cancelled_run_ends_with_its_lost_node
        a_request_passes_to_the_next_holder
        what_has_ended_cannot_be_cancelled
        a_cancel_that_races_the_end_has_one_answer;
    wait:
        a_waiting_run_is_not_handed_out
        an_end_wakes_the_first_in_line_only
        another_jobs_end_wakes_nobody_in_line
        places_that_are_free_are_filled
        a_backfill_waits_in_a_line_of_its_own
        the_line_behind_a_held_run_rests
        a_run_outlives_a_pause
        each_end_wakes_one
        every_kind_of_end_wakes_the_next
        stepping_aside_wakes_the_next
        a_wait_for_what_has_happened_is_none
        no_wait_is_longer_than_its_limit
        the_end_of_a_run_hands_on_as_many_in_line_as_asked_for
        a_node_that_takes_nothing_leaves_one_in_line_and_says_so
        a_wait_leaves_the_run_as_it_was
        a_wait_ends_with_the_events_of_its_kind;
    upstream:
        the_end_of_an_upstream_job_wakes_its_dependents
        edges_follow_the_definition
        a_job_that_runs_after_others_becomes_due
        a_changed_job_looks_again
        the_line_of_a_changed_job_looks_again
        who_stood_aside_gets_in_line_anew;
    node:
        a_lease_goes_on_while_it_is_renewed
        a_late_renewal_is_refused
        a_start_that_was_written_down_is_known
        tokens_grow_with_every_start
        a_time_without_a_scheduler_is_recorded
        an_outage_begins_when_a_node_last_acted
        a_join_releases_what_the_process_before_had_not_begun
        a_node_that_leaves_keeps_what_it_had_begun
        after_an_outage_reapers_wait_for_start_logs
        a_dead_node_can_write_nothing
        runs_of_a_dead_node_are_listed_until_they_are_settled
        a_loss_is_settled_once
        a_loss_that_is_settled_again_answers_the_same
        only_runs_of_dead_nodes_can_be_settled_as_lost
        several_nodes_fall_silent_at_once
        losses_are_settled_in_portions
        a_node_that_leaves_returns_its_runs_untouched
        a_node_can_ask_what_it_holds
        nodes_are_listed_with_what_they_say_and_hold;
    facts:
        a_run_is_held_until_its_grant_ends
        questions_are_answered_in_their_order
        the_state_of_the_job_is_told
        earlier_runs_stand_in_one_line
        a_late_comer_stands_behind_what_runs
        a_late_batch_keeps_its_order
        an_earlier_run_may_wait_for_other_jobs
        what_other_nodes_hold_is_told
        a_later_run_elsewhere_is_undecided_until_its_start_is_known
        the_version_of_the_job_is_told
        the_last_ends_of_upstream_jobs_are_told
        upstream_ends_of_before_the_dependency_count
        skipped_ticks_do_not_hide_an_end;
    prune:
        what_ended_long_ago_goes
        failures_are_kept_longer
        a_job_with_its_own_rule_is_left_alone
        rules_of_jobs_are_listed_by_id
        a_deleted_job_has_a_rule_until_nothing_is_left
        the_newest_so_many_are_kept
        a_sample_of_completed_runs_is_kept
        no_more_goes_at_once_than_asked_for
        attempts_go_with_their_run
        only_history_is_pruned;
    history:
        runs_of_any_time_end_and_are_listed_in_order
        a_run_of_any_time_is_recorded_once
        retention_goes_by_the_end_and_not_by_the_time;
    read:
        the_state_of_a_live_run_is_derived
        pages_of_runs_go_back_in_time
        pages_of_jobs_go_by_name
        jobs_are_found_by_id
        the_graph_holds_what_is_not_deleted
        counts_tell_what_there_is
        a_change_is_heard_of;
    list_runs:
        a_tenant_sees_all_its_runs_and_no_others
        runs_are_found_by_state
        runs_are_found_by_origin_and_time
        what_is_rare_is_found_in_short_pages
        a_run_that_ends_between_pages_is_seen_once;
    list_jobs:
        jobs_are_found_by_a_part_of_the_name_and_by_their_next_time
        jobs_are_found_by_state_and_kind
        jobs_are_found_by_the_beginning_of_their_names
        jobs_are_found_by_tag
        tags_follow_the_definition
        jobs_are_found_by_name;
    dead_letter:
        dead_letters_are_listed_until_they_are_acknowledged
        dead_letters_are_counted_up_to_a_number
        waiting_dead_letters_raise_one_alert
        racing_nodes_raise_one_alert;
    output:
        a_short_output_is_kept_with_its_attempt
        an_output_in_files_is_recorded_as_archived_once
        a_node_tells_since_when_runs_are_under_way;
    state:
        the_table_of_transitions_is_the_one_in_force;
    starts:
        starts_come_in_their_order_whatever_the_ids_say
        a_run_that_is_gone_has_no_start
        runs_that_were_tried_again_are_listed;
    record:
        a_statement_that_writes_other_rows_than_expected_undoes_all
        a_statement_that_fails_writes_nothing
        parameters_have_a_type_also_when_they_are_null
        many_rows_are_written_by_few_statements
        the_time_is_the_stores;
    request:
        an_answer_is_given_again
        a_request_that_came_to_nothing_is_made_anew
        racing_requests_begin_once;
    setting:
        a_setting_changes_for_who_has_seen_it
        racing_changes_of_a_setting_win_once
        live_runs_of_a_tenant_are_counted;
    secret:
        a_secret_changes_for_who_has_seen_it
        racing_changes_of_a_secret_win_once
        a_secret_belongs_to_its_scope
        lists_of_secrets_hold_no_values
        secrets_of_a_job_go_with_it
        secrets_of_an_object_go_with_it
        a_data_key_moves_to_another_master_key
        a_changed_secret_is_not_rewrapped;
    audit:
        what_is_done_is_recorded_with_it
        changes_of_secrets_are_recorded_without_values
        changes_of_databases_and_channels_are_recorded
        who_asked_for_an_end_is_recorded
        runs_that_end_together_are_one_row
        rows_are_sealed_in_order_and_stay_what_they_were
        of_two_who_seal_one_is_first
        what_is_sealed_is_not_sealed_again
        a_forgotten_beginning_leaves_its_hash
        rows_are_found_by_what_they_say;
    object:
        an_object_changes_for_who_has_seen_it
        a_name_is_one_of_a_kind
        objects_are_listed_in_pages
        racing_objects_share_no_name;
    artifact:
        versions_are_numbered_and_never_reused
        the_same_content_is_the_same_version
        artifacts_are_listed_in_pages
        racing_pushes_have_numbers_of_their_own
        content_is_needed_for_a_day_after_its_last_version
        pushes_and_deletions_are_audited;
    follow:
        ended_runs_come_in_the_order_of_their_ends
        changed_jobs_come_in_the_order_of_their_changes
        tallies_are_added_once
        racing_tallies_are_added_once
        the_last_runs_of_jobs_are_told
        the_recent_ends_of_jobs_are_told;
    value:
        names_are_any_text
        numbers_reach_their_limits
        a_range_may_stand_for_ages
        times_reach_their_limits
        finer_times_are_cut
        large_values_come_back_whole
        output_may_hold_zero_bytes
        ids_are_only_ids;
    alert:
        an_alert_is_recorded_once
        a_channel_gets_an_alert_until_it_arrived
        a_channel_gets_what_it_asked_for
        deliveries_are_listed_in_pages
        old_alerts_are_no_news
        a_dead_letter_raises_an_alert
        a_failure_without_retries_raises_its_own_alert
        a_missed_time_raises_an_alert
        a_skip_for_upstream_jobs_raises_an_alert
        ordinary_ends_raise_none
        a_recovery_is_told_once;
    identity:
        entries_are_read_as_they_were_written
        the_first_salt_stays
        a_name_is_taken_once_in_a_tenant
        a_change_of_an_entry_names_its_version
        racing_changes_of_an_entry_win_once
        entries_are_listed_by_name_in_pages
        what_belongs_to_a_user_goes_with_them
        rights_are_reached_by_way_of_roles
        rights_to_a_queue_go_with_it
        grants_of_a_database_go_with_its_name
        racing_roles_never_contain_each_other
        expired_keys_are_forgotten_after_a_day
        changes_of_identity_are_recorded_with_them
        a_tenant_has_no_more_jobs_than_it_may
        racing_creations_keep_a_tenants_quota
        a_tenant_has_no_more_runs_at_work_than_it_may
        a_job_remembers_its_owner;
    storm:
        every_verb_at_once
        no_wake_up_is_lost;
}
