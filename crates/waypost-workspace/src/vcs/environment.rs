//! The variables that decide which repository git finds.

use std::path::PathBuf;

/// What the environment says about finding a repository.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `GIT_DIR`.
    pub git_dir: Option<PathBuf>,
    /// `GIT_COMMON_DIR`.
    pub git_common_dir: Option<PathBuf>,
    /// `GIT_WORK_TREE`.
    pub git_work_tree: Option<PathBuf>,
    /// `GIT_CEILING_DIRECTORIES`: directories the search does not rise above.
    pub ceilings: Vec<PathBuf>,
    /// The user's own Waypost directory, which is not a repository although it may be called `.waypost`.
    pub home: Option<PathBuf>,
}
