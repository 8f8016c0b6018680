//! Checks the configuration in a Sapling repository.
//!
//! Unlike Mercurial, Sapling always reads the repository's own configuration, which may name programs: hooks,
//! extensions, editors, merge tools. So Waypost runs Sapling only if every setting is known to be harmless.

use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};
use waypost_fs::read_small_file;

use super::hg_layout;

/// Sections whose settings are all harmless.
const HARMLESS_SECTIONS: &[&str] = &["color", "hint", "paths", "remotenames"];

/// Harmless settings of other sections.
const HARMLESS_SETTINGS: &[(&str, &str)] = &[("remotefilelog", "reponame"), ("ui", "username")];

/// Refuses a repository whose own configuration could run a program.
pub(crate) fn check(root: &Path) -> Result<()> {
    for dir in dirs(root)? {
        let file = dir.join("config");
        let Some(bytes) = read_small_file(&file)? else { continue };
        if let Some(setting) = dangerous(&String::from_utf8_lossy(&bytes)) {
            return Err(Error::refused(format!(
                "{} sets {setting:?}, which may make Sapling run a program",
                file.display()
            ))
            .hint("if you trust it, move the setting to your own configuration: sl config --user"));
        }
    }
    Ok(())
}

/// Returns the git repository that stores the commits, if there is one.
pub(crate) fn git_dir(root: &Path) -> Result<Option<PathBuf>> {
    use std::os::unix::ffi::OsStrExt as _;
    for dir in dirs(root)? {
        let store = dir.join("store");
        if let Some(named) = read_small_file(&store.join("gitdir"))? {
            return Ok(Some(store.join(std::ffi::OsStr::from_bytes(named.trim_ascii_end()))));
        }
    }
    Ok(None)
}

/// Returns the worktree's own directory and the shared one.
fn dirs(root: &Path) -> Result<Vec<PathBuf>> {
    let own = root.join(".sl");
    let shared = hg_layout::open(root)?.map(|checkout| checkout.shared_dir);
    Ok(std::iter::once(own.clone()).chain(shared.filter(|shared| *shared != own)).collect())
}

/// Returns the first line that is not known to be harmless. A line that parsers may read in two ways is not.
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
        // A line that begins with a space may continue the line before it, depending on the parser.
        let name = line.split_once('=').map(|(name, _)| name.trim_end());
        let name = name.filter(|name| is_name(name) && !is_odd);
        let is_harmless = name
            .is_some_and(|name| HARMLESS_SECTIONS.contains(&section) || HARMLESS_SETTINGS.contains(&(section, name)));
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
    fn settings_that_sapling_writes_are_harmless() {
        let text = "# example\n\n; more\r\n[paths]\ndefault = https://example.org/r\ndefault-push=ssh://x\n  \n\
                    [remotenames]\nselectivepulldefault = main\n[ui]\nusername = A <a@b>\n[remotefilelog]\nreponame = r\n";
        assert_eq!(dangerous(text), None);
    }

    #[test]
    fn any_other_setting_is_dangerous() {
        for (text, setting) in [
            ("[hooks]\npre-commit = x", "hooks.pre-commit"),
            ("[extensions]\nevil = ./evil.py", "extensions.evil"),
            ("[ui]\nusername = a\nssh = x", "ui.ssh"),
            ("[alias]\npull = !x", "alias.pull"),
            ("[paths]\n%include ../evil", "%include ../evil"),
            ("%include evil", "%include evil"),
            ("[paths]\n%unset default", "%unset default"),
            ("[paths]\ndefault = x\n [hooks]\n", "[hooks]"),
            ("[paths]\ndefault = x\n evil", "evil"),
            ("[hooks] ; on one line\nx = y", "[hooks] ; on one line"),
            ("[paths]\ndefault = x\r[hooks]\rcommit = y", "default = x\r[hooks]\rcommit = y"),
            ("[paths]\ndefault = x\u{b}", "default = x\u{b}"),
            ("default = x", ".default"),
            ("[PATHS]\ndefault = x", "PATHS.default"),
            ("[merge-tools]\nx.executable = y", "merge-tools.x.executable"),
        ] {
            let found = dangerous(text);
            assert_eq!(found.as_deref(), Some(setting.trim()), "{text:?}");
        }
    }
}
