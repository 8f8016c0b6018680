//! Sets up a workspace: copies selected ignored files, and runs a set-up command.
//!
//! A command from a repository runs only if the user trusts exactly this command, with the content of the files that it
//! names. What these files run or read in turn is not covered.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_core::digest::{hex, sha256};
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
struct Known(BTreeMap<String, Vec<Entry>>);

/// A trusted command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    command: String,
    /// The files of the repository that the command names, each with the SHA-256 of its content.
    files: Scripts,
}

/// Files by their path in a repository, each with the SHA-256 of its content.
pub type Scripts = BTreeMap<String, String>;

impl Trust {
    /// Opens the file, which need not exist.
    pub fn at(path: &Path) -> Trust {
        Trust { path: path.to_owned() }
    }

    /// Returns a command of a repository if exactly this text is trusted, and the files in `tree` that it names have the
    /// content that they had then.
    pub fn check(&self, repository: &Path, command: &str, tree: &Path) -> Result<Trusted> {
        let known = self.read()?;
        let entries = known.0.get(&path_text::to_text(repository)).map_or(&[][..], Vec::as_slice);
        let same: Vec<&Entry> = entries.iter().filter(|known| known.command == command).collect();
        let files = scripts(command, tree)?;
        if same.iter().any(|known| known.files == files) {
            return Ok(Trusted(command.to_owned()));
        }
        let review = "review it, and trust it if it is safe";
        let Some(last) = same.last() else {
            let repository = repository.display();
            return Err(Error::refused(format!(
                "{repository} wants to run a command that is not trusted: {command:?}"
            ))
            .hint(review));
        };
        let names = files.keys().chain(last.files.keys());
        let changed: BTreeSet<&str> =
            names.filter(|name| files.get(*name) != last.files.get(*name)).map(String::as_str).collect();
        let changed = changed.into_iter().collect::<Vec<_>>().join(", ");
        Err(Error::refused(format!("the set-up command {command:?} is trusted, but not this content of {changed}"))
            .hint(review))
    }

    /// Trusts a command of a repository with the current content of the files in `tree` that it names, and returns these.
    /// The trust in other commands, and in other content, does not change.
    pub fn add(&self, repository: &Path, command: &str, tree: &Path) -> Result<Scripts> {
        let files = scripts(command, tree)?;
        let entry = Entry { command: command.to_owned(), files: files.clone() };
        self.change(|known| {
            let entries = known.0.entry(path_text::to_text(repository)).or_default();
            entries.retain(|known| *known != entry);
            entries.push(entry);
        })?;
        Ok(files)
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

/// Returns the files of a tree that a command line names, as `scripts/setup.sh` in `sh scripts/setup.sh --fast`.
fn scripts(command: &str, tree: &Path) -> Result<Scripts> {
    let ends_word = |letter: char| letter.is_whitespace() || ";&|()<>\"'`={}$".contains(letter);
    let mut files = Scripts::new();
    for word in command.split(ends_word) {
        let name = word.trim_start_matches("./");
        let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let path = tree.join(name);
        if name.is_empty() || !is_inside || !path.is_file() {
            continue;
        }
        let content = std::fs::read(&path)
            .map_err(|error| Error::unavailable(format!("cannot read {}", path.display())).because(error))?;
        files.insert(name.to_owned(), hex(&sha256(&content)));
    }
    Ok(files)
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

/// Runs a set-up command in a workspace, with these environment variables and no others, and appends its output to the
/// workspace's log. Its children are killed when it exits.
pub fn set_up(plan: &Plan, command: &Trusted, variables: &[(OsString, OsString)], timeout: Duration) -> Result<SetUp> {
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
        let (one, other, tree) = (Path::new("/one"), Path::new("/other"), dir.path());
        trust.check(one, "make", tree).unwrap_err();
        assert_eq!(trust.add(one, "make", tree).unwrap(), Scripts::new());
        assert_eq!(trust.check(one, "make", tree).unwrap().command(), "make");
        for (repository, command) in [(one, "make "), (one, "make\n"), (one, ""), (one, "make; id"), (other, "make")] {
            trust.check(repository, command, tree).unwrap_err();
        }
        trust.remove(one).unwrap();
        trust.check(one, "make", tree).unwrap_err();
    }

    #[test]
    fn trust_covers_the_content_of_the_files_that_the_command_names() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::at(&dir.path().join("own/trusted.json"));
        let (one, tree) = (Path::new("/one"), dir.path());
        std::fs::create_dir(tree.join("tools")).unwrap();
        let write = |text: &str| replace(&tree.join("tools/set-up.sh"), text.as_bytes(), 0o600).unwrap();
        write("first");
        let command = "FAST=1;sh './tools/set-up.sh'&&true ../outside /etc/passwd tools";
        assert_eq!(trust.add(one, command, tree).unwrap().keys().collect::<Vec<_>>(), ["tools/set-up.sh"]);
        trust.check(one, command, tree).unwrap();
        write("second");
        let refused = trust.check(one, command, tree).unwrap_err();
        assert!(refused.to_string().contains("not this content of tools/set-up.sh"), "{refused}");
        trust.add(one, command, tree).unwrap();
        for content in ["first", "second"] {
            write(content);
            trust.check(one, command, tree).unwrap();
        }
        std::fs::remove_file(tree.join("tools/set-up.sh")).unwrap();
        trust.check(one, command, tree).unwrap_err();
    }

    #[test]
    fn a_damaged_trust_file_trusts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trusted.json");
        replace(&path, b"{", 0o600).unwrap();
        Trust::at(&path).check(Path::new("/one"), "make", dir.path()).unwrap_err();
        Trust::at(&path).add(Path::new("/one"), "make", dir.path()).unwrap_err();
    }
}
