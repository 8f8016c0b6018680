//! Sets up a workspace: copies selected ignored files, and runs a set-up command.
//!
//! A command from a repository runs only if the user trusts exactly this command. A file of the user's own stores the
//! whole text of trusted commands: comparing needs no hash, and a change can be shown.

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

/// The maximum time to wait for another process that changes the trust file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Copies ignored files of the source that match these patterns into a workspace. Returns how many.
///
/// Patterns are git's: `*` stops at a slash, `**` does not. Existing files stay.
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

/// A command that may run: the user wrote it or trusts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted(String);

impl Trusted {
    /// Trusts a command from the user's own configuration.
    pub fn of_user(command: &str) -> Trusted {
        Trusted(command.to_owned())
    }

    /// Returns the command.
    pub fn command(&self) -> &str {
        &self.0
    }
}

/// The file with the commands of repositories that the user trusts.
#[derive(Clone, Debug)]
pub struct Trust {
    path: PathBuf,
}

/// Trusted commands by repository.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Known(BTreeMap<String, Vec<String>>);

impl Trust {
    /// Opens the file, which need not exist.
    pub fn at(path: &Path) -> Trust {
        Trust { path: path.to_owned() }
    }

    /// Returns a command of a repository if exactly this text is trusted.
    pub fn check(&self, repository: &Path, command: &str) -> Result<Trusted> {
        let known = self.read()?;
        let trusted = known.0.get(&path_text::to_text(repository));
        if trusted.is_some_and(|commands| commands.iter().any(|known| known == command)) {
            return Ok(Trusted(command.to_owned()));
        }
        Err(Error::refused(format!("{} wants to run a command that is not trusted: {command:?}", repository.display()))
            .hint("review it, and trust it if it is safe"))
    }

    /// Trusts a command of a repository. The trust in its other commands does not change.
    pub fn add(&self, repository: &Path, command: &str) -> Result<Trusted> {
        self.change(|known| {
            let commands = known.0.entry(path_text::to_text(repository)).or_default();
            if !commands.iter().any(|known| known == command) {
                commands.push(command.to_owned());
            }
        })?;
        Ok(Trusted(command.to_owned()))
    }

    /// Removes the trust in all commands of a repository.
    pub fn remove(&self, repository: &Path) -> Result<()> {
        self.change(|known| drop(known.0.remove(&path_text::to_text(repository))))
    }

    fn change(&self, change: impl FnOnce(&mut Known)) -> Result<()> {
        let cannot = |error| Error::unavailable(format!("cannot write {}", self.path.display())).because(error);
        create_private_dir(self.path.parent().unwrap_or(Path::new("/"))).map_err(cannot)?;
        let _lock = FileLock::acquire(&self.path.with_extension("lock"), LOCK_TIMEOUT)?;
        let mut known = self.read()?;
        change(&mut known);
        let text = serde_json::to_vec_pretty(&known).map_err(|error| Error::internal(error.to_string()))?;
        replace(&self.path, &text, 0o600).map_err(cannot)
    }

    fn read(&self) -> Result<Known> {
        match std::fs::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| Error::damaged(format!("{} is damaged", self.path.display())).because(error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Known::default()),
            Err(error) => Err(Error::unavailable(format!("cannot read {}", self.path.display())).because(error)),
        }
    }
}

/// How a set-up command exited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUp {
    /// Its exit code; none if a signal killed it.
    pub code: Option<i32>,
    /// Whether it was killed because of the timeout.
    pub is_late: bool,
    /// The file with its output.
    #[serde(with = "path_text::serde")]
    pub log: PathBuf,
}

/// Runs a set-up command in a workspace and appends its output to the workspace's log. Its children are killed when it
/// exits.
pub fn set_up(plan: &Plan, command: &Trusted, variables: &[(String, String)], timeout: Duration) -> Result<SetUp> {
    let log = plan.setup_log();
    let cannot = |error| Error::unavailable(format!("cannot write {}", log.display())).because(error);
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&log).map_err(cannot)?;
    let (code, is_late) = run_setup(command.command(), &plan.workspace, file, variables, timeout)?;
    Ok(SetUp { code, is_late, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exactly_the_trusted_command_is_accepted() {
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
    fn a_damaged_trust_file_trusts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trusted.json");
        replace(&path, b"{", 0o600).unwrap();
        Trust::at(&path).check(Path::new("/one"), "make").unwrap_err();
        Trust::at(&path).add(Path::new("/one"), "make").unwrap_err();
    }
}
