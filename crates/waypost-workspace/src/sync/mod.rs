//! Merges a ledger with the remote's: fetches, merges, commits only the ledger, pushes.
//!
//! Git and jj have one file each, Mercurial and Sapling share one. Rules for all of them are here. Sync writes no file
//! but the ledger, commits nothing else, and pushes no commit that changes anything else.

mod git;
mod hg;
mod jj;
mod locks;
mod objects;
mod separate;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use waypost_core::model::Vcs;
use waypost_core::{Error, Kind, Result};
use waypost_fs::FileLock;

use crate::vcs::checkout::Checkout;
use crate::vcs::run::{NetworkOptions, Tool};

/// How often sync starts over because the branch or the remote changed meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// The maximum time to wait for another sync.
const LOCK_TIMEOUT: Duration = Duration::from_mins(2);

/// The hint for a slow remote.
const TIMEOUT_HINT: &str = "way config set sync.timeout 10m waits longer for it";

/// The message of sync's commits.
const COMMIT_MESSAGE: &str = "Sync the issues\n";

/// A request to sync a ledger.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The repository.
    pub checkout: &'a Checkout,
    /// The worktree that the ledger belongs to.
    pub root: &'a Path,
    /// The ledger's path in it.
    pub path: &'a str,
    /// Whether the ledger has a branch of its own, and the root is in the private directory.
    pub is_separate: bool,
    /// The commits that may be pushed.
    pub push: Push,
    /// Whether this is a dry run, which changes nothing and records the commands.
    pub dry_run: bool,
    /// The user's network settings.
    pub network: NetworkOptions,
}

/// The commits that sync may push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// None.
    Nothing,
    /// Commits that change only the ledger.
    Ledger,
    /// All commits of the branch.
    Branch,
}

/// Computes the new content of the ledger from the current one.
pub type Change<'a> = dyn Fn(&[u8]) -> Result<Vec<u8>> + 'a;

/// Merges the local and the remote content, given their base.
pub type Merge<'a> = dyn Fn(Option<&[u8]>, &[u8], &[u8]) -> Result<Vec<u8>> + 'a;

/// Access to the ledger's file.
#[derive(Clone, Copy)]
pub struct Ledger<'a> {
    /// Reads it. None if it does not exist.
    pub read: &'a dyn Fn() -> Result<Option<Vec<u8>>>,
    /// Changes its content under its lock, and returns the new content.
    pub change: &'a dyn Fn(&Change<'_>) -> Result<Vec<u8>>,
    /// Merges two versions.
    pub merge: &'a Merge<'a>,
}

/// The result of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// The name of the remote branch, if there is one.
    pub upstream: Option<String>,
    /// Whether the merge changed the file.
    pub is_merged: bool,
    /// The commit that was made locally.
    pub committed: Option<String>,
    /// The commit that was pushed.
    pub pushed: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// In a dry run: the commands that would run.
    pub commands: Vec<String>,
}

/// Syncs a ledger with the remote. Each step is reported to `say`.
pub fn sync(request: Request<'_>, ledger: Ledger<'_>, say: &dyn Fn(&str)) -> Result<Synced> {
    let work = Work {
        request,
        ledger,
        say,
        is_merged: Cell::new(false),
        commands: RefCell::default(),
        notes: RefCell::default(),
    };
    let _lock = if request.dry_run { None } else { Some(lock(request.checkout)?) };
    let mut tool: Box<dyn Adapter + '_> = match request.checkout.vcs {
        _ if request.is_separate => Box::new(separate::open(&work)?),
        Vcs::Git => Box::new(git::open(&work)?),
        Vcs::Hg | Vcs::Sl => Box::new(hg::open(&work)?),
        Vcs::Jj => Box::new(jj::open(&work)?),
        Vcs::None => {
            return Err(Error::new(Kind::NothingToDo, "there is no version control here, so there is nothing to sync"));
        }
    };
    let mut refused: Option<(Option<String>, Error)> = None;
    for _ in 0..MAX_ATTEMPTS {
        let upstream = tool.fetch()?;
        if let Some((tip, error)) = refused.take()
            && tip == upstream
        {
            // The remote is reachable and has not changed, so it rejects the push itself.
            return Err(Error::refused("the remote rejects the ledger")
                .because(error.full_message())
                .hint("if its branch is protected, commit with way sync --no-push, and open a pull request"));
        }
        match tool.round()? {
            Round::Done { committed, pushed } => {
                let (commands, notes) = (work.commands.take(), work.notes.take());
                let is_merged = work.is_merged.get();
                return Ok(Synced { upstream: tool.upstream(), is_merged, committed, pushed, notes, commands });
            }
            Round::Moved => work.say("The branch or the ledger changed meanwhile; starting over"),
            // The push may or may not have succeeded.
            Round::Rejected(error) if error.kind() == Kind::Unavailable => {
                return Err(Error::unavailable("the remote did not answer the push")
                    .because(error.full_message())
                    .hint("the next way sync finds out whether the push succeeded")
                    .hint(TIMEOUT_HINT));
            }
            Round::Rejected(error) => {
                work.say("The remote rejected the push; fetching again");
                refused = Some((upstream, error));
            }
        }
    }
    Err(Error::unavailable(format!("the branch or the remote changed during {MAX_ATTEMPTS} attempts"))
        .hint("try again: way sync"))
}

