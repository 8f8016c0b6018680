//! Resolves where the store, the ledger and the configuration are, and why. Every command uses this resolver.
//!
//! Resolving reads a few small files. It starts no process and creates nothing.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;
use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::redact::Secrets;
use waypost_core::{Error, Result, path_text, url_text};
use waypost_fs::{PrivateDir, read_small_file};
use waypost_workspace::history::tracked_by;
use waypost_workspace::{Checkout, Environment, detect, is_adopted, ledger_branch, repository_id, worktree_id};

use crate::machine::config::{Config, Files, Layer, Value};
use crate::machine::environment::{Variables, WAYPOST_AGENT, WAYPOST_DB, WAYPOST_HOME, WAYPOST_SANDBOX};
use crate::machine::registry::{self, Registration};

/// The name of the Waypost directory in a worktree.
pub const DOT_DIR: &str = ".waypost";
/// The name of a store that has the default path, and of the link to it in a worktree.
pub const STORE_FILE: &str = "state.db";

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

/// The worktrees that share a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All worktrees of a repository.
    Repo,
    /// One worktree, for trials.
    Worktree,
    /// All repositories of a user.
    Global,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Repo => "repo",
            Scope::Worktree => "worktree",
            Scope::Global => "global",
        })
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Scope::Repo, Scope::Worktree, Scope::Global]
            .into_iter()
            .find(|scope| scope.to_string() == text)
            .ok_or_else(|| Error::invalid(format!("{text:?} is not a scope")).hint("it is repo, worktree or global"))
    }
}

/// Where the ledger is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LedgerHome {
    /// Tracked in the main worktree.
    Main,
    /// Tracked in each worktree.
    Branch,
    /// On a branch of its own, whose file is in the private directory.
    Separate,
}

impl fmt::Display for LedgerHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LedgerHome::Main => "main",
            LedgerHome::Branch => "branch",
            LedgerHome::Separate => "separate",
        })
    }
}

impl FromStr for LedgerHome {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [LedgerHome::Main, LedgerHome::Branch, LedgerHome::Separate]
            .into_iter()
            .find(|home| home.to_string() == text)
            .ok_or_else(|| {
                Error::invalid(format!("{text:?} is not a home of a ledger")).hint("it is main, branch or separate")
            })
    }
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

impl Source {
    /// Adds to a rule that it holds for the owner of a workspace.
    #[must_use]
    pub fn of_owner(self, workspace: &InWorkspace) -> Source {
        match self.source {
            "default" => {
                let owner = &workspace.registration.repository.name;
                Source {
                    because: format!("{}, in {owner}, the owner of the {}", self.because, workspace.title()),
                    ..self
                }
            }
            _ => self,
        }
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

/// The chosen store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreChoice {
    /// Its kind and its location.
    pub location: Location,
    /// Its scope; none if the caller named the store itself.
    pub scope: Option<Scope>,
    /// The reason for the choice.
    pub source: Source,
}

/// The kind of a store and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A file.
    Sqlite(PathBuf),
    /// A file for this worktree only. It has no path yet, because the worktree has no id yet.
    UnnamedSqlite,
    /// A PostgreSQL database.
    Postgres(String),
    /// A running `way serve`.
    Server(String),
}

impl Location {
    /// Returns the kind of store.
    pub fn kind(&self) -> &'static str {
        match self {
            Location::Sqlite(_) | Location::UnnamedSqlite => "sqlite",
            Location::Postgres(_) => "postgres",
            Location::Server(_) => "server",
        }
    }
}

/// Shows a path, or a URL without its password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Sqlite(path) => f.write_str(&path_text::to_text(path)),
            Location::UnnamedSqlite => f.write_str("(created on first use)"),
            Location::Postgres(url) | Location::Server(url) => f.write_str(&url_text::without_password(url)),
        }
    }
}

/// A workspace that contains a directory.
#[derive(Clone, Debug)]
pub struct InWorkspace {
    /// Its entry in the user's register.
    pub registration: Registration,
    /// The file of the entry.
    pub file: PathBuf,
    /// The checkout that it is itself, if it has version control or issues.
    pub checkout: Option<Checkout>,
    /// Why its owner cannot be reached. None if it can.
    pub unreachable: Option<String>,
    /// Whether this is in a job's sandbox: the files of the owner can be read, but not its private directory.
    pub is_confined: bool,
}

impl InWorkspace {
    /// Names it in a sentence.
    pub fn title(&self) -> String {
        self.registration.title()
    }

