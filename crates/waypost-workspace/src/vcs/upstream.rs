//! The default branch of the project that this repository was cloned or forked from.
//!
//! Contributors who cannot write the project's ledger see there which proposals were accepted. A fetch moves only the
//! remote-tracking ref of that branch.

use std::path::{Path, PathBuf};

use waypost_core::model::Vcs;
use waypost_core::{Error, Kind, Result};

use super::checkout::Checkout;
use super::hg_layout;
use super::history::{History, has_commit, of_mercurial, offline, on_branch};
use super::run::{Git, NetworkOptions, Tool, UPLOAD_PACK, hg, hg_network, sl, sl_network};

/// The names of git remotes that may be the project, in order of precedence.
const PROJECT_REMOTES: &[&str] = &["upstream", "origin"];

/// The same for Mercurial and Sapling.
const PROJECT_PATHS: &[&str] = &["upstream", "default"];

/// Names of default branches to try if the remote's HEAD is unknown.
const DEFAULT_BRANCHES: &[&str] = &["main", "master"];

/// The bookmark, else the branch, that Mercurial checks out in a clone.
const MERCURIAL_HEADS: &[&str] = &["@", "default"];

/// The file that records the project's commit. Mercurial itself does not record the state of remotes.
const UPSTREAM_FILE: &str = "upstream";

/// The project's default branch, as of the last fetch.
pub struct Upstream {
    source: Source,
    revision: String,
}

/// The repository to read from.
enum Source {
    Git { git: Git, git_dir: PathBuf },
    Mercurial(PathBuf),
    Sapling(PathBuf),
}

impl Upstream {
    /// Opens it. None if it was never fetched, or there is no version control.
    pub fn of(checkout: &Checkout) -> Result<Option<Upstream>> {
        match (checkout.vcs, &checkout.root) {
            (Vcs::Hg, Some(root)) => open_mercurial(checkout, root),
            (Vcs::Sl, Some(root)) => open_sapling(checkout, root),
            (Vcs::Git | Vcs::Jj | Vcs::Hg | Vcs::Sl | Vcs::None, _) => open_git(checkout),
        }
    }

    /// Reads a file of the branch. None if there is no such file.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let cat = |tool: Tool| {
            let (rev, path) = (format!("--rev={}", self.revision), format!("path:{path}"));
            tool.args(["cat", &rev, "--", &path]).bytes_or_none()
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

    /// Returns the history of a file on the branch.
    pub fn history(&self, path: &str) -> Result<History> {
        match &self.source {
            Source::Git { git, git_dir } => on_branch(git, git_dir, &self.revision, path),
            Source::Mercurial(root) => of_mercurial(hg(root), &self.revision, path),
            Source::Sapling(root) => of_mercurial(sl(root)?, &self.revision, path),
        }
    }
}

/// The result of a fetch of the project's default branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The branch's name, for display.
    pub name: String,
    /// In a dry run: the commands that would run.
    pub commands: Vec<String>,
}

/// Fetches the project's default branch. None if there is no remote. A dry run only returns the commands.
pub fn fetch(checkout: &Checkout, network: NetworkOptions, dry_run: bool) -> Result<Option<Fetched>> {
    match (checkout.vcs, &checkout.root) {
        (Vcs::Hg, Some(root)) => fetch_mercurial(checkout, root, network, dry_run),
        (Vcs::Sl, Some(root)) => fetch_sapling(checkout, root, network, dry_run),
        (Vcs::Git | Vcs::Jj | Vcs::Hg | Vcs::Sl | Vcs::None, _) => fetch_git(checkout, network, dry_run),
    }
}

fn unreachable(remote: &str, error: &Error) -> Error {
    Error::unavailable(format!("cannot fetch {remote}"))
        .because(error.full_message())
        .hint("try again when the remote is reachable")
}

fn open_git(checkout: &Checkout) -> Result<Option<Upstream>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    let git = Git::of_repository(git_dir)?;
    for remote in PROJECT_REMOTES {
        if let Some(branch) = known_branch(&git, remote)? {
            let revision = format!("refs/remotes/{remote}/{branch}");
            return Ok(Some(Upstream { source: Source::Git { git, git_dir: git_dir.clone() }, revision }));
        }
    }
    Ok(None)
}

fn fetch_git(checkout: &Checkout, network: NetworkOptions, dry_run: bool) -> Result<Option<Fetched>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    let git = Git::of_repository(git_dir)?;
    let remotes = git.command().arg("remote").stdout()?;
    let Some(remote) = PROJECT_REMOTES.iter().find(|known| remotes.lines().any(|name| name == **known)) else {
        return Ok(None);
    };
    let mut branch = known_branch(&git, remote)?;
    if branch.is_none() {
        let ask = git.network(network).args(["ls-remote", "--symref", UPLOAD_PACK, "--", remote, "HEAD"]);
        if dry_run {
            return Ok(Some(Fetched { name: (*remote).to_owned(), commands: vec![ask.line()] }));
        }
        let output = ask.stdout().map_err(|error| unreachable(remote, &error))?;
        let named = output.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
        branch = named.map(str::to_owned);
    }
    // The remote has no commits.
    let Some(branch) = branch else { return Ok(None) };
    let fetch = git.fetch(network, remote, &format!("+refs/heads/{branch}:refs/remotes/{remote}/{branch}"));
    let mut fetched = Fetched { name: format!("{remote}/{branch}"), commands: Vec::new() };
    if dry_run {
        fetched.commands.push(fetch.line());
    } else {
        fetch.stdout().map_err(|error| unreachable(remote, &error))?;
    }
    Ok(Some(fetched))
}

