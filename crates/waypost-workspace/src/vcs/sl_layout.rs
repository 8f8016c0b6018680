//! What is in a Sapling repository that Sapling itself obeys.
//!
//! Unlike Mercurial, it cannot be told to leave the repository's own configuration unread, and that may name programs:
//! hooks, extensions, editors, merge tools. So only settings that are known to be harmless may be in it.

use std::io;
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};

use super::hg_layout;

/// Sections of which every setting is harmless.
const SECTIONS: &[&str] = &["color", "hint", "paths", "remotenames"];

/// Settings of other sections that are.
const SETTINGS: &[(&str, &str)] = &[("remotefilelog", "reponame"), ("ui", "username")];

/// Refuses a repository whose own configuration could run a program.
pub(crate) fn check(root: &Path) -> Result<()> {
    for dir in dirs(root)? {
        let file = dir.join("config");
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(Error::unavailable(format!("cannot read {}", file.display())).because(error));
            }
        };
        if let Some(what) = dangerous(&String::from_utf8_lossy(&bytes)) {
            return Err(Error::refused(format!("{} has {what:?}, by which Sapling may run a program", file.display()))
                .hint("if you trust it, move it to your own configuration: sl config --user"));
        }
    }
    Ok(())
}

/// Returns the git repository that has the commits, if they are kept in one.
pub(crate) fn git_dir(root: &Path) -> Result<Option<PathBuf>> {
    use std::os::unix::ffi::OsStrExt as _;
    for dir in dirs(root)? {
        let store = dir.join("store");
        if let Ok(named) = std::fs::read(store.join("gitdir")) {
            return Ok(Some(store.join(std::ffi::OsStr::from_bytes(named.trim_ascii_end()))));
        }
    }
    Ok(None)
}

/// Returns the worktree's own directory and the one that it shares with others.
fn dirs(root: &Path) -> Result<Vec<PathBuf>> {
    let own = root.join(".sl");
    let shared = hg_layout::open(root)?.map(|checkout| checkout.shared_dir);
    Ok(std::iter::once(own.clone()).chain(shared.filter(|shared| *shared != own)).collect())
}

/// Finds the first line that is not known to be harmless. What is read in two ways is not.
fn dangerous(text: &str) -> Option<String> {
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_.:".contains(char));
    let mut section = "";
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim_matches([' ', '\t']).is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let is_odd = line.chars().any(|char| char.is_control() && char != '\t');
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.trim_end().strip_suffix(']'))
            && is_name(name)
            && !is_odd
        {
            section = name;
            continue;
        }
        // A line that begins with a space goes on with the one before, or does not.
        let name = line.split_once('=').map(|(name, _)| name.trim_end());
        let name = name.filter(|name| is_name(name) && !is_odd);
        let is_harmless = name.is_some_and(|name| SECTIONS.contains(&section) || SETTINGS.contains(&(section, name)));
        if !is_harmless {
            return Some(name.map_or_else(|| line.trim().to_owned(), |name| format!("{section}.{name}")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sapling_writes_itself_is_harmless() {
        let text = "# example\n\n; more\r\n[paths]\ndefault = https://example.org/r\ndefault-push=ssh://x\n  \n\
                    [remotenames]\nselectivepulldefault = main\n[ui]\nusername = A <a@b>\n[remotefilelog]\nreponame = r\n";
        assert_eq!(dangerous(text), None);
    }

    #[test]
    fn whatever_else_is_said_is_not() {
        for (text, what) in [
            ("[hooks]\npre-commit = x", "hooks.pre-commit"),
            ("[extensions]\nevil = ./evil.py", "extensions.evil"),
            ("[ui]\nusername = a\nssh = x", "ui.ssh"),
            ("[alias]\npull = !x", "alias.pull"),
            ("[paths]\n%include ../evil", "%include ../evil"),
            ("%include evil", "%include evil"),
            ("[paths]\n%unset default", "%unset default"),
            ("[paths]\ndefault = x\n [hooks]\n", "[hooks]"),
            ("[paths]\ndefault = x\n evil", "evil"),
            ("[hooks] ; said on one line\nx = y", "[hooks] ; said on one line"),
            ("[paths]\ndefault = x\r[hooks]\rcommit = y", "default = x\r[hooks]\rcommit = y"),
            ("[paths]\ndefault = x\u{b}", "default = x\u{b}"),
            ("default = x", ".default"),
            ("[PATHS]\ndefault = x", "PATHS.default"),
            ("[merge-tools]\nx.executable = y", "merge-tools.x.executable"),
        ] {
            let found = dangerous(text);
            assert_eq!(found.as_deref(), Some(what.trim()), "{text:?}");
        }
    }
}
