//! Resolves a place from a directory, flags and the environment.

use std::path::{Path, PathBuf};

use waypost_core::{Error, Result, path_text};
use waypost_workspace::history::tracked_by;
use waypost_workspace::{Checkout, Environment, detect};

use super::store_choice::variables_db;
use super::trust::{check_owner, check_user_dir};
use super::workspace::{Located, locate};
use super::{DOT_DIR, LedgerHome, Location, Place, Request, Scope, Source, StoreChoice, expand};
use crate::machine::config::{Config, Files};
use crate::machine::environment::{Variables, WAYPOST_DB, WAYPOST_HOME};

impl Place {
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

    /// Resolves the place again, because the user may have switched branches or changed settings.
    pub fn again(&self) -> Result<Place> {
        let place =
            Place { is_for_remote_callers: self.is_for_remote_callers, ..Place::resolve(self.request.clone())? };
        Ok(if self.needs_existing_store { place.with_existing_store() } else { place })
    }

    /// Returns the checkout at a path of which the store has a record, if this user uses it on this machine.
    pub(crate) fn checkout_at(&self, path: &Path) -> Option<Checkout> {
        let environment = vcs_environment(&self.variables.without_git(), self.user_dir().as_deref());
        let found = detect(path, &environment).ok().flatten()?;
        (check_owner(&found).is_ok() && found.private_dir.check().is_ok()).then_some(found)
    }
}

impl Located {
    /// Finds the checkout that a directory works for, as [`Place::resolve`] does.
    pub(crate) fn at(dir: &Path, variables: &Variables) -> Result<Located> {
        let home = waypost_home(dir, variables)?;
        let home = home.as_ref().map(|(path, _)| path.as_path());
        locate(dir, &vcs_environment(&variables.without_git(), home), home, variables)
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
