//! The files of a setup, with pending changes. They are written together, after all of them were checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
                Replaced::Changed => {
                    return Err(Error::conflict(format!("another program changed {shown} meanwhile")).hint("try again"));
                }
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
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
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
    /// Returns the path after symlinks. Those of a repository must not make Waypost write outside of it; those of the
    /// user, whose settings may be kept elsewhere, are followed.
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
        let refused = || {
            Error::refused(format!("{shown} is a symlink that leads out of the repository"))
                .hint("replace the symlink with a file or directory")
        };
        let real_root = std::fs::canonicalize(root).map_err(|_| refused())?;
        for existing in self.path.ancestors().take_while(|dir| *dir != root) {
            if !existing.is_symlink() && !existing.exists() {
                continue;
            }
            let real = std::fs::canonicalize(existing).map_err(|_| refused())?;
            if !real.starts_with(&real_root) {
                return Err(refused());
            }
            return Ok(below(&self.path, existing, &real));
        }
        Ok(below(&self.path, root, &real_root))
    }
}

/// Returns a path with its beginning replaced.
fn below(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => to.to_owned(),
    }
}
