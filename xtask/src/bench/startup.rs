//! What every command costs: starting, resolving the place, opening the store.

use super::cases::{Cases, at_most, beside};
use super::options::Options;
use super::results::Part;
use super::scratch::Scratch;
use crate::{Result, run};

const ROUNDS: u32 = 300;
const QUICK_ROUNDS: u32 = 30;

pub(super) fn measure(options: &Options, scratch: &Scratch, part: &mut Part) -> Result {
    let repo = &scratch.repository("repo")?;
    if !repo.join(".waypost/issues.jsonl").is_file() {
        // `way ready` fails if no issue is ready.
        run(&mut scratch.way(repo, ["add", "Measure the start"]))?;
    }
    let mut cases = Cases::default();
    let trivial = cases.program("trivial program", None, || Ok(scratch.command(&scratch.trivial, repo)));
    for (name, args, baseline) in [
        ("way --version", &["--version"][..], at_most(2.0, trivial)),
        ("way ready", &["ready"], at_most(3.0, trivial)),
        ("way where", &["where"], beside(trivial)),
        ("way worktree list, one query of the store", &["worktree", "list"], beside(trivial)),
    ] {
        cases.program(name, baseline, move || Ok(scratch.way(repo, args)));
    }
    cases.measure(options, options.rounds(ROUNDS, QUICK_ROUNDS), part);
    Ok(())
}
