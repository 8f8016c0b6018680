//! Resolves where the store, the ledger and the configuration are, and why. Every command uses this resolver.
//!
//! Resolving reads a few small files. It starts no process and creates nothing.

mod ledger_home;
mod resolve;
mod store_choice;
mod trust;
mod workspace;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::redact::Secrets;
use waypost_core::{Error, Result};
use waypost_workspace::{Checkout, repository_id, worktree_id};

pub use ledger_home::LedgerHome;
pub(crate) use ledger_home::{LEDGERS, is_in_dolt, ledger_in, separate_ledger};
#[cfg(feature = "import")]
pub(crate) use resolve::vcs_environment;
pub use store_choice::{Location, STORE_FILE, Scope, StoreChoice};
pub use workspace::InWorkspace;
pub(crate) use workspace::Located;

use crate::machine::config::{Config, Files, Layer};
use crate::machine::environment::{Variables, WAYPOST_AGENT, WAYPOST_DB};

/// The name of the Waypost directory in a worktree.
pub const DOT_DIR: &str = ".waypost";

/// The flags and the environment that decide the place.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The directory to start from.
    pub cwd: PathBuf,
    /// The environment.
    pub variables: Variables,
    /// `--db`.
    pub db: Option<OsString>,
    /// `--scope`, or global for `--global`, with the flag that the caller used.
    pub scope: Option<(Scope, &'static str)>,
    /// `--config KEY=VALUE`, in order.
    pub config: Vec<String>,
    /// `--actor`.
    pub actor: Option<String>,
    /// `--agent`.
    pub agent: Option<String>,
}

/// The reason for a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// `flag`, `env`, `workspace`, `config` or `default`.
    pub source: &'static str,
    /// The flag, the variable, the file, or the rule in words.
    pub because: String,
}

impl Source {
    fn new(source: &'static str, because: impl Into<String>) -> Self {
        Source { source, because: because.into() }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            "default" => write!(f, "default: {}", self.because),
            "config" => write!(f, "configured in {}", self.because),
            "workspace" => write!(f, "recorded for the {}", self.because),
            _ => write!(f, "from {}", self.because),
        }
    }
}

/// The locations of everything, resolved from one directory.
#[derive(Clone, Debug)]
pub struct Place {
    /// The directory that the caller runs in.
    pub cwd: PathBuf,
    /// The environment.
    pub variables: Variables,
    /// The user's Waypost directory, if there is one.
    pub home: Option<(PathBuf, Source)>,
    /// The checkout that contains `cwd`, if any. In a workspace it is the owner's, as long as that can be reached.
    pub checkout: Option<Checkout>,
    /// Whether the issues of beads are being taken over: the ledger is our own even if beads has one.
    pub takes_over: bool,
    /// The workspace that contains `cwd`, if any.
    pub workspace: Option<InWorkspace>,
    /// The worktree that holds the ledger and the shared configuration, if any.
    pub home_worktree: Option<PathBuf>,
    /// The files of the configuration.
    pub files: Files,
    /// The configuration.
    pub config: Config,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    request: Request,
    /// Whether the store's file must exist already: see [`Place::with_existing_store`].
    needs_existing_store: bool,
    /// Whether callers may name only configured repositories: see [`Place::for_remote_callers`].
    is_for_remote_callers: bool,
}

impl Place {
    /// Returns a private directory for temporary copies.
    pub fn scratch_dir(&self) -> PathBuf {
        match (&self.checkout, &self.home) {
            (Some(checkout), _) => checkout.private_dir.to_path_buf(),
            (None, Some((home, _))) => home.clone(),
            (None, None) => self.cwd.clone(),
        }
    }

    /// Returns the `--config` flags of this command, so that processes it starts get the same ones.
    pub fn config_flags(&self) -> &[String] {
        &self.request.config
    }

    /// Returns the directory of workspaces. None without a setting and a home directory.
    pub fn workspaces(&self) -> Result<Option<(PathBuf, Source)>> {
        match self.config.text("workspaces.path") {
            Some(text) => {
                let root = self.home_worktree.as_deref().unwrap_or(&self.cwd);
                let path = expand(OsStr::new(&text), root, &self.variables)?;
                Ok(Some((path, self.source_of("workspaces.path", ""))))
            }
            None => Ok(self.in_home("workspaces")),
        }
    }

