//! The files of a setup, with pending changes. They are written together, after all of them were checked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use waypost_core::{Error, Result};
use waypost_fs::Replaced;

/// A file that an agent reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentFile {
    /// The path as shown: relative to the worktree, or to the home directory.
    pub(super) shown: String,
    /// The path, before symlinks are followed.
    pub(super) path: PathBuf,
    /// The directory that the file must not leave: the root of the worktree. None for a file of the user.
    pub(super) root: Option<PathBuf>,
}

/// Files with pending changes.
#[derive(Default)]
pub(super) struct Files(BTreeMap<PathBuf, PendingFile>);

struct PendingFile {
    file: AgentFile,
    target: PathBuf,
    seen: waypost_fs::FileVersion,
    text: Option<String>,
    is_changed: bool,
}

/// Says that a file cannot be used as it is.
pub(super) fn unreadable(file: &AgentFile, error: Error) -> Error {
    error.within(&file.shown).hint("nothing was changed; fix the file or move it away, then try again")
}

fn changed_error(shown: &str) -> Error {
    Error::conflict(format!("another program changed {shown} meanwhile")).hint("try again")
}

impl Files {
    /// Returns the text of a file, pending changes included. None if it does not exist.
    pub(super) fn read(&mut self, file: &AgentFile) -> Result<Option<String>> {
        if let Some(known) = self.0.get(&file.path) {
            return Ok(known.text.clone());
        }
        let target = file.real_path()?;
        let cannot = |error| Error::unavailable(format!("cannot read {}", file.shown)).because(error);
        let (bytes, seen) = waypost_fs::read_version(&target).map_err(cannot)?;
        let text = seen.exists().then(|| String::from_utf8(bytes)).transpose();
        let text = text.map_err(|error| unreadable(file, Error::invalid("not UTF-8 text").because(error)))?;
        let pending = PendingFile { file: file.clone(), target, seen, text: text.clone(), is_changed: false };
        self.0.insert(file.path.clone(), pending);
        Ok(text)
    }

    /// Sets the text of a file that was read. None deletes it.
    pub(super) fn change(&mut self, file: &AgentFile, text: Option<String>) {
        if let Some(known) = self.0.get_mut(&file.path) {
            (known.text, known.is_changed) = (text, true);
        }
    }

    /// Writes the changes.
    pub(super) fn write(self) -> Result<()> {
        for pending in self.0.values().filter(|pending| pending.is_changed) {
            let shown = &pending.file.shown;
            let cannot = |error| Error::unavailable(format!("cannot write {shown}")).because(error);
            if pending.file.real_path()? != pending.target {
                return Err(changed_error(shown));
            }
            let Some(text) = &pending.text else {
                pending.delete().map_err(cannot)?;
                continue;
            };
            if let Some(parent) = pending.target.parent() {
                std::fs::create_dir_all(parent).map_err(cannot)?;
            }
            match waypost_fs::replace_if_unchanged(&pending.seen, &[text.as_bytes()], pending.new_mode())
                .map_err(cannot)?
            {
                Replaced::Done(_) => {}
                Replaced::Changed => return Err(changed_error(shown)),
                Replaced::Unsynced(error) => {
                    let problem = format!("{shown} is written, but a power cut may undo it");
                    return Err(Error::unavailable(problem).because(error).hint("check the disk, then try again"));
                }
            }
        }
        Ok(())
    }
}

impl PendingFile {
    /// Returns the mode of a new file. Agents keep secrets in files of the user.
    fn new_mode(&self) -> u32 {
        if self.file.root.is_some() { 0o644 } else { 0o600 }
    }

