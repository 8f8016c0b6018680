//! A repository for a coding agent.

use std::path::PathBuf;

use waypost_testkit::Sandbox;

use crate::support::sandbox;

pub(crate) fn repository() -> (Sandbox, PathBuf) {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    (sandbox, repo)
}