/// The steps of a sync with one version control tool.
trait Adapter {
    /// Fetches the remote branch. Returns its commit, if there is one.
    fn fetch(&mut self) -> Result<Option<String>>;

    /// Merges, commits and pushes once.
    fn round(&mut self) -> Result<Round>;

    /// Returns the name of the remote branch, for messages.
    fn upstream(&self) -> Option<String>;
}

/// The outcome of one attempt.
enum Round {
    /// The sync is complete.
    Done {
        /// The commit that was made locally.
        committed: Option<String>,
        /// The commit that was pushed.
        pushed: Option<String>,
    },
    /// The local branch or the ledger changed meanwhile.
    Moved,
    /// The remote rejected the push.
    Rejected(Error),
}

/// A sync in progress.
struct Work<'a> {
    request: Request<'a>,
    ledger: Ledger<'a>,
    say: &'a dyn Fn(&str),
    is_merged: Cell<bool>,
    commands: RefCell<Vec<String>>,
    notes: RefCell<Vec<String>>,
}

impl Work<'_> {
    /// Reports a step, except in a dry run.
    fn say(&self, line: &str) {
        if !self.request.dry_run {
            (self.say)(line);
        }
    }

    /// Adds a note to the result.
    fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Runs a command that changes something. A dry run records it and returns `instead`.
    fn change(&self, tool: Tool, instead: &str) -> Result<String> {
        self.change_with_input(tool, None, instead)
    }

    /// The same with input for the command.
    fn change_with_input(&self, tool: Tool, input: Option<&[u8]>, instead: &str) -> Result<String> {
        if self.request.dry_run {
            self.commands.borrow_mut().push(tool.line());
            return Ok(instead.to_owned());
        }
        match input {
            Some(input) => tool.stdout_with_input(input),
            None => tool.stdout(),
        }
    }

    /// Merges the remote's ledger into the file, and returns the new content. None if there is no ledger on either
    /// side.
    fn merge(&self, base: Option<&[u8]>, theirs: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let before = (self.ledger.read)()?;
        let Some(theirs) = theirs else { return Ok(before) };
        let merged = |ours: &[u8]| (self.ledger.merge)(base, ours, theirs);
        if self.request.dry_run {
            let after = merged(before.as_deref().unwrap_or_default())?;
            if Some(&after) != before.as_ref() {
                self.is_merged.set(true);
                self.commands.borrow_mut().push(format!("write {}", self.request.path));
            }
            return Ok(Some(after));
        }
        let after = (self.ledger.change)(&|ours| {
            let after = merged(ours)?;
            if after != ours {
                self.is_merged.set(true);
            }
            Ok(after)
        })?;
        Ok(Some(after))
    }
}

/// Returns the error for an unreachable remote. Nothing was changed before.
fn unreachable(what: &str, error: &Error) -> Error {
    let unreachable = Error::unavailable(what)
        .because(error.full_message())
        .hint("nothing was changed; try again when the remote is reachable");
    if error.kind() == Kind::Unavailable { unreachable.hint(TIMEOUT_HINT) } else { unreachable }
}

/// Returns the error for a repository without commits: the first commit is the user's.
fn no_commits_error(upstream: Option<&str>, pull: &str) -> Error {
    match upstream {
        Some(upstream) => Error::refused(format!("there is no commit here yet, but {upstream} has some"))
            .hint(format!("{pull}, and then way sync")),
        None => Error::refused("there is no commit here yet, and way sync does not make the first one")
            .hint("make the first commit, and then way sync"),
    }
}

fn lock(checkout: &Checkout) -> Result<FileLock> {
    checkout.lock("sync.lock", LOCK_TIMEOUT)
}
