//! The default branch of the project that a repository is a clone or a fork of.
//!
//! Whoever does not write the project's ledger reads there what became of proposals. Of the user's refs the one that
//! follows that branch is moved, as by any fetch, and no other.

use std::path::{Path, PathBuf};

use waypost_core::model::Vcs;
use waypost_core::{Error, Kind, Result};
use waypost_fs::create_private_dir;

use super::checkout::Checkout;
use super::hg_layout;
use super::history::{History, has_commit, of_mercurial, offline, on_branch};
use super::run::{Git, Own, Tool, UPLOAD, hg, hg_network, sl, sl_network};

/// Which remotes are the project, the first that is there.
const REMOTES: &[&str] = &["upstream", "origin"];

/// What Mercurial and Sapling call them.
const PATHS: &[&str] = &["upstream", "default"];

/// What default branches are called, where nobody says so.
const BRANCHES: &[&str] = &["main", "master"];

/// What Mercurial checks out of a clone: what has this bookmark, else this branch.
const CHECKED_OUT: &[&str] = &["@", "default"];

/// The file in which we keep the commit that the project is at. Mercurial itself does not remember what remotes have.
const SEEN: &str = "upstream";

/// The default branch of the project, as far as the last fetch saw it.
pub struct Upstream {
    source: Source,
    revision: String,
}

/// What has it.
enum Source {
    Git { git: Git, git_dir: PathBuf },
    Mercurial(PathBuf),
    Sapling(PathBuf),
}

impl Upstream {
    /// Finds it. None if nothing of it was fetched, or there is no version control.
    pub fn of(checkout: &Checkout) -> Result<Option<Upstream>> {
        match (checkout.vcs, &checkout.root) {
            (Vcs::Hg, Some(root)) => seen_by_mercurial(checkout, root),
            (Vcs::Sl, Some(root)) => seen_by_sapling(checkout, root),
            (Vcs::Git | Vcs::Jj | Vcs::Hg | Vcs::Sl | Vcs::None, _) => seen_by_git(checkout),
        }
    }

    /// Returns what a file says there. None if there is no such file.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let cat = |tool: Tool| {
            let (rev, path) = (format!("--rev={}", self.revision), format!("path:{path}"));
            tool.args(["cat", &rev, "--", &path]).answer_bytes()
        };
        let git = match &self.source {
            Source::Git { git, .. } => git,
            Source::Mercurial(root) => return cat(hg(root)),
            Source::Sapling(root) => return cat(sl(root)?),
        };
        let found = offline(git).args(["ls-tree", "-z", "--full-tree", &self.revision, "--", path]).stdout()?;
        if !found.starts_with("100") {
            return Ok(None);
        }
        offline(git).args(["cat-file", "blob", &format!("{}:{path}", self.revision)]).bytes().map(Some)
    }

    /// Returns what a file was there, at each time.
    pub fn history(&self, path: &str) -> Result<History> {
        match &self.source {
            Source::Git { git, git_dir } => on_branch(git, git_dir, &self.revision, path),
            Source::Mercurial(root) => of_mercurial(hg(root), &self.revision, path),
            Source::Sapling(root) => of_mercurial(sl(root)?, &self.revision, path),
        }
    }
}

/// What a fetch of the project's default branch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// What others call the branch.
    pub name: String,
    /// In a rehearsal: what would be done.
    pub commands: Vec<String>,
}

/// Fetches the project's default branch. None if it has no remote. A rehearsal only says how.
pub fn fetch(checkout: &Checkout, own: Own, is_rehearsal: bool) -> Result<Option<Fetched>> {
    match (checkout.vcs, &checkout.root) {
        (Vcs::Hg, Some(root)) => fetch_by_mercurial(checkout, root, own, is_rehearsal),
        (Vcs::Sl, Some(root)) => fetch_by_sapling(checkout, root, own, is_rehearsal),
        (Vcs::Git | Vcs::Jj | Vcs::Hg | Vcs::Sl | Vcs::None, _) => fetch_by_git(checkout, own, is_rehearsal),
    }
}

fn unreachable(remote: &str, error: &Error) -> Error {
    Error::unavailable(format!("cannot fetch {remote}"))
        .because(error.full_message())
        .hint("try again when it can be reached")
}

fn seen_by_git(checkout: &Checkout) -> Result<Option<Upstream>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    let git = Git::of_repository(git_dir)?;
    for remote in REMOTES {
        if let Some(branch) = known_branch(&git, remote)? {
            let revision = format!("refs/remotes/{remote}/{branch}");
            return Ok(Some(Upstream { source: Source::Git { git, git_dir: git_dir.clone() }, revision }));
        }
    }
    Ok(None)
}

fn fetch_by_git(checkout: &Checkout, own: Own, is_rehearsal: bool) -> Result<Option<Fetched>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    let git = Git::of_repository(git_dir)?;
    let remotes = git.command().arg("remote").stdout()?;
    let Some(remote) = REMOTES.iter().find(|known| remotes.lines().any(|name| name == **known)) else {
        return Ok(None);
    };
    let mut branch = known_branch(&git, remote)?;
    if branch.is_none() {
        let ask = git.network(own).args(["ls-remote", "--symref", UPLOAD, "--", remote, "HEAD"]);
        if is_rehearsal {
            return Ok(Some(Fetched { name: (*remote).to_owned(), commands: vec![ask.line()] }));
        }
        let said = ask.stdout().map_err(|error| unreachable(remote, &error))?;
        let named = said.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
        branch = named.map(str::to_owned);
    }
    // A remote without any commit has nothing to say.
    let Some(branch) = branch else { return Ok(None) };
    let fetch = git.fetch(own, remote, &format!("+refs/heads/{branch}:refs/remotes/{remote}/{branch}"));
    let mut fetched = Fetched { name: format!("{remote}/{branch}"), commands: Vec::new() };
    if is_rehearsal {
        fetched.commands.push(fetch.line());
    } else {
        fetch.stdout().map_err(|error| unreachable(remote, &error))?;
    }
    Ok(Some(fetched))
}