/// Returns the default branch of a remote, as far as the remote-tracking refs show it.
fn known_branch(git: &Git, remote: &str) -> Result<Option<String>> {
    let prefix = format!("refs/remotes/{remote}/");
    let head = offline(git).args(["symbolic-ref", "--quiet", &format!("{prefix}HEAD")]).stdout_or_none()?;
    let named = head.as_deref().and_then(|head| head.strip_prefix(&prefix));
    for branch in named.into_iter().chain(DEFAULT_BRANCHES.iter().copied()) {
        if has_commit(git, &format!("{prefix}{branch}"))? {
            return Ok(Some(branch.to_owned()));
        }
    }
    Ok(None)
}

/// Returns the Mercurial or Sapling remote of the project, and the settings that define it.
fn project_path(checkout: &Checkout, root: &Path) -> Result<Option<(&'static str, Vec<String>)>> {
    for name in PROJECT_PATHS {
        if let Some(settings) = hg_layout::remote(checkout, root, name)? {
            let settings = settings.iter().map(|setting| format!("--config={setting}")).collect();
            return Ok(Some((name, settings)));
        }
    }
    Ok(None)
}

fn open_mercurial(checkout: &Checkout, root: &Path) -> Result<Option<Upstream>> {
    let recorded = std::fs::read_to_string(checkout.private_dir.join(UPSTREAM_FILE)).unwrap_or_default();
    let revision = recorded.trim_end();
    let is_node = revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    // The commit may have been stripped.
    if !is_node || !hg(root).args(["log", &format!("--rev={revision}")]).succeeds()? {
        return Ok(None);
    }
    Ok(Some(Upstream { source: Source::Mercurial(root.to_owned()), revision: revision.to_owned() }))
}

fn fetch_mercurial(
    checkout: &Checkout,
    root: &Path,
    network: NetworkOptions,
    dry_run: bool,
) -> Result<Option<Fetched>> {
    let Some((remote, settings)) = project_path(checkout, root)? else { return Ok(None) };
    let network_tool = || hg_network(root, network).args(&settings);
    let identify =
        |branch: &str| network_tool().args(["identify", "--template={id}", &format!("--rev={branch}"), remote]);
    let pull = |tip: &str| network_tool().args(["pull", "--quiet", &format!("--rev={tip}"), remote]);
    if dry_run {
        let asked = MERCURIAL_HEADS.iter().map(|branch| identify(branch).line());
        let commands = asked.chain([pull("COMMIT").line()]).collect();
        return Ok(Some(Fetched { name: remote.to_owned(), commands }));
    }
    for branch in MERCURIAL_HEADS {
        let tip = match identify(branch).stdout() {
            Ok(tip) => tip,
            Err(error) if error.kind() == Kind::Unavailable => return Err(unreachable(remote, &error)),
            // There may be no such branch.
            Err(_) => continue,
        };
        pull(&tip).stdout().map_err(|error| unreachable(remote, &error))?;
        let file = checkout.private_dir.join(UPSTREAM_FILE);
        checkout.private_dir.create()?;
        waypost_fs::replace(&file, format!("{tip}\n").as_bytes(), 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))?;
        return Ok(Some(Fetched { name: format!("{remote}/{branch}"), commands: Vec::new() }));
    }
    // The remote answers but has no commits.
    network_tool().args(["identify", remote]).stdout().map(|_| None).map_err(|error| unreachable(remote, &error))
}

/// Finds the remote bookmark in a list: a lookup by name would make Sapling pull a name that it does not know.
fn open_sapling(checkout: &Checkout, root: &Path) -> Result<Option<Upstream>> {
    let Some((remote, _)) = project_path(checkout, root)? else { return Ok(None) };
    // Sapling lists the default path as "remote".
    let remote = if remote == "default" { "remote" } else { remote };
    let listed = ["log", "--rev=remotebookmark()", r"--template={node} {remotebookmarks}\n"];
    let listed = sl(root)?.args(listed).stdout()?;
    let config = hg_layout::own_config(checkout, root);
    let followed = config.get("remotenames.selectivepulldefault").unwrap_or_default();
    let followed = followed.split([',', ' ']).filter(|branch| !branch.is_empty());
    for branch in followed.chain(DEFAULT_BRANCHES.iter().copied()) {
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

fn fetch_sapling(checkout: &Checkout, root: &Path, network: NetworkOptions, dry_run: bool) -> Result<Option<Fetched>> {
    let Some((remote, settings)) = project_path(checkout, root)? else { return Ok(None) };
    let pull = sl_network(root, network)?.args(settings).args(["pull", "--quiet", remote]);
    let mut fetched = Fetched { name: remote.to_owned(), commands: Vec::new() };
    if dry_run {
        fetched.commands.push(pull.line());
    } else {
        pull.stdout().map_err(|error| unreachable(remote, &error))?;
    }
    Ok(Some(fetched))
}
