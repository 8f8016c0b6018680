//! What a workspace gets besides the committed files: ignored files that were asked for, and a command that sets it up.
//!
//! A command from a repository runs only if its user has said so, to exactly this command. What was said is kept in a
//! file of the user's own, whole: comparing it needs no hash, and it can be shown what changed.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result, path_text};
use waypost_fs::{FileLock, copy_below, create_private_dir, replace};

use super::model::Plan;
use crate::vcs::run::{Git, run_setup};

/// How long another who trusts something is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Copies the ignored files of the source that match these patterns into a workspace. Returns how many.
///
/// Patterns are git's: `*` stops at a slash, `**` does not. Files that are there stay.
pub fn include(plan: &Plan, patterns: &[String]) -> Result<usize> {
    let Some(checkout) = plan.checkout.as_deref().filter(|_| !patterns.is_empty()) else { return Ok(0) };
    let git = Git::in_worktree(checkout)?;
    let pathspecs = patterns.iter().map(|pattern| format!(":(top,glob){pattern}"));
    let list = git.command().env("GIT_OPTIONAL_LOCKS", "0").args(["ls-files", "--others", "--ignored"]);
    let list = list.args(["--exclude-standard", "-z", "--"]).args(pathspecs);
    let mut copied = 0;
    for path in list.bytes()?.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        copied += usize::from(copy_below(checkout, &plan.workspace, path)?);
    }
    Ok(copied)
}

/// A command that may run: its user wrote it, or trusted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted(String);

impl Trusted {
    /// Takes a command from the user's own configuration, which needs no trust.
    pub fn of_user(command: &str) -> Trusted {
        Trusted(command.to_owned())
    }

    /// Returns the command.
    pub fn command(&self) -> &str {
        &self.0
    }
}

/// The commands of repositories that a user trusts, in a file of the user's own.
#[derive(Clone, Debug)]
pub struct Trust {
    path: PathBuf,
}

/// The commands that are trusted, by repository.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Known(BTreeMap<String, Vec<String>>);

impl Trust {
    /// Opens the file, which need not be there.
    pub fn at(path: &Path) -> Trust {
        Trust { path: path.to_owned() }
    }

    /// Returns a command of a repository if it is trusted, to the last byte.
    pub fn check(&self, repository: &Path, command: &str) -> Result<Trusted> {
        let known = self.read()?;
        let trusted = known.0.get(&path_text::to_text(repository));
        if trusted.is_some_and(|commands| commands.iter().any(|known| known == command)) {
            return Ok(Trusted(command.to_owned()));
        }
        Err(Error::refused(format!("{} wants to run a command that is not trusted: {command:?}", repository.display()))
            .hint("read it, and trust it if you do"))
    }

    /// Trusts a command of a repository. Any other command of it is trusted no more and no less than before.
    pub fn add(&self, repository: &Path, command: &str) -> Result<Trusted> {
        self.change(|known| {
            let commands = known.0.entry(path_text::to_text(repository)).or_default();
            if !commands.iter().any(|known| known == command) {
                commands.push(command.to_owned());
            }
        })?;
        Ok(Trusted(command.to_owned()))
    }

    /// Trusts nothing of a repository any more.
    pub fn remove(&self, repository: &Path) -> Result<()> {
        self.change(|known| drop(known.0.remove(&path_text::to_text(repository))))
    }

    fn change(&self, change: impl FnOnce(&mut Known)) -> Result<()> {
        let cannot = |error| Error::unavailable(format!("cannot write {}", self.path.display())).because(error);
        create_private_dir(self.path.parent().unwrap_or(Path::new("/"))).map_err(cannot)?;
        let _lock = FileLock::acquire(&self.path.with_extension("lock"), PATIENCE)?;
        let mut known = self.read()?;
        change(&mut known);
        let text = serde_json::to_vec_pretty(&known).map_err(|error| Error::internal(error.to_string()))?;
        replace(&self.path, &text, 0o600).map_err(cannot)
    }

    fn read(&self) -> Result<Known> {
        match std::fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| Error::damaged(format!("{} cannot be read", self.path.display())).because(error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Known::default()),
            Err(error) => Err(Error::unavailable(format!("cannot read {}", self.path.display())).because(error)),
        }
    }
}

/// How a set-up command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUp {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Whether it was ended because it took too long.
    pub is_late: bool,
    /// What it said.
    #[serde(with = "path_text::serde")]
    pub log: PathBuf,
}

/// Runs a set-up command in a workspace, with what it says kept in the workspace's log. All it starts ends with it.
pub fn set_up(plan: &Plan, command: &Trusted, variables: &[(String, String)], patience: Duration) -> Result<SetUp> {
    let log = plan.setup_log();
    let cannot = |error| Error::unavailable(format!("cannot write {}", log.display())).because(error);
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&log).map_err(cannot)?;
    let (code, is_late) = run_setup(command.command(), &plan.workspace, file, variables, patience)?;
    Ok(SetUp { code, is_late, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_command_that_was_trusted_is() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::at(&dir.path().join("own/trusted.json"));
        let (one, other) = (Path::new("/one"), Path::new("/other"));
        trust.check(one, "make").unwrap_err();
        assert_eq!(trust.add(one, "make").unwrap(), trust.check(one, "make").unwrap());
        for (repository, command) in [(one, "make "), (one, "make\n"), (one, ""), (one, "make; id"), (other, "make")] {
            trust.check(repository, command).unwrap_err();
        }
        trust.remove(one).unwrap();
        trust.check(one, "make").unwrap_err();
    }

    #[test]
    fn a_damaged_file_trusts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trusted.json");
        replace(&path, b"{", 0o600).unwrap();
        Trust::at(&path).check(Path::new("/one"), "make").unwrap_err();
        Trust::at(&path).add(Path::new("/one"), "make").unwrap_err();
    }
}
