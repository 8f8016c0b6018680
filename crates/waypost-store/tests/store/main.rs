//! One conformance suite for all backends, with the memory store as the reference, and tests of each backend.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;
mod monkey;
mod random;
mod replaced;
mod rows;
mod schema;
mod server;
mod verbs;

use waypost_core::clock::FixedClock;
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::SqliteStore;
use waypost_store::{postgres, sqlite};
use waypost_testkit::memory::MemoryStore;

use verbs::{answers, events, jobs, messages, refusals, repositories, retention, tasks, whole, workflows};

/// Generates a test for each case and backend. The cases of `databases` need a database that checks constraints.
macro_rules! conformance {
    (all: [$($module:ident::$case:ident,)*], databases: [$($database_module:ident::$database_case:ident,)*]) => {
        mod memory {
            $(
                #[test]
                fn $case() {
                    super::in_memory(super::$module::$case);
                }
            )*
        }

        mod on_sqlite {
            $(
                #[test]
                fn $case() {
                    super::on_sqlite(super::$module::$case);
                }
            )*
            $(
                #[test]
                fn $database_case() {
                    super::on_sqlite(super::$database_module::$database_case);
                }
            )*
        }

        mod on_postgres {
            $(
                #[test]
                fn $case() {
                    super::on_postgres(super::$module::$case);
                }
            )*
            $(
                #[test]
                fn $database_case() {
                    super::on_postgres(super::$database_module::$database_case);
                }
            )*
        }
    };
}

conformance! {
    all: [
        repositories::rows_are_read_back_as_they_were_put,
        repositories::putting_again_replaces_and_keeps_references,
        jobs::p6_every_field_of_jobs_and_workspaces_is_read_back_also_after_all_are_replaced,
        whole::a_dropped_transaction_has_no_effect,
        whole::committed_rows_are_stored_and_others_are_not,
        repositories::lists_are_ordered,
        refusals::g3_a_row_with_a_missing_reference_is_refused,
        repositories::a_repository_is_removed_only_if_nothing_refers_to_it,
        events::events_of_a_subject_are_filtered_before_they_are_counted,
        messages::messages_about_a_workflow_are_found_in_order,
        refusals::duplicates_of_unique_fields_are_refused,
        tasks::a_task_that_something_refers_to_is_not_removed,
        events::sequences_have_no_gaps_after_a_rollback,
        whole::undo_reverts_only_the_writes_since_the_mark,
        whole::a_prefetched_read_returns_the_same_as_a_plain_one,
        events::events_are_listed_by_every_filter,
        whole::time_never_goes_backwards,
        repositories::paths_of_any_bytes_are_read_back,
        tasks::progress_heartbeats_and_renewals_change_no_other_columns,
        tasks::claimable_tasks_have_no_open_blockers,
        tasks::claimable_tasks_and_jobs_are_limited_to_worktrees_and_repositories,
        tasks::rows_of_several_workflows_equal_the_rows_of_each,
        tasks::rows_of_several_ids_equal_the_row_of_each,
        messages::an_inbox_contains_messages_that_are_neither_acted_on_nor_expired,
        workflows::the_latest_version_of_a_template_is_listed,
        answers::answers_are_forgotten_by_their_age,
        retention::old_records_that_nothing_live_refers_to_are_removed_completely,
        retention::handled_messages_are_removed_by_thread,
        retention::only_events_about_nothing_that_is_kept_are_removed,
        retention::summaries_are_listed_and_replaced,
        whole::the_state_of_the_store_is_read_back,
        whole::deadlines_move_together,
        whole::a_wait_returns_at_once_if_there_is_a_newer_event,
        random::every_query_returns_the_same_as_the_reference,
    ], databases: [
        whole::a_transaction_can_continue_after_a_failure_is_undone,
        refusals::rows_that_break_a_constraint_are_refused,
        tasks::progress_that_breaks_a_constraint_is_refused,
        whole::a_transaction_with_a_failed_write_cannot_be_committed,
        refusals::texts_that_cannot_be_stored_are_refused,
    ]
}

/// Runs a case on the reference store.
fn in_memory(case: fn(&mut dyn Store)) {
    case(&mut reference());
}

fn reference() -> MemoryStore {
    MemoryStore::new(Box::new(clock()))
}

fn on_sqlite(case: fn(&mut dyn Store)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    case(&mut SqliteStore::open(&path, sqlite::Options::default(), Box::new(clock())).unwrap());
}

/// Runs a case on PostgreSQL, which uses the server's clock.
fn on_postgres(case: fn(&mut dyn Store)) {
    let url = waypost_testkit::postgres_url();
    case(&mut PostgresStore::open(&url, postgres::Options::default()).unwrap());
}

fn clock() -> FixedClock {
    FixedClock(Timestamp::from_millis(1_000))
}

fn write<T>(store: &mut dyn Store, work: impl FnOnce(&mut dyn Tx) -> T) -> T {
    let mut tx = store.begin_write().unwrap();
    let result = work(&mut *tx);
    tx.commit().unwrap();
    result
}

fn read<T>(store: &mut dyn Store, work: impl FnOnce(&mut dyn Tx) -> T) -> T {
    work(&mut *store.begin_read().unwrap())
}
