//! How jj lays out a repository on disk, with and without a colocated git repository.
//!
//! A repository that jj and git share is one repository: a command must find the same state from a jj workspace and
//! from a git worktree. The state is in the git directory then, which both can find, and which jj keeps when colocation
//! is switched on or off.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text};

use super::checkout::{Checkout, ListedWorktree};
use super::config_file::ConfigFile;
use super::probe::if_present;
use super::{git_layout, identity};

/// Opens the checkout whose `.jj` is in `dir`, if there is one.
pub(crate) fn open(dir: &Path) -> Result<Option<Checkout>> {
    let dot_jj = dir.join(".jj");
    let repo = dot_jj.join("repo");
    let Some(metadata) = if_present(&repo, std::fs::metadata(&repo))? else {
        return Ok(None);
    };
    let is_main = metadata.is_dir();
    let shared_dir = if is_main { repo } else { follow_repo_file(&dot_jj, &repo)? };
    let main_root = shared_dir.parent().and_then(Path::parent).map(Path::to_owned);
    let git_dir = git_target(&shared_dir);
    let colocated = main_root.as_deref().is_some_and(|root| git_dir.as_deref() == Some(&root.join(".git")));

    let in_jj = shared_dir.join("waypost");
    let in_git = git_dir.as_deref().map(|dir| dir.join("waypost"));
    let private_dir = match &in_git {
        Some(in_git) if colocated => git_layout::first_existing(in_git, &in_jj),
        Some(in_git) => git_layout::first_existing(&in_jj, in_git),
        None => in_jj,
    };
    let own = dot_jj.join("waypost");
    let worktree_private_dir = match in_git {
        // The main workspace of a colocated repository is also git's main worktree: one directory, one id.
        Some(in_git) if is_main && (colocated || identity::has_worktree_id(&in_git)) => {
            if identity::has_worktree_id(&own) { own } else { in_git }
        }
        _ => own,
    };
    let config = git_dir.as_deref().map(|dir| ConfigFile::load(&dir.join("config"))).transpose()?.unwrap_or_default();
    Ok(Some(Checkout {
        vcs: Vcs::Jj,
        root: Some(dir.to_owned()),
        main_root,
        private_dir: private_dir.into(),
        worktree_private_dir,
        name: workspace_name(&dot_jj).unwrap_or_else(|| path_text::name_of(dir)),
        branch: None,
        remote_url: git_layout::remote_url(&config),
        default_branch: git_dir.as_deref().and_then(git_layout::default_branch),
        git_config: config.into(),
        shared_dir,
        git_dir,
    }))
}

/// Lists the workspaces that jj has on record.
pub(crate) fn workspaces(shared_dir: &Path) -> Vec<ListedWorktree> {
    let Ok(index) = std::fs::read(shared_dir.join("workspace_store/index")) else {
        return Vec::new();
    };
    let mut listed: Vec<ListedWorktree> = fields(&index)
        .filter(|(number, _)| *number == 1)
        .filter_map(|(_, workspace)| {
            let text = |tag| fields(workspace).find(|(number, _)| *number == tag).map(|(_, bytes)| bytes);
            let path = shared_dir.join(Path::new(OsStr::from_bytes(text(2)?)));
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            let private_dir = match open(&path) {
                Ok(Some(checkout)) => checkout.worktree_private_dir,
                _ => path.join(".jj/waypost"),
            };
            Some(ListedWorktree {
                name: String::from_utf8_lossy(text(1)?).into_owned(),
                path,
                branch: None,
                private_dir,
            })
        })
        .collect();
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    listed
}

/// Returns the name that jj writes into commits; the repository's configuration overrides the user's.
pub(crate) fn user_name(shared_dir: &Path, home: Option<&Path>) -> Option<String> {
    let mut files = Vec::new();
    if let Some(home) = home {
        let dir = home.join(".config/jj");
        files.extend([home.join(".jjconfig.toml"), dir.join("config.toml")]);
        let parts = std::fs::read_dir(dir.join("conf.d")).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut parts: Vec<PathBuf> = parts.filter(|path| path.extension() == Some(OsStr::new("toml"))).collect();
        parts.sort();
        files.append(&mut parts);
        // The configuration of a repository is among the user's files. Older versions kept it in the repository.
        let id = std::fs::read_to_string(shared_dir.join("config-id")).unwrap_or_default();
        if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            files.push(dir.join("repos").join(id).join("config.toml"));
        }
    }
    files.push(shared_dir.join("config.toml"));
    // A table with plain keys looks the same in TOML.
    let config = files.iter().fold(ConfigFile::default(), |config, file| config.merged_with(ConfigFile::read(file)));
    let name = config.last_of(&["user.name", ".user.name"])?.trim_matches('\'');
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Returns the repository directory that the `.jj/repo` file of a secondary workspace points to.
fn follow_repo_file(dot_jj: &Path, file: &Path) -> Result<PathBuf> {
    let broken = || {
        Error::unavailable(format!("{} points to a repository that does not exist", file.display()))
            .hint("if the repository was moved, write its new path into that file")
    };
    let content = std::fs::read(file).map_err(|error| broken().because(error))?;
    std::fs::canonicalize(dot_jj.join(OsStr::from_bytes(&content))).map_err(|error| broken().because(error))
}

/// Returns the git directory that stores the commits of a jj repository.
fn git_target(shared_dir: &Path) -> Option<PathBuf> {
    let store = shared_dir.join("store");
    let target = std::fs::read(store.join("git_target")).ok()?;
    std::fs::canonicalize(store.join(OsStr::from_bytes(target.trim_ascii_end()))).ok()
}

/// Returns the workspace's name, which jj stores in field 3 of `working_copy/checkout`.
fn workspace_name(dot_jj: &Path) -> Option<String> {
    let checkout = std::fs::read(dot_jj.join("working_copy/checkout")).ok()?;
    let (_, name) = fields(&checkout).find(|(number, _)| *number == 3)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Returns the length-delimited fields of a protocol buffer message. The files read here have no other kind.
fn fields(message: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let (&tag, after) = rest.split_first()?;
        if tag & 0b111 != 2 || tag & 0x80 != 0 {
            return None;
        }
        let mut length = 0_usize;
        let mut body = after;
        for shift in (0..28).step_by(7) {
            let (&byte, after) = body.split_first()?;
            body = after;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let field = body.get(..length)?;
                rest = &body[length..];
                return Some((tag >> 3, field));
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_field_ends_the_list_of_fields() {
        let message = b"\x12\x02ab\x1a\x03xyz";
        assert_eq!(fields(message).collect::<Vec<_>>(), [(2, &b"ab"[..]), (3, &b"xyz"[..])]);
        for end in 0..message.len() {
            assert!(fields(&message[..end]).count() < 2);
        }
        assert_eq!(fields(b"\x12\xff\xff\xff\xff\xff").count(), 0);
    }
}
