//! Which store a command uses, and why.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;
use waypost_core::{Error, Result, path_text, url_text};

use super::{Place, Source, expand};
use crate::machine::environment::{Variables, WAYPOST_DB, WAYPOST_HOME};

/// The name of a store that has the default path, and of the link to it in a worktree.
pub const STORE_FILE: &str = "state.db";

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

impl Place {
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

    fn configured_scope(&self) -> Result<(Scope, Source)> {
        let scope = self.config.text("scope").unwrap_or_default().parse()?;
        let rule = "one store per repository, shared by its worktrees";
        Ok((scope, self.source_of("scope", rule)))
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
}

pub(super) fn variables_db(variables: &Variables) -> Option<&OsStr> {
    variables.get(WAYPOST_DB)
}
