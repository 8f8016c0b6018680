//! The types that the files of this module share: names, plans, and what becomes of them.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::id::{JobId, WorkspaceId};
pub use waypost_core::model::{Identity, Strategy};
use waypost_core::{Error, Result, path_text};

use crate::vcs::checkout::Checkout;
use crate::vcs::run::Own;

/// Where workspaces and what they are made from live.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The workspaces, their pool and their trash.
    pub workspaces: &'a Path,
    /// The mirrors and templates.
    pub mirrors: &'a Path,
}

/// The name of a workspace: the job's id. It is a part of paths and refs, so little is allowed in it.
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

/// What a workspace is made from. Not for showing: there may be a secret in it.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A checkout on this machine.
    Checkout(&'a Checkout),
    /// A repository elsewhere, by its address. A password in it is used and not kept.
    Remote(&'a str),
}

/// A workspace that somebody wants.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Where it goes.
    pub places: Places<'a>,
    /// What it is called.
    pub name: &'a Name,
    /// What it is made from.
    pub source: Source<'a>,
    /// The commit to start from: a branch, a tag, anything that names one. The current commit if not said.
    pub base: Option<&'a str>,
    /// The branch to work on; `waypost/<name>` if not said.
    pub branch: Option<&'a str>,
    /// How; what suits the source if not said.
    pub strategy: Option<Strategy>,
    /// What the user's environment says about the network.
    pub own: Own,
}

/// A workspace as it will be. Written down before anything is made, it names all that will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What it is called.
    pub name: Name,
    /// How it is made.
    pub strategy: Strategy,
    /// The directory of all workspaces.
    #[serde(with = "path_text::serde")]
    pub workspaces: PathBuf,
    /// The directory to work in.
    #[serde(with = "path_text::serde")]
    pub workspace: PathBuf,
    /// The repository it comes from: the root of its main checkout, else its directory; none if it is elsewhere.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// The checkout that was asked from.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<PathBuf>,
    /// The git directory of the source.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub git_dir: Option<PathBuf>,
    /// The mirror whose objects are borrowed.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<PathBuf>,
    /// The commit it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// What the commit is called where it comes from, if it is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// The branch to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Where the repository is fetched from and pushed to, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The branch that others build on there, and its commit as last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<(String, String)>,
}

impl Plan {
    /// Returns the directory that holds the workspace and its context.
    pub fn home(&self) -> PathBuf {
        self.workspaces.join(self.name.as_str())
    }

    /// Returns the directory for what the job is told and tells.
    pub fn context(&self) -> PathBuf {
        self.home().join("context")
    }

    /// Returns the directory where it lies once it is being deleted.
    pub fn trash(&self) -> PathBuf {
        self.workspaces.join("trash").join(self.name.as_str())
    }

    /// Returns the file that keeps what the set-up command said.
    pub fn setup_log(&self) -> PathBuf {
        self.home().join("setup.log")
    }

    pub(super) fn base(&self) -> Result<&str> {
        self.base.as_deref().ok_or_else(|| Error::internal(format!("workspace {} has no base commit", self.name)))
    }
}

/// What making a workspace may use. Not for showing: there may be a secret in it.
#[derive(Clone, Copy, Default)]
pub struct Means<'a> {
    /// What the user's environment says about the network.
    pub own: Own,
    /// The address of a repository elsewhere, with its secrets, if there are any. It is used and not kept.
    pub url: Option<&'a str>,
}

/// Where the files of a workspace came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// They share their blocks with a template.
    Shared,
    /// They were copied.
    Copied,
    /// The version control checked them out.
    CheckedOut,
    /// They lie under it.
    Overlaid,
    /// They were there before.
    InPlace,
}

/// A workspace that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Which directory it is; none if it is the checkout itself, which is not ours to remove.
    pub identity: Option<Identity>,
    /// The commit it starts from.
    pub base: Option<String>,
    /// How it was made.
    pub strategy: Strategy,
    /// Where its files came from.
    pub files: Files,
    /// What a job in it should know.
    pub notes: Vec<String>,
}

/// A state of a workspace that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What it is called.
    pub id: Name,
    /// How the workspace that comes of it is made.
    pub strategy: Strategy,
    /// The commit that is it, unless it is a copy of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The hash of all its files, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The commit that the workspace was on, if it was on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Where it lies, if it is a copy of files.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "path_text::optional")]
    pub path: Option<PathBuf>,
    /// Branches, tags, stashes, abandoned commits and worktrees beside it that only the workspace had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// What was in the workspace and is not in it: other repositories, or sockets and pipes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What was there before, if that was anything else.
    pub before: Option<Snapshot>,
    /// Branches, tags and stashes that stayed as they are in the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_alone: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t14_names_that_could_lead_elsewhere_are_refused() {
        let long = "a".repeat(65);
        for bad in ["", ".", "..", "../x", "/x", "a/b", "-rf", "a\0b", "A", "ä", "a b", ".hidden", "_a", &long] {
            assert!(Name::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
        for good in ["a", "0", "jb_0123456789ab", "a-b"] {
            assert_eq!(Name::try_from(good.to_owned()).unwrap().as_str(), good);
        }
    }
}
