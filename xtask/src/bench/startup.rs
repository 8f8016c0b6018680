//! The start-up cost of every command: starting, resolving the place, opening the store. And the floors of the machine.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use super::cases::{Cases, at_most, beside};
use super::options::Options;
use super::results::Part;
use super::scratch::{Scratch, create_dir};
use crate::Result;

const ROUNDS: u32 = 300;
const QUICK_ROUNDS: u32 = 30;

pub(super) fn measure(options: &Options, scratch: &Scratch) -> Result<Part> {
    let repo = &scratch.repository("repo")?;
    let mut cases = Cases::default();
    let trivial = cases.program("trivial program", None, || Ok(scratch.command(&scratch.trivial, repo)));
    for (name, args, bar) in [
        ("way --version", &["--version"][..], Some(2.0)),
        ("way ready", &["ready"], Some(3.0)),
        ("way where", &["where"], None),
        ("open + one query (worktree list)", &["worktree", "list"], None),
        ("open + one write (db probe)", &["--quiet", "db", "probe", "--writes", "1"], None),
    ] {
        let baseline = bar.map_or_else(|| beside(trivial), |bar| at_most(bar, trivial));
        cases.program(name, baseline, move || Ok(scratch.way(repo, args)));
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
    Ok(cases.measure(options, options.rounds(ROUNDS, QUICK_ROUNDS)))
}
