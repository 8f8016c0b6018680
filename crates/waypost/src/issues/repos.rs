//! The repositories whose ledgers are read together, and the destination of new issues.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};
use waypost_core::id::RepositoryId;
use waypost_core::ledger::conflict;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue_id;
use waypost_core::ledger::merge::merge;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::role::{self, Role};
use waypost_core::model::{Repository, Vcs};
use waypost_core::{Error, Result, digest, path_text, yaml};
use waypost_fs::read_small_file;
use waypost_ledger::LedgerFile;
use waypost_workspace::{Checkout, each_saved_version, history, ledger_branch, repository_id};

use crate::machine::config::{self, Config, Files, Layer};
use crate::machine::environment::Variables;
use crate::machine::place::{
    DOT_DIR, LEDGERS, LedgerHome, Located, Place, Source, expand, is_in_dolt, ledger_in, separate_ledger,
};
use crate::machine::registry::RegisteredSetting;

/// How long to wait for other processes that are writing a ledger. 150 of them at once take turns, and each syncs the file: two
/// seconds on an idle machine, and more on a busy one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The file in the private directory with the digest of what was carried over from the former home last.
const LEFTOVERS_FILE: &str = "ledger-leftovers";

/// A repository whose ledger is read.
#[derive(Clone, Debug)]
pub struct Repo {
    /// The checkout through which it was found.
    pub checkout: Checkout,
    /// The worktree that has its ledger.
    pub root: PathBuf,
    /// Its ledger.
    pub file: LedgerFile,
    /// Why its ledger can only be read: this is a workspace's copy, and the ledger of its owner cannot be reached.
    pub unreachable: Option<String>,
    /// Whether the issues of beads are being taken over into it.
    pub(crate) takes_over: bool,
}

impl Repo {
    /// Returns the path that identifies it.
    pub fn path(&self) -> &Path {
        self.checkout.repository_path()
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        self.checkout.repository_name()
    }

    /// Returns the repository's record for a store.
    pub fn as_known(&self, id: RepositoryId) -> Repository {
        Repository {
            id,
            name: self.name(),
            path: self.checkout.repository_path().to_owned(),
            vcs: self.checkout.repository_vcs(),
            remote_url: self.checkout.remote_url.clone(),
            default_branch: self.checkout.default_branch.clone(),
        }
    }

    /// Returns the configured prefix for ids of new issues, ours or that of beads.
    pub fn configured_prefix(&self) -> Result<Option<String>> {
        let files = Files {
            user: None,
            shared: Some(self.worktree().join(DOT_DIR).join("config.toml")),
            private: Some(self.checkout.private_dir.join("config.toml")),
        };
        let prefix = Config::load(&files, &Variables::default(), &[])?.text("prefix");
        Ok(prefix.or_else(|| self.beads_prefix()))
    }

    /// Returns the prefix that the configuration of beads sets.
    pub fn beads_prefix(&self) -> Option<String> {
        beads_prefix(&self.worktree().join(".beads/config.yaml"))
    }

    /// Returns the prefix that most ids in the ledger have. Reads the whole file.
    pub fn recorded_prefix(&self) -> Result<Option<String>> {
        let document = self.file.read()?;
        let lines = document.lines().filter_map(|line| std::str::from_utf8(line).ok());
        let ids: Vec<String> = lines.filter_map(|line| Record::parse(line).ok()?.text("id")).collect();
        Ok(issue_id::common_prefix(ids.iter().map(String::as_str)).map(str::to_owned))
    }

    /// Returns the prefix for ids of new issues if neither the configuration nor the ledger has one: the remote's name,
    /// which is the same in all clones, else the directory's.
    pub fn default_prefix(&self) -> String {
        let remote = self.checkout.remote_url.as_deref().and_then(name_of_remote);
        prefix_from_name(&remote.unwrap_or_else(|| self.checkout.repository_name()))
    }

    pub(crate) fn of(checkout: Checkout, root: PathBuf, ledger: PathBuf) -> Repo {
        let file = LedgerFile::new(ledger, checkout.private_dir.clone(), "ledger.lock", LOCK_TIMEOUT);
        let mut repo = Repo { checkout, root, file, unreachable: None, takes_over: false };
        if !repo.is_separate() {
            repo.file = repo.file.with_tool_locks(tool_locks(&repo.checkout, &repo.root));
            let (vcs, root) = (repo.checkout.vcs, repo.root.clone());
            repo.file = repo.file.with_absence_check(move || history::check_absent(vcs, &root, LEDGERS));
            let name = repo.file.path().strip_prefix(&repo.root).ok().map(path_text::to_text);
            // jj commits every version that it overwrites. The others have no commits or are not searched.
            if let Some(name) = name.filter(|_| vcs == Vcs::Git) {
                let root = repo.root.clone();
                repo.file = repo.file.with_kept_changes(move |each| {
                    each_saved_version(&root, &name, |bytes, at| each(&Document::parse(bytes), at))
                });
            }
        }
        repo
    }

