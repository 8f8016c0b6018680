//! The environment in which a search for a repository runs.

use std::path::PathBuf;

/// The environment variables that decide which repository git finds.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `GIT_DIR`.
    pub git_dir: Option<PathBuf>,
    /// `GIT_COMMON_DIR`.
    pub git_common_dir: Option<PathBuf>,
    /// `GIT_WORK_TREE`.
    pub git_work_tree: Option<PathBuf>,
    /// `GIT_CEILING_DIRECTORIES`: the search stops below these directories.
    pub ceilings: Vec<PathBuf>,
    /// The user's Waypost directory, which has the keys of private directories.
    pub user_dir: Option<PathBuf>,
    /// The user's own Waypost directory, which is not a repository although it may be called `.waypost`.
    pub homes: Vec<PathBuf>,
}
