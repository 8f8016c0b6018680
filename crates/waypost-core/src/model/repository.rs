//! A project under version control, or without any.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::RepositoryId;
use crate::path_text;

/// One repository, as it was when last seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repository {
    /// Made once, kept in the repository's private state: survives a move.
    pub id: RepositoryId,
    /// The last component of its path.
    pub name: String,
    /// Its main worktree; the version control directory itself if it has none.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// What manages it.
    pub vcs: Vcs,
    /// Where it is fetched from, without any password.
    pub remote_url: Option<String>,
    /// The branch others build on, as far as that is known offline.
    pub default_branch: Option<String>,
}

/// A version control system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Vcs {
    /// Git.
    Git,
    /// Jujutsu.
    Jj,
    /// Mercurial.
    Hg,
    /// Sapling.
    Sl,
    /// A directory without version control.
    None,
}

impl Vcs {
    /// All of them.
    pub const ALL: [Vcs; 5] = [Vcs::Git, Vcs::Jj, Vcs::Hg, Vcs::Sl, Vcs::None];

    /// Returns the name, as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Vcs::Git => "git",
            Vcs::Jj => "jj",
            Vcs::Hg => "hg",
            Vcs::Sl => "sl",
            Vcs::None => "none",
        }
    }
}

impl fmt::Display for Vcs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Vcs {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Vcs::ALL
            .into_iter()
            .find(|vcs| vcs.as_str() == text)
            .ok_or_else(|| Error::invalid(format!("{text:?} is not a version control system we know")))
    }
}
