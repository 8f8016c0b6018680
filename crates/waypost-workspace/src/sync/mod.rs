//! Brings a ledger together with that of the remote: fetches, merges, commits the ledger alone, pushes.
//!
//! Git, jj, Mercurial and Sapling each have a file here that knows how. What holds for all of them is in this one. No
//! file but the ledger is written, no commit is made of anything else, and no commit that has anything else is pushed.

mod git;
mod hg;
mod jj;
mod locks;
mod objects;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use waypost_core::model::Vcs;
use waypost_core::{Error, Kind, Result};
use waypost_fs::{FileLock, create_private_dir};

use crate::vcs::checkout::Checkout;
use crate::vcs::run::{Own, Tool};

/// How often everything is done again because somebody was faster.
const ATTEMPTS: usize = 5;

/// How long another sync is waited for.
const PATIENCE: Duration = Duration::from_mins(2);

/// What to do about a remote that is slow.
const LONGER: &str = "way config set sync.timeout 10m waits longer for it";

/// What our commits say.
const MESSAGE: &str = "Sync the issues\n";

/// What is to be brought together.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The repository.
    pub checkout: &'a Checkout,
    /// The worktree that the ledger belongs to.
    pub root: &'a Path,
    /// The ledger's path in it.
    pub path: &'a str,
    /// Whether the remote gets anything.
    pub push: bool,
    /// Whether nothing is changed, and what would be done is written down.
    pub is_rehearsal: bool,
    /// What the user's environment says about the network.
    pub own: Own,
}

/// Makes another content of a content.
pub type Change<'a> = dyn Fn(&[u8]) -> Result<Vec<u8>> + 'a;

/// Makes one content of a base, ours and theirs.
pub type Merge<'a> = dyn Fn(Option<&[u8]>, &[u8], &[u8]) -> Result<Vec<u8>> + 'a;

/// The ledger's file, and how versions of it are merged.
#[derive(Clone, Copy)]
pub struct Ledger<'a> {
    /// Reads it. None if it is not there.
    pub read: &'a dyn Fn() -> Result<Option<Vec<u8>>>,
    /// Makes something else of what it says now, under its lock, and returns that.
    pub change: &'a dyn Fn(&Change<'_>) -> Result<Vec<u8>>,
    /// Merges two versions that came from one.
    pub merge: &'a Merge<'a>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// What others call the place it was synced with, if there is one.
    pub upstream: Option<String>,
    /// Whether the file is another one now.
    pub is_merged: bool,
    /// The commit that was made here.
    pub committed: Option<String>,
    /// The commit that the remote got.
    pub pushed: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// In a rehearsal: what would be done.
    pub commands: Vec<String>,
}

/// Brings a ledger together with that of the remote. `say` is told of each step.
pub fn sync(request: Request<'_>, ledger: Ledger<'_>, say: &dyn Fn(&str)) -> Result<Synced> {
    let work = Work {
        request,
        ledger,
        say,
        is_merged: Cell::new(false),
        commands: RefCell::default(),
        notes: RefCell::default(),
    };
    let _lock = if request.is_rehearsal { None } else { Some(lock(request.checkout)?) };
    let mut tool: Box<dyn Adapter + '_> = match request.checkout.vcs {
        Vcs::Git => Box::new(git::open(&work)?),
        Vcs::Hg | Vcs::Sl => Box::new(hg::open(&work)?),
        Vcs::Jj => Box::new(jj::open(&work)?),
        Vcs::None => {
            return Err(Error::new(Kind::NothingToDo, "there is no version control here, so there is nothing to sync"));
        }
    };
    let mut refused: Option<(Option<String>, Error)> = None;
    for _ in 0..ATTEMPTS {
        let upstream = tool.fetch()?;
        if let Some((tip, error)) = refused.take()
            && tip == upstream
        {
            // The remote answers, nobody was faster, and still it does not want it.
            return Err(Error::refused("the remote does not take the ledger")
                .because(error.full_message())
                .hint("if its branch is protected, commit here with way sync --no-push, and propose that there"));
        }
        match tool.round()? {
            Round::Done { committed, pushed } => {
                let (commands, notes) = (work.commands.take(), work.notes.take());
                let is_merged = work.is_merged.get();
                return Ok(Synced { upstream: tool.upstream(), is_merged, committed, pushed, notes, commands });
            }
            Round::Moved => work.say("Something changed meanwhile; starting over"),
            // Whether it was taken, nobody knows.
            Round::NotTaken(error) if error.kind() == Kind::Unavailable => {
                return Err(Error::unavailable("the remote did not answer when it was pushed to")
                    .because(error.full_message())
                    .hint("the next way sync finds out whether it was taken, and goes on from there")
                    .hint(LONGER));
            }
            Round::NotTaken(error) => {
                work.say("The remote did not take it; looking again");
                refused = Some((upstream, error));
            }
        }
    }
    Err(Error::unavailable(format!("{ATTEMPTS} times somebody else was faster")).hint("try again: way sync"))
}

