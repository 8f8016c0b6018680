//! The repositories whose ledgers are read together, and where new issues go.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};
use waypost_core::id::RepositoryId;
use waypost_core::ledger::role::{self, Role};
use waypost_core::model::{Repository, Vcs};
use waypost_core::{Error, Result};
use waypost_ledger::LedgerFile;
use waypost_workspace::{Checkout, detect};

use crate::config::{Config, Files, Layer};
use crate::environment::Variables;
use crate::ledger::default_prefix;
use crate::place::{DOT_DIR, Place, Source, check_owner, expand, ledger_in, vcs_environment};

/// How long to wait for somebody who is writing a ledger.
const PATIENCE: Duration = Duration::from_secs(10);

/// A repository whose ledger is read.
#[derive(Clone, Debug)]
pub struct Repo {
    /// The checkout it was found by.
    pub checkout: Checkout,
    /// The worktree that its ledger is in.
    pub root: PathBuf,
    /// Its ledger.
    pub file: LedgerFile,
}

impl Repo {
    /// Returns the path that names it.
    pub fn path(&self) -> &Path {
        self.checkout.repository_path()
    }

    /// Returns it as a store knows it.
    pub fn as_known(&self, id: RepositoryId) -> Repository {
        Repository {
            id,
            name: self.checkout.repository_name(),
            path: self.checkout.repository_path().to_owned(),
            vcs: self.checkout.repository_vcs(),
            remote_url: self.checkout.remote_url.clone(),
            default_branch: self.checkout.default_branch.clone(),
        }
    }

    /// Returns what the ids of its new issues begin with.
    pub fn prefix(&self) -> Result<String> {
        let files = Files {
            user: None,
            shared: Some(self.root.join(DOT_DIR).join("config.toml")),
            private: Some(self.checkout.private_dir.join("config.toml")),
        };
        let named = Config::load(&files, &Variables::default(), &[])?.text("prefix");
        Ok(named.unwrap_or_else(|| default_prefix(&self.checkout.repository_name())))
    }

    pub(crate) fn of(checkout: Checkout, root: PathBuf, ledger: PathBuf) -> Repo {
        // Files that are there while a version control tool changes the tree.
        let marks = [root.join(".jj/working_copy/working_copy.lock"), root.join(".hg/wlock"), root.join(".sl/wlock")];
        let git = git_dir_of(&checkout, &root).map(|git_dir| git_dir.join("index.lock"));
        let file = LedgerFile::new(ledger, checkout.private_dir.join("ledger.lock"), PATIENCE)
            .with_tool_locks(git.into_iter().chain(marks).collect());
        Repo { checkout, root, file }
    }

    /// Opens the repository that a path is in.
    pub fn open(path: &Path, variables: &Variables) -> Result<Repo> {
        if !path.is_dir() {
            return Err(Error::not_found("there is no such directory"));
        }
        let environment = vcs_environment(&variables.without_git(), None);
        let Some(checkout) = detect(path, &environment)? else {
            return Err(Error::not_found("it is not a repository").hint(format!("way -C {} init", path.display())));
        };
        check_owner(&checkout)?;
        let Some(root) = checkout.home() else {
            return Err(Error::invalid("it is a bare repository without worktrees"));
        };
        let ledger = ledger_in(&root).0;
        if ledger.exists() && access(&ledger, Access::READ_OK).is_err() {
            return Err(Error::unavailable("its ledger may not be read"));
        }
        Ok(Repo::of(checkout, root, ledger))
    }
}

/// Returns the directory in which git keeps the index of a worktree.
fn git_dir_of(checkout: &Checkout, root: &Path) -> Option<PathBuf> {
    let shared = checkout.git_dir.clone()?;
    if checkout.vcs != Vcs::Git || checkout.main_root.as_deref() == Some(root) {
        return Some(shared);
    }
    let listed = checkout.worktrees().into_iter().find(|listed| listed.path == root);
    Some(listed.and_then(|listed| listed.private_dir.parent().map(Path::to_owned)).unwrap_or(shared))
}