    /// Returns the user's Waypost directory, if there is one.
    pub(crate) fn user_dir(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|(path, _)| path.clone())
    }

    /// Returns a path in the user's Waypost directory, if there is one.
    pub fn in_home(&self, name: &str) -> Option<(PathBuf, Source)> {
        self.home.as_ref().map(|(path, source)| (path.join(name), source.clone()))
    }

    /// Returns the author of writes: the one that flags or the environment name, else the version control's user, else the
    /// machine's user.
    pub fn actor(&self) -> String {
        let flag = |name: &Option<String>| name.clone().filter(|name| !name.trim().is_empty());
        let named =
            flag(&self.request.actor).or_else(|| flag(&self.request.agent)).or_else(|| self.variables.named_actor());
        let vcs_user =
            || self.checkout.as_ref().and_then(|checkout| checkout.user_name(self.variables.home().as_deref()));
        named.or_else(vcs_user).unwrap_or_else(|| self.variables.user())
    }

    /// Returns the agent that claims work and sends messages, if the caller named one.
    pub fn agent(&self) -> Option<String> {
        let named = self.request.agent.clone().or_else(|| self.variables.text(WAYPOST_AGENT));
        named.filter(|name| !name.trim().is_empty())
    }

    /// Returns the same place for a server. Its callers name configured repositories, by id or name. A path would let them
    /// use every directory of the server's user.
    #[must_use]
    pub fn for_remote_callers(&self) -> Place {
        Place { is_for_remote_callers: true, ..self.clone() }
    }

    /// Returns the values that no log and no record may contain: those of the variables that `redact.env` names.
    pub fn secrets(&self) -> Secrets {
        Secrets::new(self.config.list("redact.env").iter().filter_map(|name| self.variables.text(name)))
    }

    /// Returns whether callers may name only configured repositories.
    pub(crate) fn is_for_remote_callers(&self) -> bool {
        self.is_for_remote_callers
    }

    /// Returns the same place with another author.
    #[must_use]
    pub fn in_name_of(&self, actor: &str) -> Place {
        let request = Request { actor: Some(actor.to_owned()), ..self.request.clone() };
        Place { request, ..self.clone() }
    }

    /// Returns the same place with another author, and with this agent or none.
    #[must_use]
    pub fn used_by(&self, actor: &str, agent: Option<&str>) -> Place {
        let mut place = self.in_name_of(actor);
        place.request.agent = agent.map(str::to_owned);
        place.variables = place.variables.without(WAYPOST_AGENT);
        place
    }

    /// Returns the repository's id, if it has one yet.
    pub fn repository_id(&self) -> Result<Option<RepositoryId>> {
        if let Some((repository, _)) = self.unreachable_owner_ids() {
            return Ok(Some(repository));
        }
        self.checkout.as_ref().map_or(Ok(None), |checkout| repository_id(&checkout.private_dir))
    }

    /// Returns the worktree's id, if it has one yet.
    pub fn worktree_id(&self) -> Result<Option<WorktreeId>> {
        if let Some((_, worktree)) = self.unreachable_owner_ids() {
            return Ok(Some(worktree));
        }
        self.checkout.as_ref().map_or(Ok(None), |checkout| worktree_id(&checkout.worktree_private_dir))
    }

    /// Returns the checkout, or an error that explains how to work without one.
    pub fn require_checkout(&self) -> Result<&Checkout> {
        self.checkout.as_ref().ok_or_else(|| self.outside_repository_error())
    }

    fn source_of(&self, key: &str, default: &str) -> Source {
        match self.config.get(key) {
            Some(setting) if setting.layer == Layer::Environment => Source::new("env", setting.origin),
            Some(setting) if setting.layer == Layer::Flag => Source::new("flag", setting.origin),
            Some(setting) if setting.layer == Layer::Workspace => Source::new("workspace", setting.origin),
            Some(setting) if setting.layer != Layer::Default => Source::new("config", setting.origin),
            _ => Source::new("default", default),
        }
    }

    fn outside_repository_error(&self) -> Error {
        Error::invalid(format!("{} is not in a repository", self.cwd.display()))
            .hint("change into one, or create one here: way init")
            .hint(format!("or name a store: --global, --db PATH, or {WAYPOST_DB}=PATH"))
    }
}

/// Returns an absolute path: `~` is the home directory, relative means relative to `cwd`.
pub fn expand(path: impl AsRef<OsStr>, cwd: &Path, variables: &Variables) -> Result<PathBuf> {
    let path = Path::new(path.as_ref());
    match path.strip_prefix("~") {
        Ok(rest) => match variables.home() {
            // Joining an empty path would append a slash.
            Some(home) if rest.as_os_str().is_empty() => Ok(cwd.join(home)),
            Some(home) => Ok(cwd.join(home).join(rest)),
            None => Err(Error::invalid(format!("{} needs a home directory", path.display())).hint("set HOME")),
        },
        Err(_) => Ok(cwd.join(path)),
    }
}
