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
use waypost_fs::read_small_file;

use super::checkout::{Checkout, ListedWorktree};
use super::config_file::ConfigFile;
use super::probe::if_present;
use super::{git_layout, identity};
use crate::surroundings;

/// Tables of a repository's configuration whose settings are all harmless.
const HARMLESS_TABLES: &[&str] = &["colors", "revset-aliases", "revsets", "template-aliases", "templates", "user"];

/// Harmless settings of other tables.
const HARMLESS_SETTINGS: &[&str] = &[
    "git.abandon-unreachable-commits",
    "git.auto-local-bookmark",
    "git.colocate",
    "git.fetch",
    "git.private-commits",
    "git.push",
    "git.push-bookmark-prefix",
    "snapshot.auto-track",
    "snapshot.max-new-file-size",
];

/// Refuses a repository whose own configuration could make jj run a program.
///
/// Older versions of jj read it there. Newer ones move it to the user's own files, and then obey it.
pub(crate) fn check(dir: &Path) -> Result<()> {
    let Some(root) = dir.ancestors().find(|dir| dir.join(".jj").exists()) else { return Ok(()) };
    let dot_jj = root.join(".jj");
    let repo = dot_jj.join("repo");
    let repo = if repo.is_file() { follow_repo_file(&dot_jj, &repo)? } else { repo };
    let files = ["config.toml", "workspace-config.toml"];
    for file in files.iter().flat_map(|name| [repo.join(name), dot_jj.join(name)]) {
        if is_of_user(&file) {
            continue;
        }
        let Some(bytes) = read_small_file(&file)? else { continue };
        if let Some(setting) = dangerous(&String::from_utf8_lossy(&bytes)) {
            let file = file.display();
            return Err(Error::refused(format!("{file} sets {setting:?}, which may make jj run a program"))
                .hint("if you trust it, move the setting to your own configuration: jj config edit --user"));
        }
    }
    Ok(())
}

/// Returns whether a file is a link to the user's own files, into which jj moves the configuration of a repository.
fn is_of_user(file: &Path) -> bool {
    let own = surroundings::variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let own = own.or_else(|| Some(PathBuf::from(surroundings::variable("HOME")?).join(".config")));
    let own = own.and_then(|own| own.join("jj/repos").canonicalize().ok());
    let target = if file.is_symlink() { file.canonicalize().ok() } else { None };
    own.zip(target).is_some_and(|(own, target)| target.starts_with(own))
}

/// Returns the first line that is not known to be harmless. A line that is not complete in itself is not.
fn dangerous(text: &str) -> Option<String> {
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char));
    let mut table = "";
    for line in text.lines() {
        let line = line.trim_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).filter(|name| is_name(name))
        {
            table = name;
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { return Some(line.to_owned()) };
        let name = name.trim_matches([' ', '\t']);
        let key = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
        let first = key.split('.').next().unwrap_or_default();
        // Names of aliases may be quoted, because they have arguments.
        let is_known = HARMLESS_TABLES.contains(&first) || (is_name(name) && HARMLESS_SETTINGS.contains(&key.as_str()));
        if !is_known || !is_one_value(value.trim_matches([' ', '\t'])) {
            return Some(key);
        }
    }
    None
}

/// Returns whether a text is one simple value, which ends in the same line.
fn is_one_value(text: &str) -> bool {
    let is_plain =
        |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char));
    let is_between = |quote: char| {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        inner.is_some_and(|inner| !inner.contains([quote, '\\']) && !inner.chars().any(char::is_control))
    };
    is_plain(text) || is_between('"') || is_between('\'')
}