    /// Returns the recorded settings that are in force: those that the owner's files do not have.
    fn settings(&self) -> Vec<(&str, &Value)> {
        let settings = self.registration.settings.iter();
        let in_force = settings.filter(|setting| setting.is_explicit || self.unreachable.is_some());
        in_force.map(|setting| (setting.key.as_str(), &setting.value)).collect()
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

    /// Resolves the place of a directory, as `way` does when it starts there, for a program that embeds the library. Nothing
    /// is written. Variables of git, such as `GIT_DIR`, are not used: they concern the directory of the process.
    ///
    /// ```
    /// use waypost::machine::place::Place;
    ///
    /// # let dir = waypost_testkit::temp_dir();
    /// # let repository = dir.path();
    /// # std::fs::create_dir(repository.join(".waypost"))?;
    /// let place = Place::at(repository)?;
    /// println!("the store is {}", place.store()?.location);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at(path: impl AsRef<Path>) -> Result<Place> {
        Place::at_as(path.as_ref(), None, &Variables::of_process())
    }

    /// Resolves the place of a directory for an author of changes.
    pub(crate) fn at_as(path: &Path, actor: Option<String>, variables: &Variables) -> Result<Place> {
        let cwd = std::fs::canonicalize(path)
            .map_err(|error| Error::not_found(format!("cannot find {}", path.display())).because(error))?;
        let variables = variables.without_git();
        Place::resolve(Request { cwd, variables, db: None, scope: None, config: Vec::new(), actor, agent: None })
    }

    /// Resolves where everything is.
    pub fn resolve(request: Request) -> Result<Place> {
        let Request { cwd, variables, .. } = &request;
        let home = waypost_home(cwd, variables)?;
        let home_dir = home.as_ref().map(|(path, _)| path.as_path());
        home_dir.map_or(Ok(()), check_user_dir)?;
        let Located { checkout, workspace } = locate(cwd, &vcs_environment(variables, home_dir), home_dir, variables)?;
        let home_worktree = checkout.as_ref().and_then(Checkout::home);
        let is_confined = workspace.as_ref().is_some_and(|workspace| workspace.is_confined);
        let files = Files {
            user: home.as_ref().filter(|_| !is_confined).map(|(path, _)| path.join("config.toml")),
            shared: home_worktree.as_ref().map(|root| root.join(DOT_DIR).join("config.toml")),
            private: checkout.as_ref().map(|checkout| checkout.private_dir.join("config.toml")),
        };
        let config = match &workspace {
            Some(workspace) => {
                let (settings, origin) = (workspace.settings(), format!("the {}", workspace.title()));
                Config::load_in_workspace(&files, &settings, &origin, variables, &request.config)?
            }
            None => Config::load(&files, variables, &request.config)?,
        };
        let mut place = Place {
            cwd: cwd.clone(),
            variables: variables.clone(),
            home,
            checkout,
            takes_over: false,
            workspace,
            home_worktree,
            files,
            config,
            warnings: Vec::new(),
            request,
            needs_existing_store: false,
            is_for_remote_callers: false,
        };
        place.warnings.clone_from(&place.config.warnings);
        place.warn_about_unregistered_workspace();
        if place.configured_home() == Some(LedgerHome::Separate)
            && place.checkout.as_ref().is_some_and(|checkout| checkout.git_dir.is_none())
        {
            place.warnings.push(
                "ledger.home is separate, which needs git or jj; the ledger of the main worktree is used instead"
                    .to_owned(),
            );
        }
        if let (None, Some(_), Some((_, flag))) =
            (&place.request.db, variables_db(&place.variables), place.request.scope)
        {
            place.warnings.push(format!("{flag} has no effect, because {WAYPOST_DB} is set and takes precedence"));
        }
        Ok(place)
    }

    /// Accepts the private directory of the repository, although this user's `way` did not create it. Refuses one that came
    /// with the project's files.
    pub fn adopt_private_dir(request: &Request) -> Result<()> {
        let Request { cwd, variables, .. } = request;
        let home = waypost_home(cwd, variables)?;
        let environment = vcs_environment(variables, home.as_ref().map(|(path, _)| path.as_path()));
        let Some(checkout) = detect(cwd, &environment)? else { return Ok(()) };
        check_owner(&checkout)?;
        let dir = checkout.private_dir.or_former();
        if let Some(tool) = tracked_by(dir)? {
            return Err(Error::refused(format!("{} is tracked by {tool}: it came with the project", dir.display()))
                .hint("delete it, and tell the project's maintainers"));
        }
        checkout.private_dir.adopt()
    }