    /// Returns whether beads keeps the issues elsewhere, so that its file can only be read.
    pub(crate) fn is_in_dolt(&self) -> bool {
        !self.takes_over && is_in_dolt(&self.root)
    }

    /// Returns the file with the project's ledger as a contributor fetched it last.
    pub(crate) fn fetched_file(&self) -> PathBuf {
        self.checkout.private_dir.join("fetched.jsonl")
    }

    /// Returns whether the ledger has a branch of its own, whose file is in the private directory.
    pub fn is_separate(&self) -> bool {
        self.root == ledger_branch::ledger_branch_root(&self.checkout)
    }

    /// Returns a worktree of the repository: the one with the ledger, if one has it.
    pub(crate) fn worktree(&self) -> PathBuf {
        if self.is_separate() {
            self.checkout.home().unwrap_or_else(|| self.checkout.repository_path().to_owned())
        } else {
            self.root.clone()
        }
    }

    /// Writes the file of a ledger that has a branch of its own, if this clone has the branch but not the file.
    pub(crate) fn check_out(self) -> Result<Repo> {
        if !self.is_separate() {
            return Ok(self);
        }
        if !self.file.path().exists()
            && let Some(content) = ledger_branch::read_ledger_branch(&self.checkout)?
        {
            self.file.rewrite(|current| {
                let committed = Document::parse(content.clone());
                let current = Document::parse(current.to_vec());
                Ok(if current.is_empty() { committed } else { merge(None, &current, &committed) }.to_bytes())
            })?;
        }
        if let Err(error) = self.take_leftovers() {
            log::warn!("the former home of the ledger is not read: {}", error.full_message());
        }
        Ok(self)
    }