/// Opens the checkout whose `.jj` is in `dir`, if there is one. `git` is the one whose `.git` is beside it.
pub(crate) fn open(dir: &Path, git: Option<&Checkout>) -> Result<Option<Checkout>> {
    let dot_jj = dir.join(".jj");
    let repo = dot_jj.join("repo");
    let Some(metadata) = if_present(&repo, std::fs::symlink_metadata(&repo))? else {
        return Ok(None);
    };
    let is_main = metadata.is_dir();
    let shared_dir = if is_main { repo } else { follow_repo_file(&dot_jj, &repo)? };
    let main_root = shared_dir.parent().and_then(Path::parent).map(Path::to_owned);
    let main_git = match &main_root {
        Some(main) if main != dir && git.is_none() => git_layout::open(main)?,
        _ => None,
    };
    let git_dir = git_target(&shared_dir);
    let colocated = main_root.as_deref().is_some_and(|root| git_dir.as_deref() == Some(&root.join(".git")));

    let in_jj = shared_dir.join("waypost");
    let in_git = git_dir.as_deref().map(|dir| dir.join("waypost"));
    let private_dir = match (git.or(main_git.as_ref()), &in_git) {
        (Some(git), _) => git.private_dir.clone(),
        // Jj brings it back when it moves the git repository into its own directory.
        (None, Some(in_git)) if !in_jj.exists() && in_git.exists() => in_git.clone().into(),
        (None, _) => in_jj.into(),
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
        private_dir,
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
    let Ok(Some(index)) = read_small_file(&shared_dir.join("workspace_store/index")) else {
        return Vec::new();
    };
    let mut listed: Vec<ListedWorktree> = fields(&index)
        .filter(|(number, _)| *number == 1)
        .filter_map(|(_, workspace)| {
            let text = |tag| fields(workspace).find(|(number, _)| *number == tag).map(|(_, bytes)| bytes);
            let path = shared_dir.join(Path::new(OsStr::from_bytes(text(2)?)));
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            let private_dir = match git_layout::open(&path).and_then(|git| open(&path, git.as_ref())) {
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
        let id = read_small_file(&shared_dir.join("config-id")).ok().flatten().unwrap_or_default();
        if !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric) {
            files.push(dir.join("repos").join(OsStr::from_bytes(&id)).join("config.toml"));
        }
    }
    // A table with plain keys looks the same in TOML.
    let users = files.iter().fold(ConfigFile::default(), |config, file| config.merged_with(ConfigFile::of_user(file)));
    let config = users.merged_with(ConfigFile::read(&shared_dir.join("config.toml")));
    let name = config.last_of(&["user.name", ".user.name"])?.trim_matches('\'');
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Returns the repository directory that the `.jj/repo` file of a secondary workspace points to.
fn follow_repo_file(dot_jj: &Path, file: &Path) -> Result<PathBuf> {
    let broken = || {
        Error::unavailable(format!("{} points to a repository that does not exist", file.display()))
            .hint("if the repository was moved, write its new path into that file")
    };
    let content = read_small_file(file)?.ok_or_else(broken)?;
    std::fs::canonicalize(dot_jj.join(OsStr::from_bytes(&content))).map_err(|error| broken().because(error))
}

/// Returns the git directory that stores the commits of a jj repository.
fn git_target(shared_dir: &Path) -> Option<PathBuf> {
    let store = shared_dir.join("store");
    let target = read_small_file(&store.join("git_target")).ok()??;
    std::fs::canonicalize(store.join(OsStr::from_bytes(target.trim_ascii_end()))).ok()
}

/// Returns the workspace's name, which jj stores in field 3 of `working_copy/checkout`.
fn workspace_name(dot_jj: &Path) -> Option<String> {
    let checkout = read_small_file(&dot_jj.join("working_copy/checkout")).ok()??;
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
    fn settings_that_jj_may_keep_in_a_repository_are_harmless() {
        let text = "# mine\n[user]\nname = \"A B\"\nemail = 'a@b.test'\n\n[git]\nfetch = \"origin\"\n\
                    [revset-aliases]\n\"trunk()\" = \"main@origin\"\n[snapshot]\nmax-new-file-size = 100000\n";
        assert_eq!(dangerous(text), None);
        assert_eq!(dangerous("user.name = \"A\"\n"), None);
    }

    #[test]
    fn any_other_setting_of_jj_is_dangerous() {
        for text in [
            "[aliases]\nlog = [\"util\", \"exec\", \"--\", \"x\"]",
            "aliases.log = [\"util\"]",
            "\"aliases\".log = [\"util\"]",
            "[fsmonitor]\nbackend = \"watchman\"",
            "ui.editor = 'x'",
            "[user]\nname = \"\"\"\n\"\"\"",
            "[user]\nname = [\n\"x\"\n]",
            "[user]\nname = { x = 1 }",
            "[[user]]\nname = \"x\"",
            "[user] # on one line\nname = \"x\"",
            "[git]\nexecutable-path = \"x\"",
            "[\"git\"]\nexecutable-path = \"x\"",
            "[signing.backends.gpg]\nprogram = \"x\"",
            "[merge-tools.x]\nprogram = \"x\"",
            "[user]\nname = \"a\\u000a\"",
            "[--scope]\nwhen.repositories = [\"/\"]",
        ] {
            assert!(dangerous(text).is_some(), "{text:?}");
        }
    }

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