/// Returns which branch of a remote is its default one, as far as its refs here say it.
fn known_branch(git: &Git, remote: &str) -> Result<Option<String>> {
    let prefix = format!("refs/remotes/{remote}/");
    let head = offline(git).args(["symbolic-ref", "--quiet", &format!("{prefix}HEAD")]).answer()?;
    let named = head.as_deref().and_then(|head| head.strip_prefix(&prefix));
    for branch in named.into_iter().chain(BRANCHES.iter().copied()) {
        if has_commit(git, &format!("{prefix}{branch}"))? {
            return Ok(Some(branch.to_owned()));
        }
    }
    Ok(None)
}

/// Returns which remote of Mercurial or Sapling the project is, and the settings that name it.
fn project_path(checkout: &Checkout, root: &Path) -> Result<Option<(&'static str, Vec<String>)>> {
    for name in PATHS {
        if let Some(settings) = hg_layout::remote(checkout, root, name)? {
            let settings = settings.iter().map(|setting| format!("--config={setting}")).collect();
            return Ok(Some((name, settings)));
        }
    }
    Ok(None)
}

fn seen_by_mercurial(checkout: &Checkout, root: &Path) -> Result<Option<Upstream>> {
    let seen = std::fs::read_to_string(checkout.private_dir.join(SEEN)).unwrap_or_default();
    let revision = seen.trim_end();
    let is_node = revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Somebody may have stripped it.
    if !is_node || !hg(root).args(["log", &format!("--rev={revision}")]).succeeds()? {
        return Ok(None);
    }
    Ok(Some(Upstream { source: Source::Mercurial(root.to_owned()), revision: revision.to_owned() }))
}

fn fetch_by_mercurial(checkout: &Checkout, root: &Path, own: Own, is_rehearsal: bool) -> Result<Option<Fetched>> {
    let Some((remote, settings)) = project_path(checkout, root)? else { return Ok(None) };
    let remotely = || hg_network(root, own).args(&settings);
    let identify = |branch: &str| remotely().args(["identify", "--template={id}", &format!("--rev={branch}"), remote]);
    let pull = |tip: &str| remotely().args(["pull", "--quiet", &format!("--rev={tip}"), remote]);
    if is_rehearsal {
        let asked = CHECKED_OUT.iter().map(|branch| identify(branch).line());
        let commands = asked.chain([pull("COMMIT").line()]).collect();
        return Ok(Some(Fetched { name: remote.to_owned(), commands }));
    }
    for branch in CHECKED_OUT {
        let tip = match identify(branch).stdout() {
            Ok(tip) => tip,
            Err(error) if error.kind() == Kind::Unavailable => return Err(unreachable(remote, &error)),
            // There may be no such branch.
            Err(_) => continue,
        };
        pull(&tip).stdout().map_err(|error| unreachable(remote, &error))?;
        let file = checkout.private_dir.join(SEEN);
        create_private_dir(&checkout.private_dir)
            .and_then(|()| waypost_fs::replace(&file, format!("{tip}\n").as_bytes(), 0o600))
            .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))?;
        return Ok(Some(Fetched { name: format!("{remote}/{branch}"), commands: Vec::new() }));
    }
    // One that answers and has no commit has nothing to say.
    remotely().args(["identify", remote]).stdout().map(|_| None).map_err(|error| unreachable(remote, &error))
}

/// Finds the remote's bookmark. It is not asked for by name, because Sapling pulls what it does not know.
fn seen_by_sapling(checkout: &Checkout, root: &Path) -> Result<Option<Upstream>> {
    let Some((remote, _)) = project_path(checkout, root)? else { return Ok(None) };
    // Sapling shows the default one under another name.
    let remote = if remote == "default" { "remote" } else { remote };
    let listed = ["log", "--rev=remotebookmark()", r"--template={node} {remotebookmarks}\n"];
    let listed = sl(root)?.args(listed).stdout()?;
    let config = hg_layout::own_config(checkout, root);
    let followed = config.get("remotenames.selectivepulldefault").unwrap_or_default();
    let followed = followed.split([',', ' ']).filter(|branch| !branch.is_empty());
    for branch in followed.chain(BRANCHES.iter().copied()) {
        let bookmark = format!("{remote}/{branch}");
        let node = listed.lines().find_map(|line| {
            let mut words = line.split(' ');
            let node = words.next()?;
            words.any(|word| word == bookmark).then_some(node)
        });
        if let Some(node) = node {
            let source = Source::Sapling(root.to_owned());
            return Ok(Some(Upstream { source, revision: node.to_owned() }));
        }
    }
    Ok(None)
}

fn fetch_by_sapling(checkout: &Checkout, root: &Path, own: Own, is_rehearsal: bool) -> Result<Option<Fetched>> {
    let Some((remote, settings)) = project_path(checkout, root)? else { return Ok(None) };
    let pull = sl_network(root, own)?.args(settings).args(["pull", "--quiet", remote]);
    let mut fetched = Fetched { name: remote.to_owned(), commands: Vec::new() };
    if is_rehearsal {
        fetched.commands.push(pull.line());
    } else {
        pull.stdout().map_err(|error| unreachable(remote, &error))?;
    }
    Ok(Some(fetched))
}