    /// Deletes a file, and the directories of the worktree that become empty.
    fn delete(&self) -> std::io::Result<()> {
        match std::fs::remove_file(&self.target) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let Some(root) = &self.file.root else { return Ok(()) };
        let root = std::fs::canonicalize(root)?;
        for dir in self.target.ancestors().skip(1).take_while(|dir| *dir != root && dir.starts_with(&root)) {
            if std::fs::remove_dir(dir).is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl AgentFile {
    /// Returns the path after symlinks. Those of a repository must not make Waypost write outside of it, nor into what belongs
    /// to version control or to Waypost; those of the user, whose settings may be kept elsewhere, are followed.
    pub(super) fn real_path(&self) -> Result<PathBuf> {
        let shown = &self.shown;
        let Some(root) = &self.root else {
            return match std::fs::canonicalize(&self.path) {
                Err(_) if self.path.is_symlink() => {
                    Err(Error::refused(format!("{shown} is a symlink to nothing"))
                        .hint("replace the symlink with a file"))
                }
                Err(_) => Ok(self.path.clone()),
                Ok(real) => Ok(real),
            };
        };
        let refused =
            |why: &str| Error::refused(format!("{shown} {why}")).hint("replace the symlink with a file or directory");
        let root = std::fs::canonicalize(root).map_err(|error| refused("cannot be found").because(error))?;
        let below = self.path.strip_prefix(self.root.as_deref().unwrap_or(&root)).unwrap_or(Path::new(shown));
        inside(&root, below).map_err(refused)
    }
}

/// Maximum number of symlinks on one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Directories of version control and of Waypost.
const FORBIDDEN: [&str; 7] = [".git", ".jj", ".hg", ".sl", ".svn", ".bzr", ".waypost"];

/// Resolves a path below a root, one component after the other. Links are read here, and the kernel follows none: so each name on
/// the way is seen. Fails with the end of a sentence.
fn inside(root: &Path, path: &Path) -> std::result::Result<PathBuf, &'static str> {
    const OUT: &str = "is a symlink that leads out of the repository";
    const FOREIGN: &str = "is a symlink into a directory of version control or of Waypost";
    let parts = |path: &Path, is_of_link: bool| -> Vec<(OsString, bool)> {
        let parts = path.components().rev().filter(|part| *part != Component::CurDir);
        parts.map(|part| (part.as_os_str().to_owned(), is_of_link)).collect()
    };
    // What is left to resolve, the next component last, and whether a link names it.
    let mut rest = parts(path, false);
    let (mut real, mut links) = (root.to_owned(), 0);
    while let Some((part, is_of_link)) = rest.pop() {
        if part == ".." {
            if real == root {
                return Err(OUT);
            }
            real.pop();
            continue;
        }
        if FORBIDDEN.iter().any(|name| part.eq_ignore_ascii_case(name)) {
            return Err(FOREIGN);
        }
        let next = real.join(&part);
        let is_last = rest.is_empty();
        match std::fs::symlink_metadata(&next).map(|found| found.file_type()) {
            Ok(kind) if kind.is_symlink() => {
                links += 1;
                let target = std::fs::read_link(&next).map_err(|_| OUT)?;
                let target = if target.is_absolute() {
                    root.clone_into(&mut real);
                    target.strip_prefix(root).map_err(|_| OUT)?.to_owned()
                } else {
                    target
                };
                if links > MAX_LINKS {
                    return Err("is a symlink to itself");
                }
                rest.extend(parts(&target, true));
                continue;
            }
            Ok(kind) if kind.is_dir() && is_git_dir(&next) => return Err(FOREIGN),
            Ok(kind) if kind.is_dir() && !is_last => {}
            Ok(kind) if kind.is_file() && is_last => {}
            Ok(_) => return Err("is not a regular file"),
            // What the path names may be new; what a link names must exist.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_of_link => {}
            Err(_) => return Err("is a symlink to nothing"),
        }
        real = next;
    }
    Ok(real)
}

/// Returns whether a directory is that of a git repository, whatever its name.
fn is_git_dir(dir: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| dir.join(name).exists())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A worktree with directories of version control, one of which has another name.
    fn worktree() -> (impl Sized, PathBuf) {
        let dir = waypost_testkit::temp_dir();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        for name in [".git/hooks", ".jj/repo", ".waypost", "docs", "lib/.git", "store/objects", "store/refs"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in [".git/config", ".waypost/issues.jsonl", "store/HEAD", "store/config", "docs/agents.md"] {
            std::fs::File::create(root.join(name)).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn no_link_of_a_repository_leads_out_of_it_or_into_version_control() {
        let (_dir, root) = worktree();
        symlink(".git", root.join("alias")).unwrap();
        symlink("docs", root.join("docs-alias")).unwrap();
        let absolute = root.join(".git/config");
        for target in [
            ".git/config",
            ".git/hooks/post-checkout",
            ".git",
            "./docs/../.git/config",
            "docs-alias/../.git/config",
            "alias/config",
            "alias/hooks/../config",
            ".GIT/config",
            "lib/.git/config",
            "store/config",
            ".jj/repo",
            ".waypost/issues.jsonl",
            absolute.to_str().unwrap(),
            "/etc/passwd",
            "../outside",
            "docs/../../outside",
            "nowhere",
            "nowhere/../docs/agents.md",
            "AGENTS.md",
            "docs",
        ] {
            let link = root.join("AGENTS.md");
            symlink(target, &link).unwrap();
            let found = inside(&root, Path::new("AGENTS.md"));
            assert!(found.is_err(), "{target}: {found:?}");
            std::fs::remove_file(&link).unwrap();
            // A directory of the path is the link.
            symlink(target, root.join(".cursor")).unwrap();
            let found = inside(&root, Path::new(".cursor/rules/way.md"));
            assert!(found.is_err() || target == "docs", "{target}: {found:?}");
            std::fs::remove_file(root.join(".cursor")).unwrap();
        }
    }

    #[test]
    fn links_to_other_files_and_directories_of_the_repository_are_followed() {
        let (_dir, root) = worktree();
        symlink("docs/agents.md", root.join("AGENTS.md")).unwrap();
        symlink(root.join("AGENTS.md"), root.join("CLAUDE.md")).unwrap();
        symlink("./docs/", root.join(".cursor")).unwrap();
        let docs = root.join("docs");
        assert_eq!(inside(&root, Path::new("AGENTS.md")), Ok(docs.join("agents.md")));
        assert_eq!(inside(&root, Path::new("CLAUDE.md")), Ok(docs.join("agents.md")));
        assert_eq!(inside(&root, Path::new(".cursor/rules/way.md")), Ok(docs.join("rules/way.md")));
        assert_eq!(inside(&root, Path::new(".claude/settings.json")), Ok(root.join(".claude/settings.json")));
    }

    #[test]
    fn a_file_that_is_not_regular_is_refused() {
        let (_dir, root) = worktree();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("AGENTS.md"), rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(inside(&root, Path::new("AGENTS.md")), Err("is not a regular file"));
        assert_eq!(inside(&root, Path::new("docs/agents.md/x")), Err("is not a regular file"));
    }
}
