//! The start-up cost of every command: starting, resolving the place, opening the store.

use super::cases::{Cases, at_most};
use super::options::Options;
use super::scratch::Scratch;
use crate::Result;

const ROUNDS: u32 = 300;

pub(super) fn measure(options: &Options) -> Result {
    let scratch = Scratch::prepare()?;
    let repo = scratch.repository("repo")?;
    let (scratch, repo) = (&scratch, &repo);
    let mut cases = Cases::default();
    let trivial = cases.program("trivial program", None, || Ok(scratch.command(&scratch.trivial, repo)));
    for (name, args, bar) in [
        ("way --version", &["--version"][..], 2.0),
        ("way where", &["where"], 3.0),
        ("open + one query (worktree list)", &["worktree", "list"], 3.0),
        ("open + one write (db probe)", &["--quiet", "db", "probe", "--writes", "1"], 3.0),
    ] {
        cases.program(name, at_most(bar, trivial), move || Ok(scratch.way(repo, args)));
    }
    cases.measure(options.rounds.unwrap_or(ROUNDS))?;
    cases.report(options.enforce)
}
