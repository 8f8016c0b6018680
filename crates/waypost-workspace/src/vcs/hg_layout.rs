//! How Mercurial and Sapling lay out a repository on disk.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text, url_text};
use waypost_fs::{read_permitted_small_file, read_small_file};

use super::checkout::Checkout;
use super::config_file::ConfigFile;
use super::probe::if_present;

/// URL schemes that start no program of the repository's choice.
const ALLOWED_SCHEMES: &[&str] = &["file", "http", "https", "ssh"];

/// Opens the checkout whose `.hg` or `.sl` is in `dir`, if there is one.
pub(crate) fn open(dir: &Path) -> Result<Option<Checkout>> {
    for (vcs, name) in [(Vcs::Hg, ".hg"), (Vcs::Sl, ".sl")] {
        let own = dir.join(name);
        if if_present(&own, own.symlink_metadata())?.is_some_and(|metadata| metadata.is_dir()) {
            return read(vcs, dir, &own).map(Some);
        }
    }
    Ok(None)
}

/// Returns settings that define a remote, for commands that skip the repository's configuration. None if there is no
/// such remote.
pub(crate) fn remote(checkout: &Checkout, root: &Path, name: &str) -> Result<Option<Vec<String>>> {
    let config = own_config(checkout, root);
    let key = format!("paths.{name}");
    let Some(path) = config.get(&key).filter(|path| !path.is_empty()) else { return Ok(None) };
    let push = config.get(&format!("{key}:pushurl")).or_else(|| config.get(&format!("{key}-push")));
    let mut settings = vec![format!("{key}={path}")];
    settings.extend(push.map(|push| format!("{key}:pushurl={push}")));
    for url in std::iter::once(path).chain(push) {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| !ALLOWED_SCHEMES.contains(&scheme)) || url.chars().any(char::is_control) {
            return Err(Error::refused(format!("the remote {url:?} is not reached by file, http, https or ssh"))
                .hint(format!("set another {name} path in [paths]")));
        }
    }
    Ok(Some(settings))
}

/// Returns the repository's configuration, overridden by the worktree's.
pub(crate) fn own_config(checkout: &Checkout, root: &Path) -> ConfigFile {
    let (dir, name) = if checkout.vcs == Vcs::Sl { (".sl", "config") } else { (".hg", "hgrc") };
    ConfigFile::read(&checkout.shared_dir.join(name)).merged_with(ConfigFile::read(&root.join(dir).join(name)))
}

/// Returns the name of `ui.username`, without its address; the repository's configuration overrides the user's.
pub(crate) fn user_name(checkout: &Checkout, home: Option<&Path>) -> Option<String> {
    let names: &[&str] = match checkout.vcs {
        Vcs::Sl => &[".config/sapling/sapling.conf", ".sapling/sapling.conf", ".slrc"],
        _ => &[".config/hg/hgrc", ".hgrc"],
    };
    let files = home.into_iter().flat_map(|home| names.iter().map(|name| home.join(name)));
    let users = files.fold(ConfigFile::default(), |config, file| config.merged_with(ConfigFile::of_user(&file)));
    let config = match &checkout.root {
        Some(root) => users.merged_with(own_config(checkout, root)),
        None => users,
    };
    let name = config.get("ui.username")?;
    let name = name.split_once('<').map_or(name, |(name, _)| name).trim();
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

fn read(vcs: Vcs, root: &Path, own: &Path) -> Result<Checkout> {
    let file = own.join("sharedpath");
    let shared_dir = match read_permitted_small_file(&file)? {
        Some(content) => follow_shared_path(own, &content)?,
        None => own.to_owned(),
    };
    let config_name = if vcs == Vcs::Hg { "hgrc" } else { "config" };
    let config = ConfigFile::load(&shared_dir.join(config_name))?;
    Ok(Checkout {
        vcs,
        root: Some(root.to_owned()),
        main_root: shared_dir.parent().map(Path::to_owned),
        git_dir: None,
        private_dir: shared_dir.join("waypost").into(),
        worktree_private_dir: own.join("waypost"),
        name: path_text::name_of(root),
        branch: branch(vcs, own),
        remote_url: config.get("paths.default").map(url_text::without_password),
        default_branch: (vcs == Vcs::Hg).then(|| "default".to_owned()),
        git_config: Arc::default(),
        shared_dir,
    })
}

/// Returns the shared directory that a share's `sharedpath` points to.
fn follow_shared_path(own: &Path, content: &[u8]) -> Result<PathBuf> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    let target = own.join(OsStr::from_bytes(content));
    std::fs::canonicalize(&target).map_err(|error| {
        Error::unavailable(format!("{} points to a repository that does not exist", own.join("sharedpath").display()))
            .because(error)
            .hint("if the repository was moved, write its new path into that file")
    })
}

/// Returns the active bookmark, else Mercurial's named branch.
fn branch(vcs: Vcs, own: &Path) -> Option<String> {
    let line = |file: &str| {
        let text = read_small_file(&own.join(file)).ok()??;
        Some(String::from_utf8(text).ok()?.trim_end().to_owned()).filter(|name| !name.is_empty())
    };
    line("bookmarks.current").or_else(|| {
        // Mercurial writes the file only for branches other than default.
        (vcs == Vcs::Hg).then(|| line("branch").unwrap_or_else(|| "default".to_owned()))
    })
}
