//! Repositories with a ledger.

use std::path::PathBuf;

use waypost_testkit::Sandbox;

use crate::support::ledger::LEDGER;

pub(crate) fn repo_with(sandbox: &Sandbox, name: &str, ledger: &str) -> PathBuf {
    let repo = sandbox.git_repo(name);
    sandbox.dir(format!("{name}/.waypost"));
    sandbox.write(repo.join(LEDGER), ledger);
    repo
}