    /// Carries over what was written to the former home of a ledger that has a branch of its own: another clone or branch may
    /// not have known yet that it moved.
    fn take_leftovers(&self) -> Result<()> {
        let Some(worktree) = self.checkout.home() else { return Ok(()) };
        let (former, _) = ledger_in(&worktree);
        let is_left = std::fs::symlink_metadata(&former).is_ok_and(|file| file.is_file() && file.len() > 0);
        // A branch from before the move has a copy of its own.
        if !is_left || self.unreachable.is_some() || !is_tracked_as_separate(&worktree)? {
            return Ok(());
        }
        let bytes = std::fs::read(&former)
            .map_err(|error| Error::unavailable(format!("cannot read {}", former.display())).because(error))?;
        let (record, seen) = (self.checkout.private_dir.join(LEFTOVERS_FILE), digest::hex(&digest::sha256(&bytes)));
        if read_small_file(&record)?.is_some_and(|known| known == seen.as_bytes()) {
            return Ok(());
        }
        let left = conflict::read(Document::parse(bytes));
        self.file.rewrite(|current| {
            let current = conflict::read(Document::parse(current.to_vec()));
            Ok(if current.is_empty() { left.clone() } else { merge(None, &current, &left) }.to_bytes())
        })?;
        waypost_fs::replace(&record, seen.as_bytes(), 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", record.display())).because(error))
    }

    /// Opens the repository that a path is in. In a workspace it is that of the owner, if that can be reached.
    pub fn open(path: &Path, variables: &Variables) -> Result<Repo> {
        if !path.is_dir() {
            return Err(Error::not_found("there is no such directory"));
        }
        let located = Located::at(path, variables)?;
        let Some(checkout) = located.checkout else {
            return Err(Error::not_found("it is not a repository").hint(format!("way -C {} init", path.display())));
        };
        let Some(root) = checkout.home() else {
            return Err(Error::invalid("it is a bare repository without worktrees"));
        };
        let (root, ledger) = if has_separate_ledger(&checkout, &root)? {
            (ledger_branch::ledger_branch_root(&checkout), separate_ledger(&checkout))
        } else {
            let ledger = ledger_in(&root).0;
            (root, ledger)
        };
        if ledger.exists() && access(&ledger, Access::READ_OK).is_err() {
            return Err(Error::unavailable("permission to read its ledger is denied"));
        }
        let unreachable = located.workspace.and_then(|workspace| workspace.unreachable);
        Repo { unreachable, ..Repo::of(checkout, root, ledger) }.check_out()
    }

    /// Describes which ledger cannot be reached, if this is a workspace's copy of it.
    fn unreachable_warning(&self) -> Option<String> {
        let reason = self.unreachable.as_ref()?;
        Some(format!(
            "issues are read from the workspace's copy, which may be old, and changes wait in the store until the \
             ledger can be reached: {reason}"
        ))
    }
}

/// Returns whether the files of a worktree say that the ledger has a branch of its own.
fn is_tracked_as_separate(worktree: &Path) -> Result<bool> {
    let shared = Some(worktree.join(DOT_DIR).join("config.toml"));
    let config = Config::load(&Files { shared, ..Files::default() }, &Variables::default(), &[])?;
    Ok(config.text("ledger.home").is_some_and(|home| home == LedgerHome::Separate.to_string()))
}

/// Returns whether another repository's own configuration, or its clone, gives the ledger a branch of its own.
fn has_separate_ledger(checkout: &Checkout, root: &Path) -> Result<bool> {
    if checkout.git_dir.is_none() {
        return Ok(false);
    }
    let files = Files {
        user: None,
        shared: Some(root.join(DOT_DIR).join("config.toml")),
        private: Some(checkout.private_dir.join("config.toml")),
    };
    let config = Config::load(&files, &Variables::default(), &[])?;
    Ok(match config.get("ledger.home").filter(|setting| setting.layer != Layer::Default) {
        Some(setting) => setting.value.to_string() == LedgerHome::Separate.to_string(),
        None => separate_ledger(checkout).exists(),
    })
}

/// Returns the files that exist while a version control tool changes a worktree. They are looked for several times by each
/// change, so these are only the tools that manage the worktree.
fn tool_locks(checkout: &Checkout, root: &Path) -> Vec<PathBuf> {
    let git = || git_dir_of(checkout, root).map(|git_dir| git_dir.join("index.lock"));
    // jj wins over git where both manage a worktree. This one need not be that of the command.
    let is_jj = checkout.vcs == Vcs::Jj || (checkout.root.as_deref() != Some(root) && root.join(".jj").exists());
    let jj = is_jj.then(|| root.join(".jj/working_copy/working_copy.lock"));
    match checkout.vcs {
        Vcs::Git | Vcs::Jj => git().into_iter().chain(jj).collect(),
        Vcs::Hg => vec![root.join(".hg/wlock")],
        Vcs::Sl => vec![root.join(".sl/wlock")],
        Vcs::None => Vec::new(),
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
    /// Readable repositories.
    pub all: Vec<Repo>,
    /// Messages about repositories that cannot be read.
    pub unreachable: Vec<String>,
}

impl Repos {
    /// Opens the repositories that the configuration of a place names, including the destinations of new issues.
    pub fn of(place: &Place) -> Result<Repos> {
        let primary = primary(place)?;
        // In a sandbox the ledger itself is read, and only changes of it wait.
        let unreachable = primary.unreachable_warning().filter(|_| !place.is_confined()).into_iter().collect();
        let mut repos = Repos { all: vec![primary], unreachable };
        let mut named = place.config.list("repos.additional");
        named.extend(routes(place).into_iter().flatten());
        for spelling in named {
            repos.add(place, &spelling)?;
        }
        Ok(repos)
    }

    /// Adds a repository by its configured spelling, unless it is listed already.
    fn add(&mut self, place: &Place, spelling: &str) -> Result<()> {
        let path = configured(place, spelling)?;
        match Repo::open(&path, &place.variables) {
            Ok(repo) => {
                self.add_once(repo);
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

    /// Adds a repository unless it is listed already, and returns its number.
    fn add_once(&mut self, repo: Repo) -> usize {
        let known = self.all.iter().position(|known| known.path() == repo.path());
        known.unwrap_or_else(|| {
            self.all.push(repo);
            self.all.len() - 1
        })
    }

    /// Finds a repository by its path, or a listed one by its name or id. Returns its number, and whether this call added it
    /// to the list. Callers of a server cannot use paths.
    pub fn find(&mut self, place: &Place, name: &str) -> Result<(usize, bool)> {
        if !place.is_for_remote_callers() {
            let path = expand(name, &place.cwd, &place.variables)?;
            if path.is_dir() {
                let repo = Repo::open(&path, &place.variables)
                    .map_err(|error| error.within(format!("cannot use the repository {name}")))?;
                let before = self.all.len();
                let number = self.add_once(repo);
                return Ok((number, number == before));
            }
        }
        let way_to_name =
            if place.is_for_remote_callers() { "name a configured one by its id" } else { "use its path" };
        let hint = format!("{way_to_name}; way config --list-repos shows the repositories that are read");
        let mut found = self.listed(name)?.into_iter();
        match (found.next(), found.next()) {
            (Some(number), None) => Ok((number, false)),
            (Some(_), Some(_)) => Err(Error::ambiguous(format!("several repositories are called {name}")).hint(hint)),
            (None, _) => Err(Error::not_found(format!("there is no repository {name:?}")).hint(hint)),
        }
    }

    /// Returns the numbers of the listed repositories with this id, else with this name.
    fn listed(&self, name: &str) -> Result<Vec<usize>> {
        if let Ok(id) = name.parse::<RepositoryId>() {
            for (number, repo) in self.all.iter().enumerate() {
                if repository_id(&repo.checkout.private_dir)?.as_ref() == Some(&id) {
                    return Ok(vec![number]);
                }
            }
        }
        let all = self.all.iter().enumerate();
        Ok(all.filter(|(_, repo)| repo.name() == name).map(|(number, _)| number).collect())
    }

    /// Returns the number of the repository that a configured spelling names.
    fn configured(&self, place: &Place, spelling: &str) -> Option<usize> {
        let path = configured(place, spelling).ok()?;
        let real = std::fs::canonicalize(&path).unwrap_or(path);
        self.all.iter().position(|repo| repo.path() == real || repo.root == real)
    }
}

/// The destination of new issues, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The number of the repository.
    pub number: usize,
    /// Why this repository was chosen.
    pub because: String,
    /// Whether it is a contributor's planning repository, whose issues are private.
    pub is_private: bool,
    /// Whether the user may not write the primary ledger.
    pub is_protected: bool,
    /// Whether each new issue must name its repository or an issue that it belongs to.
    pub needs_repo: bool,
}

impl Route {
    /// Chooses the destination by the configuration and the user's role.
    pub fn of(place: &Place, repos: &Repos) -> Result<Route> {
        let mode = place.config.text("routing.mode");
        let (role, source) = chosen_role(place);
        let [contributor, maintainer] = routes(place);
        let is_explicit = mode.as_deref() == Some("explicit");
        let is_protected = is_contributor(place);
        let is_contributor = role == Role::Contributor;
        let mut needs_repo = false;
        let (spelling, because) = if is_explicit {
            let default = place.config.text("routing.default");
            needs_repo = default.is_none();
            let because =
                if needs_repo { "routing.mode is explicit: each new issue names its own" } else { "routing.default" };
            (default, because.to_owned())
        } else if is_contributor && (is_protected || mode.is_some()) {
            (contributor, format!("you are a contributor: {}", source.because))
        } else if mode.is_some() {
            (maintainer, format!("you are a maintainer: {}", source.because))
        } else {
            (None, "the repository you are in".to_owned())
        };
        let number = match &spelling {
            None => 0,
            Some(spelling) => repos.configured(place, spelling).ok_or_else(|| {
                Error::unavailable(format!("new issues go to {spelling}, which cannot be used"))
                    .hint("way where shows why; way config --list-repos shows the repositories that are read")
            })?,
        };
        Ok(Route { number, because, is_private: is_contributor && number != 0, is_protected, needs_repo })
    }

    /// The route of a caller who names the repository.
    pub(crate) fn to(number: usize, because: &str, is_protected: bool) -> Route {
        Route { number, because: because.to_owned(), is_private: false, is_protected, needs_repo: false }
    }
}

/// Returns whether the user is a declared contributor, who never writes the primary ledger.
pub(crate) fn is_declared_contributor(place: &Place) -> bool {
    configured_role(place).is_some_and(|(role, _)| role == Role::Contributor)
}

/// Returns the settings of a place that decide about role and routing, with absolute paths, for its workspaces.
pub(crate) fn settings_for_workspaces(place: &Place) -> Result<Vec<RegisteredSetting>> {
    let absolute = |spelling: &str| match spelling {
        "." => Ok(spelling.to_owned()),
        _ => configured(place, spelling).map(|path| path_text::to_text(&path)),
    };
    let mut settings = Vec::new();
    for key in [
        "ledger.home",
        "prefix",
        "repos.additional",
        "repos.primary",
        "routing.auto.contributor",
        "routing.auto.maintainer",
        "routing.default",
        "routing.mode",
    ] {
        let Some(setting) = place.config.get(key).filter(|setting| setting.layer != Layer::Default) else { continue };
        let is_path = !matches!(key, "ledger.home" | "prefix" | "routing.mode");
        let value = match setting.value {
            config::Value::Text(text) if is_path => config::Value::Text(absolute(&text)?),
            config::Value::List(items) if is_path => {
                config::Value::List(items.iter().map(|item| absolute(item)).collect::<Result<_>>()?)
            }
            value => value,
        };
        settings.push(RegisteredSetting { key: key.to_owned(), value, is_explicit: is_explicit(setting.layer) });
    }
    let is_routed = place.config.text("routing.mode").is_some();
    let known = if is_routed { Some(role(place)) } else { configured_role(place) };
    if let Some((role, source)) = known {
        let is_explicit = matches!(source.source, "flag" | "env" | "workspace");
        let value = config::Value::Text(role.to_string());
        settings.push(RegisteredSetting { key: "role".to_owned(), value, is_explicit });
    }
    Ok(settings)
}

/// Returns whether a value is not in the files of the repository and the user.
fn is_explicit(layer: Layer) -> bool {
    matches!(layer, Layer::Flag | Layer::Environment | Layer::Workspace)
}

/// Returns the role that the user chose, with a setting or by routing, and its source. A guessed role changes nothing for
/// users who configured neither.
fn chosen_role(place: &Place) -> (Role, Source) {
    let is_routed = place.config.text("routing.mode").is_some_and(|mode| mode != "explicit");
    let known = if is_routed { Some(role(place)) } else { configured_role(place) };
    known.unwrap_or((Role::Maintainer, Source { source: "default", because: String::new() }))
}

/// Returns whether the user chose to be a contributor, who does not write the primary ledger.
pub(crate) fn is_contributor(place: &Place) -> bool {
    let (role, source) = chosen_role(place);
    role == Role::Contributor && (source.source != "default" || routes(place)[0].is_some())
}

/// Returns the user's role in the repository of a place, configured or guessed, and its source.
pub fn role(place: &Place) -> (Role, Source) {
    configured_role(place).unwrap_or_else(|| {
        let remotes = place.checkout.as_ref().map(Checkout::remotes).unwrap_or_default();
        let (role, because) = role::guess(&remotes);
        (role, Source { source: "default", because: because.to_owned() })
    })
}

/// Returns the configured role of the user in the repository of a place, and its source.
fn configured_role(place: &Place) -> Option<(Role, Source)> {
    let parse = |name: &str| if name == "contributor" { Role::Contributor } else { Role::Maintainer };
    if let Some(setting) = place.config.get("role") {
        let source = match setting.layer {
            Layer::Flag => "flag",
            Layer::Environment => "env",
            Layer::Workspace => "workspace",
            _ => "config",
        };
        return Some((parse(&setting.value.to_string()), Source { source, because: setting.origin }));
    }
    let in_git = place.checkout.as_ref()?.git_setting("waypost.role");
    let name = in_git.filter(|name| matches!(name.as_str(), "contributor" | "maintainer"))?;
    Some((parse(&name), Source { source: "config", because: "git config waypost.role".to_owned() }))
}

/// Returns the configured destinations of a contributor's and a maintainer's new issues.
fn routes(place: &Place) -> [Option<String>; 2] {
    let text = |key: &str| place.config.text(key);
    let planning = || place.config.list("repos.additional").into_iter().next();
    let contributor = text("routing.auto.contributor").or_else(|| text("routing.default")).or_else(planning);
    let is_routed = text("routing.mode").is_some() || place.config.get("role").is_some();
    if is_routed { [contributor, text("routing.auto.maintainer")] } else { [None, None] }
}

/// Opens the repository whose ledger comes first: by default the one of the working directory.
pub fn primary(place: &Place) -> Result<Repo> {
    let checkout = place.require_checkout()?;
    match place.config.text("repos.primary").as_deref() {
        None | Some(".") => {
            let Some((ledger, _)) = place.ledger() else {
                return Err(Error::invalid("a bare repository without worktrees has no ledger")
                    .hint("add a worktree first: way worktree add BRANCH"));
            };
            // The ledger may belong to this worktree alone.
            let root = ledger.ancestors().nth(2).unwrap_or_else(|| checkout.repository_path()).to_owned();
            let unreachable = place.unreachable_owner().map(str::to_owned);
            Repo { unreachable, takes_over: place.takes_over, ..Repo::of(checkout.clone(), root, ledger) }.check_out()
        }
        Some(other) => {
            let path = configured(place, other)?;
            Repo::open(&path, &place.variables)
                .map_err(|error| error.within(format!("cannot use the primary repository {}", path.display())))
        }
    }
}

/// Resolves a configured path relative to the repository.
fn configured(place: &Place, spelling: &str) -> Result<PathBuf> {
    let root = place.home_worktree.as_deref().unwrap_or(&place.cwd);
    expand(spelling, root, &place.variables)
}

/// Returns the prefix that the configuration of beads sets.
fn beads_prefix(file: &Path) -> Option<String> {
    let settings = yaml::read_texts(&String::from_utf8(read_small_file(file).ok()??).ok()?).ok()?;
    let prefix = ["issue-prefix", "issue_prefix"].iter().find_map(|key| settings.get(key)?.as_str())?;
    let prefix = prefix.trim_end_matches('-');
    issue_id::prefix_of(&format!("{prefix}-1")).map(str::to_owned)
}

/// Returns the last part of a remote's URL or path: `proj` of `git@example.org:team/proj.git`.
fn name_of_remote(url: &str) -> Option<String> {
    let parts = url.split(['/', ':', '\\']).map(|part| part.strip_suffix(".git").unwrap_or(part));
    parts.rev().find(|part| !part.is_empty() && !part.starts_with('.')).map(str::to_owned)
}

/// Derives a prefix for issue ids from a repository's name.
fn prefix_from_name(name: &str) -> String {
    let mut prefix = String::new();
    for char in name.chars().map(|char| char.to_ascii_lowercase()) {
        let fits = char.is_ascii_lowercase() || (!prefix.is_empty() && char.is_ascii_digit());
        if fits {
            prefix.push(char);
        } else if !prefix.is_empty() && !prefix.ends_with('-') {
            prefix.push('-');
        }
    }
    prefix.truncate(32);
    let prefix = prefix.trim_end_matches('-');
    if prefix.is_empty() { "way".to_owned() } else { prefix.to_owned() }
}

/// Refuses to write through a link that leads out of the repository: the authors of the repository must not choose where
/// we write, and other users of that file take another lock.
pub(crate) fn check_inside(path: &Path, root: &Path) -> Result<()> {
    // The path of the root has no links.
    let mut below = path.ancestors().take_while(|part| *part != root);
    let is_below = path.starts_with(root) && path.components().all(|part| part != Component::ParentDir);
    if is_below && below.all(|part| part.symlink_metadata().is_ok_and(|found| !found.is_symlink())) {
        return Ok(());
    }
    // A missing file is resolved through its existing parent directory.
    let real = path.ancestors().find_map(|existing| {
        let real = std::fs::canonicalize(existing).ok()?;
        Some(real.join(path.strip_prefix(existing).ok()?))
    });
    if real.is_some_and(|real| real.starts_with(root)) && !is_dangling_link(path) {
        return Ok(());
    }
    Err(Error::refused(format!("the ledger {} is a link that leads out of the repository", path.display()))
        .hint("replace the link with the file"))
}

fn is_dangling_link(path: &Path) -> bool {
    path.is_symlink() && !path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::config::key_named;

    #[test]
    fn default_prefixes_are_valid_values_of_their_key() {
        let key = key_named("prefix").unwrap();
        for (name, prefix) in [
            ("waypost", "waypost"),
            ("My Project (2)", "my-project-2"),
            ("42-x", "x"),
            ("漢字", "way"),
            ("a__b", "a-b"),
        ] {
            assert_eq!(prefix_from_name(name), prefix);
            key.check(prefix).unwrap();
        }
        key.check(&prefix_from_name(&"long-name-".repeat(20))).unwrap();
    }

    #[test]
    fn the_name_of_a_remote_is_its_last_part() {
        for (url, name) in [
            ("https://example.org/team/proj.git", Some("proj")),
            ("git@example.org:team/proj.git/", Some("proj")),
            ("git@example.org:proj", Some("proj")),
            ("/srv/git/proj/.git", Some("proj")),
            ("../proj", Some("proj")),
            ("..", None),
            ("", None),
        ] {
            assert_eq!(name_of_remote(url).as_deref(), name, "{url}");
        }
    }
}
