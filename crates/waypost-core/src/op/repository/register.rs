//! Registers the caller's repository and worktree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::{Caller, OpContext};
use crate::error::Result;
use crate::model::{Repository, Worktree, kind};
use crate::op::{Access, Audience, Effect, JobAccess, Operation, StoreOperation};

/// Registers the caller's repository and worktree. Repeating it changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Register {}

/// The answer to [`Register`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registered {
    /// The stored repository.
    pub repository: Repository,
    /// The stored worktree.
    pub worktree: Worktree,
}

impl Operation for Register {
    const NAME: &'static str = "register";
    const SUMMARY: &'static str = "Register the caller's repository and worktree";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    const AUDIENCE: Audience = Audience::Client;
    type Answer = Registered;
}

impl StoreOperation for Register {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Registered> {
        // The engine registers the caller before every write, so this operation has nothing left to do.
        let Caller { repository, worktree, .. } = cx.caller;
        let known = cx.tx.worktree_get(&worktree.id)?;
        let worktree = known.unwrap_or_else(|| Worktree::clone(worktree));
        Ok(Registered { repository: Repository::clone(repository), worktree })
    }
}

/// Stores changes of the caller's repository and worktree, with an event for each.
pub(crate) fn bring_up_to_date(cx: &mut OpContext<'_>) -> Result<()> {
    let repository: &Repository = &cx.caller.repository;
    let known_repository = cx.tx.repository_get(&repository.id)?;
    if known_repository.as_ref() != Some(repository) {
        cx.tx.repository_put(repository)?;
    }

    let known_worktree = cx.tx.worktree_get(&cx.caller.worktree.id)?;
    let (first_seen, last_seen) =
        known_worktree.as_ref().map_or((cx.now, cx.now), |known| (known.first_seen, known.last_seen));
    let worktree = Worktree { first_seen, last_seen, removed_at: None, ..Worktree::clone(&cx.caller.worktree) };
    if known_worktree.as_ref() != Some(&worktree) {
        cx.tx.worktree_put(&worktree)?;
    }

    // Events come last: they refer to the worktree, which must exist first.
    match known_repository {
        None => {
            let data = json!({ "after": repository });
            cx.event(kind::REPOSITORY_REGISTERED, repository.id.as_str(), data)?;
        }
        Some(known) if known != *repository => {
            let data = json!({ "before": known, "after": repository });
            cx.event(kind::REPOSITORY_CHANGED, repository.id.as_str(), data)?;
        }
        Some(_) => {}
    }
    match known_worktree {
        None => {
            let data = json!({ "after": worktree });
            cx.event(kind::WORKTREE_REGISTERED, worktree.id.as_str(), data)?;
        }
        Some(known) if known != worktree => {
            let data = json!({ "before": known, "after": worktree });
            cx.event(kind::WORKTREE_CHANGED, worktree.id.as_str(), data)?;
        }
        Some(_) => {}
    }
    Ok(())
}
