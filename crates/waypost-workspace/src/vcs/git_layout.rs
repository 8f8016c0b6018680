//! How git lays out a repository on disk: git directories, linked worktrees, submodules, bare repositories.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waypost_core::ledger::role::Remote;
use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text, url_text};
use waypost_fs::{PrivateDir, read_permitted_small_file, read_small_file};

use super::checkout::{Checkout, ListedWorktree};
use super::config_file::ConfigFile;
use super::environment::Environment;
use super::probe::if_present;

/// Operations that git has begun and not finished: the entry it keeps in a worktree's git directory, what to call the
/// operation, and the command that ends it.
pub(crate) const OPERATIONS_IN_PROGRESS: &[(&str, &str, &str)] = &[
    ("rebase-merge", "a rebase", "git rebase --continue or --abort"),
    ("rebase-apply", "a rebase", "git rebase --continue or --abort"),
    ("MERGE_HEAD", "a merge", "git merge --continue or --abort"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick --continue or --abort"),
    ("REVERT_HEAD", "a revert", "git revert --continue or --abort"),
    ("BISECT_LOG", "a bisection", "git bisect reset"),
];

/// Opens the checkout whose `.git` is in `dir`, if there is one. The path of `dir` has no links.
pub(crate) fn open(dir: &Path) -> Result<Option<Checkout>> {
    let dot_git = dir.join(".git");
    let Some(metadata) = if_present(&dot_git, std::fs::metadata(&dot_git))? else {
        return Ok(None);
    };
    let git_dir = if metadata.is_dir() {
        // As git does, skip a `.git` directory that is empty or not a repository.
        if !is_git_dir(&dot_git)? {
            return Ok(None);
        }
        if dot_git.is_symlink() { canonical(&dot_git)? } else { dot_git }
    } else {
        canonical(&follow_git_file(&dot_git)?)?
    };
    let layout = Layout::read(git_dir, None)?;
    let root = if layout.is_linked() || layout.main_work_tree().is_none() {
        Some(dir.to_owned())
    } else {
        layout.main_work_tree()
    };
    if let (Some(tree), Some(root)) = (layout.config.get("core.worktree").filter(|_| !layout.is_linked()), &root)
        && !canonical(dir)?.starts_with(root)
    {
        // Git runs no command on files here either. It would be another directory whose ledger is read and written.
        return Err(Error::refused(format!(
            "the git repository in {} has core.worktree = {tree}, which does not contain it",
            dir.display()
        ))
        .hint("if you did not set it, check where the repository comes from")
        .hint("otherwise run the command in that worktree, or: git config --unset core.worktree"));
    }
    Ok(Some(layout.checkout(if layout.is_bare_here() { None } else { root })))
}

/// Returns the list of the files that git tracks in the worktree at `root`. None if it cannot be found.
pub(crate) fn index(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    let git_dir = if dot_git.is_dir() { dot_git } else { follow_git_file(&dot_git).ok()? };
    Some(git_dir.join("index"))
}

/// Where a worktree and its repository are.
pub(crate) struct Located {
    /// The directory that contains `.git`.
    pub(crate) root: PathBuf,
    /// The git directory of the worktree.
    pub(crate) git_dir: PathBuf,
    /// The git directory that all worktrees share.
    pub(crate) common_dir: PathBuf,
}

/// Finds the worktree that contains a directory, without its configuration.
pub(crate) fn locate(dir: &Path) -> Result<Located> {
    for root in canonical(dir)?.ancestors() {
        let dot_git = root.join(".git");
        let git_dir = match if_present(&dot_git, std::fs::metadata(&dot_git))? {
            Some(found) if found.is_dir() && is_git_dir(&dot_git)? => canonical(&dot_git)?,
            Some(found) if !found.is_dir() => canonical(&follow_git_file(&dot_git)?)?,
            _ => continue,
        };
        let common_dir = common_dir(&git_dir)?;
        return Ok(Located { root: root.to_owned(), git_dir, common_dir });
    }
    Err(Error::unavailable(format!("there is no git repository at {}", dir.display())))
}

/// Returns the git directory that all worktrees share, from that of one of them.
pub(crate) fn common_dir(git_dir: &Path) -> Result<PathBuf> {
    match read_small_file(&git_dir.join("commondir"))? {
        Some(content) => canonical(&git_dir.join(path_in(&content))),
        None => Ok(git_dir.to_owned()),
    }
}

/// Opens the bare repository at `dir`.
pub(crate) fn open_bare(dir: &Path) -> Result<Checkout> {
    let layout = Layout::read(canonical(dir)?, None)?;
    let root = if layout.is_linked() { layout.linked_root() } else { layout.main_work_tree() };
    Ok(layout.checkout(root))
}

/// Opens the repository that `GIT_DIR` and related variables name, as git does for hooks and scripts.
pub(crate) fn from_environment(start: &Path, git_dir: &Path, environment: &Environment) -> Result<Checkout> {
    let named = start.join(git_dir);
    let git_dir = if named.is_file() { follow_git_file(&named)? } else { named };
    if !is_git_dir(&git_dir)? {
        return Err(Error::invalid(format!("GIT_DIR is {}, which is not a git repository", git_dir.display())));
    }
    let layout = Layout::read(
        canonical(&git_dir)?,
        environment.git_common_dir.as_deref().map(|dir| start.join(dir)).as_deref(),
    )?;
    let root = if let Some(tree) = &environment.git_work_tree {
        Some(canonical(&start.join(tree))?)
    } else if layout.is_linked() {
        layout.linked_root()
    } else if layout.is_bare_here() {
        None
    } else {
        // Git uses the current directory as the root. The repository's own work tree is more accurate, if it has one.
        layout.main_work_tree().or_else(|| Some(start.to_owned()))
    };
    Ok(layout.checkout(root))
}

/// Returns whether a directory is a git directory, by the same entries that git checks.
pub(crate) fn is_git_dir(dir: &Path) -> Result<bool> {
    let head = dir.join("HEAD");
    let has = |name: &str, fits: fn(&Metadata) -> bool| {
        let path = dir.join(name);
        Ok(if_present(&path, path.metadata())?.is_some_and(|metadata| fits(&metadata)))
    };
    Ok(if_present(&head, head.symlink_metadata())?.is_some()
        && ((has("objects", Metadata::is_dir)? && has("refs", Metadata::is_dir)?)
            || has("commondir", Metadata::is_file)?))
}

/// Returns whether a ref is stored loose, in its own file.
pub(crate) fn has_loose_ref(common_dir: &Path, name: &str) -> Result<bool> {
    let path = common_dir.join(name);
    Ok(read_permitted_small_file(&path)?.is_some())
}

/// Returns whether a repository's configuration names a remote for a branch.
pub(crate) fn names_remote(common_dir: &Path, branch: &str) -> Result<bool> {
    let config = ConfigFile::load(&common_dir.join("config"))?;
    Ok(["remote.origin.url", &format!("branch.{branch}.remote")].iter().any(|key| config.get(key).is_some()))
}

/// Lists the main worktree and the linked ones.
pub(crate) fn worktrees(common_dir: &Path, main_root: Option<&Path>) -> Vec<ListedWorktree> {
    let mut listed: Vec<ListedWorktree> = std::fs::read_dir(common_dir.join("worktrees"))
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let git_dir = entry.ok()?.path();
            let path = linked_root(&git_dir)?;
            // In a copied repository the entries point to the worktrees of the original.
            let is_foreign =
                follow_git_file(&path.join(".git")).is_ok_and(|back| canonical(&back).ok() != canonical(&git_dir).ok());
            (!is_foreign).then(|| ListedWorktree {
                name: path_text::name_of(&git_dir),
                path,
                branch: branch(&git_dir),
                private_dir: git_dir.join("waypost"),
            })
        })
        .collect();
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(root) = main_root {
        listed.insert(
            0,
            ListedWorktree {
                name: path_text::name_of(root),
                path: root.to_owned(),
                branch: branch(common_dir),
                private_dir: common_dir.join("waypost"),
            },
        );
    }
    listed
}