    /// Resolves the place again from another worktree, for the same store.
    pub fn seen_from(&self, root: &Path, choice: &StoreChoice) -> Result<Place> {
        let mut request = self.request.clone();
        root.clone_into(&mut request.cwd);
        request.variables = request.variables.without_git();
        if let (None, Location::Sqlite(path)) = (choice.scope, &choice.location) {
            // The caller may have named it relative to the old directory.
            request.db = Some(path.clone().into());
        }
        Place::resolve(request)
    }

    /// Resolves the place from another directory, with the store that is configured there.
    pub(crate) fn resolved_from(&self, root: &Path) -> Result<Place> {
        let mut request = self.request.clone();
        root.clone_into(&mut request.cwd);
        request.variables = request.variables.without_git();
        Place::resolve(request)
    }

    /// Resolves the place as a command in another directory would, whatever store the caller named, or with this store.
    pub(crate) fn as_in(&self, dir: &Path, store: Option<&str>) -> Result<Place> {
        let mut request = self.request.clone();
        dir.clone_into(&mut request.cwd);
        request.variables = request.variables.without_git().without(WAYPOST_DB);
        request.scope = None;
        request.db = store.map(|store| path_text::from_text(store).into());
        Place::resolve(request)
    }

    /// Returns the `--config` flags of this command, so that processes it starts get the same ones.
    pub fn config_flags(&self) -> &[String] {
        &self.request.config
    }

    /// Resolves the place with another store: that of a scope, or one named by a path or a URL.
    pub fn with_store(&self, named: &str) -> Result<Place> {
        let mut request = self.request.clone();
        (request.db, request.scope) = match named.parse::<Scope>() {
            Ok(scope) => (None, Some((scope, "--to"))),
            Err(_) => (Some(named.into()), None),
        };
        request.variables = request.variables.without(WAYPOST_DB);
        Place::resolve(request)
    }

    /// Chooses the store: `--db`, `WAYPOST_DB`, `--global` or `--scope`, the store of the workspace, `scope` in the
    /// configuration, the default.
    pub fn store(&self) -> Result<StoreChoice> {
        if let Some(named) = &self.request.db {
            let location = self.location(named, "--db")?;
            return Ok(StoreChoice { location, scope: None, source: Source::new("flag", "--db") });
        }
        if let Some(named) = variables_db(&self.variables) {
            let location = self.location(named, WAYPOST_DB)?;
            return Ok(StoreChoice { location, scope: None, source: Source::new("env", WAYPOST_DB) });
        }
        let (scope, source) = if let Some((scope, flag)) = self.request.scope {
            (scope, Source::new("flag", flag))
        } else {
            if let Some(recorded) = self.recorded_store()? {
                return Ok(recorded);
            }
            let (scope, source) = self.configured_scope()?;
            match self.workspace.as_ref().filter(|_| scope != Scope::Global) {
                Some(workspace) => (scope, source.of_owner(workspace)),
                None => (scope, source),
            }
        };
        Ok(StoreChoice { location: self.location_of_scope(scope)?, scope: Some(scope), source })
    }

    /// Returns the store that the configuration of the repository chooses, whatever the caller names.
    pub(crate) fn configured_store(&self) -> Result<Location> {
        self.location_of_scope(self.configured_scope()?.0)
    }

    /// Returns the store that the workspace was created in, unless the configuration of its owner chooses the store.
    fn recorded_store(&self) -> Result<Option<StoreChoice>> {
        let Some(workspace) = &self.workspace else { return Ok(None) };
        let registration = &workspace.registration;
        if registration.is_store_configured && workspace.unreachable.is_none() {
            return Ok(None);
        }
        let named = path_text::from_text(&registration.store);
        let location = self.location(named.as_os_str(), &format!("the {}", workspace.title()))?;
        Ok(Some(StoreChoice { location, scope: None, source: Source::new("workspace", workspace.title()) }))
    }

