//! The operations of a transaction by noun, one fact each.

pub(crate) mod answers;
pub(crate) mod events;
pub(crate) mod jobs;
pub(crate) mod messages;
pub(crate) mod refusals;
pub(crate) mod repositories;
pub(crate) mod retention;
pub(crate) mod tasks;
pub(crate) mod whole;
pub(crate) mod workflows;

use std::path::PathBuf;

use serde_json::json;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::model::{EventQuery, NewEvent, Repository, Vcs, Worktree};
use waypost_core::store::Tx;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

struct Numbers(u8);

impl Entropy for Numbers {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

fn repository(number: u8) -> Repository {
    Repository {
        id: RepositoryId::generate(&mut Numbers(number)),
        name: format!("repository {number}"),
        path: PathBuf::from("/r"),
        vcs: Vcs::Git,
        remote_url: Some("ssh://example.org/r".to_owned()),
        default_branch: None,
    }
}

fn worktree(number: u8, of: &Repository) -> Worktree {
    Worktree {
        id: WorktreeId::generate(&mut Numbers(number)),
        repository_id: of.id.clone(),
        name: format!("worktree {number}"),
        path: PathBuf::from("/w"),
        branch: Some("topic".to_owned()),
        first_seen: Timestamp::from_millis(10),
        last_seen: Timestamp::from_millis(20),
        removed_at: None,
    }
}

fn event(of: &Worktree, subject: &str) -> NewEvent {
    NewEvent {
        time: Timestamp::from_millis(1_000),
        actor: "tester".to_owned(),
        worktree_id: of.id.clone(),
        kind: "store.probed",
        subject: subject.to_owned(),
        data: json!({ "z": 1, "a": [null, "ü"] }),
    }
}

fn all() -> EventQuery {
    EventQuery { limit: 100, ..EventQuery::default() }
}

/// Returns the error of a write: the write itself or the next read reports it.
pub(crate) fn failure(tx: &mut dyn Tx, write: impl FnOnce(&mut dyn Tx) -> Result<()>) -> Option<Error> {
    write(tx).and_then(|()| tx.notice_list()).err()
}
