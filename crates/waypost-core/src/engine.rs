//! Runs one operation in one transaction.
//!
//! Every surface ends here. A write first brings the caller's repository and worktree rows up to date, in the
//! same transaction, so no record can name a worktree the store has not heard of.

use crate::error::Result;
use crate::id::Entropy;
use crate::model::{NewEvent, Repository, Worktree};
use crate::op::{Effect, Operation, register};
use crate::store::{Store, Tx};
use crate::time::Timestamp;

/// Who asks, and from where.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The author of what is written.
    pub actor: String,
    /// The repository the caller stands in, as it is now.
    pub repository: Repository,
    /// The worktree the caller stands in, as it is now.
    pub worktree: Worktree,
}

/// What an operation may touch while it runs.
pub struct Cx<'a> {
    /// The transaction.
    pub tx: &'a mut dyn Tx,
    /// Who asks.
    pub caller: &'a Caller,
    /// Where new ids come from.
    pub entropy: &'a mut dyn Entropy,
    /// The moment of the whole transaction, by the store's clock.
    pub now: Timestamp,
}

impl Cx<'_> {
    /// Appends an event in the caller's name and returns its sequence.
    pub fn event(&mut self, kind: &'static str, subject: &str, data: serde_json::Value) -> Result<u64> {
        self.tx.worktree_touch(&self.caller.worktree.id, self.now)?;
        self.tx.event_append(&NewEvent {
            time: self.now,
            actor: self.caller.actor.clone(),
            worktree_id: self.caller.worktree.id.clone(),
            kind,
            subject: subject.to_owned(),
            data,
        })
    }
}

/// Runs an operation that writes; all of it lasts when this returns, or none of it.
pub fn write<O: Operation>(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    operation: O,
) -> Result<O::Answer> {
    debug_assert_eq!(O::EFFECT, Effect::Write, "{} does not write", O::NAME);
    let mut tx = store.begin_write()?;
    let now = tx.now()?;
    let mut cx = Cx { tx: &mut *tx, caller, entropy, now };
    register::bring_up_to_date(&mut cx)?;
    let answer = operation.run(&mut cx)?;
    tx.commit()?;
    Ok(answer)
}

/// Runs an operation that only reads.
pub fn read<O: Operation>(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    operation: O,
) -> Result<O::Answer> {
    debug_assert_eq!(O::EFFECT, Effect::Read, "{} does not only read", O::NAME);
    let mut tx = store.begin_read()?;
    let now = tx.now()?;
    operation.run(&mut Cx { tx: &mut *tx, caller, entropy, now })
}