/// What knows how to do it with one version control tool.
trait Adapter {
    /// Gets what the remote has. Returns the commit it is at, if there is one.
    fn fetch(&mut self) -> Result<Option<String>>;

    /// Merges, commits and pushes once.
    fn round(&mut self) -> Result<Round>;

    /// Returns what people call the place it is synced with.
    fn upstream(&self) -> Option<String>;
}

/// What came of doing it once.
enum Round {
    /// Everything.
    Done {
        /// The commit that was made here.
        committed: Option<String>,
        /// The commit that the remote got.
        pushed: Option<String>,
    },
    /// Somebody changed something here meanwhile.
    Moved,
    /// The remote did not take what was pushed.
    NotTaken(Error),
}

/// A sync under way.
struct Work<'a> {
    request: Request<'a>,
    ledger: Ledger<'a>,
    say: &'a dyn Fn(&str),
    is_merged: Cell<bool>,
    commands: RefCell<Vec<String>>,
    notes: RefCell<Vec<String>>,
}

impl Work<'_> {
    /// Tells what is being done.
    fn say(&self, line: &str) {
        if !self.request.is_rehearsal {
            (self.say)(line);
        }
    }

    /// Keeps something worth knowing for the answer.
    fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Runs what changes something. In a rehearsal it is written down, and `instead` is the answer.
    fn change(&self, tool: Tool, instead: &str) -> Result<String> {
        self.change_fed(tool, None, instead)
    }

    /// The same with something to read for it.
    fn change_fed(&self, tool: Tool, input: Option<&[u8]>, instead: &str) -> Result<String> {
        if self.request.is_rehearsal {
            self.commands.borrow_mut().push(tool.line());
            return Ok(instead.to_owned());
        }
        match input {
            Some(input) => tool.stdout_with_input(input),
            None => tool.stdout(),
        }
    }

    /// Merges the upstream's ledger into the file, and returns what that says then. None if there is no ledger at all.
    fn merge(&self, base: Option<&[u8]>, theirs: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let before = (self.ledger.read)()?;
        let Some(theirs) = theirs else { return Ok(before) };
        let merged = |ours: &[u8]| (self.ledger.merge)(base, ours, theirs);
        if self.request.is_rehearsal {
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

/// Says that a remote could not be reached. Before that nothing was done.
fn unreachable(what: &str, error: &Error) -> Error {
    let said = Error::unavailable(what)
        .because(error.full_message())
        .hint("nothing was changed; try again when the remote can be reached");
    if error.kind() == Kind::Unavailable { said.hint(LONGER) } else { said }
}

fn lock(checkout: &Checkout) -> Result<FileLock> {
    let dir = &checkout.private_dir;
    create_private_dir(dir)
        .map_err(|error| Error::unavailable(format!("cannot write {}", dir.display())).because(error))?;
    FileLock::acquire(&dir.join("sync.lock"), PATIENCE)
}
