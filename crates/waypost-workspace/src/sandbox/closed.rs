//! Rules for Landlock, which only allows: a directory with something closed in it is allowed entry by entry.

use std::path::{Path, PathBuf};

use super::{Access, Rule};

/// Returns rules that allow the same, except what is closed. An entry that is created or replaced later in a directory above
/// something closed is not allowed.
pub(super) fn without_closed(rules: &[Rule]) -> Vec<Rule> {
    let real = |rule: &Rule| rule.path.canonicalize().unwrap_or_else(|_| rule.path.clone());
    let (closed, open): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(|rule| rule.access == Access::Closed);
    let closed: Vec<PathBuf> = closed.into_iter().map(real).collect();
    let mut allowed = Vec::new();
    for rule in open {
        add(&real(rule), rule.access, &closed, &mut allowed);
    }
    allowed
}

fn add(path: &Path, access: Access, closed: &[PathBuf], allowed: &mut Vec<Rule>) {
    if closed.iter().any(|closed| closed == path) {
        return;
    }
    if !closed.iter().any(|closed| closed.starts_with(path)) {
        allowed.push(Rule { path: path.to_owned(), access });
        return;
    }
    for entry in path.read_dir().into_iter().flatten().flatten() {
        // What a link leads to is allowed by its own name, or not at all.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            add(&entry.path(), access, closed, allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_and_what_leads_to_it_is_allowed_by_no_rule() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        for dir in ["a/private/own", "a/open", "b", "home/.waypost/workspaces/one"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        for (link, target) in [("a/link", "private"), ("a/open/deep", "../private"), ("alias", "a")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let allowed = |rules: &[(&str, Access)]| {
            let rules: Vec<Rule> =
                rules.iter().map(|(path, access)| Rule { path: root.join(path), access: *access }).collect();
            let mut paths: Vec<String> = without_closed(&rules)
                .into_iter()
                .map(|rule| rule.path.strip_prefix(&root).unwrap().to_string_lossy().into_owned())
                .collect();
            paths.sort();
            paths
        };
        let closed = ("a/private", Access::Closed);
        assert_eq!(allowed(&[("a", Access::Read), closed]), ["a/open"]);
        assert_eq!(allowed(&[("", Access::Write), closed]), ["a/open", "b", "home"]);
        // By another name.
        assert_eq!(allowed(&[("alias", Access::Read), closed]), ["a/open"]);
        assert_eq!(allowed(&[("a", Access::Read), ("alias/private", Access::Closed)]), ["a/open"]);
        assert_eq!(allowed(&[("a/private", Access::Read), ("a/link", Access::Read), closed]), [""; 0]);
        // What is named in it stays open: a job's own directories are in the user's.
        let home = ("home/.waypost", Access::Closed);
        assert_eq!(allowed(&[("home/.waypost/workspaces/one", Access::Write), home]), ["home/.waypost/workspaces/one"]);
        assert_eq!(allowed(&[("b", Access::Read), ("missing", Access::Read), closed]), ["b", "missing"]);
    }
}
