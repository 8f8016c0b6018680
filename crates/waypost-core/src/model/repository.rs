//! Repositories: projects with or without version control.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::RepositoryId;
use crate::path_text;

/// A repository, as it was at its last write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repository {
    /// Its id, generated once and kept in the repository's private state. It survives a move.
    pub id: RepositoryId,
    /// The last component of its path.
    pub name: String,
    /// Its main worktree; the version control directory itself if it has none.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Its version control system.
    pub vcs: Vcs,
    /// The URL it is fetched from, without passwords.
    pub remote_url: Option<String>,
    /// Its default branch, as far as that is known offline.
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
    /// All version control systems.
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
            .ok_or_else(|| Error::invalid(format!("{text:?} is not a known version control system")))
    }
}
