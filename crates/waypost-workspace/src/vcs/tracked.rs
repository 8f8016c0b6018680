//! Refuses a version control directory that the history of another tool brought along.
//!
//! Git tracks `.jj`, `.hg` and `.sl` like any directory, Mercurial tracks `.git`, and jj tracks `.hg` and `.sl`. So the authors of
//! a project can put such a directory into each checkout, and change it with each pull: what it points to, and what
//! lies in Waypost's private directory in it.

use std::path::Path;

use rustix::fs::OFlags;
use waypost_core::{Error, Result};

use super::git_layout;
use super::history::tracked_by;
use super::probe::if_present;

/// Larger lists of tracked files are not searched: the tool itself is asked.
const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;

/// The version control directories that another tool may track.
const NAMES: [&str; 4] = [".git", ".hg", ".jj", ".sl"];

/// Refuses a directory if another tool tracks anything in one of its version control directories.
pub(super) fn check_untracked(root: &Path) -> Result<()> {
    for name in NAMES {
        let dir = root.join(name);
        if dir.symlink_metadata().is_err() || !root.ancestors().any(|root| may_track(root, name)) {
            continue;
        }
        if let Some(tool) = tracked_by(&dir)? {
            return Err(Error::refused(format!("{} is tracked by {tool}: it came with the project", dir.display()))
                .because("its authors could direct you to any repository")
                .hint("delete it, and tell the project's maintainers")
                .hint(
                    "if it is yours, let the other tool forget it first, for example: git rm -r --cached DIRECTORY",
                ));
        }
    }
    Ok(())
}

/// Returns whether a repository at this root may track something in a directory of this name. Starts no process: most
/// repositories have a list of tracked files without the name.
fn may_track(root: &Path, name: &str) -> bool {
    let is_there = |path: &str| root.join(path).symlink_metadata().is_ok();
    let by_git = || is_there(".git") && git_layout::index(root).is_none_or(|index| may_name(&index, name));
    let by_hg = || {
        let lists = root.join(".hg").read_dir().into_iter().flatten().flatten();
        let mut lists = lists.filter(|file| file.file_name().to_string_lossy().starts_with("dirstate"));
        lists.any(|list| may_name(&list.path(), name))
    };
    match name {
        ".git" => by_hg(),
        ".jj" => by_git() || by_hg(),
        ".hg" => by_git() || is_there(".jj/repo"),
        _ => by_git() || by_hg() || is_there(".jj/repo"),
    }
}

/// Returns whether a list of tracked files may have a path with a directory of this name.
fn may_name(list: &Path, name: &str) -> bool {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(list);
    let Ok(Some(file)) = if_present(list, file) else { return list.symlink_metadata().is_ok() };
    let mut bytes = Vec::new();
    let is_read = file.metadata().is_ok_and(|found| found.is_file())
        && file.take(MAX_LIST_BYTES).read_to_end(&mut bytes).is_ok_and(|read| (read as u64) < MAX_LIST_BYTES);
    if !is_read {
        return true;
    }
    // In these forms an index does not have every path as a whole: version 4, a split index and a sparse one.
    let is_index = bytes.starts_with(b"DIRC");
    let is_version_4 = is_index && bytes.get(4..8) == Some(&[0, 0, 0, 4]);
    bytes.make_ascii_lowercase();
    let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|part| part == wanted);
    is_version_4 || has(format!("{name}/").as_bytes()) || (is_index && (has(b"link") || has(b"sdir")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_may_have_the_name_is_recognized() {
        let dir = waypost_testkit::temp_dir();
        let list = dir.path().join("index");
        let may = |content: &[u8]| {
            waypost_fs::replace(&list, content, 0o600).unwrap();
            may_name(&list, ".jj")
        };
        assert!(!may(b"DIRC\0\0\0\x02 file .jjx/file sub/.j"));
        for content in [
            &b"DIRC\0\0\0\x02 .jj/repo"[..],
            b"DIRC\0\0\0\x03 sub/.JJ/repo",
            b"DIRC\0\0\0\x04 file",
            b"DIRC\0\0\0\x02 file link\0\0",
            b"DIRC\0\0\0\x02 file sdir\0\0",
            b".jj/repo",
        ] {
            assert!(may(content), "{content:?}");
        }
        assert!(!may_name(&dir.path().join("missing"), ".jj"));
        assert!(may_name(dir.path(), ".jj"), "no list");
    }
}