    /// Returns whether this is in a job's sandbox: the user's Waypost directory and the private directory cannot be read.
    pub fn is_confined(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.is_confined)
    }

    /// Returns the checkout whose files the caller works on: in a workspace that of the workspace itself.
    pub fn work_checkout(&self) -> Result<&Checkout> {
        let inside = self.workspace.as_ref().and_then(|workspace| workspace.checkout.as_ref());
        inside.map_or_else(|| self.require_checkout(), Ok)
    }

    /// Returns the reason why the owner of this workspace cannot be reached.
    pub fn unreachable_owner(&self) -> Option<&str> {
        self.workspace.as_ref().and_then(|workspace| workspace.unreachable.as_deref())
    }

    /// Warns in a workspace that no register names: a moved one, or one that another user directory has.
    fn warn_about_unregistered_workspace(&mut self) {
        if self.workspace.is_none()
            && let Some(checkout) = self.checkout.as_ref().filter(|checkout| is_adopted(&checkout.private_dir))
        {
            let home = self.home.as_ref().map_or_else(String::new, |(home, _)| format!(" in {}", home.display()));
            self.warnings.push(format!(
                "{} was made as a workspace, but is not registered{home}: it is used as a repository of its own",
                checkout.repository_path().display()
            ));
        }
    }

    /// Returns the home that the configuration sets, if it sets one.
    fn configured_home(&self) -> Option<LedgerHome> {
        let setting = self.config.get("ledger.home").filter(|setting| setting.layer != Layer::Default)?;
        setting.value.to_string().parse().ok()
    }

    /// Returns the home of the ledger and the reason for it.
    pub fn ledger_home(&self) -> (LedgerHome, Source) {
        let is_bare = self.checkout.as_ref().is_some_and(|checkout| checkout.main_root.is_none());
        let rule = if is_bare {
            "the repository is bare: the default branch's, else this worktree's"
        } else {
            "the main worktree's"
        };
        let separate = self.checkout.as_ref().filter(|checkout| checkout.git_dir.is_some()).map(separate_ledger);
        match self.configured_home() {
            Some(LedgerHome::Separate) if separate.is_none() => (LedgerHome::Main, Source::new("default", rule)),
            Some(home) => (home, self.source_of("ledger.home", rule)),
            // Branches from before the configuration do not say it.
            None if separate.is_some_and(|ledger| ledger.exists()) => {
                (LedgerHome::Separate, Source::new("default", "this clone keeps the ledger's own branch, waypost"))
            }
            None => (LedgerHome::Main, Source::new("default", rule)),
        }
    }

    /// Returns the ledger's file and the reason for it. An existing beads ledger is used in place.
    pub fn ledger(&self) -> Option<(PathBuf, Source)> {
        let (home, source) = self.ledger_home();
        self.ledger_at(home, source)
    }

    /// Returns the ledger's file in a home that [`Place::ledger_home`] returned, and the reason for it.
    pub(crate) fn ledger_at(&self, home: LedgerHome, source: Source) -> Option<(PathBuf, Source)> {
        let checkout = self.checkout.as_ref()?;
        if let Some(workspace) = self.workspace.as_ref().filter(|workspace| workspace.is_confined) {
            // It may be in the private directory, the rest of which is closed.
            let ledger = workspace.registration.ledger.clone()?;
            return Some((ledger, Source::new("workspace", workspace.title())));
        }
        let root = match home {
            LedgerHome::Separate => return Some((separate_ledger(checkout), source)),
            LedgerHome::Branch => checkout.root.clone()?,
            LedgerHome::Main => self.home_worktree.clone()?,
        };
        let source = match &self.workspace {
            Some(workspace) if workspace.unreachable.is_some() => Source::new("workspace", workspace.title()),
            Some(workspace) => source.of_owner(workspace),
            None => source,
        };
        match ledger_in(&root) {
            (_, true) if self.takes_over && is_in_dolt(&root) => Some((own_ledger(&root), source)),
            (beads, true) => Some((beads, Source::new("default", "an existing beads ledger, used in place"))),
            (own, false) => Some((own, source)),
        }
    }

    /// Returns the place for a command that takes over the issues of beads.
    #[must_use]
    pub fn taking_over(self) -> Place {
        Place { takes_over: true, ..self }
    }

    /// Returns what in the worktree of the ledger looks like a ledger or settings and is not read, and why.
    pub fn unread_files(&self) -> Vec<String> {
        self.home_worktree.as_deref().map(unread_files).unwrap_or_default()
    }

    /// Returns whether there may be a ledger: its file, or in a new clone its branch.
    pub fn may_have_ledger(&self) -> bool {
        let is_branch_known = |checkout: &Checkout| {
            self.ledger_home().0 == LedgerHome::Separate && ledger_branch::is_ledger_branch_known(checkout)
        };
        self.ledger().is_some_and(|(path, _)| path.exists()) || self.checkout.as_ref().is_some_and(is_branch_known)
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

    /// Returns the checkout at a path of which the store has a record, if this user uses it on this machine.
    pub(crate) fn checkout_at(&self, path: &Path) -> Option<Checkout> {
        let environment = vcs_environment(&self.variables.without_git(), self.user_dir().as_deref());
        let found = detect(path, &environment).ok().flatten()?;
        (check_owner(&found).is_ok() && found.private_dir.check().is_ok()).then_some(found)
    }

    /// Returns the user's Waypost directory, if there is one.
    pub(crate) fn user_dir(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|(path, _)| path.clone())
    }

    /// Returns a path in the user's Waypost directory, if there is one.
    pub fn in_home(&self, name: &str) -> Option<(PathBuf, Source)> {
        self.home.as_ref().map(|(path, source)| (path.join(name), source.clone()))
    }

    /// Returns the path of a file in the tracked directory, for writing.
    ///
    /// Refuses a path that a tracked symbolic link redirects out of the repository: an author of the repository must not
    /// choose which files of the user are overwritten.
    pub fn check_tracked(&self, name: &str) -> Result<PathBuf> {
        if let Some(reason) = self.unreachable_owner() {
            return Err(Error::unavailable("the tracked files of a workspace belong to its owner").because(reason));
        }
        let Some(root) = &self.home_worktree else {
            return Err(Error::invalid("there is no worktree for tracked files")
                .hint("create one first: way worktree add BRANCH"));
        };
        let dir = root.join(DOT_DIR);
        let file = dir.join(name);
        for path in [&dir, &file] {
            if path.is_symlink() && !std::fs::canonicalize(path).is_ok_and(|real| real.starts_with(root)) {
                return Err(Error::refused(format!(
                    "{} is a symbolic link that leads out of the repository",
                    path.display()
                ))
                .hint("replace the link with a regular file or directory"));
            }
        }
        Ok(file)
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

    /// Resolves the place again, because the user may have switched branches or changed settings.
    pub fn again(&self) -> Result<Place> {
        let place =
            Place { is_for_remote_callers: self.is_for_remote_callers, ..Place::resolve(self.request.clone())? };
        Ok(if self.needs_existing_store { place.with_existing_store() } else { place })
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

    /// Returns the same place for a process that has used its store before. If the store's file is missing from then on, it
    /// was moved or deleted, so opening fails instead of creating an empty store, or a private directory for one.
    #[must_use]
    pub fn with_existing_store(&self) -> Place {
        let mut place = Place { needs_existing_store: true, ..self.clone() };
        if let Some(checkout) = &mut place.checkout
            && matches!(self.store(), Ok(StoreChoice { location: Location::Sqlite(path), .. }) if path.starts_with(&checkout.private_dir))
        {
            checkout.private_dir = checkout.private_dir.clone().existing();
        }
        place
    }

    /// Returns whether opening the store may create its file.
    pub(crate) fn may_create_store(&self) -> bool {
        // A workspace has a row in its store. If that store is missing, an empty one must not replace it.
        let is_named = self.request.db.is_some() || variables_db(&self.variables).is_some();
        !self.needs_existing_store && (self.workspace.is_none() || is_named)
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

    /// Returns whether there is no store here, and the caller names none: outside of a repository, and in a workspace whose
    /// store is gone.
    pub fn is_without_store(&self) -> bool {
        if self.request.db.is_some() || variables_db(&self.variables).is_some() {
            return false;
        }
        match self.store() {
            Ok(StoreChoice { location: Location::Sqlite(path), .. }) => {
                self.unreachable_owner().is_some() && !path.exists()
            }
            Ok(_) => false,
            Err(_) => self.checkout.is_none(),
        }
    }

    /// Returns whether the store is behind a server.
    pub fn is_served(&self) -> Result<bool> {
        Ok(matches!(self.store()?.location, Location::Server(_)))
    }

    /// Returns the agent that claims work and sends messages, if the caller named one.
    pub fn agent(&self) -> Option<String> {
        let named = self.request.agent.clone().or_else(|| self.variables.text(WAYPOST_AGENT));
        named.filter(|name| !name.trim().is_empty())
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

    /// Returns the ids of the owner of this workspace, if its own files cannot be reached.
    pub(crate) fn unreachable_owner_ids(&self) -> Option<(RepositoryId, WorktreeId)> {
        let workspace = self.workspace.as_ref().filter(|workspace| workspace.unreachable.is_some())?;
        Some(workspace.registration.owner_ids())
    }

    /// Returns the checkout, or an error that explains how to work without one.
    pub fn require_checkout(&self) -> Result<&Checkout> {
        self.checkout.as_ref().ok_or_else(|| self.outside_repository_error())
    }

    fn configured_scope(&self) -> Result<(Scope, Source)> {
        let scope = self.config.text("scope").unwrap_or_default().parse()?;
        let rule = "one store per repository, shared by its worktrees";
        Ok((scope, self.source_of("scope", rule)))
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

    /// Returns the files of the stores of all scopes, with SQLite's files beside them. They need not exist.
    pub fn store_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for scope in [Scope::Repo, Scope::Worktree, Scope::Global] {
            let Ok(Location::Sqlite(path)) = self.location_of_scope(scope) else { continue };
            files.extend(["", "-wal", "-shm"].map(|suffix| {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                PathBuf::from(name)
            }));
        }
        files
    }

    fn location_of_scope(&self, scope: Scope) -> Result<Location> {
        match scope {
            Scope::Repo => Ok(Location::Sqlite(self.require_checkout()?.private_dir.join(STORE_FILE))),
            Scope::Worktree => {
                // Beside the shared store, because git deletes the worktree's own directory with the worktree.
                let dir = self.require_checkout()?.private_dir.join("worktrees");
                Ok(match self.worktree_id()? {
                    Some(id) => Location::Sqlite(dir.join(id.as_str()).join(STORE_FILE)),
                    None => Location::UnnamedSqlite,
                })
            }
            Scope::Global => match self.in_home(STORE_FILE) {
                Some((path, _)) => Ok(Location::Sqlite(path)),
                None => Err(Error::invalid("the global scope needs a home directory")
                    .hint(format!("set HOME, or {WAYPOST_HOME} to a directory"))),
            },
        }
    }

    fn location(&self, named: &OsStr, by: &str) -> Result<Location> {
        let Some(text) = named.to_str() else {
            return Ok(Location::Sqlite(self.cwd.join(named)));
        };
        if text.strip_prefix("unix:").is_some() {
            return Ok(Location::Server(text.to_owned()));
        }
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Location::Postgres(text.to_owned())),
            Some(("http" | "https", _)) => Ok(Location::Server(text.to_owned())),
            Some((scheme, _)) if !scheme.contains('/') => {
                Err(Error::invalid(format!("{by} has the unknown scheme {scheme}://"))
                    .hint("use a path, postgres://…, http://…, https://… or unix:PATH"))
            }
            _ => Ok(Location::Sqlite(expand(named, &self.cwd, &self.variables)?)),
        }
    }

    fn outside_repository_error(&self) -> Error {
        Error::invalid(format!("{} is not in a repository", self.cwd.display()))
            .hint("change into one, or create one here: way init")
            .hint(format!("or name a store: --global, --db PATH, or {WAYPOST_DB}=PATH"))
    }
}

/// Returns the user's Waypost directory, if there is one.
fn waypost_home(cwd: &Path, variables: &Variables) -> Result<Option<(PathBuf, Source)>> {
    Ok(match (variables.get(WAYPOST_HOME), variables.home()) {
        (Some(named), _) => Some((expand(named, cwd, variables)?, Source::new("env", WAYPOST_HOME))),
        (None, Some(home)) => Some((cwd.join(home).join(DOT_DIR), Source::new("default", "~/.waypost"))),
        (None, None) => None,
    })
}

/// The checkout that a directory works for, and the workspace that it is in.
pub(crate) struct Located {
    pub(crate) checkout: Option<Checkout>,
    pub(crate) workspace: Option<InWorkspace>,
}

impl Located {
    /// Finds the checkout that a directory works for, as [`Place::resolve`] does.
    pub(crate) fn at(dir: &Path, variables: &Variables) -> Result<Located> {
        let home = waypost_home(dir, variables)?;
        let home = home.as_ref().map(|(path, _)| path.as_path());
        locate(dir, &vcs_environment(&variables.without_git(), home), home, variables)
    }
}

/// Finds the checkout that a directory works for: its own, or in a workspace that of the workspace's owner.
fn locate(dir: &Path, environment: &Environment, home: Option<&Path>, variables: &Variables) -> Result<Located> {
    let checkout = detect(dir, environment)?;
    if let Some(checkout) = &checkout {
        check_owner(checkout)?;
    }
    if let Some(registration) = confined_in(dir, variables)? {
        return Ok(confined(registration, checkout, environment, variables));
    }
    let Some((registration, file)) = registered(dir, checkout.as_ref(), environment, home)? else {
        checkout.iter().try_for_each(|checkout| checkout.private_dir.check())?;
        return Ok(Located { checkout, workspace: None });
    };
    let (owner, unreachable) = match owner_of(&registration, environment) {
        Ok(owner) => {
            check_owner(&owner)?;
            (Some(owner), None)
        }
        Err(reason) => (checkout.clone(), Some(reason)),
    };
    owner.iter().try_for_each(|checkout| checkout.private_dir.check())?;
    let workspace = InWorkspace { registration, file, checkout, unreachable, is_confined: false };
    Ok(Located { checkout: owner, workspace: Some(workspace) })
}

/// Returns the workspace that a directory is in, if this is in the sandbox of its job.
fn confined_in(dir: &Path, variables: &Variables) -> Result<Option<Registration>> {
    let Some(text) = variables.text(WAYPOST_SANDBOX) else { return Ok(None) };
    let registration: Registration = serde_json::from_str(&text)
        .map_err(|error| Error::invalid(format!("{WAYPOST_SANDBOX} does not describe a workspace")).because(error))?;
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    Ok(dir.starts_with(&registration.path).then_some(registration))
}

/// Returns the checkout of a workspace's owner as a job sees it from its sandbox. What `way` would write into its private
/// directory, such as the index of the ledger, goes into the directory of the job's temporary files.
fn confined(
    registration: Registration,
    checkout: Option<Checkout>,
    environment: &Environment,
    variables: &Variables,
) -> Located {
    let environment = Environment { homes: environment.homes.clone(), ..Environment::default() };
    let owner = detect(&registration.worktree.path, &environment).ok().flatten().filter(|_| registration.is_local);
    let temporary = variables.path("TMPDIR").unwrap_or_else(|| registration.path.clone());
    let private = temporary.join("waypost");
    let owner = owner.or_else(|| checkout.clone()).map(|mut owner| {
        owner.private_dir = PrivateDir::from(private.clone()).with_user_dir(Some(temporary));
        owner.worktree_private_dir = private;
        owner
    });
    let unreachable = Some("the sandbox of a job has no access to the private directory".to_owned());
    let file = PathBuf::from(WAYPOST_SANDBOX);
    Located {
        checkout: owner,
        workspace: Some(InWorkspace { registration, file, checkout, unreachable, is_confined: true }),
    }
}

/// Returns the registered workspace that a directory is in. Another repository inside a workspace is not part of it, but
/// a worktree that was added to the workspace's own repository is.
fn registered(
    dir: &Path,
    checkout: Option<&Checkout>,
    environment: &Environment,
    home: Option<&Path>,
) -> Result<Option<(Registration, PathBuf)>> {
    let Some(home) = home else { return Ok(None) };
    let root = checkout.and_then(|checkout| checkout.root.as_deref());
    if environment.git_dir.is_none() {
        let is_real = root == Some(dir);
        let dir = if is_real { dir.to_owned() } else { std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()) };
        for dir in dir.ancestors() {
            if let Some(found) = registry::find(home, dir)? {
                return Ok(Some(found));
            }
            if Some(dir) == root {
                break;
            }
        }
    }
    for dir in root.into_iter().chain(checkout.and_then(|checkout| checkout.main_root.as_deref())) {
        if let Some(found) = registry::find(home, dir)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the checkout of a workspace's owner, or the reason why it cannot be reached.
fn owner_of(registration: &Registration, environment: &Environment) -> Result<Checkout, String> {
    let Registration { repository, worktree, .. } = registration;
    if !registration.is_local {
        return Err(format!("the repository {} is not on this machine", repository.name));
    }
    let (user_dir, homes) = (environment.user_dir.clone(), environment.homes.clone());
    let environment = Environment { user_dir, homes, ..Environment::default() };
    let open = |path: &Path| {
        let found = detect(path, &environment).ok().flatten()?;
        let id = repository_id(&found.private_dir).ok()?;
        // A repository without an id was cloned again to the same path.
        id.is_none_or(|id| id == repository.id).then_some(found)
    };
    let is_worktree = |dir: &Path| worktree_id(dir).ok().flatten().is_none_or(|id| id == worktree.id);
    if worktree.repository_id == repository.id
        && let Some(found) = open(&worktree.path)
        && found.root.as_ref() == Some(&worktree.path)
        && is_worktree(&found.worktree_private_dir)
    {
        return Ok(found);
    }
    let Some(main) = open(&repository.path) else {
        return Err(format!("the repository {} is not at {} any more", repository.name, repository.path.display()));
    };
    // The worktree may have been moved. If it was removed, the main worktree takes its place.
    let listed = main.worktrees().into_iter();
    let moved = listed.filter(|listed| worktree_id(&listed.private_dir).ok().flatten().as_ref() == Some(&worktree.id));
    let moved = moved.map(|listed| listed.path).find_map(|path| open(&path));
    Ok(moved.unwrap_or(main))
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

/// Returns the file of a ledger that has a branch of its own.
pub(crate) fn separate_ledger(checkout: &Checkout) -> PathBuf {
    ledger_branch::ledger_branch_root(checkout).join(ledger_branch::LEDGER_PATH)
}

/// The paths that a ledger may have in a worktree: our own, then those of another tool.
pub(crate) const LEDGERS: &[&str] = &[".waypost/issues.jsonl", ".beads/issues.jsonl", ".beads/beads.jsonl"];

fn own_ledger(root: &Path) -> PathBuf {
    root.join(LEDGERS[0])
}

/// Returns the ledgers of another tool in a worktree.
fn ledgers_of_beads(root: &Path) -> impl Iterator<Item = PathBuf> {
    LEDGERS[1..].iter().map(|beads| root.join(beads)).filter(|beads| beads.is_file())
}

/// Returns the ledger in a worktree, and whether it is another tool's.
pub(crate) fn ledger_in(root: &Path) -> (PathBuf, bool) {
    let own = own_ledger(root);
    let beads = if own.exists() { None } else { ledgers_of_beads(root).next() };
    match beads {
        Some(beads) => (beads, true),
        None => (own, false),
    }
}

/// Returns whether beads keeps the issues of a worktree in Dolt and no ledger of ours took them over. It rewrites its file
/// from there, so nothing written into the file lasts.
pub(crate) fn is_in_dolt(root: &Path) -> bool {
    let metadata = || {
        let text = read_small_file(&root.join(".beads/metadata.json")).ok()??;
        serde_json::from_slice::<serde_json::Value>(&text).ok()
    };
    !own_ledger(root).exists() && metadata().is_some_and(|metadata| metadata["backend"] == "dolt")
}

/// Returns what in a worktree looks like a ledger or settings and is not read, and why.
fn unread_files(root: &Path) -> Vec<String> {
    let used = ledger_in(root).0;
    let unread = ledgers_of_beads(root).filter(|beads| *beads != used);
    let mut found: Vec<String> =
        unread.map(|beads| format!("{} is not read: the issues are in {}", beads.display(), used.display())).collect();
    let toml = root.join(".beads/config.toml");
    if toml.is_file() {
        let own = root.join(DOT_DIR).join("config.toml");
        found.push(format!("{} is not read: settings belong in {}", toml.display(), own.display()));
    }
    found
}

/// Refuses a repository that another user owns, as git does: that user controls its configuration.
pub(crate) fn check_owner(checkout: &Checkout) -> Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let linked = checkout.root.iter().filter(|_| !checkout.is_main());
    let roots = linked.chain(&checkout.main_root);
    // Each of these says where everything else is.
    let entries = roots.flat_map(|root| ["", ".git", ".jj", ".hg", ".sl", DOT_DIR].map(|name| root.join(name)));
    for path in entries.chain([checkout.shared_dir.clone()]) {
        let owner = match std::fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.uid(),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(Error::unavailable(format!("cannot read {}", path.display())).because(error)),
        };
        if owner != user {
            let path = path.display();
            return Err(Error::refused(format!(
                "the repository at {path} belongs to user {owner}, and you are user {user}"
            ))
            .hint("run the command as that user"));
        }
    }
    Ok(())
}

/// Refuses a user's Waypost directory that another user can replace: keys, tokens and trust are in it.
fn check_user_dir(dir: &Path) -> Result<()> {
    let problem = waypost_fs::check_path(dir)
        .map_err(|error| Error::unavailable(format!("cannot read {}", dir.display())).because(error))?;
    match problem {
        None => Ok(()),
        Some(problem) => Err(Error::refused(format!("{} cannot be trusted: {problem}", dir.display()))
            .hint(format!("remove the access of other users, or set {WAYPOST_HOME} to another directory"))),
    }
}

fn variables_db(variables: &Variables) -> Option<&OsStr> {
    variables.get(WAYPOST_DB)
}

pub(crate) fn vcs_environment(variables: &Variables, home: Option<&Path>) -> Environment {
    Environment {
        git_dir: variables.path("GIT_DIR"),
        git_common_dir: variables.path("GIT_COMMON_DIR"),
        git_work_tree: variables.path("GIT_WORK_TREE"),
        ceilings: variables
            .get("GIT_CEILING_DIRECTORIES")
            .map(|list| std::env::split_paths(list).filter(|path| path.is_absolute()).collect())
            .unwrap_or_default(),
        user_dir: home.map(Path::to_owned),
        // With `WAYPOST_HOME`, the default one is still no repository.
        homes: home.map(Path::to_owned).into_iter().chain(variables.home().map(|home| home.join(DOT_DIR))).collect(),
    }
}
