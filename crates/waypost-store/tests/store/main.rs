//! One suite for every backend, with the memory store as the reference; then what each has of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod monkey;
mod random;
mod replaced;
mod rows;
mod schema;
mod server;
mod verbs;

use waypost_core::clock::FixedClock;
use waypost_core::memory::MemoryStore;
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::SqliteStore;
use waypost_store::{postgres, sqlite};

/// Stamps the cases for all backends; those of `databases` only where rows are checked by the database.
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
        verbs::rows_are_read_back_as_they_were_put,
        verbs::putting_again_replaces_and_keeps_references,
        verbs::p6_every_field_of_jobs_and_workspaces_comes_back_also_when_all_become_others,
        verbs::a_dropped_transaction_leaves_nothing,
        verbs::what_was_committed_is_there_and_what_was_not_is_not,
        verbs::lists_are_ordered,
        verbs::g3_every_reference_must_be_there,
        verbs::a_repository_is_removed_only_if_nothing_refers_to_it,
        verbs::events_of_a_subject_are_filtered_before_they_are_counted,
        verbs::messages_about_a_workflow_are_found_in_order,
        verbs::what_must_be_unique_is,
        verbs::a_task_that_something_refers_to_is_not_removed,
        verbs::sequences_have_no_gaps_after_a_rollback,
        verbs::a_part_that_is_undone_leaves_nothing_and_the_rest_stays,
        verbs::a_prefetched_read_returns_the_same_as_a_plain_one,
        verbs::events_are_listed_by_every_filter,
        verbs::time_never_goes_back,
        verbs::paths_of_any_bytes_survive,
        verbs::progress_and_signs_of_life_change_nothing_else,
        verbs::claimable_tasks_wait_for_nothing,
        verbs::rows_of_several_workflows_are_those_of_each,
        verbs::rows_of_several_ids_are_those_of_each,
        verbs::an_inbox_has_what_is_neither_done_nor_expired,
        verbs::the_latest_version_of_a_template_is_listed,
        verbs::answers_are_forgotten_by_their_age,
        verbs::the_state_of_the_store_is_read_back,
        verbs::deadlines_move_together,
        verbs::waiting_ends_at_once_if_there_is_news,
        random::every_verb_answers_as_the_reference_does,
    ], databases: [
        verbs::a_failure_that_is_undone_does_not_hinder_the_rest,
        verbs::rows_that_cannot_be_are_refused,
        verbs::progress_that_cannot_be_is_refused,
        verbs::a_transaction_in_which_something_failed_is_not_committed,
        verbs::texts_that_cannot_be_stored_are_refused,
    ]
}

/// Runs a case on the reference.
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

/// PostgreSQL has a clock of its own.
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
