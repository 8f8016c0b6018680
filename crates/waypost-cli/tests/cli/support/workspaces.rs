//! The content of workspaces.

use std::fs;
use std::path::Path;

use crate::support::jobs::Shop;

/// Everything of a tree that is not ignored, by name and content.
pub(crate) fn tree(shop: &Shop, workspace: &Path) -> String {
    shop.sandbox.git(workspace, ["stash", "create", "--include-untracked"]);
    let listed = shop.sandbox.git(workspace, ["ls-files", "--cached", "--others", "--exclude-standard"]);
    let content = |name: &str| fs::read(workspace.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let lines: Vec<_> = listed.lines().map(|name| format!("{name}: {:?}", content(name).ok())).collect();
    lines.join("\n")
}
