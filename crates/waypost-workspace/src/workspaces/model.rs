//! The types that this module's files share: names, plans, made workspaces and snapshots.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::id::{JobId, WorkspaceId};
pub use waypost_core::model::{Identity, Strategy};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, path_text};

use crate::vcs::checkout::Checkout;
use crate::vcs::run::NetworkOptions;

/// The directories of workspaces and mirrors.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The workspaces, their pool and their trash.
    pub workspaces: &'a Path,
    /// The mirrors and templates.
    pub mirrors: &'a Path,
}

/// The name of a workspace. It becomes part of paths and refs, so few characters are allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_inner = |byte: u8| is_plain(byte) || byte == b'_' || byte == b'-';
        let fits = name.len() <= 64 && name.bytes().next().is_some_and(is_plain) && name.bytes().all(is_inner);
        if fits { Ok(Name(name)) } else { Err(Error::invalid(format!("{name:?} cannot be the name of a workspace"))) }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl From<&JobId> for Name {
    fn from(id: &JobId) -> Name {
        Name(id.as_str().to_owned())
    }
}

impl From<&WorkspaceId> for Name {
    fn from(id: &WorkspaceId) -> Name {
        Name(id.as_str().to_owned())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The source of a workspace. It has no `Debug`, because a URL may contain a secret.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A checkout on this machine.
    Checkout(&'a Checkout),
    /// A remote repository, by its URL. A password in it is used and not stored.
    Remote(&'a str),
}

/// A request for a workspace.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The directories to use.
    pub places: Places<'a>,
    /// Its name.
    pub name: &'a Name,
    /// The source.
    pub source: Source<'a>,
    /// The commit to start from: a branch, a tag, or any other name [default: the current commit].
    pub base: Option<&'a str>,
    /// The commit to start from instead, which the source need not have: see [`merge_work`](super::merge_work).
    pub commit: Option<&'a str>,
    /// The branch to work on. Default: `waypost/<name>`.
    pub branch: Option<&'a str>,
    /// How to make it [default: depends on the source].
    pub strategy: Option<Strategy>,
    /// The user's network settings.
    pub network: NetworkOptions,
}

/// The plan of a workspace. It is recorded before anything is made, and names everything that will be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name.
    pub name: Name,
    /// How it is made.
    pub strategy: Strategy,
    /// The directory of all workspaces.
    #[serde(with = "path_text::serde")]
    pub workspaces: PathBuf,
    /// The directory to work in.
    #[serde(with = "path_text::serde")]
    pub workspace: PathBuf,
    /// The source repository: the root of its main checkout, else its directory; none if it is remote.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// The checkout in which the request was made.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<PathBuf>,
    /// The git directory of the source.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub git_dir: Option<PathBuf>,
    /// The mirror whose objects it borrows.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<PathBuf>,
    /// The commit it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The commit's ref in a remote source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// The branch to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The directory of saved work, which is not a cache.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<PathBuf>,
    /// The URL of the remote, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The remote's default branch, and its last known commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<(String, String)>,
}

impl Plan {
    /// Returns the directory that holds the workspace and its context.
    pub fn home(&self) -> PathBuf {
        self.workspaces.join(self.name.as_str())
    }

    /// Returns the directory of the job's context files.
    pub fn context(&self) -> PathBuf {
        self.home().join("context")
    }

    /// Returns the directory to which it moves when it is deleted.
    pub fn trash(&self) -> PathBuf {
        self.workspaces.join("trash").join(self.name.as_str())
    }

    /// Returns the file with the output of the set-up command.
    pub fn setup_log(&self) -> PathBuf {
        self.home().join("setup.log")
    }

    pub(super) fn base(&self) -> Result<&str> {
        self.base.as_deref().ok_or_else(|| Error::internal(format!("workspace {} has no base commit", self.name)))
    }
}

/// Options for making a workspace. It has no `Debug`, because a URL may contain a secret.
#[derive(Clone, Copy, Default)]
pub struct MakeOptions<'a> {
    /// The user's network settings.
    pub network: NetworkOptions,
    /// The URL of a remote source, with secrets. It is used and not stored.
    pub url: Option<&'a str>,
}

/// How the files of a workspace were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// They share their blocks with a template.
    Shared,
    /// They were copied.
    Copied,
    /// The version control tool checked them out.
    CheckedOut,
    /// An overlay mount shows them.
    Overlaid,
    /// They are the checkout's own files.
    InPlace,
}

/// A workspace that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The identity of its directory; none if it is the checkout itself, which Waypost must not remove.
    pub identity: Option<Identity>,
    /// The commit it starts from.
    pub base: Option<String>,
    /// How it was made.
    pub strategy: Strategy,
    /// How its files were made.
    pub files: Files,
    /// Notes for the job that runs in it.
    pub notes: Vec<String>,
}

/// A saved state of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name.
    pub id: Name,
    /// The strategy of a workspace that is made from it.
    pub strategy: Strategy,
    /// When it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Its size in bytes: that of the copy, or of the objects that only it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What was saved: a workspace or a worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The repository that keeps it, or the directory of the copy.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "path_text::optional")]
    pub kept_in: Option<PathBuf>,
    /// Its ref in that repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The commit that holds it; none for a copy of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The hash of its tree; none for a copy of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The commit that the workspace was on, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The directory of a copy of files.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "path_text::optional")]
    pub path: Option<PathBuf>,
    /// Branches, tags, stashes, abandoned commits and worktrees beside it that only the workspace had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// Entries of the workspace that the snapshot does not contain: other repositories, sockets and pipes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The restored snapshot.
    pub snapshot: Snapshot,
    /// A snapshot of the state before, if it was different.
    pub before: Option<Snapshot>,
    /// Branches, tags and stashes that exist in the workspace and were not changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_alone: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t14_names_that_could_lead_outside_are_refused() {
        let long = "a".repeat(65);
        for bad in ["", ".", "..", "../x", "/x", "a/b", "-rf", "a\0b", "A", "ä", "a b", ".hidden", "_a", &long] {
            assert!(Name::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
        for good in ["a", "0", "jb_0123456789ab", "a-b"] {
            assert_eq!(Name::try_from(good.to_owned()).unwrap().as_str(), good);
        }
    }
}