/// Repositories in order: the primary one first.
#[derive(Clone, Debug)]
pub struct Repos {
    /// Those that can be read.
    pub all: Vec<Repo>,
    /// Those that cannot, and why, in words.
    pub unreachable: Vec<String>,
}

impl Repos {
    /// Finds the repositories that the configuration of a place names, and those that new issues go to.
    pub fn of(place: &Place) -> Result<Repos> {
        let mut repos = Repos { all: vec![primary(place)?], unreachable: Vec::new() };
        let mut named = place.config.list("repos.additional");
        named.extend(routes(place).into_iter().flatten());
        for spelling in named {
            repos.add(place, &spelling)?;
        }
        Ok(repos)
    }

    /// Adds a repository by its configured spelling, unless it is there already.
    fn add(&mut self, place: &Place, spelling: &str) -> Result<()> {
        let path = configured(place, spelling)?;
        match Repo::open(&path, &place.variables) {
            Ok(repo) => {
                self.number_of(repo);
            }
            Err(error) => {
                let warning = format!("the issues of {} are missing: {}", path.display(), error.full_message());
                if !self.unreachable.contains(&warning) {
                    self.unreachable.push(warning);
                }
            }
        }
        Ok(())
    }

    /// Returns the number of a repository, which is added if it is not there.
    fn number_of(&mut self, repo: Repo) -> usize {
        let known = self.all.iter().position(|known| known.path() == repo.path());
        known.unwrap_or_else(|| {
            self.all.push(repo);
            self.all.len() - 1
        })
    }

    /// Finds the repository that somebody names by a path, or by the name of one that is read. Returns its number, and
    /// whether it is one that the configuration does not name.
    pub fn find(&mut self, place: &Place, wanted: &str) -> Result<(usize, bool)> {
        let path = expand(wanted, &place.cwd, &place.variables)?;
        if path.is_dir() {
            let repo = Repo::open(&path, &place.variables)
                .map_err(|error| error.within(format!("cannot use the repository {wanted}")))?;
            let before = self.all.len();
            let number = self.number_of(repo);
            return Ok((number, number == before));
        }
        let named = |repo: &Repo| repo.checkout.repository_name() == wanted;
        let mut found = self.all.iter().enumerate().filter(|(_, repo)| named(repo)).map(|(number, _)| number);
        match (found.next(), found.next()) {
            (Some(number), None) => Ok((number, false)),
            (Some(_), Some(_)) => Err(Error::ambiguous(format!("several repositories are called {wanted}"))
                .hint("name it by its path; way config --list-repos shows them")),
            (None, _) => Err(Error::not_found(format!("there is no repository {wanted:?}"))
                .hint("name it by its path; way config --list-repos shows those that are read")),
        }
    }

    /// Returns the number of the repository that a configured spelling names.
    fn configured(&self, place: &Place, spelling: &str) -> Option<usize> {
        let path = configured(place, spelling).ok()?;
        let real = std::fs::canonicalize(&path).unwrap_or(path);
        self.all.iter().position(|repo| repo.path() == real || repo.root == real)
    }
}

/// Where new issues go, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The number of the repository.
    pub number: usize,
    /// Why that one.
    pub because: String,
    /// Whether it is where a contributor plans: such issues are nobody else's.
    pub is_private: bool,
    /// Whether the primary ledger is not to be written.
    pub is_protected: bool,
}

