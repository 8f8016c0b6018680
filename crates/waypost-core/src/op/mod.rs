//! The operations: everything that can be asked of a store, one file each.
//!
//! An operation is a struct with its arguments; its [`Operation::run`] is the rule. [`TABLE`] lists all of
//! them. The surfaces decode into these structs, run them through [`crate::engine`] and encode the answer;
//! they decide nothing.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::engine::Cx;
use crate::error::{Error, Result};

mod list_events;
mod list_worktrees;
mod record_maintenance;
pub(crate) mod register;
mod remove_worktree;

pub use list_events::{EventList, ListEvents};
pub use list_worktrees::{ListWorktrees, WorktreeList};
pub use record_maintenance::{Maintenance, RecordMaintenance, Recorded};
pub use register::{Register, Registered};
pub use remove_worktree::{RemoveWorktree, Removed};

/// Something that can be asked of a store.
pub trait Operation: Serialize + DeserializeOwned {
    /// The name on every surface.
    const NAME: &'static str;
    /// One line for help texts.
    const SUMMARY: &'static str;
    /// Whether it writes.
    const EFFECT: Effect;
    /// What it answers.
    type Answer: Serialize + DeserializeOwned;

    /// Carries it out inside a transaction.
    fn run(self, cx: &mut Cx<'_>) -> Result<Self::Answer>;
}

/// Whether an operation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only reads.
    Read,
    /// It may write; whatever it writes comes with at least one event.
    Write,
}

/// One row of the table of operations.
pub struct Entry {
    /// As [`Operation::NAME`].
    pub name: &'static str,
    /// As [`Operation::SUMMARY`].
    pub summary: &'static str,
    /// As [`Operation::EFFECT`].
    pub effect: Effect,
    /// Runs it with its arguments and its answer as JSON, for surfaces that carry JSON.
    pub run: fn(&mut Cx<'_>, Value) -> Result<Value>,
}

const fn entry<O: Operation>() -> Entry {
    Entry { name: O::NAME, summary: O::SUMMARY, effect: O::EFFECT, run: run_json::<O> }
}

/// All operations.
pub static TABLE: &[Entry] = &[
    entry::<ListEvents>(),
    entry::<ListWorktrees>(),
    entry::<RecordMaintenance>(),
    entry::<Register>(),
    entry::<RemoveWorktree>(),
];

fn run_json<O: Operation>(cx: &mut Cx<'_>, arguments: Value) -> Result<Value> {
    let operation: O = serde_json::from_value(arguments)
        .map_err(|error| Error::invalid(format!("wrong arguments for {}", O::NAME)).because(error))?;
    serde_json::to_value(operation.run(cx)?)
        .map_err(|error| Error::internal(format!("the answer of {} is not JSON", O::NAME)).because(error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_in_this_folder_is_an_operation_of_the_table() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .filter(|stem| stem != "mod")
            .collect();
        let names: BTreeSet<String> = TABLE.iter().map(|entry| entry.name.to_owned()).collect();
        assert_eq!(files, names);
        assert_eq!(TABLE.len(), names.len(), "a name stands twice");
    }
}