/// Returns the branch that a git directory is on, or was on before a rebase in progress.
pub(crate) fn branch(git_dir: &Path) -> Option<String> {
    let named = |file: &str, prefix: &str| {
        let content = read_small_file(&git_dir.join(file)).ok()??;
        let name = content.trim_ascii_end().strip_prefix(prefix.as_bytes())?;
        // With reftable, HEAD is a placeholder, and only git knows the branch.
        (name != b".invalid").then(|| String::from_utf8_lossy(name).into_owned())
    };
    named("HEAD", "ref: refs/heads/")
        .or_else(|| named("rebase-merge/head-name", "refs/heads/"))
        .or_else(|| named("rebase-apply/head-name", "refs/heads/"))
}

/// Returns the remote's default branch, if git recorded it.
pub(crate) fn default_branch(common_dir: &Path) -> Option<String> {
    let head = read_small_file(&common_dir.join("refs/remotes/origin/HEAD")).ok()??;
    let name = head.trim_ascii_end().strip_prefix(b"ref: refs/remotes/origin/")?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Returns the URL of the remote `origin`, without a password.
pub(crate) fn remote_url(config: &ConfigFile) -> Option<String> {
    config.get("remote.origin.url").map(url_text::without_password)
}

/// Returns the remotes that a configuration names. Their URLs may contain passwords.
pub(crate) fn remotes(config: &ConfigFile) -> Vec<Remote> {
    let text = |key: String| config.get(&key).map(str::to_owned);
    let remote = |name: &str| {
        let url = text(format!("remote.{name}.url"))?;
        Some(Remote { name: name.to_owned(), url, push_url: text(format!("remote.{name}.pushurl")) })
    };
    config.names("remote.", ".url").into_iter().filter_map(remote).collect()
}

/// Returns the value of a key; the repository's configuration overrides the user's.
pub(crate) fn setting(common_dir: &Path, home: Option<&Path>, key: &str) -> Option<String> {
    let own = home.map(|home| [home.join(".config/git/config"), home.join(".gitconfig")]);
    let files = own.into_iter().flatten();
    let users = files.fold(ConfigFile::default(), |config, file| config.merged_with(ConfigFile::of_user(&file)));
    users.merged_with(ConfigFile::read(&common_dir.join("config"))).get(key).map(str::to_owned)
}

/// Returns Waypost's private directory in a git repository. Before jj and git shared the main worktree, it was in jj's.
fn private_dir(common_dir: &Path, main_root: Option<&Path>) -> PrivateDir {
    PrivateDir::from(common_dir.join("waypost")).with_former(main_root.map(|root| root.join(".jj/repo/waypost")))
}

struct Layout {
    /// The git directory of this worktree.
    git_dir: PathBuf,
    /// The git directory that all worktrees share.
    common_dir: PathBuf,
    /// The configuration of the main worktree.
    config: Arc<ConfigFile>,
}

impl Layout {
    /// Reads the layout of a directory that [`is_git_dir`], whose path has no links.
    fn read(git_dir: PathBuf, common_dir: Option<&Path>) -> Result<Layout> {
        let file = git_dir.join("commondir");
        let common_dir = match (common_dir, read_permitted_small_file(&file)?) {
            (Some(named), _) => canonical(named)?,
            (None, Some(content)) => canonical(&git_dir.join(path_in(&content)))?,
            (None, None) => git_dir.clone(),
        };
        let mut config = ConfigFile::load(&common_dir.join("config"))?;
        if config.is_true("extensions.worktreeconfig") {
            config = config.merged_with(ConfigFile::load(&common_dir.join("config.worktree"))?);
        }
        Ok(Layout { git_dir, common_dir, config: config.into() })
    }

    fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    fn is_bare_here(&self) -> bool {
        !self.is_linked() && self.config.is_true("core.bare")
    }

    fn linked_root(&self) -> Option<PathBuf> {
        linked_root(&self.git_dir)
    }

    /// Returns the worktree that belongs to the shared directory itself.
    fn main_work_tree(&self) -> Option<PathBuf> {
        if self.config.is_true("core.bare") {
            None
        } else if let Some(tree) = self.config.get("core.worktree") {
            std::fs::canonicalize(self.common_dir.join(tree)).ok()
        } else if self.common_dir.file_name() == Some(OsStr::new(".git")) {
            self.common_dir.parent().map(Path::to_owned)
        } else {
            None
        }
    }

    fn checkout(&self, root: Option<PathBuf>) -> Checkout {
        let main_root = match &root {
            Some(root) if !self.is_linked() => self.main_work_tree().or_else(|| Some(root.clone())),
            _ => self.main_work_tree(),
        };
        let name = match &root {
            _ if self.is_linked() => path_text::name_of(&self.git_dir),
            Some(root) => path_text::name_of(root),
            None => path_text::name_of(&self.common_dir),
        };
        let default_branch = default_branch(&self.common_dir)
            .or_else(|| if main_root.is_none() { branch(&self.common_dir) } else { None });
        Checkout {
            vcs: Vcs::Git,
            private_dir: private_dir(&self.common_dir, main_root.as_deref()),
            worktree_private_dir: self.git_dir.join("waypost"),
            shared_dir: self.common_dir.clone(),
            git_dir: Some(self.common_dir.clone()),
            // HEAD of a bare repository names a branch that is not checked out.
            branch: root.as_ref().and_then(|_| branch(&self.git_dir)),
            remote_url: remote_url(&self.config),
            default_branch,
            git_config: Arc::clone(&self.config),
            name,
            root,
            main_root,
        }
    }
}

/// Returns the worktree that a linked git directory belongs to. It may not exist any more.
fn linked_root(git_dir: &Path) -> Option<PathBuf> {
    let content = read_small_file(&git_dir.join("gitdir")).ok()??;
    let root = git_dir.join(path_in(&content)).parent()?.to_owned();
    Some(std::fs::canonicalize(&root).unwrap_or(root))
}

/// Returns the git directory that a `.git` file points to.
fn follow_git_file(file: &Path) -> Result<PathBuf> {
    let broken = |why: &str| {
        Error::unavailable(format!("{} {why}", file.display()))
            .hint("if the repository was moved, run: git worktree repair")
    };
    let content = read_small_file(file)?.ok_or_else(|| broken("cannot be read"))?;
    let Some(named) = content.strip_prefix(b"gitdir: ") else {
        return Err(broken("is not a git file"));
    };
    let target = file.parent().unwrap_or(Path::new("/")).join(path_in(named));
    if is_git_dir(&target)? { Ok(target) } else { Err(broken("points to a git directory that does not exist")) }
}

/// Returns the path in a one-line file. Paths may contain newlines, so only the last one is dropped.
fn path_in(content: &[u8]) -> &Path {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    Path::new(OsStr::from_bytes(content.strip_suffix(b"\r").unwrap_or(content)))
}

fn canonical(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path)
        .map_err(|error| Error::unavailable(format!("cannot read {}", path.display())).because(error))
}