impl Route {
    /// Decides by the configuration and the role.
    pub fn of(place: &Place, repos: &Repos) -> Result<Route> {
        let mode = place.config.text("routing.mode");
        let (role, source) = if mode.is_some() { role(place) } else { said_role(place).unwrap_or_else(nobody_asked) };
        let is_said = source.source != "default";
        let [contributor, maintainer] = routes(place);
        // A guess alone changes nothing for those who never asked for routing.
        let is_contributor =
            role == Role::Contributor && mode.as_deref() != Some("explicit") && (is_said || mode.is_some());
        let is_protected = is_contributor && (is_said || contributor.is_some());
        let (spelling, because) = if is_contributor && (is_protected || mode.is_some()) {
            (contributor, format!("you are a contributor: {}", source.because))
        } else if mode.as_deref() == Some("explicit") {
            (place.config.text("routing.default"), "routing.default".to_owned())
        } else if mode.is_some() {
            (maintainer, format!("you are a maintainer: {}", source.because))
        } else {
            (None, "the repository you are in".to_owned())
        };
        let number = match &spelling {
            None => 0,
            Some(spelling) => repos.configured(place, spelling).ok_or_else(|| {
                Error::unavailable(format!("new issues go to {spelling}, which cannot be used"))
                    .hint("way where says why; way config --list-repos shows what is read")
            })?,
        };
        Ok(Route { number, because, is_private: is_contributor && number != 0, is_protected })
    }
}

/// What holds for those who never said what they are, and never asked for routing.
fn nobody_asked() -> (Role, Source) {
    (Role::Maintainer, Source { source: "default", because: String::new() })
}

/// Returns what somebody is to the repository of a place, and why.
pub fn role(place: &Place) -> (Role, Source) {
    said_role(place).unwrap_or_else(|| {
        let remotes = place.checkout.as_ref().map(Checkout::remotes).unwrap_or_default();
        let (role, because) = role::guess(&remotes);
        (role, Source { source: "default", because: because.to_owned() })
    })
}

/// Returns what somebody said to be to the repository of a place, and where.
fn said_role(place: &Place) -> Option<(Role, Source)> {
    let of = |word: &str| if word == "contributor" { Role::Contributor } else { Role::Maintainer };
    if let Some(setting) = place.config.get("role") {
        let source = match setting.layer {
            Layer::Flag => "flag",
            Layer::Environment => "env",
            _ => "config",
        };
        return Some((of(&setting.value.to_string()), Source { source, because: setting.origin }));
    }
    let in_git = place.checkout.as_ref()?.git_setting("waypost.role");
    let word = in_git.filter(|word| matches!(word.as_str(), "contributor" | "maintainer"))?;
    Some((of(&word), Source { source: "config", because: "git config waypost.role".to_owned() }))
}

/// Returns where a contributor's and a maintainer's new issues go, as far as the configuration says.
fn routes(place: &Place) -> [Option<String>; 2] {
    let text = |key: &str| place.config.text(key);
    let planning = || place.config.list("repos.additional").into_iter().next();
    let contributor = text("routing.auto.contributor").or_else(|| text("routing.default")).or_else(planning);
    let is_routed = text("routing.mode").is_some() || place.config.get("role").is_some();
    if is_routed { [contributor, text("routing.auto.maintainer")] } else { [None, None] }
}

/// Opens the repository whose ledger comes first: the one we stand in, if nobody says otherwise.
fn primary(place: &Place) -> Result<Repo> {
    let checkout = place.require_checkout()?;
    match place.config.text("repos.primary").as_deref() {
        None | Some(".") => {
            let Some((ledger, _)) = place.ledger() else {
                return Err(Error::invalid("a bare repository without worktrees has no ledger")
                    .hint("make a worktree first: way worktree add BRANCH"));
            };
            // It may be this worktree's own.
            let root = ledger.ancestors().nth(2).unwrap_or_else(|| checkout.repository_path()).to_owned();
            Ok(Repo::of(checkout.clone(), root, ledger))
        }
        Some(other) => {
            let path = configured(place, other)?;
            Repo::open(&path, &place.variables)
                .map_err(|error| error.within(format!("cannot use the primary repository {}", path.display())))
        }
    }
}

/// Returns the path of a configured spelling, which is relative to the repository.
fn configured(place: &Place, spelling: &str) -> Result<PathBuf> {
    let root = place.home_worktree.as_deref().unwrap_or(&place.cwd);
    expand(spelling, root, &place.variables)
}
