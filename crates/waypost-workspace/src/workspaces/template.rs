//! Templates: checked-out trees with their index, from which workspaces are copied.
//!
//! A template is made completely, renamed into place, and never changed. A template of a nearby commit is good enough:
//! git updates the copy. A new one is made only if many files differ.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use waypost_core::{Error, Result};

use super::dirs::remove_if_there;
use super::held_mirror::HeldMirror;
use super::mirror::Mirror;
use super::model::Name;
use crate::vcs::run::Git;

/// If more files differ, a new template is faster than updating the copy.
const MAX_DIFFERING_FILES: usize = 1000;

/// How many templates are kept per repository, besides those in use.
const MAX_UNUSED_TEMPLATES: usize = 2;

/// Settings that make an index valid for a copy of its files, and keep it in one file.
pub(super) const INDEX_SETTINGS: [(&str, &str); 4] = [
    // A copy has other inodes and change times. Git compares size and modification time in seconds instead.
    ("core.checkStat", "minimal"),
    ("core.trustctime", "false"),
    ("core.splitIndex", "false"),
    ("core.untrackedCache", "false"),
];

/// The checked-out tree of a commit.
pub(super) struct Template {
    dir: PathBuf,
    pub(super) commit: String,
}

impl Template {
    pub(super) fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    pub(super) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// Removes a workspace's mark from it.
    pub(super) fn leave(&self, name: &Name) {
        // A mark that stays only costs disk space.
        let _ = std::fs::remove_file(self.mark(name));
    }

    /// Marks it as used by a workspace, so that it is not removed.
    fn enter(&self, name: &Name) -> Result<()> {
        let mark = self.mark(name);
        std::fs::File::create(&mark).map(drop).map_err(|error| cannot_write(&mark, &error))
    }

    fn mark(&self, name: &Name) -> PathBuf {
        self.dir.join("users").join(name.as_str())
    }

    fn is_used(&self) -> bool {
        // If the marks cannot be read, the template is kept.
        self.dir.join("users").read_dir().map_or(true, |mut users| users.next().is_some())
    }
}

/// Returns a template of a commit or of a nearby one, and marks it as used. The workspace must call
/// [`Template::leave`].
pub(super) fn find_or_create(held: &HeldMirror, commit: &str, name: &Name) -> Result<Template> {
    let mirror = held.mirror();
    let known = all(mirror);
    let exact = known.iter().position(|template| template.commit == commit);
    let found = match exact {
        Some(place) => Some(place),
        None => known.iter().position(|template| is_near(mirror, &template.commit, commit)),
    };
    let template = match found {
        Some(place) => known.into_iter().nth(place),
        None => None,
    };
    let template = match template {
        Some(template) => template,
        None => create(mirror, commit)?,
    };
    template.enter(name)?;
    Ok(template)
}

/// Removes a workspace's marks from all templates.
pub(super) fn leave_all(mirror: &Mirror, name: &Name) {
    for template in all(mirror) {
        template.leave(name);
    }
}

/// Lists the templates, newest first.
fn all(mirror: &Mirror) -> Vec<Template> {
    let entries = mirror.templates().read_dir().into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, Template)> = entries
        .filter_map(|entry| {
            let commit = entry.file_name().into_string().ok()?;
            let made = entry.path().join("index").metadata().and_then(|index| index.modified()).ok()?;
            let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_commit.then(|| (made, Template { dir: entry.path(), commit }))
        })
        .collect();
    found.sort_by_key(|(made, _)| std::cmp::Reverse(*made));
    found.into_iter().map(|(_, template)| template).collect()
}

fn is_near(mirror: &Mirror, one: &str, other: &str) -> bool {
    let compare = ["diff-tree", "-r", "--name-only", "-z", one, other];
    let differing = mirror.git().and_then(|git| git.command().args(compare).bytes());
    differing.is_ok_and(|paths| paths.split(|byte| *byte == 0).count() <= MAX_DIFFERING_FILES + 1)
}

fn create(mirror: &Mirror, commit: &str) -> Result<Template> {
    let dir = mirror.templates();
    let new = dir.join("new");
    // An interrupted process left it: this one holds the lock.
    remove_if_there(&new)?;
    for inner in ["tree", "users"] {
        let inner = new.join(inner);
        std::fs::create_dir_all(&inner).map_err(|error| cannot_write(&inner, &error))?;
    }
    let mut git = Git::of_linked_worktree(&new.join("tree"), mirror.path())?.with_setting("checkout.workers", "0");
    for (key, value) in INDEX_SETTINGS {
        git = git.with_setting(key, value);
    }
    let checkout = git.command().env("GIT_INDEX_FILE", new.join("index"));
    checkout.args(["read-tree", "--reset", "-u", commit]).stdout()?;
    let template = Template { dir: dir.join(commit), commit: commit.to_owned() };
    // After a power cut, workspaces must not be copied from a template without content.
    waypost_fs::sync_file_system(&new)
        .and_then(|()| std::fs::rename(&new, &template.dir))
        .and_then(|()| waypost_fs::sync_dir(&template.dir))
        .map_err(|error| cannot_write(&template.dir, &error))?;
    mirror.point(&format!("refs/waypost/templates/{commit}"), commit)?;
    retire(mirror);
    Ok(template)
}

/// Removes old templates that are not in use. A failure is harmless, since templates can be made again.
fn retire(mirror: &Mirror) {
    for template in all(mirror).iter().skip(MAX_UNUSED_TEMPLATES).filter(|template| !template.is_used()) {
        let removed = remove_if_there(&template.dir).and_then(|()| {
            let reference = format!("refs/waypost/templates/{}", template.commit);
            mirror.git()?.command().args(["update-ref", "-d", &reference]).stdout()
        });
        if let Err(error) = removed {
            log::debug!("cannot remove the template {}: {}", template.dir.display(), error.full_message());
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(format!("cannot write {}", path.display())).because(error)
}
