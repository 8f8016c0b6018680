//! The start-up cost of every command: starting, resolving the place, opening the store. And the floors of the machine.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use super::cases::{Cases, at_most, beside};
use super::options::Options;
use super::results;
use super::scratch::{Scratch, create_dir};
use crate::Result;

const ROUNDS: u32 = 300;
const QUICK_ROUNDS: u32 = 30;

pub(super) fn measure(options: &Options) -> Result {
    let scratch = Scratch::prepare(options)?;
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
    for (name, args) in
        [("git --version", &["--version"][..]), ("git rev-parse --git-dir", &["rev-parse", "--git-dir"])]
    {
        cases.program(name, beside(trivial), move || {
            let mut command = scratch.command(Path::new("git"), repo);
            command.args(args);
            Ok(command)
        });
    }
    let dir = scratch.dir.join("floors");
    create_dir(&dir)?;
    let file = OpenOptions::new().create(true).append(true).open(dir.join("appended"));
    let mut file = file.map_err(|error| format!("{}: {error}", dir.display()))?;
    cases.inside("append 4 KiB and sync", move || {
        file.write_all(&[b'x'; 4096]).and_then(|()| file.sync_data()).map_err(|error| error.to_string())
    });
    cases.measure(options, options.rounds(ROUNDS, QUICK_ROUNDS))?;
    results::save(scratch, options, &cases.records(), cases.failures())?;
    cases.report(options.enforce)
}
