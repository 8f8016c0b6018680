//! Finished tasks close their issues: what the store owes the ledger, told to it.
//!
//! The store notes in one transaction that a task is done and that the ledger has to be told. Whoever looks next tells
//! it; a crash in between costs nothing, because closing a closed issue changes nothing.

use waypost_core::model::Closing;
use waypost_core::op::{ConfirmClosing, ListClosings, ListWorktrees};
use waypost_core::{Error, Kind, Result};

use crate::ledger::Ledger;
use crate::merging::ensure_driver;
use crate::session::Session;

/// What became of an issue whose task is done.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The issue and its task.
    pub closing: Closing,
    /// Whether it is closed now, or why not.
    pub result: Result<()>,
}

/// Closes the issues of this repository whose tasks are done.
pub fn deliver(session: &mut Session) -> Result<Vec<Delivered>> {
    let closings = session.read(ListClosings {})?.closings;
    if closings.is_empty() || session.place.checkout.is_none() {
        return Ok(Vec::new());
    }
    let worktrees = session.read(ListWorktrees {})?.worktrees;
    let repository = session.repository().id.clone();
    let is_ours = |closing: &Closing| {
        let worktree = worktrees.iter().find(|worktree| worktree.id == closing.worktree_id);
        worktree.is_some_and(|worktree| worktree.repository_id == repository)
    };
    let mut delivered = Vec::new();
    for closing in closings.into_iter().filter(is_ours) {
        let result = close(session, &closing);
        let said = match &result {
            Ok(()) => Some("closed".to_owned()),
            // It will not be there later either.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Conflict | Kind::Ambiguous) => {
                Some(error.full_message())
            }
            Err(_) => None,
        };
        if let Some(result) = said {
            session.write(ConfirmClosing { task: closing.task_id.clone(), result })?;
        }
        delivered.push(Delivered { closing, result });
    }
    Ok(delivered)
}

fn close(session: &Session, closing: &Closing) -> Result<()> {
    let place = session.place.in_name_of(&closing.actor);
    let ledger = Ledger::of(&place)?;
    let issue = ledger.get(&closing.issue)?;
    if issue.id != closing.issue {
        return Err(Error::not_found(format!("there is no issue {:?}", closing.issue)));
    }
    ledger.close(&issue.id, Some(&closing.reason))?;
    ensure_driver(&place);
    Ok(())
}
